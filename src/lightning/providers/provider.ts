import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import type { InvoiceNetwork } from '../codecs/bolt11.ts'
import type { FiatCurrency } from '../money/currencies.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { CallStanding } from '../provider-calls/budgets.ts'

/**
 * A kind of provider as `gateway.yaml`, our rows and our metrics name it. Which there are says `kinds.ts`; rows may
 * name former ones.
 */
export type KindName = string

/** What an invoice is asked for. */
export interface ChargeRequest {
  /** At least 1. */
  readonly amountSats: number
  /** Stands on the invoice; a kind with a shorter limit cuts it at a character's edge. */
  readonly description: string
  /**
   * Seconds until the invoice can no longer be paid. A kind may only take another time; `Charge.expiresAt` is the
   * truth.
   */
  readonly expirySeconds: number
  /** For whom, which says how much of the provider's budget must be left to others; `keyed` where it is left out. */
  readonly standing?: CallStanding
  /**
   * What a payment is about, for a kind that shows it to its payer and to the payee in its own pages; not for a
   * challenge.
   */
  readonly order?: ChargeOrder
}

/** A merchant's order, in its own words. */
export interface ChargeOrder {
  readonly orderId: string
  /** Where the kind's own checkout page leads once it is paid. */
  readonly successUrl: string | null
  readonly customerEmail: string | null
  readonly customerName: string | null
  readonly metadata: Readonly<Record<string, string>> | null
}

/** An amount that the provider converts itself. */
export interface FiatChargeRequest extends Omit<ChargeRequest, 'amountSats'> {
  readonly currency: FiatCurrency
  /** Plain decimal with at most two places, above 0. */
  readonly amount: string
}

/** An invoice that a provider made. */
export interface Charge {
  /** The provider's own id; the `charge_id` caveat (decision 116). */
  readonly chargeId: string
  /** BOLT 11. */
  readonly invoice: string
  /** 64 lower-case hex characters. */
  readonly paymentHash: string
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
  readonly network: InvoiceNetwork
  /** An address for paying on chain; null where the kind gives none. */
  readonly onchainAddress: string | null
  /** The provider's own page; null where the kind has none. */
  readonly checkoutUrl: string | null
}

/** How a charge stands at its provider. */
export interface ChargeState {
  readonly status: 'unpaid' | 'processing' | 'paid' | 'underpaid' | 'expired' | 'refunded'
  /** Satoshis received so far; null where the provider does not say. */
  readonly receivedSats: number | null
  /** Milliseconds since the epoch; null while not settled. */
  readonly settledAt: number | null
}

/** Where a payout goes. */
export type PayoutDestination =
  | { readonly type: 'ln'; /** BOLT 11. */ readonly invoice: string }
  | { readonly type: 'chain'; readonly address: string }

/** What is to be paid out: a refund, which is a new outgoing payment (contract, What the service does 3). */
export interface PayoutRequest {
  /** Our own id of it, unique; the same reference never pays twice where the provider can tell, and finds it again. */
  readonly reference: string
  /** The charge that it gives back. */
  readonly chargeId: string
  readonly destination: PayoutDestination
  /** At least 1; fees come on top. */
  readonly amountSats: number
  /**
   * Satoshis that the routing fee of a Lightning payment may be, for a kind without `mostFee`; 0 allows routes without a
   * fee only. The kind's own limit where it is left out.
   */
  readonly feeLimitSats?: number
  readonly description: string | null
}

/** How a payout stands. `pending`: taken, not begun; `processing`: sent, not final; `confirmed`: broadcast or paid. */
export interface Payout {
  /** The provider's own id. */
  readonly payoutId: string
  readonly status: 'pending' | 'processing' | 'confirmed' | 'failed'
  /** 0 while it is not known (decision 61). */
  readonly feeSats: number
  /** 64 hex characters; null over Lightning, and on chain until it is broadcast. */
  readonly transactionHash: string | null
  /** Milliseconds since the epoch; null until it is confirmed or failed. */
  readonly processedAt: number | null
}

/** What came of trying a key (contract, Merchant self-service: Validation rules). */
export interface KeyVerdict {
  readonly isValid: boolean
  /** For people; names the missing scope where that is the reason. */
  readonly message: string
  /** What the key makes invoices of; left out where it makes none, and where the kind cannot tell. */
  readonly network?: InvoiceNetwork
}

/**
 * A provider's notification, as far as it was read. It only says whom it is about: the state is always asked for again.
 */
export interface ProviderNotification {
  /** The provider's own id of the charge; it may be one of another account, or unknown to us. */
  readonly chargeId: string
  /** Whether it was signed with `secret`; compared in constant time, over the bytes as they came. */
  verify(secret: Secret<string>): boolean
}

/** A charge that the provider says was settled. */
export interface SettledCharge {
  readonly chargeId: string
  /** Null where the list does not say how it stands: it is looked up by whoever wants to know. */
  readonly state: ChargeState | null
}

/** What of an account's list is asked for. Times in milliseconds since the epoch. */
export interface SettledSince {
  /** What was settled before this has been seen. */
  readonly since: number
  /** When the oldest charge was made of which news are awaited. */
  readonly oldest: number
  /** Where the last answer left off; null at the beginning. */
  readonly position: string | null
}

