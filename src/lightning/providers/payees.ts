import { ConfigurationMissing } from '../../engine/operations/errors.ts'
import { Secret, type Sealer } from '../../platform/keys/secrets.ts'
import type { InvoiceNetwork } from '../codecs/bolt11.ts'
import { systemClock, type Clock } from '../../platform/system/clock.ts'
import { isPassedOver, type InOrder } from './failover.ts'
import { providerOf, type ProviderAccount, type ProviderSlot, type SealedValue } from './account.ts'
import {
  ProviderKeyRequired,
  ProviderRefused,
  ProviderUnavailable,
  type ProviderFault
} from '../provider-calls/errors.ts'
import type { Polling } from '../kinds/kind.ts'
import { OtherNetwork, requireNetwork, verdictOn } from '../provider-calls/network.ts'
import { readSlotKeys, SlotKeysError, type SlotKey } from './slot-keys.ts'
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

declare module '../../engine/pipeline/services.ts' {
  interface Services {
    readonly payees: Payees
  }
}

/** How invoices may be made for an account before anybody asks for them. */
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
export interface Payee extends InOrder<Payee> {
  readonly slot: ProviderSlot
  /** What invoices are kept under as made by it: the seat's name, which is the kind unless the file says another. */
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

/** A provider of a slot of `lightning` in the configuration, with the operator's own key where it has one. */
export interface ProviderSeat {
  /** What invoices are kept under as made by it; no other of its slot has it. The provider's kind where it is left out. */
  readonly name?: string
  readonly provider: Provider
  readonly key: Secret<string> | null
  /** What invoices must be of, and keys; any network where it is left out. */
  readonly network?: InvoiceNetwork | null
  /** Invoices of one price and description that may be made before anybody asks; none where it is left out. */
  readonly invoicesAhead?: number
  /**
   * How the poller may ask; left out where it need not, because the provider tells of every payment within this
   * process.
   */
  readonly polling?: Polling
  /** What is wrong with the form of a key, by which the keys of an account are told apart; takes any where left out. */
  keyFault?(key: string): string | undefined
}

/** The providers of both slots, in the order in which they are asked. */
export type ProviderSeats = Readonly<Record<ProviderSlot, readonly ProviderSeat[]>>

/** A provider of a slot, as far as it is known without a key. */
export interface SeatView {
  readonly slot: ProviderSlot
  /** As `Payee.kind`. */
  readonly name: KindName
  readonly provider: Provider
  /** How the poller may ask; null where it need not. */
  readonly polling: Polling | null
}

/** Who makes the operator's invoices, and who does not and why. */
export interface MakerReport {
  readonly slot: ProviderSlot
  readonly provider: KindName
  /** `used`: the next invoice is asked of it. `standby`: it is asked where that fails. */
  readonly use: 'used' | 'standby' | 'passed over'
  /** Why it is passed over; null for the others. */
  readonly reason: string | null
  /** Since when, in milliseconds since the epoch; null for the others. */
  readonly since: number | null
}

interface Seat extends SeatView {
  readonly kind: KindName
  readonly key: Secret<string> | null
  readonly network: InvoiceNetwork | null
  readonly invoicesAhead: number
  keyFault(key: string): string | undefined
  /** What the operator's last invoice there came to; null when it was made. */
  failure: { readonly reason: string; readonly since: number } | null
}

/**
 * Finds who makes an invoice, with which key. A merchant's key is decrypted at the call itself and dropped after it.
 */
export class Payees {
  readonly #seats: Readonly<Record<ProviderSlot, readonly Seat[]>>
  readonly #sealer: Sealer
  readonly #clock: Pick<Clock, 'now'>
  readonly #platform: Payee | null

  constructor(
    seats: Readonly<Record<ProviderSlot, ProviderSeat | readonly ProviderSeat[]>>,
    sealer: Sealer,
    clock: Pick<Clock, 'now'> = systemClock
  ) {
    this.#seats = { primary: seated('primary', seats.primary), alternate: seated('alternate', seats.alternate) }
    this.#sealer = sealer
    this.#clock = clock
    this.#platform = chained(
      this.#operators(),
      (seat, instead) =>
        new SeatedPayee(
          seat,
          'operator',
          () => seat.key,
          instead,
          error => {
            this.#note(seat, error)
          }
        )
    )
  }

