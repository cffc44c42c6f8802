import { Secret } from '../../platform/keys/secrets.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { InvoiceNetwork } from '../codecs/bolt11.ts'
import type { ProviderSlot } from './slot-keys.ts'
import { ProviderRefused, ProviderUnavailable } from '../provider-calls/errors.ts'
import type { Polling } from '../kinds/kind.ts'
import { requireNetwork } from '../provider-calls/lightning-charge.ts'
import type {
  Capabilities,
  Charge,
  ChargeRequest,
  ChargeState,
  FiatChargeRequest,
  Payout,
  PayoutRequest,
  Provider,
  KindName
} from '../provider-calls/provider.ts'
import { Unavailable } from '../../engine/operations/errors.ts'

export interface InvoiceStock {
  /** Names account and key: invoices of one key are never handed out after the key changes. */
  readonly account: string
  /** Per price and description, at least 1. */
  readonly most: number
  /** Whether the breaker is open, so that payments cannot be verified. */
  isLeftAlone(): boolean
}

/**
 * Receives an invoice's money and pays refunds: an account at its provider. Snapshot of the account; do not keep it.
 * Throws as `Provider` does.
 */
export interface Payee extends InOrder<Payee> {
  readonly slot: ProviderSlot
  /** Stored with invoices: the seat's name, by default its kind. */
  readonly kind: KindName
  readonly capabilities: Capabilities
  /** Null to make none ahead. */
  readonly ahead: InvoiceStock | null
  createInvoice(request: ChargeRequest): Promise<Charge>
  /** Null where the kind takes only satoshis. */
  readonly createFiatInvoice: ((request: FiatChargeRequest) => Promise<Charge>) | null
  lookUp(chargeId: string): Promise<ChargeState | null>
  payOut(request: PayoutRequest): Promise<Payout>
  lookUpPayout(request: PayoutRequest, payoutId: string | null): Promise<Payout | null>
}

/** A configured provider of a slot, with the operator's key if any. */
export interface ProviderSeat {
  /** Stored with invoices, unique in its slot; by default the kind. */
  readonly name?: string
  readonly provider: Provider
  readonly key: Secret<string> | null
  /** Required network of invoices and keys; any by default. */
  readonly network?: InvoiceNetwork | null
  /** Per price and description; none by default. */
  readonly invoicesAhead?: number
  /** Absent where every payment is reported in process. */
  readonly polling?: Polling
  /** Others may make invoices at its node; not by default. */
  readonly isShared?: boolean
  /** Fault of a key's form, which tells an account's keys apart; accepts any by default. */
  keyFault?(key: string): string | undefined
}

export interface SeatView {
  readonly slot: ProviderSlot
  readonly name: KindName
  readonly provider: Provider
  /** Null where polling is unnecessary. */
  readonly polling: Polling | null
  readonly isShared: boolean
  /** Why the operator's last invoice failed; null after a success. */
  readonly failure: { readonly reason: string; readonly since: number } | null
}

export interface Seat extends SeatView {
  readonly kind: KindName
  readonly key: Secret<string> | null
  readonly network: InvoiceNetwork | null
  readonly invoicesAhead: number
  keyFault(key: string): string | undefined
  failure: SeatView['failure']
}

/** Milliseconds after which an unanswered call counts as failing; it may still succeed. */
const SLOW = 4_000

export class SeatedPayee implements Payee {
  readonly slot: ProviderSlot
  readonly kind: KindName
  readonly capabilities: Capabilities
  readonly ahead: InvoiceStock | null
  readonly instead: Payee | null
  readonly createFiatInvoice: ((request: FiatChargeRequest) => Promise<Charge>) | null
  readonly #provider: Provider
  readonly #network: InvoiceNetwork | null
  readonly #key: () => Secret<string> | null
  readonly #onOutcome: ((error: unknown) => void) | undefined
  readonly #clock: Pick<Clock, 'after'> | undefined

