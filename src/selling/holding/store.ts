import { Batch } from '../../platform/database/batch.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import { sharedLook } from '../../platform/database/shared-look.ts'
import {
  HOLDER_MARK,
  REVOCATIONS_CHANNEL,
  type AmbiguousLease,
  type Bond,
  type Challenge,
  type ClaimCondition,
  type ClaimIn,
  type ClaimScheme,
  type ClaimedChallenge,
  type GivenBack,
  type LeaseKey,
  type Listed,
  type NewChallenge,
  type NewLease,
  type Outstanding,
  type OutstandingQuery,
  type Revocation,
  type Sale,
  type ShareableQuery
} from './challenge.ts'
import { Claiming, ToldClaiming } from './sql/claiming.ts'
import { ambiguousLeases, challengeRows, openRows, revocationList, sales, type OpenRow } from './sql/rows.ts'
import {
  BRIEF_ROW,
  claimRows,
  CONSUME_PAYMENTS,
  EXTEND_LEASES,
  FIND_CHALLENGES,
  INSERT_CHALLENGES,
  leaseRows,
  OPEN_INVOICES,
  RELEASE_LEASES,
  SPEND_LEASES,
  WHOLE_ROW,
  type ClaimRow,
  type ConsumeRow,
  type ExtendRow,
  type LeaseRow
} from './sql/statements.ts'

const HASH = /^[0-9a-f]{64}$/
// Of a new row without its path and query, roughly.
const ROW_BYTES = 2_000
// All satoshis that there will ever be.
const MAX_PRICE = 21e14

/**
 * What checks of the table would say: PostgreSQL reads those anew for every statement, also for one that changes
 * nothing of it.
 */
function requireSound({ paymentHash, tokenId, amountSats }: NewChallenge): void {
  if (!HASH.test(paymentHash))
    throw new TypeError('The payment hash of a challenge must be 64 lower-case hex characters')
  if (!HASH.test(tokenId)) throw new TypeError('The token id of a challenge must be 64 lower-case hex characters')
  if (!Number.isSafeInteger(amountSats) || amountSats < 1 || amountSats > MAX_PRICE)
    throw new RangeError(
      `The price of a challenge must be a whole number of satoshis from 1 to ${MAX_PRICE}, not ${amountSats}`
    )
}

/**
 * The rows of pay-per-request challenges. Every method that changes a row does it with one conditional statement, so of
 * any number of callers, in any number of processes, exactly one wins; the losers get null or are left out of the
 * result. No method retries: a caller that gets no result does not know whether the statement ran, which is why the
 * lease id is part of every condition and repeating is harmless. Times in milliseconds since the epoch.
 */
export class ChallengeStore {
  readonly #database: Database
  readonly #claims: ToldClaiming<ClaimRow>
  readonly #claimsInBrief: Claiming<ClaimRow, Sale>
  readonly #leases: ToldClaiming<LeaseRow>
  readonly #leasesInBrief: Claiming<LeaseRow, Sale>
  readonly #consumptions: ToldClaiming<ConsumeRow>
  readonly #inserts: Batch<NewChallenge, null>
  readonly #extensions: Batch<ExtendRow, boolean>
  readonly #find: (paymentHash: string) => Promise<Challenge | null>
  readonly #open: (query: OutstandingQuery) => Promise<readonly OpenRow[]>

  /**
   * Where the last statement of a purge ended, so that the next does not read past the index's entries of what is gone.
   * None once it has found no more, so that what was passed over is found another time.
   */
  readonly #purgedTo = { unpaid: 0, settled: 0, paid: 0 }