/** What was settled, or a part of it. */
export interface SettledList {
  readonly charges: readonly SettledCharge[]
  /**
   * `whole`: all that was settled from `since` to `asOf`, so that what is not there was not paid by then. `more`: the rest is read
   * from `position`, and nothing may be taken as seen before that. `newest`: there may be more, which this kind cannot
   * list.
   */
  readonly reach: 'whole' | 'more' | 'newest'
  /** When the provider was asked for the first part of it, in milliseconds since the epoch. */
  readonly asOf: number
  /** For the next call; any text of the kind's own that is no secret. */
  readonly position: string | null
}

/** What a kind can do besides taking Lightning payments. */
export interface Capabilities {
  readonly onchain: boolean
  readonly hostedCheckout: boolean
  /** Notifies us, so that a poller is only the back-up. */
  readonly notifies: boolean
  /**
   * Pays out over Lightning, over the chain. `once`: the same request over Lightning, sent again in the same or another
   * process, pays nothing if the first was paid or is under way, whatever became of its answer. Left out where nothing
   * holds that. `mostFee`: what a Lightning payment may cost, both parts together, at a kind that takes no limit for it;
   * left out where `feeLimitSats` is obeyed.
   */
  readonly payout: {
    readonly lightning: boolean
    readonly chain: boolean
    readonly once?: true
    readonly mostFee?: { readonly sats: number; readonly percent: number }
  }
}

/** How a host stands that did not answer. */
export interface HostReport {
  /** Null for the one that the configuration names; a host of a merchant's own else. */
  readonly host: string | null
  /** Calls in a row that failed. */
  readonly failures: number
  /** Nobody calls it for the moment, but for one call that tries it after the pause. */
  readonly isLeftAlone: boolean
  /** Seconds to the next try; null while it is called. */
  readonly retryAfter: number | null
}

/**
 * One kind of provider at one address. It holds no merchant's key: every call is given the key it acts with, opened
 * just before and dropped after. Every call ends within the configured timeout.
 *
 * All methods throw `ProviderUnavailable` when asking again later may help and `ProviderRefused` when it will not; a
 * lost answer of `createCharge` leaves at worst an invoice that nobody knows, so it may be called again.
 */
export interface Provider {
  readonly kind: KindName
  readonly capabilities: Capabilities
  /** Works without a key; only the sandbox does. */
  readonly keyless: boolean
  createCharge(key: Secret<string> | null, request: ChargeRequest): Promise<Charge>
  /**
   * The same for a fiat amount; there only where the kind converts by itself, and its BOLT 11 amount is then the truth
   * (decision 47).
   */
  createFiatCharge?(key: Secret<string> | null, request: FiatChargeRequest): Promise<Charge>
  /** Null when the provider knows no such charge under this key. */
  lookUp(key: Secret<string> | null, chargeId: string): Promise<ChargeState | null>
  /**
   * Pays out; left out, together with the next, by a kind that only receives. `ProviderRefused` and
   * `ProviderUnavailable` mean that nothing was sent and nothing will be;
   * @throws PayoutUncertain when the answer was lost: it must be looked up, never asked for again (decision 57)
   */
  createPayout?(key: Secret<string> | null, request: PayoutRequest): Promise<Payout>
  /**
   * How the payout of this request stands; null when the provider knows none of its reference under this key. It is
   * given the whole request because some kinds find a payout whose answer was lost only by asking for the same quote
   * again. It never sends. `payoutId` is the provider's own id, null where its answer was lost.
   */
  lookUpPayout?(key: Secret<string> | null, request: PayoutRequest, payoutId: string | null): Promise<Payout | null>
  /**
   * Tries a key as far as making an invoice. A bad key is a verdict, not an error; `ProviderUnavailable` is still
   * thrown.
   */
  validateKey(key: Secret<string>): Promise<KeyVerdict>
  /**
   * Reads a notification; there only where the kind sends some. Null when it is not about an incoming payment. Nothing
   * is trusted before `verify` said yes. `token` is what the called address holds as such, for a kind that signs nothing.
   * @throws ProviderNotificationError 400 when it cannot be read
   */
  readNotification?(headers: ReadonlyHeaders, body: Uint8Array, token: string | null): ProviderNotification | null
  /**
   * What was settled under this key, in one account-wide call: for the poller. A kind that has no such call leaves it
   * out.
   */
  listSettled?(key: Secret<string>, wanted: SettledSince): Promise<SettledList>
  /**
   * Follows what is settled under this key from now on; left out by a kind without such a stream. Calls `settled` for
   * each charge until `signal` ends or the provider ends the stream, and then resolves. What is settled between two
   * streams is not told.
   */
  follow?(key: Secret<string>, signal: AbortSignal, settled: (charge: SettledCharge) => void): Promise<void>
  /**
   * Registers our receiver for notifications, signed with `secret` (10 to 50 characters); there only where the kind is
   * told by registration, not in each charge. What is answered is kept.
   */
  subscribe?(key: Secret<string>, url: string, secret: Secret<string>): Promise<{ readonly subscriptionId: string }>
  /**
   * Whether nobody is called with this key for the moment, or one call only that tries whether it answers again; there
   * only behind circuit breakers.
   */
  isLeftAlone?(key: Secret<string> | null): boolean
  /** Names the host that is called with this key, empty where all are called at one; there only behind circuit breakers. */
  hostOf?(key: Secret<string> | null): string
  /** Hosts that did not answer of late, in this process; there only behind circuit breakers. */
  troubles?(): readonly HostReport[]
  /** Ends connections and threads; calls that are under way fail with `ProviderUnavailable`. */
  close(): Promise<void>
}
