import { ConfigurationMissing } from '../gateway/errors.ts'
import type { Sealer, Secret } from '../keys/secrets.ts'
import { providerOf, type ProviderAccount, type ProviderSlot, type SealedValue } from './account.ts'
import { ProviderKeyRequired, ProviderRefused } from './errors.ts'
import type { Polling } from './kind.ts'
import type {
  Capabilities,
  Charge,
  ChargeRequest,
  ChargeState,
  FiatChargeRequest,
  KeyVerdict,
  Payout,
  PayoutRequest,
  Provider,
  KindName
} from './provider.ts'

declare module '../gateway/services.ts' {
  interface Services {
    readonly payees: Payees
  }
}

/** How invoices may be made for an account before anybody asks for them (decision 246). */
export interface InvoicesAhead {
  /** Names account and key: what was made with one key is never handed out for an account that has another by now. */
  readonly account: string
  /** How many of one price and description, at least 1. */
  readonly most: number
  /**
   * Whether the provider is left alone since it did not answer: nobody knows then whether an invoice of it can be paid.
   */
  isLeftAlone(): boolean
}

/**
 * Who gets the money of an invoice, and pays refunds: an account at its provider. Made for one account as it stands
 * now; do not keep it. All methods throw what `Provider`'s do.
 */
export interface Payee {
  readonly slot: ProviderSlot
  readonly kind: KindName
  readonly capabilities: Capabilities
  /** Null where none are made before somebody asks. */
  readonly ahead: InvoicesAhead | null
  createInvoice(request: ChargeRequest): Promise<Charge>
  /** Null where the kind takes satoshis alone. */
  readonly createFiatInvoice: ((request: FiatChargeRequest) => Promise<Charge>) | null
  lookUp(chargeId: string): Promise<ChargeState | null>
  payOut(request: PayoutRequest): Promise<Payout>
  lookUpPayout(request: PayoutRequest, payoutId: string | null): Promise<Payout | null>
}

/** A slot of `lightning` in the configuration, with the operator's own key where it has one. */
export interface ProviderSeat {
  readonly provider: Provider
  readonly key: Secret<string> | null
  /** Invoices of one price and description that may be made before anybody asks; none where it is left out. */
  readonly invoicesAhead?: number
  /**
   * How the poller may ask; left out where it need not, because the provider tells of every payment within this
   * process.
   */
  readonly polling?: Polling
}

/**
 * Finds who makes an invoice, with which key. A merchant's key is decrypted at the call itself and dropped after it.
 */
export class Payees {
  readonly #seats: Readonly<Record<ProviderSlot, ProviderSeat>>
  readonly #sealer: Sealer
  readonly #platform: Payee

  constructor(seats: Readonly<Record<ProviderSlot, ProviderSeat>>, sealer: Sealer) {
    this.#seats = seats
    this.#sealer = sealer
    const { primary } = seats
    this.#platform = new SeatedPayee('primary', primary, 'operator', () => primary.key)
  }

  /**
   * The operator, for routes that are priced in the configuration and for ping (decision 129).
   * @throws ConfigurationMissing without `lightning.primary.key`, which only the sandbox can do without
   */
  platform(): Payee {
    const { provider, key } = this.#seats.primary
    if (key === null && !provider.keyless) throw new ConfigurationMissing('lightning.primary.key')
    return this.#platform
  }

  /** The account at the provider that resolution gives. @throws ProviderKeyRequired when no key is saved for it */
  forMerchant(account: ProviderAccount): Payee {
    return this.inSlot(account, providerOf(account))
  }

  /**
   * The account at one slot, whatever its choice is now: what made an invoice stays with it for sync and refunds
   * (decision 54). @throws ProviderKeyRequired when no key is saved for the slot
   */
  inSlot(account: ProviderAccount, slot: ProviderSlot): Payee {
    const sealed = keyOf(account, slot)
    if (sealed === null) throw new ProviderKeyRequired()
    // A key that is saved is sealed anew, so that its ciphertext is no other account's and no other key's.
    return new SeatedPayee(slot, this.#seats[slot], sealed.ciphertext, () => this.#open(sealed))
  }

  /**
   * Tries the account's saved key of a slot; null when none is saved.
   * @throws ProviderUnavailable: that is no verdict on the key
   */
  async validate(account: ProviderAccount, slot: ProviderSlot): Promise<KeyVerdict | null> {
    const sealed = keyOf(account, slot)
    return sealed === null ? null : await this.#seats[slot].provider.validateKey(this.#open(sealed))
  }

  /**
   * The key with which an account's slot is called, null for the account: the operator. For what a `Payee` cannot do,
   * such as notifications; use it at once and drop it. Null when none is saved. @throws UnsealError
   */
  key(account: ProviderAccount | null, slot: ProviderSlot): Secret<string> | null {
    if (account === null) return this.#seats[slot].key
    const sealed = keyOf(account, slot)
    return sealed === null ? null : this.#open(sealed)
  }

  /** Whether the account has a key for the slot. */
  isKeyed(account: ProviderAccount, slot: ProviderSlot): boolean {
    return keyOf(account, slot) !== null
  }

  /** The provider in a slot, for what is known of it without a key. */
  provider(slot: ProviderSlot): Provider {
    return this.#seats[slot].provider
  }

  /** How the poller may ask in a slot; null where it need not. */
  polling(slot: ProviderSlot): Polling | null {
    return this.#seats[slot].polling ?? null
  }

  #open(sealed: SealedValue): Secret<string> {
    return this.#sealer.open(sealed.ciphertext, sealed.place)
  }
}

function keyOf(account: ProviderAccount, slot: ProviderSlot): SealedValue | null {
  return slot === 'primary' ? account.primaryKey : account.alternateKey
}

class SeatedPayee implements Payee {
  readonly slot: ProviderSlot
  readonly kind: KindName
  readonly capabilities: Capabilities
  readonly ahead: InvoicesAhead | null
  readonly createFiatInvoice: ((request: FiatChargeRequest) => Promise<Charge>) | null
  readonly #provider: Provider
  readonly #key: () => Secret<string> | null

  /** `key` opens it at each call; `account` names it, and whose it is. */
  constructor(slot: ProviderSlot, seat: ProviderSeat, account: string, key: () => Secret<string> | null) {
    const { provider, invoicesAhead: most = 0 } = seat
    this.ahead =
      most === 0
        ? null
        : { account: `${slot} ${account}`, most, isLeftAlone: () => provider.isLeftAlone?.(key()) ?? false }
    this.slot = slot
    this.kind = provider.kind
    this.capabilities = provider.capabilities
    this.#provider = provider
    this.#key = key
    const convert = provider.createFiatCharge?.bind(provider)
    this.createFiatInvoice = convert === undefined ? null : async request => convert(this.#key(), request)
  }

  async createInvoice(request: ChargeRequest): Promise<Charge> {
    return this.#provider.createCharge(this.#key(), request)
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
}

function onlyReceives(): ProviderRefused {
  return new ProviderRefused('request', 'The payment provider only receives: nothing can be paid out through it.')
}
