import {
  REVOCATIONS_CHANNEL,
  type AmbiguousLease,
  type Bond,
  type Challenge,
  type ChallengeStore,
  type ClaimCondition,
  type ClaimIn,
  type ClaimScheme,
  type ClaimedChallenge,
  type GivenBack,
  type LeaseKey,
  type Listed,
  type NewChallenge,
  type NewLease,
  type OnPaid,
  type OpenInvoice,
  type Outstanding,
  type OutstandingQuery,
  type Revocation,
  type RevokedKind,
  type Sale
} from './store.ts'
import type { ChallengeSource } from './offer.ts'
import { Batch } from '../database/batch.ts'
import type { Database, Sql } from '../database/database.ts'
import { overRows, type OverRows } from '../database/given-rows.ts'
import {
  amount,
  flag,
  integer,
  optional,
  records,
  text,
  moment,
  together,
  type Records,
  type Row
} from '../database/rows.ts'

/** Of a challenge what its counters need. */
const saleColumns = { source: text<ChallengeSource>(), amountSats: amount(), createdAt: moment(), clientKey: text() }
const sales = records(saleColumns)

/** Rows of `challenges`. Where a member is narrower than text, the statements here write nothing else. */
export const challengeRows: Records<Challenge> = records({
  ...saleColumns,
  paymentHash: text(),
  service: text(),
  merchantId: optional(text()),
  proxyId: optional(text()),
  place: text(),
  resource: text(),
  path: text(),
  method: text(),
  query: text(),
  digest: optional(text()),
  binding: text(),
  payment: together({ id: text('payment_id'), realm: text(), request: text(), expires: text('payment_expires') }),
  macaroon: text(),
  tokenId: text(),
  invoice: text(),
  network: text(),
  chargeId: text(),
  providerSlot: text(),
  providerKind: text(),
  idempotencyKey: optional(text()),
  description: text(),
  expiresAt: moment(),
  tokenExpiresAt: moment(),
  state: text<'unspent' | 'leased' | 'spent'>(),
  scheme: optional(text<ClaimScheme>()),
  paidAt: optional(moment()),
  leaseId: optional(text()),
  leaseUntil: optional(moment()),
  leaseIsFinal: flag('lease_final')
})

const claims = records({ verifications: integer(), returns: integer('client_gone') })

/** A claim of a payment that does not use it up. Times in milliseconds since the epoch, here and below. */
interface ClaimRow {
  readonly paymentHash: string
  readonly scheme: ClaimScheme
  readonly condition: ClaimCondition | null
  readonly now: number
}

/** A lease that is asked for. */
interface LeaseRow extends NewLease {
  readonly gateway: string
  readonly until: number
  readonly now: number
  readonly bond: Bond | null
}

/** A payment that is to be spent at once. */
interface ConsumeRow extends LeaseKey {
  readonly gateway: string
  readonly now: number
}

const WHOLE = 'challenges.*'
const BRIEF = 'source, amount_sats, created_at, client_key, verifications, client_gone'

const claimRows = (columns: string): OverRows<ClaimRow> =>
  overRows(
    {
      hash: ['text', row => row.paymentHash],
      by: ['text', row => row.scheme],
      at: ['timestamptz', row => row.now],
      charge: ['text', row => row.condition?.chargeId ?? null],
      token: ['text', row => row.condition?.tokenId ?? null],
      issued_after: ['timestamptz', row => row.condition?.issuedAfter ?? null]
    },
    given => `
      update challenges set scheme = given.by, paid_at = coalesce(paid_at, given.at), verifications = verifications + 1
      from ${given}
      where payment_hash = given.hash and (scheme is null or scheme = given.by)
        and (given.charge is null or charge_id = given.charge) and (given.token is null or token_id = given.token)
        and (given.issued_after is null or created_at > given.issued_after)
      returning given.nth, ${columns}`,
    { locks: true }
  )

/** What a payment must be for one modern credential to have it. */
const LEASABLE = `payment_hash = given.hash and (scheme is null or scheme = 'payment')
        and (state = 'unspent' or (state = 'leased' and lease_until < given.at and not lease_final))`

