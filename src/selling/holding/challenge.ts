import type { RequestBinding } from '../../lightning/codecs/x402.ts'
import type { Sql } from '../../platform/database/database.ts'

export const CRAWLERS = 'crawlers'
export const OWN_TESTS = 'own tests'

export type ChallengeSource = 'route' | 'proxy' | 'ping' | 'producer' | 'storefront' | 'subscription' | 'top-up'

/** Prefix of the binding of a challenge reserved for one browser. */
export const HOLDER_MARK = '~'

/** Prefix of the binding of a challenge that selects Payment-Authorization. */
export const OWN_FIELD_MARK = '+'

/**
 * In the binding of a challenge that was offered by x402, behind other marks. It is never handed out again: its client
 * may claim the payment without a preimage.
 */
export const X402_MARK = '='

/** Another client, or another request, may be handed the challenge of this binding. */
export function isShareable(binding: string): boolean {
  return !binding.startsWith(HOLDER_MARK) && !binding.includes(X402_MARK)
}

/** The first scheme that claims a payment has it; others are refused. */
export type ClaimScheme = 'l402' | 'payment' | 'payment-legacy' | 'x402'

/** Immutable after minting. */
export interface NewChallenge {
  /** Key of the row: 64 lower-case hex characters. */
  readonly paymentHash: string
  readonly source: ChallengeSource
  readonly service: string
  readonly merchantId: string | null
  readonly proxyId: string | null
  readonly place: string
  readonly resource: string
  readonly path: string
  readonly method: string
  readonly query: string
  readonly amountSats: number
  /** Price in fiat, such as `USD 0.002`; null for satoshis. */
  readonly price: string | null
  /** Digest of the price server's request; null without one. */
  readonly asked: string | null
  /** `sha-256=:…:` of the challenged body, or null. */
  readonly digest: string | null
  /** Hash of place, method, path, query, price and digest: requests with the same one may share an invoice. */
  readonly binding: string
  /** Null if the scheme cannot be offered for this invoice. */
  readonly payment: StoredPaymentChallenge | null
  readonly wording: Wording
  readonly tokenId: string
  readonly invoice: string
  readonly network: string
  readonly chargeId: string
  /** Of the account that made the invoice. */
  readonly providerSlot: string
  readonly providerKind: string
  readonly clientKey: string
  readonly idempotencyKey: string | null
  readonly description: string
  readonly createdAt: number
  readonly expiresAt: number
  readonly tokenExpiresAt: number
}

interface StoredPaymentChallenge {
  readonly id: string
  readonly realm: string
  /** RFC 3339, whole seconds. */
  readonly expires: string
}

/**
 * How macaroon and `request`, half of a challenge's size, are restored: remade from row and keys, or stored.
 */
export type Wording = RemadeWording | KeptWording

export interface RemadeWording {
  readonly location: string
  /** The path caveat if it is not `resource` (`exactPath`). */
  readonly caveatPath: string | null
}

/** For rows that an idempotency key hands out again, and those of older versions. */
export interface KeptWording {
  /** Standard base64, as in the L402 line; never empty. */
  readonly macaroon: string
  readonly request: string | null
}

export interface Challenge extends NewChallenge {
  readonly state: 'unspent' | 'leased' | 'spent'
  readonly scheme: ClaimScheme | null
  readonly paidAt: number | null
  /** When the provider reported the payment; null before, or if a credential came first. */
  readonly settledAt: number | null
  readonly leaseId: string | null
  readonly leaseUntil: number | null
  /** A lapsed lease counts as spent (decision 183). */
  readonly leaseIsFinal: boolean
}

export interface SentChallenge extends Challenge {
  readonly payment: (StoredPaymentChallenge & { readonly request: string }) | null
  readonly macaroon: string
  /** Of an invoice that was made for this request and bound to it; absent for one that is handed out again. */
  readonly x402?: RequestBinding | null
}

export type Sale = Pick<Challenge, 'merchantId' | 'source' | 'amountSats' | 'asked' | 'createdAt' | 'clientKey'>

