import type { PageRange } from '../../engine/operations/keyset.ts'
import { Batch } from '../../platform/database/batch.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import { sharedLookup } from '../../platform/database/rows.ts'
import {
  HOLDER_MARK,
  REVOCATIONS_CHANNEL,
  X402_MARK,
  type AmbiguousLease,
  type Challenge,
  type ClaimIn,
  type ClaimedChallenge,
  type GivenBack,
  type LeaseKey,
  type Listed,
  type NewChallenge,
  type OpenInvoice,
  type Outstanding,
  type OutstandingQuery,
  type Revocation,
  type ShareableQuery
} from './challenge.ts'
import {
  Claiming,
  claimRows,
  consumeRows,
  EXTEND_LEASES,
  FIND_CHALLENGES,
  INSERT_CHALLENGES,
  leaseRows,
  OPEN_INVOICES,
  RELEASE_LEASES,
  SPEND_LEASES,
  type ClaimRow,
  type ConsumeRow,
  type ExtendRow,
  type LeaseRow
} from './sql/statements.ts'
import { ambiguousLeases, challengeRows, openRows, revocationList, type OpenRow } from './sql/rows.ts'

const HASH = /^[0-9a-f]{64}$/
// Approximate bytes of a new row without path and query.
const ROW_BYTES = 2_000
// All satoshis that will ever exist.
const MAX_PRICE = 21e14

/**
 * Replaces CHECK constraints, which PostgreSQL would load for every statement, even one that changes none of their
 * columns.
 */
function requireValid({ paymentHash, tokenId, amountSats }: NewChallenge): void {
  if (!HASH.test(paymentHash))
    throw new TypeError('The payment hash of a challenge must be 64 lower-case hex characters')
  if (!HASH.test(tokenId)) throw new TypeError('The token id of a challenge must be 64 lower-case hex characters')
  if (!Number.isSafeInteger(amountSats) || amountSats < 1 || amountSats > MAX_PRICE)
    throw new RangeError(
      `The price of a challenge must be a whole number of satoshis from 1 to ${MAX_PRICE}, not ${amountSats}`
    )
}

/**
 * The rows of pay-per-request challenges. Each change is one conditional statement: of concurrent callers in any
 * process exactly one wins, and the others get null or are left out. No method retries, and without a result the caller
 * cannot know whether the statement ran. Every condition includes the lease id, so that repeating is harmless. Times in
 * milliseconds since the epoch.
 */
export class ChallengeStore {
  readonly #database: Database
  readonly #claims: Claiming<ClaimRow>
  readonly #leases: Claiming<LeaseRow>
  readonly #consumptions: Claiming<ConsumeRow>
  readonly #inserts: Batch<NewChallenge, null>
  readonly #extensions: Batch<ExtendRow, boolean>
  readonly #find: (paymentHash: string) => Promise<Challenge | null>
  readonly #open: (query: OutstandingQuery) => Promise<readonly OpenRow[]>

  /**
   * Where the last purge ended, to skip index entries of deleted rows. Reset when nothing more is found, so that
   * skipped rows get another turn.
   */
  readonly #purgedTo = { unpaid: 0, settled: 0, paid: 0 }

