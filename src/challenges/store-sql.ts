import {
  REVOCATIONS_CHANNEL, type AmbiguousLease, type Bond, type Challenge, type ChallengeStore, type ClaimCondition, type ClaimScheme, type ClaimedChallenge, type GivenBack, type LeaseKey,
  type Listed, type NewChallenge, type NewLease, type Outstanding, type OutstandingQuery, type Revocation, type RevokedKind, type Sale
} from './store.ts'
import type { ChallengeSource } from './offer.ts'
import type { Database, Sql } from '../database/database.ts'

/** A row of `challenges` as the client gives it. Where a member is narrower than text, the statements here write nothing else. */
interface Row {
  payment_hash: string
  source: ChallengeSource
  service: string
  merchant_id: string | null
  proxy_id: string | null
  place: string
  resource: string
  path: string
  method: string
  query: string
  amount_sats: bigint
  digest: string | null
  binding: string
  payment_id: string | null
  realm: string | null
  request: string | null
  payment_expires: string | null
  macaroon: string
  token_id: string
  invoice: string
  network: string
  charge_id: string
  provider_slot: string
  provider_kind: string
  client_key: string
  idempotency_key: string | null
  description: string
  created_at: Date
  expires_at: Date
  token_expires_at: Date
  state: 'unspent' | 'leased' | 'spent'
  scheme: ClaimScheme | null
  paid_at: Date | null
  lease_id: string | null
  lease_until: Date | null
  lease_final: boolean
  client_gone: number
  verifications: number
}

/** A row of `challenges` as the rest of the program sees it. */
export function readChallenge (row: Row): Challenge {
  const { payment_id: id, realm, request, payment_expires: expires } = row
  return {
    paymentHash: row.payment_hash,
    source: row.source,
    service: row.service,
    merchantId: row.merchant_id,
    proxyId: row.proxy_id,
    place: row.place,
    resource: row.resource,
    path: row.path,
    method: row.method,
    query: row.query,
    // Its INSERT keeps prices far below 2^53.
    amountSats: Number(row.amount_sats),
    digest: row.digest,
    binding: row.binding,
    payment: id === null || realm === null || request === null || expires === null ? null : { id, realm, request, expires },
    macaroon: row.macaroon,
    tokenId: row.token_id,
    invoice: row.invoice,
    network: row.network,
    chargeId: row.charge_id,
    providerSlot: row.provider_slot,
    providerKind: row.provider_kind,
    clientKey: row.client_key,
    idempotencyKey: row.idempotency_key,
    description: row.description,
    createdAt: row.created_at.getTime(),
    expiresAt: row.expires_at.getTime(),
    tokenExpiresAt: row.token_expires_at.getTime(),
    state: row.state,
    scheme: row.scheme,
    paidAt: row.paid_at?.getTime() ?? null,
    leaseId: row.lease_id,
    leaseUntil: row.lease_until?.getTime() ?? null,
    leaseIsFinal: row.lease_final
  }
}

function claimed (row: Row | undefined): ClaimedChallenge | null {
  return row === undefined ? null : { challenge: readChallenge(row), first: row.verifications === 1, returns: row.client_gone }
}

const HASH = /^[0-9a-f]{64}$/
// All satoshis that there will ever be.
const MAX_PRICE = 21e14

/** What checks of the table would say: PostgreSQL reads those anew for every statement, also for one that changes nothing of it. */
function requireSound ({ paymentHash, tokenId, amountSats }: NewChallenge): void {
  if (!HASH.test(paymentHash)) throw new TypeError('The payment hash of a challenge must be 64 lower-case hex characters')
  if (!HASH.test(tokenId)) throw new TypeError('The token id of a challenge must be 64 lower-case hex characters')
  if (!Number.isSafeInteger(amountSats) || amountSats < 1 || amountSats > MAX_PRICE) throw new RangeError(`The price of a challenge must be a whole number of satoshis from 1 to ${MAX_PRICE}, not ${amountSats}`)
}

type AmbiguousRow = Pick<Row, 'payment_hash' | 'source' | 'merchant_id' | 'proxy_id' | 'method' | 'path' | 'amount_sats'> & { readonly lease_gateway: string, readonly lapsed_at: Date }

type Brief = Pick<Row, 'source' | 'amount_sats' | 'created_at' | 'client_key' | 'verifications' | 'client_gone'>

function claimedInBrief (row: Brief | undefined): ClaimedChallenge<Sale> | null {
  return row === undefined ? null : { challenge: { source: row.source, amountSats: Number(row.amount_sats), createdAt: row.created_at.getTime(), clientKey: row.client_key }, first: row.verifications === 1, returns: row.client_gone }
}

