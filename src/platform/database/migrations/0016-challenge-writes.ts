import type { Migration } from '../migrations.ts'

/**
 * Makes the writes of a redemption cheap. PostgreSQL reads every CHECK of a table anew for each statement that writes
 * to it, and asks it about columns that did not change: with eight of them that was a third of the whole statement.
 * What they said of a new row its INSERT sees to (`store-sql.ts`). One stays, and says all that there is to say of the
 * states of a payment: money hangs on it. Domains would cost nothing either, but every column of theirs gets another
 * type, which spoils the statements that gateways have prepared.
 *
 * No index names a column that a spend, a release or a heartbeat changes, and half of each page is left for newer
 * versions of its rows, so that these writes touch no index and log only what differs. A row still leaves the two
 * indexes of open invoices when it is claimed: kept there, each 402 to a client that pays would read all that it has
 * paid for.
 *
 * Open is what has neither scheme nor settlement: what nobody has claimed is unspent. It is said by `num_nulls` because
 * of the guess that PostgreSQL makes without statistics, which the embedded database never gathers: of `is null` that
 * one row in two hundred has it, twice, so that any of the two indexes was as good as the other, and a client's were
 * counted by reading everybody's.
 */
export const challengeWrites: Migration = {
  name: '0016-challenge-writes',
  async up(sql) {
    await sql`
      alter table challenges
        drop constraint challenges_payment_hash_check,
        drop constraint challenges_source_check,
        drop constraint challenges_amount_sats_check,
        drop constraint challenges_token_id_check,
        drop constraint challenges_state_check,
        drop constraint challenges_scheme_check,
        drop constraint challenges_check,
        drop constraint challenges_check1`
    await sql`
      alter table challenges add constraint challenges_states check (
        state = 'unspent'
        or coalesce(scheme, '') = 'payment' and (state = 'spent' or state = 'leased' and num_nulls(lease_id, lease_gateway, lease_until) = 0)
      )`
    await sql`alter table challenges set (fillfactor = 50)`
    await sql`drop index challenges_open_of_client`
    await sql`drop index challenges_open_of_place`
    await sql`drop index challenges_leased`
    await sql`create index challenges_open_of_client on challenges (client_key, binding, created_at) where num_nulls(scheme, settled_at) >= 2`
    await sql`create index challenges_open_of_place on challenges (place, expires_at) where num_nulls(scheme, settled_at) >= 2`
  }
}