const leaseRows = (columns: string): OverRows<LeaseRow> =>
  overRows(
    {
      hash: ['text', row => row.paymentHash],
      lease: ['text', row => row.leaseId],
      gateway: ['text', row => row.gateway],
      final: ['integer', row => (row.isFinal === true ? 1 : 0)],
      until: ['timestamptz', row => row.until],
      at: ['timestamptz', row => row.now],
      payment: ['text', ({ bond }) => bond?.paymentId ?? null],
      merchant: ['text', ({ bond }) => bond?.merchantId ?? null],
      sold_by: ['text', ({ bond }) => bond?.service ?? null],
      sold_method: ['text', ({ bond }) => bond?.method ?? null],
      sold_path: ['text', ({ bond }) => bond?.path ?? null],
      sold_query: ['text', ({ bond }) => bond?.query ?? null],
      price: ['bigint', ({ bond }) => bond?.amountSats ?? null],
      issued_after: ['timestamptz', ({ bond }) => bond?.issuedAfter ?? null]
    },
    given => `
      update challenges
      set state = 'leased', lease_id = given.lease, lease_gateway = given.gateway, lease_until = given.until,
        lease_final = given.final = 1, scheme = 'payment', paid_at = coalesce(paid_at, given.at), verifications = verifications + 1
      from ${given}
      where ${LEASABLE}
        and (given.payment is null or (
          payment_id = given.payment and digest is null and merchant_id is not distinct from given.merchant
          and service = given.sold_by and method = given.sold_method and path = given.sold_path and query = given.sold_query
          and amount_sats = given.price and (given.issued_after is null or created_at > given.issued_after)))
      returning given.nth, ${columns}`,
    { locks: true }
  )

const CONSUME = overRows<ConsumeRow>(
  {
    hash: ['text', row => row.paymentHash],
    lease: ['text', row => row.leaseId],
    gateway: ['text', row => row.gateway],
    at: ['timestamptz', row => row.now]
  },
  given => `
    update challenges
    set state = 'spent', spent_at = given.at, lease_id = given.lease, lease_gateway = given.gateway, lease_until = null,
      scheme = 'payment', paid_at = coalesce(paid_at, given.at), verifications = verifications + 1
    from ${given}
    where ${LEASABLE}
    returning given.nth, ${WHOLE}`,
  { locks: true }
)

const SPEND = overRows<LeaseKey & { readonly now: number }>(
  { hash: ['text', row => row.paymentHash], lease: ['text', row => row.leaseId], at: ['timestamptz', row => row.now] },
  given => `
    update challenges set state = 'spent', spent_at = coalesce(spent_at, given.at), lease_until = null
    from ${given}
    where payment_hash = given.hash and lease_id = given.lease and state in ('leased', 'spent')
    returning given.nth, lease_id`,
  { locks: true }
)

const RELEASE = overRows<GivenBack>(
  {
    hash: ['text', row => row.paymentHash],
    lease: ['text', row => row.leaseId],
    counted: ['integer', row => (row.isCounted === true ? 1 : 0)]
  },
  given => `
    update challenges set state = 'unspent', spent_at = null, lease_id = null, lease_gateway = null, lease_until = null,
      client_gone = client_gone + given.counted
    from ${given}
    where payment_hash = given.hash and lease_id = given.lease and state in ('leased', 'spent')
    returning given.nth`,
  { locks: true }
)

const INSERT = overRows<NewChallenge>(
  {
    payment_hash: ['text', row => row.paymentHash],
    source: ['text', row => row.source],
    service: ['text', row => row.service],
    merchant_id: ['text', row => row.merchantId],
    proxy_id: ['text', row => row.proxyId],
    place: ['text', row => row.place],
    resource: ['text', row => row.resource],
    path: ['text', row => row.path],
    method: ['text', row => row.method],
    query: ['text', row => row.query],
    amount_sats: ['bigint', row => row.amountSats],
    digest: ['text', row => row.digest],
    binding: ['text', row => row.binding],
    payment_id: ['text', ({ payment }) => payment?.id ?? null],
    realm: ['text', ({ payment }) => payment?.realm ?? null],
    request: ['text', ({ payment }) => payment?.request ?? null],
    payment_expires: ['text', ({ payment }) => payment?.expires ?? null],
    macaroon: ['text', row => row.macaroon],
    token_id: ['text', row => row.tokenId],
    invoice: ['text', row => row.invoice],
    network: ['text', row => row.network],
    charge_id: ['text', row => row.chargeId],
    provider_slot: ['text', row => row.providerSlot],
    provider_kind: ['text', row => row.providerKind],
    client_key: ['text', row => row.clientKey],
    idempotency_key: ['text', row => row.idempotencyKey],
    description: ['text', row => row.description],
    created_at: ['timestamptz', row => row.createdAt],
    expires_at: ['timestamptz', row => row.expiresAt],
    token_expires_at: ['timestamptz', row => row.tokenExpiresAt]
  },
  (given, columns) => `insert into challenges (${columns}) select ${columns} from ${given}`
)

