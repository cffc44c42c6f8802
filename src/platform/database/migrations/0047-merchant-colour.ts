import type { Migration } from '../migrations.ts'

/** The colour of the pages on which people pay a merchant, such as `#c2410c`; null for the usual one. */
export const merchantColour: Migration = {
  name: '0047-merchant-colour',
  async up(sql) {
    await sql`alter table merchants add column colour text`
  }
}
