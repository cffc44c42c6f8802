import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import type { InvoiceNetwork } from '../codecs/bolt11.ts'
import type { FiatCurrency } from '../money/prices.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { CallPriority } from './budgets.ts'

/** A kind's name in `gateway.yaml`, rows and metrics. Rows may name former kinds. */
export type KindName = string

export interface ChargeRequest {
  /** At least 1. */
  readonly amountSats: number
  /** On the invoice; kinds with a shorter limit cut it between characters. */
  readonly description: string
  /**
   * Text that the invoice commits to by its hash instead of the description. Kinds that cannot, or whose node is shared
   * with others, ignore it.
   */
  readonly hashed?: HashedDescription
  /** Kinds may differ; `Charge.expiresAt` is authoritative. */
  readonly expirySeconds: number
  /** Sets how much budget to leave to others; `keyed` by default. */
  readonly priority?: CallPriority
  /** Order details for kinds that show them to payer and payee; not for challenges. */
  readonly order?: ChargeOrder
}

export interface HashedDescription {
  readonly text: string
  /** SHA-256 of the text, in hex. */
  readonly hash: string
}

export interface ChargeOrder {
  readonly orderId: string
  /** Where the kind's checkout page leads after payment. */
  readonly successUrl: string | null
  readonly customerEmail: string | null
  readonly customerName: string | null
  readonly metadata: Readonly<Record<string, string>> | null
}

export interface FiatChargeRequest extends Omit<ChargeRequest, 'amountSats'> {
  readonly currency: FiatCurrency
  /** Positive plain decimal with at most two places. */
  readonly amount: string
}

export interface Charge {
  /** The provider's id; the `charge_id` caveat (decision 116). */
  readonly chargeId: string
  readonly invoice: string
  readonly paymentHash: string
  readonly expiresAt: number
  readonly network: InvoiceNetwork
  /** On-chain address; null where the kind gives none. */
  readonly onchainAddress: string | null
  /** The provider's own page; null for none. */
  readonly checkoutUrl: string | null
}

export interface ChargeState {
  readonly status: 'unpaid' | 'processing' | 'paid' | 'underpaid' | 'expired' | 'refunded'
  readonly receivedSats: number | null
  readonly settledAt: number | null
}

export type PayoutDestination =
  | { readonly type: 'ln'; /** BOLT 11. */ readonly invoice: string }
  | { readonly type: 'chain'; readonly address: string }

/** A refund as a new outgoing payment (contract, What the service does 3). */
export interface PayoutRequest {
  /** Our unique id: never pays twice where the provider can tell, and finds the payout again. */
  readonly reference: string
  readonly chargeId: string
  readonly destination: PayoutDestination
  /** At least 1; fees come on top. */
  readonly amountSats: number
  /**
   * Routing fee limit in satoshis, for kinds without `mostFee`; 0 allows only free routes. The kind's limit by default.
   */
  readonly feeLimitSats?: number
  readonly description: string | null
}

/** `pending`: accepted; `processing`: sent, not final; `confirmed`: broadcast or paid. */
export interface Payout {
  readonly payoutId: string
  readonly status: 'pending' | 'processing' | 'confirmed' | 'failed'
  /** 0 while unknown (decision 61). */
  readonly feeSats: number
  /** Null over Lightning, and before an on-chain broadcast. */
  readonly transactionHash: string | null
  /** Null until final. */
  readonly processedAt: number | null
}

/** Contract, Merchant self-service: Validation rules. */
export interface KeyVerdict {
  readonly isValid: boolean
  readonly message: string
  /** Network of its invoices; absent where unknown or none. */
  readonly network?: InvoiceNetwork
}

/** A parsed notification. It only names a charge: the state is always looked up. */
export interface ProviderNotification {
  /** May belong to another account or be unknown. */
  readonly chargeId: string
  /** Compares in constant time over the raw bytes. */
  verify(secret: Secret<string>): boolean
}

export interface SettledCharge {
  readonly chargeId: string
  /** Null where the list omits it: look it up. */
  readonly state: ChargeState | null
}

export interface SettledSince {
  /** Earlier settlements were seen. */
  readonly since: number
  /** Creation of the oldest awaited charge. */
  readonly oldest: number
  /** Cursor of the last answer; null at first. */
  readonly position: string | null
}

