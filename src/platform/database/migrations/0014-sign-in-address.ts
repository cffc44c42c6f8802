import type { Migration } from '../migrations.ts'

/**
 * An account that is given another address is signed out too, and links that were mailed to the old one end: whoever
 * reads that mailbox may be the reason for the change.
 */
export const signInAddress: Migration = {
  name: '0014-sign-in-address',
  async up(sql) {
    await sql`
      create trigger merchants_readdressed after update of email on merchants
      for each row when (old.email <> new.email) execute function end_sign_ins()`
  }
}
