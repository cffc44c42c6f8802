import type { Migration } from '../migrations.ts'

/** A value sealed with the master secret, so that a start with another secret is refused (`master-check.ts`). */
export const masterCheck: Migration = {
  name: '0079-master-check',
  async up(sql) {
    await sql`create table master_check (id integer primary key check (id = 1), sealed text not null)`
  }
}