export interface SettledList {
  readonly charges: readonly SettledCharge[]
  /**
   * `whole`: everything settled from `since` to `asOf`, so others were unpaid then. `more`: continue from `position`;
   * nothing counts as seen before. `newest`: may be incomplete, and the kind cannot list more.
   */
  readonly reach: 'whole' | 'more' | 'newest'
  /** When its first part was requested. */
  readonly asOf: number
  /** Cursor for the next call; must hold no secret. */
  readonly position: string | null
}

export interface Capabilities {
  readonly onchain: boolean
  readonly hostedCheckout: boolean
  /** Sends notifications, so polling is only the backup. */
  readonly notifies: boolean
  /**
   * Payouts over Lightning and on chain. `once`: repeating a Lightning request in any process pays nothing if the first
   * was paid or is pending, even after a lost response; absent without a guarantee. `mostFee`: maximum fee, both parts
   * added, for kinds without a limit; absent where `feeLimitSats` is obeyed.
   */
  readonly payout: {
    readonly lightning: boolean
    readonly chain: boolean
    readonly once?: true
    readonly mostFee?: { readonly sats: number; readonly percent: number }
  }
}

export interface HostReport {
  /** Null for the configured one, else a merchant's. */
  readonly host: string | null
  readonly failures: number
  /** Breaker open, except for a probe after the pause. */
  readonly isLeftAlone: boolean
  /** Seconds to the next probe; null while called. */
  readonly retryAfter: number | null
}

/**
 * A provider kind at one address. Holds no merchant's key: each call gets one, decrypted just before and dropped after.
 * Calls end within the configured timeout.
 * Methods throw `ProviderUnavailable` when a retry may help and `ProviderRefused` when not.
 */
export interface Provider {
  readonly kind: KindName
  readonly capabilities: Capabilities
  /** Works without a key (sandbox only). */
  readonly keyless: boolean
  createCharge(key: Secret<string> | null, request: ChargeRequest): Promise<Charge>
  /** For a fiat amount that the kind converts; the BOLT 11 amount is then authoritative (decision 47). */
  createFiatCharge?(key: Secret<string> | null, request: FiatChargeRequest): Promise<Charge>
  /** Null for an unknown charge. */
  lookUp(key: Secret<string> | null, chargeId: string): Promise<ChargeState | null>
  /**
   * Absent, with `lookUpPayout`, in kinds that only receive. `ProviderRefused` and `ProviderUnavailable` mean that
   * nothing was or will be sent.
   * @throws PayoutUncertain when the response was lost: look it up, never resend (decision 57)
   */
  createPayout?(key: Secret<string> | null, request: PayoutRequest): Promise<Payout>
  /**
   * Status of a payout; null for an unknown reference under this key. Takes the whole request because some kinds find a
   * lost payout only by repeating its quote. Never sends. `payoutId`: the provider's, null after a lost response.
   */
  lookUpPayout?(key: Secret<string> | null, request: PayoutRequest, payoutId: string | null): Promise<Payout | null>
  /** Validates a key up to making an invoice. A bad key is a verdict; `ProviderUnavailable` still throws. */
  validateKey(key: Secret<string>): Promise<KeyVerdict>
  /**
   * Reads a notification, where the kind sends some. Null unless about an incoming payment. Trust nothing before
   * `verify`. `token`: from the called address, for kinds that sign nothing.
   * @throws ProviderNotificationError 400 when unreadable
   */
  readNotification?(headers: ReadonlyHeaders, body: Uint8Array, token: string | null): ProviderNotification | null
  listSettled?(key: Secret<string>, wanted: SettledSince): Promise<SettledList>
  /**
   * Streams settlements from now on, where available. Calls `settled` for each until `signal` aborts or the stream
   * ends, then resolves. Settlements between streams are missed.
   */
  follow?(key: Secret<string>, signal: AbortSignal, settled: (charge: SettledCharge) => void): Promise<void>
  /**
   * Registers our receiver, signed with `secret` (10 to 50 characters), where registration is needed. The result is
   * stored.
   */
  subscribe?(key: Secret<string>, url: string, secret: Secret<string>): Promise<{ readonly subscriptionId: string }>
  isLeftAlone?(key: Secret<string> | null): boolean
  /** The host called with this key, empty where all share one; only behind circuit breakers. */
  hostOf?(key: Secret<string> | null): string
  /** Recently failing hosts in this process; only behind circuit breakers. */
  troubles?(): readonly HostReport[]
  /** Closes connections and threads; pending calls fail with `ProviderUnavailable`. */
  close(): Promise<void>
}