  constructor(database: Database) {
    this.#database = database
    this.#claims = new Claiming(database, claimRows)
    this.#leases = new Claiming(database, leaseRows)
    this.#consumptions = new Claiming(database, consumeRows)
    this.#inserts = new Batch({
      key: row => row.paymentHash,
      size: row => ROW_BYTES + row.path.length + row.query.length + row.resource.length,
      write: async rows => {
        await INSERT_CHALLENGES.one(database.sql, rows)
        return rows.map(() => null)
      }
    })
    this.#extensions = new Batch({
      key: row => row.paymentHash,
      write: async rows => (await EXTEND_LEASES.one(database.sql, rows)).map(extended => extended !== null)
    })
    this.#find = sharedLookup({
      key: paymentHash => paymentHash,
      find: async hashes =>
        (await FIND_CHALLENGES.one(database.sql, hashes)).map(row => (row === null ? null : challengeRows.read(row)))
    })
    this.#open = sharedLookup({
      key: ({ clientKey, place, binding, now, since, placeLimit }) =>
        JSON.stringify([clientKey, place, binding, now, since, placeLimit]),
      find: async queries => (await OPEN_INVOICES.all(database.sql, queries)).map(rows => rows.map(openRows.read))
    })
  }

  async close(): Promise<void> {
    const writing = [this.#claims, this.#leases, this.#consumptions, this.#inserts, this.#extensions]
    await Promise.all(writing.map(each => each.drained()))
  }

  /** Resolves when durable. Throws a unique violation for a known payment hash. */
  async insert(sql: Sql, challenge: NewChallenge): Promise<void> {
    requireValid(challenge)
    if (sql === this.#database.sql) await this.#inserts.add(challenge)
    else await INSERT_CHALLENGES.one(sql, [challenge])
  }

  async find(paymentHash: string): Promise<Challenge | null> {
    return await this.#find(paymentHash)
  }

  /** A client's open invoices. Not serialized with `insert`: concurrent processes may each see room for one more. */
  async outstanding(query: OutstandingQuery): Promise<Outstanding> {
    const { clientKey, place, binding } = query
    const recent: OpenInvoice[] = []
    let [inPlace, ofRequest] = [0, 0]
    let first: number | null = null
    let bound = 0
    for (const { paymentHash, isBound, invoices, firstExpiry } of await this.#open(query)) {
      if (isBound) bound += invoices
      if (paymentHash !== null) recent.push({ paymentHash, binding: isBound ? binding : '' })
      else {
        inPlace += invoices
        if (isBound) ofRequest += invoices
      }
      first = Math.min(first ?? firstExpiry, firstExpiry)
    }
    const open = { inPlace, ofRequest, recent, firstExpiry: first, newest: null }
    if (bound < query.requestLimit) return open
    const newest = await challengeRows.one(this.#database.sql`
      select * from challenges
      where client_key = ${clientKey} and place = ${place} and num_nulls(scheme, settled_at) >= 2
        and expires_at >= ${new Date(query.payableUntil)} and binding = ${binding}
      order by created_at desc, payment_hash
      limit 1`)
    return { ...open, newest }
  }

  /** A client's newest unpaid challenge at this price that is not reserved for one browser. */
  async shareable(query: ShareableQuery): Promise<Challenge | null> {
    return await challengeRows.one(this.#database.sql`
      select * from challenges
      where client_key = ${query.clientKey} and place = ${query.place} and num_nulls(scheme, settled_at) >= 2
        and expires_at >= ${new Date(query.payableUntil)}
        and source = ${query.source} and service = ${query.service} and merchant_id is not distinct from ${query.merchantId}
        and price is not distinct from ${query.price} and asked is not distinct from ${query.asked}
        and (amount_sats = ${query.amountSats}::bigint or ${query.amountSats}::bigint is null)
        and idempotency_key is null and binding not like ${`${HOLDER_MARK}%`}
        and strpos(binding, ${X402_MARK}) = 0
      order by created_at desc, payment_hash
      limit 1`)
  }

  /**
   * Claims for `l402` or `payment-legacy`, which do not use the payment up, or for a balance whose key is a `payment`
   * credential. Atomic: null if another scheme has it, charge or token are not the row's, or it was issued before the
   * condition allows. `first` is true for exactly one caller ever.
   */
  async claim(where: ClaimIn, row: ClaimRow): Promise<ClaimedChallenge | null> {
    return await this.#claims.claim(where, row)
  }

  /**
   * Leases for one modern credential. Atomic: null unless it is unspent or the earlier lease has lapsed, and no other
   * scheme has claimed it. With a `bond` the row must also match it and be bound to no body.
   */
  async lease(where: ClaimIn, row: LeaseRow): Promise<ClaimedChallenge | null> {
    return await this.#leases.claim(where, row)
  }

  /** Spends for one modern credential immediately: as `lease`, but final under the lease id. */
  async consume(where: ClaimIn, row: ConsumeRow): Promise<ClaimedChallenge | null> {
    return await this.#consumptions.claim(where, row)
  }

  /** Extends one gateway's leases; returns those still its own. */
  async extend(gateway: string, keys: readonly LeaseKey[], until: number): Promise<string[]> {
    const extended = await Promise.all(
      keys.map(({ paymentHash, leaseId }) => this.#extensions.add({ paymentHash, leaseId, gateway, until }))
    )
    return keys.filter((_key, at) => extended[at]).map(({ leaseId }) => leaseId)
  }

  /** Spends leases, lapsed or not, unless another took over; returns those now spent by their lease. */
  async spend(keys: readonly LeaseKey[], now: number): Promise<string[]> {
    const spent = await SPEND_LEASES.one(
      this.#database.sql,
      keys.map(({ paymentHash, leaseId }) => ({ paymentHash, leaseId, now }))
    )
    return keys.filter((_key, at) => spent[at] !== null).map(({ leaseId }) => leaseId)
  }

  /** Releases payments leased or spent under exactly this lease id. */
  async release(keys: readonly GivenBack[]): Promise<void> {
    await RELEASE_LEASES.one(this.#database.sql, keys)
  }

  /**
   * Atomically spends up to `limit` lapsed final leases and keeps them for the operator. Skips challenges expired
   * before `expiredAfter`. Returns the number.
   */
  async spendLapsed(now: number, expiredAfter: number, limit: number): Promise<number> {
    const kept = await this.#database.sql`
      with lapsed as (
        update challenges set state = 'spent', spent_at = ${new Date(now)}, lease_until = null
        where payment_hash in (
          select payment_hash from challenges
          where source in ('route', 'proxy', 'ping') and scheme is not null
            and greatest(expires_at, token_expires_at) > ${new Date(expiredAfter)} and expires_at > ${new Date(expiredAfter)}
            and state = 'leased' and lease_final and lease_until < ${new Date(now)}
          limit ${limit} for update skip locked)
        returning lease_id, lease_gateway, payment_hash, source, merchant_id, proxy_id, method, path, amount_sats)
      insert into ambiguous_leases (lease_id, lease_gateway, payment_hash, source, merchant_id, proxy_id, method, path, amount_sats, lapsed_at)
      select lapsed.*, ${new Date(now)}::timestamptz from lapsed on conflict (lease_id) do nothing`
    return kept.count
  }

  async ambiguous({ skip, take }: PageRange): Promise<AmbiguousLease[]> {
    return await ambiguousLeases.all(this.#database.sql`
      select * from ambiguous_leases order by lapsed_at desc, lease_id desc limit ${take} offset ${skip}`)
  }

  /** Records the provider's report of a payment, once; ignores unknown hashes. Only affects `outstanding`. */
  async settled(paymentHash: string, at: number): Promise<void> {
    await this.#database
      .sql`update challenges set settled_at = ${new Date(at)} where payment_hash = ${paymentHash} and settled_at is null`
  }

  async revocations(): Promise<Listed[]> {
    return await revocationList.all(this.#database.sql`select kind, id, revoked_at from revocations`)
  }

  /** Adds to the list and announces it, atomically. A repetition keeps the later moment. */
  async revoke(revocation: Revocation, now: number): Promise<void> {
    await this.#database.transaction(async tx => {
      await tx`
        insert into revocations (kind, id, revoked_at) values (${revocation.kind}, ${revocation.id}, ${new Date(now)})
        on conflict (kind, id) do update set revoked_at = greatest(revocations.revoked_at, excluded.revoked_at)`
      await this.#database.notify(REVOCATIONS_CHANNEL, revocation.kind, tx)
    })
  }

  /**
   * Deletes useless rows: unpaid ones `unpaidBefore` after invoice and token expired, paid ones `paidBefore` after the
   * token. Producer and storefront rows stay. Returns the number. Revocations go with their payments, since a token
   * without a row is invalid.
   */
  async purge(unpaidBefore: number, paidBefore: number, limit: number): Promise<number> {
    const { sql } = this.#database
    // Each by its own index (migration 0031), then by row location. Locked rows are skipped, so that a purge never
    // waits or blocks.
    const unpaid = await this.#purge('unpaid', unpaidBefore, limit, sql`scheme is null and settled_at is null`)
    // Paid at the provider but never shown: support may need them. Too few for an index.
    const settled =
      unpaid === limit
        ? 0
        : await this.#purge('settled', paidBefore, limit - unpaid, sql`scheme is null and settled_at is not null`)
    const left = limit - unpaid - settled
    if (left === 0) return limit
    const paid = await this.#purge(
      'paid',
      paidBefore,
      left,
      sql`scheme is not null and (state <> 'leased' or lease_until < ${new Date(paidBefore)})`
    )
    return limit - left + paid
  }

  async #purge(
    which: 'unpaid' | 'settled' | 'paid',
    before: number,
    limit: number,
    of: ReturnType<Sql>
  ): Promise<number> {
    const { sql } = this.#database
    const [row] = await sql<Array<{ gone: number; last: Date | null }>>`
      with gone as (delete from challenges where ctid = any(array(
        select ctid from challenges where source in ('route', 'proxy', 'ping') and ${of}
          and greatest(expires_at, token_expires_at) >= ${new Date(this.#purgedTo[which])}
          and greatest(expires_at, token_expires_at) < ${new Date(before)}
        order by greatest(expires_at, token_expires_at) limit ${limit} for update skip locked))
      returning payment_hash, greatest(expires_at, token_expires_at) as ended),
      lifted as (delete from revocations where kind = 'payment' and id in (select payment_hash from gone))
      select count(*)::int as gone, max(ended) as last from gone`
    const { gone, last } = row ?? { gone: 0, last: null }
    this.#purgedTo[which] = gone === limit && last !== null ? last.getTime() : 0
    return gone
  }
}