  /**
   * The operator, for routes that are priced in the configuration and for ping (decision 129).
   * @throws ConfigurationMissing without `lightning.primary.key`, which only the sandbox can do without
   */
  platform(): Payee {
    if (this.#platform === null) throw new ConfigurationMissing('lightning.primary.key')
    return this.#platform
  }

  /**
   * Who makes the operator's invoices, in order; empty where there is but one to do so. What an account's own providers
   * do is not in it.
   */
  report(): MakerReport[] {
    const seats = this.#operators()
    if (seats.length < 2) return []
    const used = seats.find(({ failure }) => failure === null)
    return seats.map(seat => ({
      slot: seat.slot,
      provider: seat.name,
      use: seat === used ? 'used' : seat.failure === null ? 'standby' : 'passed over',
      reason: seat.failure?.reason ?? null,
      since: seat.failure?.since ?? null
    }))
  }

  /** Whether the account has a key for the provider that made an invoice. False where the slot has it no more. */
  isKeyed(account: ProviderAccount, slot: ProviderSlot, kind: KindName): boolean {
    return this.key(account, slot, kind) !== null
  }

  /** The account at the provider that resolution gives. @throws ProviderKeyRequired when no key is saved for it */
  forMerchant(account: ProviderAccount): Payee {
    return this.inSlot(account, providerOf(account))
  }

  /**
   * The account at one slot, whatever its choice is now; where it has keys for several providers there, the first, with
   * the others `instead` of it. @throws ProviderKeyRequired when no key is saved for the slot
   */
  inSlot(account: ProviderAccount, slot: ProviderSlot): Payee {
    const sealed = requireKey(account, slot)
    const payee = chained(this.#seatsOf(sealed, slot), (seat, instead) => this.#seatedAt(seat, sealed, instead))
    if (payee === null) throw new ProviderKeyRequired()
    return payee
  }

  /**
   * The account at the provider that made an invoice, and nobody instead of it: what made one stays with it for sync and
   * refunds (decision 54). No account is the operator. Null where the slot has no such provider any more.
   * @throws ProviderKeyRequired when the account has no key for it
   */
  maker(account: ProviderAccount | null, slot: ProviderSlot, kind: KindName): Payee | null {
    const seat = this.#seats[slot].find(({ name }) => name === kind)
    if (account === null)
      return seat === undefined || !isOperated(seat) ? null : new SeatedPayee(seat, 'operator', () => seat.key, null)
    const sealed = requireKey(account, slot)
    if (seat === undefined) return null
    if (this.#keyAt(sealed, seat) === null) throw new ProviderKeyRequired()
    return this.#seatedAt(seat, sealed, null)
  }

  /**
   * Tries the account's saved keys of a slot; null when none is saved. Of several, what is said of each begins with the
   * name of its provider, and one that is bad makes all of them so.
   * @throws ProviderUnavailable: that is no verdict on the key
   */
  async validate(account: ProviderAccount, slot: ProviderSlot): Promise<KeyVerdict | null> {
    const sealed = keyOf(account, slot)
    return sealed === null ? null : await this.validateKey(this.#open(sealed), slot)
  }

  /** Tries a key of a slot that need not be saved. @throws as `validate` */
  async validateKey(text: Secret<string>, slot: ProviderSlot): Promise<KeyVerdict> {
    let keys: ReadonlyArray<SlotKey<Seat>>
    try {
      keys = readSlotKeys(text.reveal().trim(), this.#seats[slot])
    } catch (error) {
      if (error instanceof SlotKeysError) return { isValid: false, message: error.message }
      throw error
    }
    const tried = await Promise.allSettled(
      keys.map(async ({ seat, key }) => verdictOn(await seat.provider.validateKey(new Secret(key)), seat.network))
    )
    const said = tried.map((one, index) => ({ one, kind: keys[index]?.seat.kind ?? '' }))
    const away = tried.find(one => one.status === 'rejected')
    const verdicts = said.flatMap(({ one, kind }) => (one.status === 'fulfilled' ? [{ ...one.value, kind }] : []))
    const isValid = verdicts.every(verdict => verdict.isValid)
    if (away !== undefined && isValid) throw away.reason
    const [only] = verdicts
    if (keys.length === 1 && only !== undefined) return { isValid, message: only.message }
    return { isValid, message: verdicts.map(({ kind, message }) => `${kind}: ${message}`).join(' ') }
  }

  /**
   * The key with which an account's provider is called, null for the account: the operator. For what a `Payee` cannot
   * do, such as notifications; use it at once and drop it. Null when none is saved. @throws UnsealError
   */
  key(account: ProviderAccount | null, slot: ProviderSlot, kind: KindName): Secret<string> | null {
    const seat = this.#seats[slot].find(({ name }) => name === kind)
    if (seat === undefined) return null
    if (account === null) return seat.key
    const sealed = keyOf(account, slot)
    return sealed === null ? null : this.#keyAt(sealed, seat)
  }

  /** The providers in a slot, for what is known of them without a key. */
  inOrder(slot: ProviderSlot): readonly SeatView[] {
    return this.#seats[slot]
  }

  /** The provider in a slot that invoices are kept under; null where there is none any more. */
  provider(slot: ProviderSlot, kind: KindName): Provider | null {
    return this.#seats[slot].find(({ name }) => name === kind)?.provider ?? null
  }

  /** Providers of the primary slot that the operator has an account at. */
  #operators(): readonly Seat[] {
    return this.#seats.primary.filter(isOperated)
  }

  #note(seat: Seat, error: unknown): void {
    if (error === null) seat.failure = null
    else if (isPassedOver(error))
      seat.failure = { reason: reasonOf(error), since: seat.failure?.since ?? this.#clock.now() }
  }

  #seatedAt(seat: Seat, sealed: SealedValue, instead: Payee | null): Payee {
    // A key that is saved is sealed anew, so that its ciphertext is no other account's and no other key's.
    return new SeatedPayee(seat, sealed.ciphertext, () => this.#keyAt(sealed, seat), instead)
  }

  /** Where the account is paid in a slot, in its own order. Opens its keys only where it may have several. */
  #seatsOf(sealed: SealedValue, slot: ProviderSlot): readonly Seat[] {
    const seats = this.#seats[slot]
    return seats.length === 1 ? seats : this.#keysIn(sealed, seats).map(({ seat }) => seat)
  }

  #keyAt(sealed: SealedValue, seat: Seat): Secret<string> | null {
    const seats = this.#seats[seat.slot]
    // The whole text, and no copy of it.
    if (seats.length === 1) return this.#open(sealed)
    const found = this.#keysIn(sealed, seats).find(one => one.seat.kind === seat.kind)
    return found === undefined ? null : new Secret(found.key)
  }

  /** @throws ProviderRefused 'key' for a text that does not say which key is whose */
  #keysIn(sealed: SealedValue, seats: readonly Seat[]): ReadonlyArray<SlotKey<Seat>> {
    try {
      return readSlotKeys(this.#open(sealed).reveal(), seats)
    } catch (error) {
      throw error instanceof SlotKeysError ? new ProviderRefused('key', error.message) : error
    }
  }

  #open(sealed: SealedValue): Secret<string> {
    return this.#sealer.open(sealed.ciphertext, sealed.place)
  }
}

function seated(slot: ProviderSlot, seats: ProviderSeat | readonly ProviderSeat[]): readonly Seat[] {
  return [seats].flat().map(({ name, provider, key, network = null, invoicesAhead = 0, polling = null, keyFault }) => ({
    slot,
    name: name ?? provider.kind,
    kind: provider.kind,
    provider,
    key,
    network,
    invoicesAhead,
    polling,
    keyFault: keyFault ?? (() => undefined),
    failure: null
  }))
}

/** Each with those behind it instead of it; null for none. */
function chained(seats: readonly Seat[], payee: (seat: Seat, instead: Payee | null) => Payee): Payee | null {
  return seats.reduceRight<Payee | null>((instead, seat) => payee(seat, instead), null)
}

/** Whether the operator has an account there. */
function isOperated({ key, provider }: Seat): boolean {
  return key !== null || provider.keyless
}

function keyOf(account: ProviderAccount, slot: ProviderSlot): SealedValue | null {
  return slot === 'primary' ? account.primaryKey : account.alternateKey
}

function requireKey(account: ProviderAccount, slot: ProviderSlot): SealedValue {
  const sealed = keyOf(account, slot)
  if (sealed === null) throw new ProviderKeyRequired()
  return sealed
}

/** Why nobody made an invoice there, for operators. */
function reasonOf(error: unknown): string {
  if (error instanceof OtherNetwork) return 'makes invoices of another network'
  if (error instanceof ProviderRefused) return error.reason === 'request' ? 'refused an invoice' : 'refuses its key'
  const fault = error instanceof ProviderUnavailable ? error.fault : 'other'
  return REASONS[fault]
}

const REASONS: Readonly<Record<ProviderFault, string>> = {
  network: 'cannot be reached',
  timeout: 'does not answer in time',
  server: 'answers that it cannot do its work',
  rate: 'its budget of calls is used up',
  size: 'answers more than is read',
  open: 'did not answer several calls in a row and is left alone',
  other: 'cannot make invoices'
}

class SeatedPayee implements Payee {
  readonly slot: ProviderSlot
  readonly kind: KindName
  readonly capabilities: Capabilities
  readonly ahead: InvoicesAhead | null
  readonly instead: Payee | null
  readonly createFiatInvoice: ((request: FiatChargeRequest) => Promise<Charge>) | null
  readonly #provider: Provider
  readonly #network: InvoiceNetwork | null
  readonly #key: () => Secret<string> | null
  readonly #told: ((error: unknown) => void) | undefined

  /** `key` opens it at each call; `account` names it, and whose it is. `told`: what came of it, null when it was made. */
  constructor(
    seat: Seat,
    account: string,
    key: () => Secret<string> | null,
    instead: Payee | null,
    told?: (error: unknown) => void
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
    this.#told = told
    const convert = provider.createFiatCharge?.bind(provider)
    this.createFiatInvoice =
      convert === undefined ? null : async request => await this.#noted(this.#made(convert(this.#key(), request)))
  }

  async createInvoice(request: ChargeRequest): Promise<Charge> {
    const made = this.#made(this.#provider.createCharge(this.#key(), request))
    // One that is made ahead may be refused so that the budget is left to those who wait.
    return await (request.standing === 'ahead' ? made : this.#noted(made))
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

  async #made(asked: Promise<Charge>): Promise<Charge> {
    return requireNetwork(await asked, this.#network)
  }

  async #noted(made: Promise<Charge>): Promise<Charge> {
    try {
      const charge = await made
      this.#told?.(null)
      return charge
    } catch (error) {
      this.#told?.(error)
      throw error
    }
  }
}

function onlyReceives(): ProviderRefused {
  return new ProviderRefused('request', 'The payment provider only receives: nothing can be paid out through it.')
}
