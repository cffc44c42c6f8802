import { INVALID_STATE, UNAUTHORIZED, REQUEST_MALFORMED } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import { equalBytes, type Sealer } from '../../platform/keys/secrets.ts'
import { notShippedTo, shipsTo } from '../cart.ts'
import { countryCode } from '../countries.ts'
import type { ShopCredentials } from '../credentials.ts'
import { alreadyClaimed, missingProof, type ClaimDetails, type OrderPlacement } from './placement.ts'
import type { OrderRecord, ShopServices } from './store.ts'
import type { PaidOrders } from './paid-orders.ts'
import { type Integration, type Order, type ShippingAddress, storable } from '../schema.ts'
import { credentialRefused, orderNotFound, storeNotFound, CREDENTIAL_NOT_VERIFIED } from '../store-errors.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { hash } from 'node:crypto'
import { randomToken, type Random } from '../../platform/system/ids.ts'

export interface ClaimInput {
  /** Required without a credential (decision 133). */
  readonly claimToken: string | null
  readonly email: string
  readonly shippingAddress: ShippingAddress
}

interface ClaimedOrder {
  readonly order: Order
  readonly integration: Integration
  /** Of the Payment credential that claimed it, for its receipt; else null. */
  readonly challengeId: string | null
}

interface Found {
  readonly order: OrderRecord
  /** A credential proved the payment. */
  readonly isProven: boolean
  readonly challengeId: string | null
}

interface OrderClaimsOptions extends ShopServices {
  readonly paid: PaidOrders
  readonly placement: OrderPlacement
  readonly credentials: ShopCredentials
}

/** Claims of paid orders (contract, Storefront order; decisions 133 to 135, 140 and 146). */
export class OrderClaims {
  readonly #options: OrderClaimsOptions

  constructor(options: OrderClaimsOptions) {
    this.#options = options
  }

  /**
   * Has the store's order made, once for each payment. `authorization`: the request's headers with a payment
   * credential; empty for the claim page. Works also for a store that stopped selling.
   * @throws LongError 400, 401 and 404 as in the contract's error table; 502 when the store rejects the order: the
   *   token stays usable and the address is kept; Unavailable 503 without a database
   */
  async claim(slug: string, input: ClaimInput, authorization: ReadonlyHeaders): Promise<ClaimedOrder> {
    const integration = await this.#options.stores.bySlug(slug)
    if (integration === null) throw storeNotFound()
    const { order, isProven, challengeId } = await this.#find(integration, input.claimToken, authorization)
    if (order.claimedAt !== null) throw alreadyClaimed()
    if (this.#options.clock.now() > order.claimExpiresAt) throw windowEnded(order)
    const details = detailsOf(integration, input)
    const paid = isProven ? await this.#options.paid.byCredential(order, integration) : order
    if (paid === null) throw orderNotFound()
    return { order: await this.#options.placement.make(integration, paid.id, details), integration, challengeId }
  }

  async #find(integration: Integration, claimToken: string | null, authorization: ReadonlyHeaders): Promise<Found> {
    const { orders, credentials } = this.#options
    const credential = await credentials.read(authorization, integration, 'claim')
    // 401 is for a claim without a token (contract, Errors); next to a token such a credential is ignored.
    const isIgnored = credential.kind === 'refused' && credential.reason === 'disabled' && claimToken !== null
    if (credential.kind === 'refused' && !isIgnored) {
      if (credential.reason === 'disabled') throw credentialRefused(UNAUTHORIZED, 'Unauthorized', credential)
      if (credential.reason === 'unknown') throw orderNotFound()
      if (credential.reason === 'form') throw credentialRefused(REQUEST_MALFORMED, 'Bad Request', credential)
      throw credentialRefused(CREDENTIAL_NOT_VERIFIED, 'L402 verification failed', credential)
    }
    if (credential.kind === 'paid') {
      const order = await orders.byPaymentHash(credential.challenge.paymentHash)
      if (order === null || !isItsToken(order, claimToken)) throw orderNotFound()
      return { order, isProven: true, challengeId: credential.challengeId }
    }
    if (claimToken === null) throw missingProof()
    const order = await orders.byClaimDigest(integration.id, claimDigest(claimToken))
    if (order === null) throw orderNotFound()
    return { order, isProven: false, challengeId: null }
  }
}

/** Next to a credential the token is optional, but must match the order (decision 133). */
function isItsToken(order: OrderRecord, claimToken: string | null): boolean {
  return claimToken === null || (order.claimDigest !== null && equalBytes(claimDigest(claimToken), order.claimDigest))
}

function detailsOf(integration: Integration, { email, shippingAddress }: ClaimInput): ClaimDetails {
  const country = countryCode(shippingAddress.country)
  if (country === null)
    throw invalidField('/shippingAddress/country', 'Must be a country: two letters such as US, or its English name.')
  if (!shipsTo(integration, country)) throw notShippedTo(integration, country)
  return { email, shippingAddress, countryCode: country }
}

function windowEnded(order: OrderRecord): LongError {
  return new LongError(
    INVALID_STATE,
    'Claim window expired',
    `This order could be claimed until ${new Date(order.claimExpiresAt).toISOString()}.`
  )
}

export interface HeldClaim {
  readonly owner: string
  readonly until: number
  /** When the platform was asked and may have made the order without a response; null when it certainly has not. */
  readonly requestedAt: number | null
  /** Address and email, sealed. */
  readonly details: string
}

const NEVER = new Date(0)

/**
 * Who is making the platform's order: one row per order, held by one owner. A claim expires, so that that of a dead
 * process can be taken over.
 */
export class ClaimStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /**
   * Takes the claim of an order whose row the caller has locked, with new details, or the stored ones for null. Returns
   * null while another owner holds it, and without stored details. Exactly one of concurrent callers succeeds.
   */
  async take(
    sql: TransactionSql,
    orderId: string,
    owner: string,
    until: number,
    now: number,
    details: string | null
  ): Promise<HeldClaim | null> {
    const at = new Date(now)
    const rows =
      details === null
        ? await sql<Array<{ asked_at: Date | null; details: string }>>`
        update storefront_claims set owner = ${owner}, lease_until = ${new Date(until)} where order_id = ${orderId} and lease_until <= ${at} returning asked_at, details`
        : await sql<Array<{ asked_at: Date | null; details: string }>>`
        insert into storefront_claims (order_id, owner, lease_until, details) values (${orderId}, ${owner}, ${new Date(until)}, ${details})
        on conflict (order_id) do update set owner = excluded.owner, lease_until = excluded.lease_until, details = excluded.details
        where storefront_claims.lease_until <= ${at}
        returning asked_at, details`
    const [row] = rows
    return row === undefined
      ? null
      : { owner, until, requestedAt: row.asked_at?.getTime() ?? null, details: row.details }
  }

