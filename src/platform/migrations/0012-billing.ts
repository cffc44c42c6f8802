import type { Migration } from '../migrations.ts'

/** Subscriptions paid in bitcoin, and what the billing provider has reported. */
export const billing: Migration = {
  name: '0012-billing',
  async up (sql) {
    await sql`select 1`
  }
}
