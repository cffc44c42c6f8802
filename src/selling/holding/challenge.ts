import type { Sql } from '../../platform/database/database.ts'

/** What made an offer. */
export type ChallengeSource = 'route' | 'proxy' | 'ping' | 'producer' | 'storefront' | 'subscription'

/** Prefix of the binding of a challenge that only one browser may be handed again. */
export const HOLDER_MARK = '~'

/** The scheme that claimed a payment: the first one has it, others are refused. */
export type ClaimScheme = 'l402' | 'payment' | 'payment-legacy'

/** What is written when a challenge is made; it never changes. Times in milliseconds since the epoch. */
export interface NewChallenge {
  /** 64 lower-case hex characters; the key of the row. */
  readonly paymentHash: string
  readonly source: ChallengeSource
  /** Value of the services caveat. */
  readonly service: string
  readonly merchantId: string | null
  readonly proxyId: string | null
  readonly place: string
  /** The path caveat, or the producer's resource. */
  readonly resource: string
  readonly path: string
  readonly method: string
  /** `boundQuery` of the request's query. */
  readonly query: string
  readonly amountSats: number
  /** The price in fiat, such as `USD 0.002`; null for satoshis. */
  readonly price: string | null
  /** Digest of the price server's request; null without one. */
  readonly asked: string | null
  /** `sha-256=:…:` of the challenged body, or null. */
  readonly digest: string | null
  /** Hash of place, method, path, query, price and digest: requests that may share an invoice have the same. */
  readonly binding: string
  /** Null where the scheme cannot be offered for this invoice. */
  readonly payment: StoredPaymentChallenge | null
  readonly wording: Wording
  /** 64 lower-case hex characters. */
  readonly tokenId: string
  readonly invoice: string
  readonly network: string
  readonly chargeId: string
  /** Of the account that made the invoice. */
  readonly providerSlot: string
  readonly providerKind: string
  /** Whose open invoices are counted: the client's network. */
  readonly clientKey: string
  readonly idempotencyKey: string | null
  readonly description: string
  readonly createdAt: number
  /** When the invoice can no longer be paid. */
  readonly expiresAt: number
  /** When the macaroon ends. */
  readonly tokenExpiresAt: number
}

/** The parameters of a Payment challenge as they were sent, less `request`. */
export interface StoredPaymentChallenge {
  readonly id: string
  readonly realm: string
  /** RFC 3339, whole seconds. */
  readonly expires: string
}

/**
 * How macaroon and `request`, half of what a challenge says, come again: made anew from the row and the
 * keys, or as they were sent.
 */
export type Wording = RemadeWording | KeptWording

/** What the macaroon is made of besides the other members. */
export interface RemadeWording {
  readonly location: string
  /** The path caveat where it is not `resource` (`exactPath`); null else. */
  readonly caveatPath: string | null
}

/** Rows that an idempotency key hands out again have this, and those of versions that made no wording again. */
export interface KeptWording {
  /** Standard base64, as the L402 line carries it; never empty. */
  readonly macaroon: string
  /** Of the Payment challenge; null where there is none. */
  readonly request: string | null
}

/** A challenge in its current state. */
export interface Challenge extends NewChallenge {
  readonly state: 'unspent' | 'leased' | 'spent'
  readonly scheme: ClaimScheme | null
  /** First successful verification. */
  readonly paidAt: number | null
  /** When its provider reported the invoice as paid; null before that, and where a credential came first. */
  readonly settledAt: number | null
  readonly leaseId: string | null
  readonly leaseUntil: number | null
  /** The lease counts as spent once it has lapsed (decision 183). */
  readonly leaseIsFinal: boolean
}

/** A challenge with all that its 402 says. */
export interface SentChallenge extends Challenge {
  readonly payment: (StoredPaymentChallenge & { readonly request: string }) | null
  /** Standard base64, as the L402 line carries it. */
  readonly macaroon: string
}

/** What a claim counts. Rows are wide: reading a whole one costs as much as the claim. */
export type Sale = Pick<Challenge, 'source' | 'amountSats' | 'asked' | 'createdAt' | 'clientKey'>

/** What the row of a classic token's payment must say for it to be claimed. */
export interface ClaimCondition {
  readonly chargeId: string
  readonly tokenId: string
  /** The token's price caveat, which a holder can add, so the row must have the same. */
  readonly price: string | null
  /**
   * The path for which a genuine token was issued, which may be another one than its invoice was made for (decision
   * 425): its claim makes the payment that token's. Null where only the row's own token will do.
   */
  readonly issuedPath?: string | null
  /** What was issued up to then is revoked; milliseconds since the epoch. */
  readonly issuedAfter: number | null
}