  /** Records that the platform is about to be asked. False when the claim was lost. */
  async asking(orderId: string, owner: string, now: number): Promise<boolean> {
    const changed = await this.#database.sql`
      update storefront_claims set asked_at = ${new Date(now)}, look_at = null where order_id = ${orderId} and owner = ${owner} and lease_until > ${new Date(now)}`
    return changed.count === 1
  }

  /** Releases the claim and keeps its details; `fault` is the reason. No effect on another owner's claim. */
  async release(orderId: string, owner: string, requestedAt: number | null, fault: string): Promise<void> {
    await this.#database.sql`
      update storefront_claims set lease_until = ${NEVER}, asked_at = ${requestedAt === null ? null : new Date(requestedAt)}, fault = ${storable(fault).slice(0, 1000)}
      where order_id = ${orderId} and owner = ${owner}`
  }

  /** When the platform was asked without a certain answer, while no claim is held; else null. */
  async doubt(orderId: string, now: number): Promise<number | null> {
    const [row] = await this.#database.sql<
      Array<{ asked_at: Date | null }>
    >`select asked_at from storefront_claims where order_id = ${orderId} and lease_until <= ${new Date(now)}`
    return row?.asked_at?.getTime() ?? null
  }

  /** Records that the request at `askedAt` had no effect. Ignored when it was asked since. */
  async cleared(orderId: string, requestedAt: number, now: number): Promise<void> {
    await this.#database
      .sql`update storefront_claims set asked_at = null where order_id = ${orderId} and asked_at = ${new Date(requestedAt)} and lease_until <= ${new Date(now)}`
  }

  async done(sql: TransactionSql, orderId: string): Promise<void> {
    await sql`update storefront_claims set lease_until = ${NEVER}, asked_at = null, fault = null where order_id = ${orderId}`
  }

  async details(orderId: string): Promise<string | null> {
    const [row] = await this.#database.sql<
      Array<{ details: string }>
    >`select details from storefront_claims where order_id = ${orderId}`
    return row?.details ?? null
  }

  /**
   * Takes unclaimed orders that the platform may have made without a response since `since` and that are due, and
   * postpones them by a quarter of the elapsed time, at least by `pause` milliseconds, in one statement.
   */
  async takeUnsure(since: number, now: number, pause: number, limit: number): Promise<string[]> {
    const at = new Date(now)
    const rows = await this.#database.sql<Array<{ order_id: string }>>`
      update storefront_claims set look_at = ${at}::timestamptz + greatest((${at}::timestamptz - asked_at) / 4, ${pause}::float8 * interval '1 millisecond')
      where order_id in (
        select order_id from storefront_claims join storefront_orders on id = order_id
        where asked_at >= ${new Date(since)} and lease_until <= ${at} and claimed_at is null and (look_at is null or look_at <= ${at})
        order by asked_at limit ${limit} for update of storefront_claims skip locked)
      returning order_id`
    return rows.map(row => row.order_id)
  }
}

/**
 * Makes a claim token (decision 134): 32 random bytes in base64url. `digest` is the lookup key: a slow hash would add
 * nothing to 256 random bits. `ciphertext` shows it again.
 */
export function newClaimToken(orderId: string, sealer: Sealer, random: Random) {
  const token = randomToken(32, random)
  const place = { table: 'storefront_orders', column: 'claim_token', row: orderId }
  return { digest: claimDigest(token), ciphertext: sealer.seal(token, place) }
}

export function claimDigest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
