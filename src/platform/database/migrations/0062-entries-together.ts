import type { Migration } from '../migrations.ts'

/**
 * A row for each write of a slice in the place of one for each request: the first request's entry stands in the columns,
 * and those of the others behind it in `more`, as JSON, or null. One row with its indexes costs as much as serving a
 * request does. A gateway of before writes and reads rows with one entry.
 */
export const entriesTogether: Migration = {
  name: '0062-entries-together',
  async up(sql) {
    await sql`alter table balance_entries add column more text`
  }
}