const FIND = overRows<string>(
  { hash: ['text', hash => hash] },
  given => `select given.nth, challenges.* from ${given} join challenges on payment_hash = given.hash`
)

type OpenRow = OpenInvoice & { readonly expiresAt: number }

// `num_nulls` is what the index says (migration 0016). Each client is looked for by itself, by that index.
const OUTSTANDING = overRows<OutstandingQuery>(
  {
    client: ['text', query => query.clientKey],
    spot: ['text', query => query.place],
    at: ['timestamptz', query => query.now],
    most: ['integer', query => query.placeLimit]
  },
  given => `
    select given.nth, open.* from ${given} cross join lateral (
      select payment_hash, binding, expires_at from challenges
      where client_key = given.client and place = given.spot and num_nulls(scheme, settled_at) >= 2 and expires_at > given.at
      order by expires_at
      limit given.most) as open`
)
const openRows: Records<OpenRow> = records({ paymentHash: text(), binding: text(), expiresAt: moment() })

/** Claims of one kind, answered with the whole row or as much of it as `rows` reads. */
class Claiming<R extends { readonly paymentHash: string }, C extends Sale> {
  readonly #database: Database
  readonly #rows: Records<C>
  readonly #statement: OverRows<R>
  readonly #batch: Batch<R, Row | null>

  constructor(database: Database, rows: Records<C>, statement: OverRows<R>) {
    this.#database = database
    this.#rows = rows
    this.#statement = statement
    this.#batch = new Batch({ key: row => row.paymentHash, write: given => this.write(database.sql, given) })
  }

  /** By itself with the database's own handle, and together with others; else as a part of its transaction. */
  async claim(sql: Sql, row: R): Promise<ClaimedChallenge<C> | null> {
    const found = sql === this.#database.sql ? await this.#batch.add(row) : (await this.write(sql, [row]))[0]
    // Not within the batch: the claims stand by now, and a row that cannot be read must not have them tried again.
    return this.read(found ?? null)
  }

  async write(sql: Sql, given: readonly R[]): Promise<Array<Row | null>> {
    return await this.#statement.one(sql, given)
  }

  read(row: Row | null): ClaimedChallenge<C> | null {
    if (row === null) return null
    const { verifications, returns } = claims.read(row)
    return { challenge: this.#rows.read(row), first: verifications === 1, returns }
  }

  drained(): Promise<void> {
    return this.#batch.drained()
  }
}

/** The same with the whole row, which somebody can be told of in the transaction of the claims. */
class ToldClaiming<R extends { readonly paymentHash: string }> extends Claiming<R, Challenge> {
  readonly #told: Batch<{ readonly row: R; readonly onPaid: OnPaid }, ClaimedChallenge | null>