  constructor(database: Database) {
    this.#database = database
    this.#claims = new ToldClaiming(database, claimRows(WHOLE_ROW))
    this.#claimsInBrief = new Claiming(database, sales, claimRows(BRIEF_ROW))
    this.#leases = new ToldClaiming(database, leaseRows(WHOLE_ROW))
    this.#leasesInBrief = new Claiming(database, sales, leaseRows(BRIEF_ROW))
    this.#consumptions = new ToldClaiming(database, CONSUME_PAYMENTS)
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
    this.#find = sharedLook({
      key: paymentHash => paymentHash,
      find: async hashes =>
        (await FIND_CHALLENGES.one(database.sql, hashes)).map(row => (row === null ? null : challengeRows.read(row)))
    })
    this.#open = sharedLook({
      key: ({ clientKey, place, binding, now, since, placeLimit }) =>
        JSON.stringify([clientKey, place, binding, now, since, placeLimit]),
      find: async queries => (await OPEN_INVOICES.all(database.sql, queries)).map(rows => rows.map(openRows.read))
    })
  }

  /** Resolves when nothing is being written any more. */
  async close(): Promise<void> {
    const writing = [this.#claims, this.#claimsInBrief, this.#leases, this.#leasesInBrief, this.#consumptions]
    await Promise.all([...writing, this.#inserts, this.#extensions].map(each => each.drained()))
  }

  /** Writes a new row. Durable when the promise resolves. Throws a unique violation when the payment hash is known. */
  async insert(sql: Sql, challenge: NewChallenge): Promise<void> {
    requireSound(challenge)
    if (sql === this.#database.sql) await this.#inserts.add(challenge)
    else await INSERT_CHALLENGES.one(sql, [challenge])
  }

  async find(paymentHash: string): Promise<Challenge | null> {
    return await this.#find(paymentHash)
  }

  /**
   * A client's open invoices. Not serialized with `insert`: processes that mint at the same moment may each see room
   * for one more.
   */
  async outstanding(query: OutstandingQuery): Promise<Outstanding> {
    const { clientKey, place, binding } = query
    const rows = await this.#open(query)
    const numberOf = (counted: readonly OpenRow[]): number => counted.reduce((sum, { invoices }) => sum + invoices, 0)
    const older = rows.filter(({ paymentHash }) => paymentHash === null)
    const outstanding = {
      inPlace: numberOf(older),
      ofRequest: numberOf(older.filter(({ isBound }) => isBound)),
      recent: rows.flatMap(({ paymentHash, isBound }) =>
        paymentHash === null ? [] : [{ paymentHash, binding: isBound ? binding : '' }]
      ),
      firstExpiry: rows.length === 0 ? null : Math.min(...rows.map(({ firstExpiry }) => firstExpiry))
    }
    if (numberOf(rows.filter(({ isBound }) => isBound)) < query.requestLimit) return { ...outstanding, newest: null }
    const newest = await challengeRows.one(this.#database.sql`
      select * from challenges
      where client_key = ${clientKey} and place = ${place} and num_nulls(scheme, settled_at) >= 2
        and expires_at >= ${new Date(query.payableUntil)} and binding = ${binding}
      order by created_at desc, payment_hash
      limit 1`)
    return { ...outstanding, newest }
  }

  /** The newest unpaid challenge of a client that was made at this price and is not one browser's; null without any. */
  async shareable(query: ShareableQuery): Promise<Challenge | null> {
    return await challengeRows.one(this.#database.sql`
      select * from challenges
      where client_key = ${query.clientKey} and place = ${query.place} and num_nulls(scheme, settled_at) >= 2
        and expires_at >= ${new Date(query.payableUntil)}
        and source = ${query.source} and service = ${query.service} and merchant_id is not distinct from ${query.merchantId}
        and price is not distinct from ${query.price} and asked is not distinct from ${query.asked}
        and (amount_sats = ${query.amountSats}::bigint or ${query.amountSats}::bigint is null)
        and idempotency_key is null and binding not like ${`${HOLDER_MARK}%`}
      order by created_at desc, payment_hash
      limit 1`)
  }

  /**
   * Claims the payment for `l402` or `payment-legacy`, which do not use it up, or for the balance that a `payment`
   * credential is the key to. Atomic: null when another scheme has it, charge or token are not the row's, or it was issued
   * before the condition allows. `first` is true for exactly one caller over all time.
   */
  async claim(
    where: ClaimIn,
    paymentHash: string,
    scheme: ClaimScheme,
    condition: ClaimCondition | null,
    now: number
  ): Promise<ClaimedChallenge | null>
  /** The same, returned in brief. */
  async claim(
    sql: Sql,
    paymentHash: string,
    scheme: ClaimScheme,
    condition: ClaimCondition | null,
    now: number,
    brief: true
  ): Promise<ClaimedChallenge<Sale> | null>
  async claim(
    where: ClaimIn,
    paymentHash: string,
    scheme: ClaimScheme,
    condition: ClaimCondition | null,
    now: number,
    brief = false
  ): Promise<ClaimedChallenge<Sale> | null> {
    const row = { paymentHash, scheme, condition, now }
    return brief && !('onPaid' in where)
      ? await this.#claimsInBrief.claim(where, row)
      : await this.#claims.claimIn(where, row)
  }

  /**
   * Leases the payment for one modern credential. Atomic: succeeds only when unspent, or when the lease before it has
   * lapsed, and no other scheme has claimed it; null otherwise. With a `bond` also null, and nothing changed, unless the
   * row has exactly these members and is bound to no body.
   */
  async lease(
    where: ClaimIn,
    key: NewLease,
    gateway: string,
    until: number,
    now: number,
    bond?: Bond | null
  ): Promise<ClaimedChallenge | null>
  /** The same, returned in brief. */
  async lease(
    sql: Sql,
    key: NewLease,
    gateway: string,
    until: number,
    now: number,
    bond: Bond | null,
    brief: true
  ): Promise<ClaimedChallenge<Sale> | null>
  async lease(
    where: ClaimIn,
    { paymentHash, leaseId, isFinal = false }: NewLease,
    gateway: string,
    until: number,
    now: number,
    bond: Bond | null = null,
    brief = false
  ): Promise<ClaimedChallenge<Sale> | null> {
    const row = { paymentHash, leaseId, isFinal, gateway, until, now, bond }
    return brief && !('onPaid' in where)
      ? await this.#leasesInBrief.claim(where, row)
      : await this.#leases.claimIn(where, row)
  }

  /** Spends the payment for one modern credential immediately: as `lease`, but it leaves the row spent under the lease id. */
  async consume(
    where: ClaimIn,
    { paymentHash, leaseId }: LeaseKey,
    gateway: string,
    now: number
  ): Promise<ClaimedChallenge | null> {
    return await this.#consumptions.claimIn(where, { paymentHash, leaseId, gateway, now })
  }

  /** Extends the held leases of one gateway; returns those that are still its own. */
  async extend(gateway: string, keys: readonly LeaseKey[], until: number): Promise<string[]> {
    const extended = await Promise.all(
      keys.map(({ paymentHash, leaseId }) => this.#extensions.add({ paymentHash, leaseId, gateway, until }))
    )
    return keys.filter((_key, at) => extended[at]).map(({ leaseId }) => leaseId)
  }

  /**
   * Spends leases in one statement, lapsed or not, as long as no other lease took over; returns those that are spent by
   * their lease now.
   */
  async spend(keys: readonly LeaseKey[], now: number): Promise<string[]> {
    const spent = await SPEND_LEASES.one(
      this.#database.sql,
      keys.map(({ paymentHash, leaseId }) => ({ paymentHash, leaseId, now }))
    )
    return keys.filter((_key, at) => spent[at] !== null).map(({ leaseId }) => leaseId)
  }

  /** Gives payments back in one statement: leased or spent under exactly this lease id. Others are left alone. */
  async release(keys: readonly GivenBack[]): Promise<void> {
    await RELEASE_LEASES.one(this.#database.sql, keys)
  }

  /**
   * Spends final leases that have lapsed, and keeps them for the operator; both or neither, at most `limit`. Skips
   * challenges that expired before `expiredAfter`. Returns how many.
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

  /** What `spendLapsed` has kept, newest first. */
  async ambiguous({ skip, take }: { readonly skip: number; readonly take: number }): Promise<AmbiguousLease[]> {
    return await ambiguousLeases.all(this.#database.sql`
      select * from ambiguous_leases order by lapsed_at desc, lease_id desc limit ${take} offset ${skip}`)
  }

  /**
   * Records that the invoice has been paid at its provider; the first time counts, unknown hashes are ignored.
   * `outstanding` leaves such rows out; nothing else changes by it.
   */
  async settled(paymentHash: string, at: number): Promise<void> {
    await this.#database
      .sql`update challenges set settled_at = ${new Date(at)} where payment_hash = ${paymentHash} and settled_at is null`
  }

  async revocations(): Promise<Listed[]> {
    return await revocationList.all(this.#database.sql`select kind, id, revoked_at from revocations`)
  }

  /** Adds to the list and announces it; both or neither. Of a repetition the later moment counts. */
  async revoke(revocation: Revocation, now: number): Promise<void> {
    await this.#database.transaction(async tx => {
      await tx`
        insert into revocations (kind, id, revoked_at) values (${revocation.kind}, ${revocation.id}, ${new Date(now)})
        on conflict (kind, id) do update set revoked_at = greatest(revocations.revoked_at, excluded.revoked_at)`
      await this.#database.notify(REVOCATIONS_CHANNEL, revocation.kind, tx)
    })
  }

  /** Takes off the list and announces it; both or neither. */
  async reinstate(revocation: Revocation): Promise<void> {
    await this.#database.transaction(async tx => {
      await tx`delete from revocations where kind = ${revocation.kind} and id = ${revocation.id}`
      await this.#database.notify(REVOCATIONS_CHANNEL, revocation.kind, tx)
    })
  }

  /**
   * Deletes rows of no more use: unpaid ones `unpaidBefore` after both invoice and token have expired, paid ones
   * `paidBefore` after the token, whether a credential was shown or not. Producer and storefront rows stay. Returns how
   * many. Revocations of payments go with their rows: without one a token is good for nothing.
   */
  async purge(unpaidBefore: number, paidBefore: number, limit: number): Promise<number> {
    const { sql } = this.#database
    // Each by its own index (migration 0031), and by the rows' places, so that no other index is read for them. What
    // somebody else holds is left for another time: nobody waits for the purge, and it waits for nobody.
    const unpaid = await this.#purge('unpaid', unpaidBefore, limit, sql`scheme is null and settled_at is null`)
    // Paid at its provider and never shown: somebody may ask for it. Few, so they need no index of their own.
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
