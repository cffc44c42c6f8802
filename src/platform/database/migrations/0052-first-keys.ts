import type { Migration } from '../migrations.ts'

/** Accounts that were made for a subscription, and whose owner has not fetched the first API key. */
export const firstKeys: Migration = {
  name: '0052-first-keys',
  async up(sql) {
    await sql`
      create table first_keys (
        merchant_id integer primary key references merchants (id) on delete cascade,
        key_id text not null
      )`
  }
}