  constructor(database: Database, statement: OverRows<R>) {
    super(database, challengeRows, statement)
    this.#told = new Batch({
      key: ({ row }) => row.paymentHash,
      write: given =>
        database.transaction(async tx => {
          const rows = await this.write(
            tx,
            given.map(({ row }) => row)
          )
          const claimed = rows.map(row => this.read(row))
          const told = new Map<OnPaid, Challenge[]>()
          for (const [at, { onPaid }] of given.entries()) {
            const one = claimed[at]
            if (one?.first !== true) continue
            const others = told.get(onPaid)
            if (others === undefined) told.set(onPaid, [one.challenge])
            else others.push(one.challenge)
          }
          for (const [onPaid, firsts] of told) await onPaid(tx, firsts)
          return claimed
        })
    })
  }

  async claimIn(where: ClaimIn, row: R): Promise<ClaimedChallenge | null> {
    return 'onPaid' in where ? await this.#told.add({ row, onPaid: where.onPaid }) : await this.claim(where, row)
  }

  override async drained(): Promise<void> {
    await Promise.all([super.drained(), this.#told.drained()])
  }
}

const ambiguousLeases: Records<AmbiguousLease> = records({
  paymentHash: text(),
  source: text<ChallengeSource>(),
  merchantId: optional(text()),
  proxyId: optional(text()),
  method: text(),
  path: text(),
  amountSats: amount(),
  gateway: text('lease_gateway'),
  lapsedAt: moment()
})

const listed: Records<Listed> = records({ kind: text<RevokedKind>(), id: text(), at: moment('revoked_at') })

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

/** The challenges of PostgreSQL or the embedded database. */
export class SqlChallengeStore implements ChallengeStore {
  readonly #database: Database
  readonly #claims: ToldClaiming<ClaimRow>
  readonly #claimsInBrief: Claiming<ClaimRow, Sale>
  readonly #leases: ToldClaiming<LeaseRow>
  readonly #leasesInBrief: Claiming<LeaseRow, Sale>
  readonly #consumptions: ToldClaiming<ConsumeRow>
  readonly #inserts: Batch<NewChallenge, null>
  readonly #finds: Batch<string, Challenge | null>
  readonly #counts: Batch<OutstandingQuery, OpenRow[]>

  constructor(database: Database) {
    this.#database = database
    this.#claims = new ToldClaiming(database, claimRows(WHOLE))
    this.#claimsInBrief = new Claiming(database, sales, claimRows(BRIEF))
    this.#leases = new ToldClaiming(database, leaseRows(WHOLE))
    this.#leasesInBrief = new Claiming(database, sales, leaseRows(BRIEF))
    this.#consumptions = new ToldClaiming(database, CONSUME)
    this.#inserts = new Batch({
      key: row => row.paymentHash,
      size: row => ROW_BYTES + row.path.length + row.query.length + row.resource.length,
      write: async rows => {
        await INSERT.one(database.sql, rows)
        return rows.map(() => null)
      }
    })
    this.#finds = new Batch({
      key: () => null,
      write: async hashes =>
        (await FIND.one(database.sql, hashes)).map(row => (row === null ? null : challengeRows.read(row)))
    })
    this.#counts = new Batch({
      key: () => null,
      write: async queries => (await OUTSTANDING.all(database.sql, queries)).map(rows => rows.map(openRows.read))
    })
  }

  async close(): Promise<void> {
    const writing = [this.#claims, this.#claimsInBrief, this.#leases, this.#leasesInBrief, this.#consumptions]
    await Promise.all([...writing, this.#inserts, this.#finds, this.#counts].map(each => each.drained()))
  }

  async insert(sql: Sql, challenge: NewChallenge): Promise<void> {
    requireSound(challenge)
    if (sql === this.#database.sql) await this.#inserts.add(challenge)
    else await INSERT.one(sql, [challenge])
  }

  async find(paymentHash: string): Promise<Challenge | null> {
    return await this.#finds.add(paymentHash)
  }

  async outstanding(query: OutstandingQuery): Promise<Outstanding> {
    const open = await this.#counts.add(query)
    const firstExpiry = open.length === 0 ? null : Math.min(...open.map(({ expiresAt }) => expiresAt))
    if (open.filter(({ binding }) => binding === query.binding).length < query.requestLimit)
      return { open, firstExpiry, newest: null }
    const newest = await challengeRows.one(this.#database.sql`
      select * from challenges
      where client_key = ${query.clientKey} and place = ${query.place} and num_nulls(scheme, settled_at) >= 2
        and expires_at >= ${new Date(query.payableUntil)} and binding = ${query.binding}
      order by created_at desc, payment_hash
      limit 1`)
    return { open, firstExpiry, newest }
  }

  async claim(
    where: ClaimIn,
    paymentHash: string,
    scheme: 'l402' | 'payment-legacy',
    condition: ClaimCondition | null,
    now: number
  ): Promise<ClaimedChallenge | null>
  async claim(
    sql: Sql,
    paymentHash: string,
    scheme: 'l402' | 'payment-legacy',
    condition: ClaimCondition | null,
    now: number,
    brief: true
  ): Promise<ClaimedChallenge<Sale> | null>
  async claim(
    where: ClaimIn,
    paymentHash: string,
    scheme: 'l402' | 'payment-legacy',
    condition: ClaimCondition | null,
    now: number,
    brief = false
  ): Promise<ClaimedChallenge<Sale> | null> {
    const row = { paymentHash, scheme, condition, now }
    return brief && !('onPaid' in where)
      ? await this.#claimsInBrief.claim(where, row)
      : await this.#claims.claimIn(where, row)
  }

  async lease(
    where: ClaimIn,
    key: NewLease,
    gateway: string,
    until: number,
    now: number,
    bond?: Bond | null
  ): Promise<ClaimedChallenge | null>
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

  async consume(
    where: ClaimIn,
    { paymentHash, leaseId }: LeaseKey,
    gateway: string,
    now: number
  ): Promise<ClaimedChallenge | null> {
    return await this.#consumptions.claimIn(where, { paymentHash, leaseId, gateway, now })
  }

  async extend(gateway: string, keys: readonly LeaseKey[], until: number): Promise<string[]> {
    // Sorted, as whatever locks several rows.
    const held = keys.toSorted((one, other) => (one.paymentHash < other.paymentHash ? -1 : 1))
    const rows = await this.#database.sql<{ lease_id: string }[]>`
      update challenges set lease_until = ${new Date(until)}
      from unnest(${held.map(key => key.paymentHash)}::text[], ${held.map(key => key.leaseId)}::text[]) as held (hash, lease)
      where challenges.payment_hash = held.hash and challenges.lease_id = held.lease and lease_gateway = ${gateway} and state = 'leased'
      returning lease_id`
    return rows.map(row => row.lease_id)
  }

  async spend(keys: readonly LeaseKey[], now: number): Promise<string[]> {
    const spent = await SPEND.one(
      this.#database.sql,
      keys.map(({ paymentHash, leaseId }) => ({ paymentHash, leaseId, now }))
    )
    return keys.filter((_key, at) => spent[at] !== null).map(({ leaseId }) => leaseId)
  }

  async release(keys: readonly GivenBack[]): Promise<void> {
    await RELEASE.one(this.#database.sql, keys)
  }

  async spendLapsed(now: number, expiredAfter: number, limit: number): Promise<number> {
    const kept = await this.#database.sql`
      with lapsed as (
        update challenges set state = 'spent', spent_at = ${new Date(now)}, lease_until = null
        where payment_hash in (
          select payment_hash from challenges
          where source in ('route', 'proxy', 'ping') and expires_at > ${new Date(expiredAfter)}
            and state = 'leased' and lease_final and lease_until < ${new Date(now)}
          limit ${limit} for update skip locked)
        returning lease_id, lease_gateway, payment_hash, source, merchant_id, proxy_id, method, path, amount_sats)
      insert into ambiguous_leases (lease_id, lease_gateway, payment_hash, source, merchant_id, proxy_id, method, path, amount_sats, lapsed_at)
      select lapsed.*, ${new Date(now)}::timestamptz from lapsed on conflict (lease_id) do nothing`
    return kept.count
  }

  async ambiguous({ skip, take }: { readonly skip: number; readonly take: number }): Promise<AmbiguousLease[]> {
    return await ambiguousLeases.all(this.#database.sql`
      select * from ambiguous_leases order by lapsed_at desc, lease_id desc limit ${take} offset ${skip}`)
  }

  async settled(paymentHash: string, at: number): Promise<void> {
    await this.#database
      .sql`update challenges set settled_at = ${new Date(at)} where payment_hash = ${paymentHash} and settled_at is null`
  }

  async revocations(): Promise<Listed[]> {
    return await listed.all(this.#database.sql`select kind, id, revoked_at from revocations`)
  }

  async revoke(revocation: Revocation, now: number): Promise<void> {
    await this.#database.transaction(async tx => {
      await tx`
        insert into revocations (kind, id, revoked_at) values (${revocation.kind}, ${revocation.id}, ${new Date(now)})
        on conflict (kind, id) do update set revoked_at = greatest(revocations.revoked_at, excluded.revoked_at)`
      await this.#database.notify(REVOCATIONS_CHANNEL, revocation.kind, tx)
    })
  }

  async reinstate(revocation: Revocation): Promise<void> {
    await this.#database.transaction(async tx => {
      await tx`delete from revocations where kind = ${revocation.kind} and id = ${revocation.id}`
      await this.#database.notify(REVOCATIONS_CHANNEL, revocation.kind, tx)
    })
  }

  async purge(unpaidBefore: number, paidBefore: number, limit: number): Promise<number> {
    const unpaid = new Date(unpaidBefore)
    const rows = await this.#database.sql<{ payment_hash: string }[]>`
      with gone as (delete from challenges where payment_hash in (
        select payment_hash from challenges
        where source in ('route', 'proxy', 'ping') and (
          (scheme is null and expires_at < ${unpaid} and token_expires_at < ${unpaid}) or
          (scheme is not null and (state <> 'leased' or lease_until < ${new Date(paidBefore)}) and token_expires_at < ${new Date(paidBefore)} and expires_at < ${new Date(paidBefore)})
        )
        limit ${limit}
      )
      returning payment_hash),
      lifted as (delete from revocations where kind = 'payment' and id in (select payment_hash from gone))
      select payment_hash from gone`
    return rows.length
  }
}
