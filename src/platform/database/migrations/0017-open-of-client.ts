import type { Migration } from '../migrations.ts'

/**
 * Before each mint the open invoices of one client in one place are counted (decision 175), and nobody else's: one
 * index serves, in the place of two. The expiry stands last in it, so that those which nobody can pay any more are not
 * read.
 */
export const openOfClient: Migration = {
  name: '0017-open-of-client',
  async up(sql) {
    await sql`create index challenges_open on challenges (client_key, place, expires_at) where num_nulls(scheme, settled_at) >= 2`
    await sql`drop index challenges_open_of_client`
    await sql`drop index challenges_open_of_place`
  }
}
