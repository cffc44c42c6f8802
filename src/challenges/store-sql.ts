import {
  REVOCATIONS_CHANNEL,
  type AmbiguousLease,
  type Bond,
  type Challenge,
  type ChallengeStore,
  type ClaimCondition,
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
  type RevokedKind,
  type Sale
} from './store.ts'
import type { ChallengeSource } from './offer.ts'
import type { Database, Sql } from '../database/database.ts'
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

async function claimed<C extends Sale>(
  rows: Records<C>,
  statement: PromiseLike<readonly Row[]>
): Promise<ClaimedChallenge<C> | null> {
  const [row] = await statement
  if (row === undefined) return null
  const { verifications, returns } = claims.read(row)
  return { challenge: rows.read(row), first: verifications === 1, returns }
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

/** Nothing is added while nothing is revoked, which is the rule: the statement of nearly all claims stays one. */
function issuedAfter(sql: Sql, moment: number | null) {
  return moment === null ? sql`` : sql`and created_at > ${new Date(moment)}`
}

/** The challenges of PostgreSQL or the embedded database. */
export class SqlChallengeStore implements ChallengeStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async insert(sql: Sql, challenge: NewChallenge): Promise<void> {
    requireSound(challenge)
    const { payment } = challenge
    // Spelt out: a list of columns made by the client is escaped and joined anew for each row.
    await sql`
      insert into challenges (payment_hash, source, service, merchant_id, proxy_id, place, resource, path, method, query, amount_sats, digest, binding,
        payment_id, realm, request, payment_expires, macaroon, token_id, invoice, network, charge_id, provider_slot, provider_kind, client_key, idempotency_key,
        description, created_at, expires_at, token_expires_at)
      values (${challenge.paymentHash}, ${challenge.source}, ${challenge.service}, ${challenge.merchantId}, ${challenge.proxyId}, ${challenge.place},
        ${challenge.resource}, ${challenge.path}, ${challenge.method}, ${challenge.query}, ${challenge.amountSats}, ${challenge.digest}, ${challenge.binding},
        ${payment?.id ?? null}, ${payment?.realm ?? null}, ${payment?.request ?? null}, ${payment?.expires ?? null}, ${challenge.macaroon}, ${challenge.tokenId},
        ${challenge.invoice}, ${challenge.network}, ${challenge.chargeId}, ${challenge.providerSlot}, ${challenge.providerKind}, ${challenge.clientKey},
        ${challenge.idempotencyKey}, ${challenge.description}, ${new Date(challenge.createdAt)}, ${new Date(challenge.expiresAt)}, ${new Date(challenge.tokenExpiresAt)})`
  }

  async find(paymentHash: string): Promise<Challenge | null> {
    return await challengeRows.one(this.#database.sql`select * from challenges where payment_hash = ${paymentHash}`)
  }

  async outstanding(query: OutstandingQuery): Promise<Outstanding> {
    const sql = this.#database.sql
    // `num_nulls` is what the index says (migration 0016).
    const rows = await sql<{ payment_hash: string; binding: string; expires_at: Date }[]>`
      select payment_hash, binding, expires_at from challenges
      where client_key = ${query.clientKey} and place = ${query.place} and num_nulls(scheme, settled_at) >= 2 and expires_at > ${new Date(query.now)}
      order by expires_at
      limit ${query.placeLimit}`
    const open = rows.map(row => ({ paymentHash: row.payment_hash, binding: row.binding }))
    const firstExpiry = rows[0]?.expires_at.getTime() ?? null
    if (open.filter(({ binding }) => binding === query.binding).length < query.requestLimit)
      return { open, firstExpiry, newest: null }
    const newest = await challengeRows.one(sql`
      select * from challenges
      where client_key = ${query.clientKey} and place = ${query.place} and num_nulls(scheme, settled_at) >= 2
        and expires_at >= ${new Date(query.payableUntil)} and binding = ${query.binding}
      order by created_at desc, payment_hash
      limit 1`)
    return { open, firstExpiry, newest }
  }

  async claim(
    sql: Sql,
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
    sql: Sql,
    paymentHash: string,
    scheme: 'l402' | 'payment-legacy',
    condition: ClaimCondition | null,
    now: number,
    brief = false
  ): Promise<ClaimedChallenge<Sale> | null> {
    const charge = condition?.chargeId ?? null
    const token = condition?.tokenId ?? null
    return await claimed<Sale>(
      brief ? sales : challengeRows,
      sql`
      update challenges
      set scheme = ${scheme}, paid_at = coalesce(paid_at, ${new Date(now)}::timestamptz), verifications = verifications + 1
      where payment_hash = ${paymentHash} and (scheme is null or scheme = ${scheme})
        and (${charge}::text is null or charge_id = ${charge}) and (${token}::text is null or token_id = ${token})
        ${issuedAfter(sql, condition?.issuedAfter ?? null)}
      returning ${brief ? sql`source, amount_sats, created_at, client_key, verifications, client_gone` : sql`*`}`
    )
  }

  async lease(
    sql: Sql,
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
    sql: Sql,
    key: NewLease,
    gateway: string,
    until: number,
    now: number,
    bond: Bond | null = null,
    brief = false
  ): Promise<ClaimedChallenge<Sale> | null> {
    const at = new Date(now)
    return await claimed<Sale>(
      brief ? sales : challengeRows,
      sql`
      update challenges
      set state = 'leased', lease_id = ${key.leaseId}, lease_gateway = ${gateway}, lease_until = ${new Date(until)}, lease_final = ${key.isFinal ?? false},
        scheme = 'payment', paid_at = coalesce(paid_at, ${at}::timestamptz), verifications = verifications + 1
      where payment_hash = ${key.paymentHash} and (scheme is null or scheme = 'payment')
        and (state = 'unspent' or (state = 'leased' and lease_until < ${at} and not lease_final))
        ${
          bond === null
            ? sql``
            : sql`and payment_id = ${bond.paymentId} and digest is null and merchant_id is not distinct from ${bond.merchantId}
        and service = ${bond.service} and method = ${bond.method} and path = ${bond.path} and query = ${bond.query} and amount_sats = ${bond.amountSats}
        ${issuedAfter(sql, bond.issuedAfter)}`
        }
      returning ${brief ? sql`source, amount_sats, created_at, client_key, verifications, client_gone` : sql`*`}`
    )
  }

  async consume(sql: Sql, key: LeaseKey, gateway: string, now: number): Promise<ClaimedChallenge | null> {
    const at = new Date(now)
    return await claimed(
      challengeRows,
      sql`
      update challenges
      set state = 'spent', spent_at = ${at}, lease_id = ${key.leaseId}, lease_gateway = ${gateway}, lease_until = null,
        scheme = 'payment', paid_at = coalesce(paid_at, ${at}::timestamptz), verifications = verifications + 1
      where payment_hash = ${key.paymentHash} and (scheme is null or scheme = 'payment')
        and (state = 'unspent' or (state = 'leased' and lease_until < ${at} and not lease_final))
      returning *`
    )
  }

  async extend(gateway: string, keys: readonly LeaseKey[], until: number): Promise<string[]> {
    const rows = await this.#database.sql<{ lease_id: string }[]>`
      update challenges set lease_until = ${new Date(until)}
      from unnest(${keys.map(key => key.paymentHash)}::text[], ${keys.map(key => key.leaseId)}::text[]) as held (hash, lease)
      where challenges.payment_hash = held.hash and challenges.lease_id = held.lease and lease_gateway = ${gateway} and state = 'leased'
      returning lease_id`
    return rows.map(row => row.lease_id)
  }

  async spend(keys: readonly LeaseKey[], now: number): Promise<string[]> {
    const { sql } = this.#database
    const [first, second] = keys
    const at = new Date(now)
    // For arrays PostgreSQL makes a plan each time, a third of what one spend costs; the plan for one row is kept.
    const rows =
      first !== undefined && second === undefined
        ? await sql<{ lease_id: string }[]>`
        update challenges set state = 'spent', spent_at = coalesce(spent_at, ${at}::timestamptz), lease_until = null
        where payment_hash = ${first.paymentHash} and lease_id = ${first.leaseId} and state in ('leased', 'spent')
        returning lease_id`
        : await sql<{ lease_id: string }[]>`
        update challenges set state = 'spent', spent_at = coalesce(spent_at, ${at}::timestamptz), lease_until = null
        from unnest(${keys.map(key => key.paymentHash)}::text[], ${keys.map(key => key.leaseId)}::text[]) as held (hash, lease)
        where challenges.payment_hash = held.hash and challenges.lease_id = held.lease and challenges.state in ('leased', 'spent')
        returning challenges.lease_id`
    return rows.map(row => row.lease_id)
  }

  async release(keys: readonly GivenBack[]): Promise<void> {
    const { sql } = this.#database
    await sql`
      update challenges set state = 'unspent', spent_at = null, lease_id = null, lease_gateway = null, lease_until = null,
        client_gone = client_gone + counted
      from unnest(
        ${keys.map(key => key.paymentHash)}::text[], ${keys.map(key => key.leaseId)}::text[], ${keys.map(key => (key.isCounted === true ? 1 : 0))}::integer[]
      ) as held (hash, lease, counted)
      where challenges.payment_hash = held.hash and challenges.lease_id = held.lease and challenges.state in ('leased', 'spent')`
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