/** A claimed challenge, and whether this claim was its first verification ever. */
export interface ClaimedChallenge<C extends Sale = Challenge> {
  readonly challenge: C
  readonly first: boolean
  /** How often the payment was released for a client that had left (decision 184). */
  readonly returns: number
}

/** A lease in the database. Only its holder knows `leaseId`. */
export interface LeaseKey {
  readonly paymentHash: string
  readonly leaseId: string
}

export interface NewLease extends LeaseKey {
  /** It counts as spent once it has lapsed (decision 183); false when left out. */
  readonly isFinal?: boolean
}

export interface GivenBack extends LeaseKey {
  /**
   * Its client left, and its method is one of those that come back so only a few times (decision 184). Not so when left
   * out.
   */
  readonly isCounted?: boolean
}

/** A payment whose gateway died while its request was under way. */
export interface AmbiguousLease {
  readonly paymentHash: string
  readonly source: ChallengeSource
  readonly merchantId: string | null
  readonly proxyId: string | null
  readonly method: string
  readonly path: string
  readonly amountSats: number
  readonly gateway: string
  /** Milliseconds since the epoch. */
  readonly lapsedAt: number
}

/** What the row of a modern credential must have for it to be leased by one statement. */
export interface Bond {
  /** Id of the Payment challenge, verified as ours. */
  readonly paymentId: string
  readonly merchantId: string | null
  readonly service: string
  readonly method: string
  readonly path: string
  /** `boundQuery` of the request's query. */
  readonly query: string
  readonly amountSats: number
  /** As of `ClaimCondition`. */
  readonly issuedAfter: number | null
}

/**
 * What has been revoked, by kind: one payment, or everything that was issued for a proxy or a merchant up to the moment
 * of the revocation.
 */
export type RevokedKind = 'payment' | 'proxy' | 'merchant'

/** One entry of the revocation list. `id` is a payment hash, proxy id or merchant id. */
export interface Revocation {
  readonly kind: RevokedKind
  readonly id: string
}

/** A revocation as it is listed. */
export interface Listed extends Revocation {
  /** Its moment, in milliseconds since the epoch. */
  readonly at: number
}

/** Unsettled, unexpired and unclaimed. */
export interface OpenInvoice {
  readonly paymentHash: string
  readonly binding: string
}

/** The open invoices of one client in one place, and the newest that could be handed out again. */
export interface Outstanding {
  /** Counts of those made before `since`, up to the place's limit. */
  readonly inPlace: number
  readonly ofRequest: number
  /** Those made since, one by one. */
  readonly recent: readonly OpenInvoice[]
  /** First expiry, in milliseconds since the epoch; null without any. */
  readonly firstExpiry: number | null
  /** Of the binding; only when its limit is reached. */
  readonly newest: Challenge | null
}

/** Times in milliseconds since the epoch. */
export interface OutstandingQuery {
  readonly clientKey: string
  readonly place: string
  readonly binding: string
  /** For the one binding. */
  readonly requestLimit: number
  readonly placeLimit: number
  readonly now: number
  /** What was made before is only counted. */
  readonly since: number
  /** The newest must be payable until at least then. */
  readonly payableUntil: number
}

/** Which invoice of a client can buy another request too; moments in milliseconds since the epoch. */
export interface ShareableQuery
  extends
    Pick<OutstandingQuery, 'clientKey' | 'place' | 'payableUntil'>,
    Pick<NewChallenge, 'source' | 'service' | 'merchantId' | 'price' | 'asked'> {
  /** Null where the price is `price`. */
  readonly amountSats: number | null
}

/**
 * Called with each challenge of a merchant once, at its first successful verification, inside the transaction that
 * records it, together with others that come at the same time: what it writes with `tx` is durable exactly when the
 * claims are. It must make no network call. When it throws, the claims fail; then it is called for fewer of them, so
 * that the one that it cannot bear fails alone.
 */
export type OnPaid = (tx: Sql, challenges: readonly Challenge[]) => Promise<void>

/** The claims stand by themselves, with whatever `onPaid` writes of those that are the first of their payment. */
export interface Told {
  readonly onPaid: OnPaid
}

/**
 * Where a claim is written: with the handle of a transaction as a part of it; with the database's own, or `Told`, by
 * itself. Those that come by themselves at the same time share statements (`platform/database/batch.ts`).
 */
export type ClaimIn = Sql | Told

/** The channel on which a change of the revocation list is announced. */
export const REVOCATIONS_CHANNEL = 'boltgate_revocations'
