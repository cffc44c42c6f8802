import type { Migration } from '../migrations.ts'

/**
 * Macaroon and `request` of a challenge, more than half of its row, are made again from the rest of it and the keys, so
 * most rows leave them empty and have the two columns that the macaroon needs besides. Empty and not null: workers of
 * the version before take a row without a `request` for one that has no Payment challenge, and refuse what was paid for
 * it. They never hand such a row out, since `binding` is another text now.
 */
export const remadeWording: Migration = {
  name: '0030-remade-wording',
  async up(sql) {
    await sql`alter table challenges add column macaroon_location text, add column caveat_path text`
    await sql`alter table challenges set (fillfactor = 85)`
  }
}
