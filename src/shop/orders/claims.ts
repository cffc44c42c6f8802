import { INVALID_STATE, UNAUTHORIZED, REQUEST_MALFORMED } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import { equalBytes } from '../../platform/keys/secrets.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { notShippedTo, shipsTo } from '../cart.ts'
import { claimDigest } from './claim-store.ts'
import { countryCode } from '../countries.ts'
import type { ShopCredentials } from '../credentials.ts'
import { alreadyClaimed, missingProof, type ClaimDetails, type OrderPlacement } from './placement.ts'
import type { OrderStore, OrderRecord } from './store.ts'
import type { PaidOrders } from './paid-orders.ts'
import type { Integration, Order, ShippingAddress } from '../schema.ts'
import { credentialRefused, orderNotFound, storeNotFound, CREDENTIAL_NOT_VERIFIED } from '../store-errors.ts'

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

interface OrderClaimsOptions {
  readonly orders: Pick<OrderStore, 'byPaymentHash' | 'byClaimDigest'>
  readonly paid: Pick<PaidOrders, 'byCredential'>
  readonly placement: Pick<OrderPlacement, 'make'>
  readonly credentials: Pick<ShopCredentials, 'read'>
  readonly clock: Clock
  /** Inactive ones too. */
  store(slug: string): Promise<Integration | null>
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
    const integration = await this.#options.store(slug)
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
