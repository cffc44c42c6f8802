import type { Migration } from '../migrations.ts'

/**
 * Indexes whose keys are random are what grows with a table: each new row touches another page of each of them, which
 * the log has whole once between two checkpoints, and which is read again where the memory does not hold them all. A hash index
 * keeps four bytes of a key in the place of up to 64 characters: a third of the pages, or less.
 *
 * Payment hashes stay unique by an exclusion constraint, which a hash index can bear and a unique one it cannot be. Such a key is
 * nothing that others can refer to, so two foreign keys go; what they referred to is deleted by nobody but those who
 * delete the orders, and each purged challenge was looked for by both. And the planner does not take it for unique, so it
 * is told how many values there are; that counts from the first ANALYZE with a row in the table on, which must not wait
 * until the table is large.
 *
 * Pay tokens are 256 random bits of ours: no index needs to hold them apart.
 */
export const smallIndexes: Migration = {
  name: '0048-small-indexes',
  async up(sql) {
    await sql`alter table producer_keys drop constraint producer_keys_payment_hash_fkey`
    await sql`alter table storefront_orders drop constraint storefront_orders_payment_hash_fkey`
    await sql`drop index producer_keys_of_challenge`
    await sql`
      alter table challenges
        drop constraint challenges_pkey,
        alter column payment_hash set not null,
        alter column payment_hash set (n_distinct = -1),
        add constraint challenges_payment_hash exclude using hash (payment_hash with =)`
    await sql`
      insert into challenges (
        payment_hash, source, service, place, resource, path, method, query, amount_sats, binding, macaroon, token_id,
        invoice, network, charge_id, provider_slot, provider_kind, client_key, description, created_at, expires_at,
        token_expires_at)
      values ('', 'none', '', '', '', '', '', '', 1, '', '', '', '', '', '', '', '', '', '', now(), now(), now())`
    await sql`analyze challenges (payment_hash)`
    await sql`delete from challenges where payment_hash = ''`
    await sql`create index challenges_by_charge on challenges using hash (charge_id)`
    await sql`drop index challenges_of_charge`
    await sql`
      alter table payments
        drop constraint payments_payment_hash_key,
        drop constraint payments_pay_token_key,
        add constraint payments_payment_hash exclude using hash (payment_hash with =)`
    await sql`create index payments_by_pay_token on payments using hash (pay_token)`
    await sql`create index payments_by_charge on payments using hash (charge_id)`
    await sql`drop index payments_of_charge`
  }
}
