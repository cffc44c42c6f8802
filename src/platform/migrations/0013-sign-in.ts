import type { Migration } from '../migrations.ts'

/** Sign-in links and the sessions that they open. */
export const signIn: Migration = {
  name: '0013-sign-in',
  async up (sql) {
    await sql`select 1`
  }
}