  /**
   * `key` decrypts per call; `account` names it and its owner. `told` gets the outcome, null for success; with `clock`
   * also a call without an answer for `SLOW`.
   */
  constructor(
    seat: Seat,
    account: string,
    key: () => Secret<string> | null,
    instead: Payee | null,
    onOutcome?: (error: unknown) => void,
    clock?: Pick<Clock, 'after'>
  ) {
    const { slot, name, provider, network, invoicesAhead: most } = seat
    this.ahead =
      most === 0
        ? null
        : { account: `${slot} ${name} ${account}`, most, isLeftAlone: () => provider.isLeftAlone?.(key()) ?? false }
    this.slot = slot
    this.kind = name
    this.instead = instead
    this.capabilities = provider.capabilities
    this.#provider = provider
    this.#network = network
    this.#key = key
    this.#onOutcome = onOutcome
    this.#clock = clock
    const convert = provider.createFiatCharge?.bind(provider)
    this.createFiatInvoice =
      convert === undefined ? null : async request => await this.#noted(this.#made(convert(this.#key(), request)))
  }

  async createInvoice(request: ChargeRequest): Promise<Charge> {
    return await this.#noted(
      this.#made(this.#provider.createCharge(this.#key(), request)),
      request.priority === 'ahead'
    )
  }

  async lookUp(chargeId: string): Promise<ChargeState | null> {
    return this.#provider.lookUp(this.#key(), chargeId)
  }

  async payOut(request: PayoutRequest): Promise<Payout> {
    if (this.#provider.createPayout === undefined) throw onlyReceives()
    return this.#provider.createPayout(this.#key(), request)
  }

  async lookUpPayout(request: PayoutRequest, payoutId: string | null): Promise<Payout | null> {
    if (this.#provider.lookUpPayout === undefined) throw onlyReceives()
    return this.#provider.lookUpPayout(this.#key(), request, payoutId)
  }

  async #made(pending: Promise<Charge>): Promise<Charge> {
    return requireNetwork(await pending, this.#network)
  }

  /** Invoices made ahead may be refused to leave budget for waiting buyers; an outage shows before they are sold out. */
  async #noted(made: Promise<Charge>, isAhead = false): Promise<Charge> {
    const slow = this.#clock?.after(SLOW, () =>
      this.#onOutcome?.(new ProviderUnavailable(undefined, undefined, undefined, 'timeout'))
    )
    try {
      const charge = await made
      this.#onOutcome?.(null)
      return charge
    } catch (error) {
      if (!isAhead || isOutage(error)) this.#onOutcome?.(error)
      throw error
    } finally {
      slow?.cancel()
    }
  }
}

function onlyReceives(): ProviderRefused {
  return new ProviderRefused('request', 'The payment provider only receives: nothing can be paid out through it.')
}

export interface InOrder<Next> {
  /** Null or absent for the last. */
  readonly instead?: Next | null
}

/**
 * Tries providers in order. Passes over an open breaker, an exhausted budget, no answer, or a refused key; the first
 * two fail without a call, so no check is needed beforehand. A refused request is final, as it would be anywhere.
 *
 * @throws the error of the only one; else the error with the shortest wait
 */
export async function byFirst<Maker extends InOrder<Maker>, T>(
  first: Maker,
  make: (maker: Maker) => Promise<T>
): Promise<T> {
  let thrown: Error | null = null
  for (let maker: Maker | null = first; maker !== null; maker = maker.instead ?? null) {
    try {
      return await make(maker)
    } catch (error) {
      if (!isPassedOver(error)) throw error
      if (thrown === null || waitOf(error) < waitOf(thrown)) thrown = error
    }
  }
  throw thrown ?? new TypeError('no payee was asked')
}

export function isPassedOver(error: unknown): error is Error {
  return error instanceof Unavailable || (error instanceof ProviderRefused && error.reason !== 'request')
}

function isOutage(error: unknown): boolean {
  return error instanceof ProviderUnavailable
    ? error.fault !== 'rate' && error.fault !== 'other'
    : error instanceof ProviderRefused && error.reason !== 'request'
}

function waitOf(error: Error): number {
  return error instanceof Unavailable ? Number(error.headers[1] ?? Infinity) : Infinity
}