export interface ClaimCondition {
  readonly chargeId: string
  readonly tokenId: string
  /** Holders can add a price caveat, so the row must have the same. */
  readonly price: string | null
  /**
   * Path at issuance, which may differ from its invoice's (decision 425): the claim makes the payment that token's.
   * Null accepts the row's own token only.
   */
  readonly issuedPath?: string | null
  /** Anything issued up to then is revoked; milliseconds since the epoch. */
  readonly issuedAfter: number | null
}

/** `first`: the payment's first verification ever. */
export interface ClaimedChallenge {
  readonly challenge: Sale
  readonly first: boolean
  /** Releases for clients that had left (decision 184). */
  readonly returns: number
}

/** Only the holder knows `leaseId`. */
export interface LeaseKey {
  readonly paymentHash: string
  readonly leaseId: string
}

export interface NewLease extends LeaseKey {
  /** A lapsed lease counts as spent (decision 183); default false. */
  readonly isFinal?: boolean
  /** Of a single-use credential; default `payment`. */
  readonly scheme?: 'payment' | 'x402'
}

export interface GivenBack extends LeaseKey {
  /** Counts as a return to a client that left (decision 184); default false. */
  readonly isCounted?: boolean
}

/** A payment whose gateway died during its request. */
export interface AmbiguousLease {
  readonly paymentHash: string
  readonly source: ChallengeSource
  readonly merchantId: string | null
  readonly proxyId: string | null
  readonly method: string
  readonly path: string
  readonly amountSats: number
  readonly gateway: string
  readonly lapsedAt: number
}

/** Condition for leasing a modern credential in one statement. */
export interface Bond {
  readonly paymentId: string
  readonly merchantId: string | null
  readonly service: string
  readonly method: string
  readonly path: string
  readonly query: string
  readonly amountSats: number
  /** As in `ClaimCondition`. */
  readonly issuedAfter: number | null
}

/** A `payment`, or everything issued for a proxy or merchant until the revocation. */
export type RevokedKind = 'payment' | 'proxy' | 'merchant'

/** `id`: payment hash, proxy id or merchant id. */
export interface Revocation {
  readonly kind: RevokedKind
  readonly id: string
}

export interface Listed extends Revocation {
  readonly at: number
}

/** Unsettled, unexpired and unclaimed. */
export interface OpenInvoice {
  readonly paymentHash: string
  readonly binding: string
}

export interface Outstanding {
  /** Number made before `since`, up to the place's limit. */
  readonly inPlace: number
  readonly ofRequest: number
  readonly recent: readonly OpenInvoice[]
  readonly firstExpiry: number | null
  /** Of the binding; only when its limit is reached. */
  readonly newest: Challenge | null
}

export interface OutstandingQuery {
  readonly clientKey: string
  readonly place: string
  readonly binding: string
  readonly requestLimit: number
  readonly placeLimit: number
  readonly now: number
  readonly since: number
  /** The newest must be payable until then. */
  readonly payableUntil: number
}

/** Selects a client's invoice that can buy another request; milliseconds since the epoch. */
export interface ShareableQuery
  extends
    Pick<OutstandingQuery, 'clientKey' | 'place' | 'payableUntil'>,
    Pick<NewChallenge, 'source' | 'service' | 'merchantId' | 'price' | 'asked'> {
  /** Null if the price is `price`. */
  readonly amountSats: number | null
}

/**
 * Called once for each challenge of a merchant, at its first verification, batched, inside the recording transaction.
 * Writes with `tx` are durable exactly when the claims are. Must not call the network. If it throws, the claims fail
 * and are retried in smaller batches, so that a faulty one fails alone.
 */
export type OnPaid = (tx: Sql, challenges: readonly Challenge[]) => Promise<void>

/** Claims in their own transaction, with what `onPaid` writes for first payments. */
interface PaidCallback {
  readonly onPaid: OnPaid
}

/**
 * Where a claim is written: in the transaction of a handle, or on its own with the database's handle or `PaidCallback`.
 * Concurrent claims on their own share statements (`platform/database/batch.ts`).
 */
export type ClaimIn = Sql | PaidCallback

export const REVOCATIONS_CHANNEL = 'boltgate_revocations'