/** Nothing is added while nothing is revoked, which is the rule: the statement of nearly all claims stays one. */
function issuedAfter (sql: Sql, moment: number | null) {
  return moment === null ? sql`` : sql`and created_at > ${new Date(moment)}`
}

/** The challenges of PostgreSQL or the embedded database. */
export class SqlChallengeStore implements ChallengeStore {
  readonly #database: Database

  constructor (database: Database) {
    this.#database = database
  }

  async insert (sql: Sql, challenge: NewChallenge): Promise<void> {
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

  async find (paymentHash: string): Promise<Challenge | null> {
    const [row] = await this.#database.sql<Row[]>`select * from challenges where payment_hash = ${paymentHash}`
    return row === undefined ? null : readChallenge(row)
  }

  async outstanding (query: OutstandingQuery): Promise<Outstanding> {
    const sql = this.#database.sql
    // `num_nulls` is what the index says (migration 0016).
    const rows = await sql<{ payment_hash: string, binding: string, expires_at: Date }[]>`
      select payment_hash, binding, expires_at from challenges
      where client_key = ${query.clientKey} and place = ${query.place} and num_nulls(scheme, settled_at) >= 2 and expires_at > ${new Date(query.now)}
      order by expires_at
      limit ${query.placeLimit}`
    const open = rows.map(row => ({ paymentHash: row.payment_hash, binding: row.binding }))
    const firstExpiry = rows[0]?.expires_at.getTime() ?? null
    if (open.filter(({ binding }) => binding === query.binding).length < query.requestLimit) return { open, firstExpiry, newest: null }
    const [row] = await sql<Row[]>`
      select * from challenges
      where client_key = ${query.clientKey} and place = ${query.place} and num_nulls(scheme, settled_at) >= 2
        and expires_at >= ${new Date(query.payableUntil)} and binding = ${query.binding}
      order by created_at desc, payment_hash
      limit 1`
    return { open, firstExpiry, newest: row === undefined ? null : readChallenge(row) }
  }

  async claim (sql: Sql, paymentHash: string, scheme: 'l402' | 'payment-legacy', condition: ClaimCondition | null, now: number): Promise<ClaimedChallenge | null>
  async claim (sql: Sql, paymentHash: string, scheme: 'l402' | 'payment-legacy', condition: ClaimCondition | null, now: number, brief: true): Promise<ClaimedChallenge<Sale> | null>
  async claim (sql: Sql, paymentHash: string, scheme: 'l402' | 'payment-legacy', condition: ClaimCondition | null, now: number, brief = false): Promise<ClaimedChallenge<Sale> | null> {
    const charge = condition?.chargeId ?? null
    const token = condition?.tokenId ?? null
    const [row] = await sql<Row[]>`
      update challenges
      set scheme = ${scheme}, paid_at = coalesce(paid_at, ${new Date(now)}::timestamptz), verifications = verifications + 1
      where payment_hash = ${paymentHash} and (scheme is null or scheme = ${scheme})
        and (${charge}::text is null or charge_id = ${charge}) and (${token}::text is null or token_id = ${token})
        ${issuedAfter(sql, condition?.issuedAfter ?? null)}
      returning ${brief ? sql`source, amount_sats, created_at, client_key, verifications, client_gone` : sql`*`}`
    return brief ? claimedInBrief(row) : claimed(row)
  }

  async lease (sql: Sql, key: NewLease, gateway: string, until: number, now: number, bond?: Bond | null): Promise<ClaimedChallenge | null>
  async lease (sql: Sql, key: NewLease, gateway: string, until: number, now: number, bond: Bond | null, brief: true): Promise<ClaimedChallenge<Sale> | null>
  async lease (sql: Sql, key: NewLease, gateway: string, until: number, now: number, bond: Bond | null = null, brief = false): Promise<ClaimedChallenge<Sale> | null> {
    const at = new Date(now)
    const [row] = await sql<Row[]>`
      update challenges
      set state = 'leased', lease_id = ${key.leaseId}, lease_gateway = ${gateway}, lease_until = ${new Date(until)}, lease_final = ${key.isFinal ?? false},
        scheme = 'payment', paid_at = coalesce(paid_at, ${at}::timestamptz), verifications = verifications + 1
      where payment_hash = ${key.paymentHash} and (scheme is null or scheme = 'payment')
        and (state = 'unspent' or (state = 'leased' and lease_until < ${at} and not lease_final))
        ${bond === null ? sql`` : sql`and payment_id = ${bond.paymentId} and digest is null and merchant_id is not distinct from ${bond.merchantId}
        and service = ${bond.service} and method = ${bond.method} and path = ${bond.path} and query = ${bond.query} and amount_sats = ${bond.amountSats}
        ${issuedAfter(sql, bond.issuedAfter)}`}
      returning ${brief ? sql`source, amount_sats, created_at, client_key, verifications, client_gone` : sql`*`}`
    return brief ? claimedInBrief(row) : claimed(row)
  }

  async consume (sql: Sql, key: LeaseKey, gateway: string, now: number): Promise<ClaimedChallenge | null> {
    const at = new Date(now)
    const [row] = await sql<Row[]>`
      update challenges
      set state = 'spent', spent_at = ${at}, lease_id = ${key.leaseId}, lease_gateway = ${gateway}, lease_until = null,
        scheme = 'payment', paid_at = coalesce(paid_at, ${at}::timestamptz), verifications = verifications + 1
      where payment_hash = ${key.paymentHash} and (scheme is null or scheme = 'payment')
        and (state = 'unspent' or (state = 'leased' and lease_until < ${at} and not lease_final))
      returning *`
    return claimed(row)
  }

  async extend (gateway: string, keys: readonly LeaseKey[], until: number): Promise<string[]> {
    const rows = await this.#database.sql<{ lease_id: string }[]>`
      update challenges set lease_until = ${new Date(until)}
      from unnest(${keys.map(key => key.paymentHash)}::text[], ${keys.map(key => key.leaseId)}::text[]) as held (hash, lease)
      where challenges.payment_hash = held.hash and challenges.lease_id = held.lease and lease_gateway = ${gateway} and state = 'leased'
      returning lease_id`
    return rows.map(row => row.lease_id)
  }

  async spend (keys: readonly LeaseKey[], now: number): Promise<string[]> {
    const { sql } = this.#database
    const [first, second] = keys
    const at = new Date(now)
    // For arrays PostgreSQL makes a plan each time, a third of what one spend costs; the plan for one row is kept.
    const rows = first !== undefined && second === undefined
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

  async release (keys: readonly GivenBack[]): Promise<void> {
    const { sql } = this.#database
    await sql`
      update challenges set state = 'unspent', spent_at = null, lease_id = null, lease_gateway = null, lease_until = null,
        client_gone = client_gone + counted
      from unnest(
        ${keys.map(key => key.paymentHash)}::text[], ${keys.map(key => key.leaseId)}::text[], ${keys.map(key => key.isCounted === true ? 1 : 0)}::integer[]
      ) as held (hash, lease, counted)
      where challenges.payment_hash = held.hash and challenges.lease_id = held.lease and challenges.state in ('leased', 'spent')`
  }

  async spendLapsed (now: number, expiredAfter: number, limit: number): Promise<number> {
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

  async ambiguous ({ skip, take }: { readonly skip: number, readonly take: number }): Promise<AmbiguousLease[]> {
    const rows = await this.#database.sql<AmbiguousRow[]>`
      select * from ambiguous_leases order by lapsed_at desc, lease_id desc limit ${take} offset ${skip}`
    return rows.map(row => ({
      paymentHash: row.payment_hash,
      source: row.source,
      merchantId: row.merchant_id,
      proxyId: row.proxy_id,
      method: row.method,
      path: row.path,
      amountSats: Number(row.amount_sats),
      gateway: row.lease_gateway,
      lapsedAt: row.lapsed_at.getTime()
    }))
  }

  async settled (paymentHash: string, at: number): Promise<void> {
    await this.#database.sql`update challenges set settled_at = ${new Date(at)} where payment_hash = ${paymentHash} and settled_at is null`
  }

  async revocations (): Promise<Listed[]> {
    const rows = await this.#database.sql<{ kind: RevokedKind, id: string, revoked_at: Date }[]>`select kind, id, revoked_at from revocations`
    return rows.map(row => ({ kind: row.kind, id: row.id, at: row.revoked_at.getTime() }))
  }

  async revoke (revocation: Revocation, now: number): Promise<void> {
    await this.#database.transaction(async tx => {
      await tx`
        insert into revocations (kind, id, revoked_at) values (${revocation.kind}, ${revocation.id}, ${new Date(now)})
        on conflict (kind, id) do update set revoked_at = greatest(revocations.revoked_at, excluded.revoked_at)`
      await this.#database.notify(REVOCATIONS_CHANNEL, revocation.kind, tx)
    })
  }

  async reinstate (revocation: Revocation): Promise<void> {
    await this.#database.transaction(async tx => {
      await tx`delete from revocations where kind = ${revocation.kind} and id = ${revocation.id}`
      await this.#database.notify(REVOCATIONS_CHANNEL, revocation.kind, tx)
    })
  }

  async purge (unpaidBefore: number, paidBefore: number, limit: number): Promise<number> {
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
