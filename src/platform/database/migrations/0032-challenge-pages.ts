import type { Migration } from '../migrations.ts'

/**
 * A page of a merchant's challenges is read in its order, ties too: with the time alone in the index, PostgreSQL read and
 * sorted all that the merchant has for each page, as soon as the table was large.
 */
export const challengePages: Migration = {
  name: '0032-challenge-pages',
  async up(sql) {
    await sql`create index challenges_of_merchant_paged on challenges (merchant_id, created_at, payment_hash) where source = 'producer'`
    await sql`drop index challenges_of_merchant`
  }
}
