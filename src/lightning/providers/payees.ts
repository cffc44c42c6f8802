import { ConfigurationMissing } from '../../engine/operations/errors.ts'
import { isTest } from '../../engine/operations/operation.ts'
import { Secret, type SealedValue, type Sealer } from '../../platform/keys/secrets.ts'
import { createHash } from 'node:crypto'
import { quietly, type State } from '../../platform/state/state.ts'
import { systemClock, type Clock } from '../../platform/system/clock.ts'
import { isPassedOver, type Payee, type ProviderSeat, type SeatView, type Seat, SeatedPayee } from './payee.ts'
import {
  keyInSlot,
  providerOf,
  type ProviderAccount,
  type ProviderSlot,
  readSlotKeys,
  SlotKeysError,
  type SlotKey
} from './slot-keys.ts'
import {
  ProviderKeyRequired,
  ProviderRefused,
  ProviderUnavailable,
  type ProviderFault
} from '../provider-calls/errors.ts'
import { OtherNetwork, verdictOn } from '../provider-calls/lightning-charge.ts'
import type { KeyVerdict, Provider, KindName } from '../provider-calls/provider.ts'

declare module '../../engine/pipeline/plugin.ts' {
  interface Services {
    readonly payees: Payees
  }
}

export interface ProviderSeats extends Readonly<Record<ProviderSlot, readonly ProviderSeat[]>> {
  /** The sandbox of test accounts; none without it. */
  readonly test?: ProviderSeat | null
}

/** Makers of the operator's invoices, with the reasons of those passed over. */
export interface MakerReport {
  readonly slot: ProviderSlot
  readonly provider: KindName
  /** `used`: makes the next invoice. `standby`: the fallback. */
  readonly use: 'used' | 'standby' | 'passed over'
  /** Null for the others. */
  readonly reason: string | null
  /** Null for the others. */
  readonly since: number | null
}

/** Why the last call with a key failed, and since when (milliseconds since the epoch). */
export interface KeyFailure {
  readonly reason: string
  readonly since: number
}

/** Milliseconds for which a failure is remembered without another call. */
const FAILURE_KEPT = 30 * 86_400_000

/** Resolves who makes an invoice, with which key. Merchants' keys are decrypted per call and dropped. */
export class Payees {
  readonly #seats: Readonly<Record<ProviderSlot, readonly Seat[]>>
  readonly #test: readonly Seat[]
  readonly #sealer: Sealer
  readonly #clock: Pick<Clock, 'now' | 'after'>
  readonly #state: Pick<State, 'get' | 'set' | 'delete'> | null
  readonly #platform: Payee | null
  readonly #refused: ((merchantId: number, slot: ProviderSlot, reason: string) => Promise<void>) | null

  constructor(
    seats: Readonly<Record<ProviderSlot, ProviderSeat | readonly ProviderSeat[]>> & Pick<ProviderSeats, 'test'>,
    sealer: Sealer,
    clock: Pick<Clock, 'now' | 'after'> = systemClock,
    /** Shares failures of merchants' keys; none are kept without it. */
    state: Pick<State, 'get' | 'set' | 'delete'> | null = null,
    refused: ((merchantId: number, slot: ProviderSlot, reason: string) => Promise<void>) | null = null
  ) {
    this.#refused = refused
    this.#seats = { primary: seated('primary', seats.primary), alternate: seated('alternate', seats.alternate) }
    this.#test = seated('primary', seats.test ?? [])
    this.#sealer = sealer
    this.#clock = clock
    this.#state = state
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
          },
          clock
        )
    )
  }

  /**
   * The operator, for configured routes and ping (decision 129).
   * @throws ConfigurationMissing without `lightning.primary.key`, except for the sandbox
   */
  platform(): Payee {
    if (this.#platform === null) throw new ConfigurationMissing('lightning.primary.key')
    return this.#platform
  }

  /** The operator's makers in order; empty with fewer than two. */
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

  /** Whether the account has a key for an invoice's provider. False after the slot lost it. */
  isKeyed(account: ProviderAccount, slot: ProviderSlot, kind: KindName): boolean {
    return this.key(account, slot, kind) !== null
  }

  /**
   * The account at its resolved provider.
   * @throws ProviderKeyRequired without a saved key
   */
  forMerchant(account: ProviderAccount): Payee {
    return this.inSlot(account, providerOf(account))
  }

  /**
   * The account at a slot regardless of its choice; with several keys, the first, then the others as fallbacks.
   * @throws ProviderKeyRequired without a saved key
   */
  inSlot(account: ProviderAccount, slot: ProviderSlot): Payee {
    const sealed = requireKey(account, slot)
    const payee = chained(this.#seatsOf(sealed, slot), (seat, instead) => this.#seatedAt(seat, sealed, instead))
    if (payee === null) throw new ProviderKeyRequired()
    return payee
  }

  /**
   * The account at an invoice's provider, without fallback: sync and refunds stay with the maker (decision 54). No
   * account means the operator. Null after the slot lost the provider.
   * @throws ProviderKeyRequired without its key
   */
  maker(account: ProviderAccount | null, slot: ProviderSlot, kind: KindName): Payee | null {
    const sealed = account === null ? null : requireKey(account, slot)
    const seat = this.#seatsFor(sealed, slot).find(({ name }) => name === kind)
    if (seat === undefined) return null
    if (sealed === null) return isOperated(seat) ? new SeatedPayee(seat, 'operator', () => seat.key, null) : null
    if (this.#keyAt(sealed, seat) === null) throw new ProviderKeyRequired()
    return this.#seatedAt(seat, sealed, null)
  }

  /**
   * Validates an account's saved keys of a slot; null for none. With several, verdicts start with the provider's name
   * and one bad key fails all.
   * @throws ProviderUnavailable without a verdict
   */
  async validate(account: ProviderAccount, slot: ProviderSlot): Promise<KeyVerdict | null> {
    const sealed = keyInSlot(account, slot)
    if (sealed === null) return null
    try {
      const verdict = await this.validateKey(this.#open(sealed), slot, this.#seatsFor(sealed, slot))
      await this.#keep(sealed, verdict.isValid ? null : verdict.message)
      return verdict
    } catch (error) {
      if (isPassedOver(error)) await this.#keep(sealed, error.message)
      throw error
    }
  }

  /** Why the last call with an account's key of a slot failed; null after a success, and for a new key. */
  async failure(account: ProviderAccount, slot: ProviderSlot): Promise<KeyFailure | null> {
    const sealed = keyInSlot(account, slot)
    const text = sealed === null ? undefined : await quietly(this.#state?.get(failureOf(sealed)))
    // Only `#keep` writes it.
    return typeof text === 'string' ? (JSON.parse(text) as KeyFailure) : null
  }

  /** What is wrong with the form of an unsaved key, checked offline; null where nothing is. */
  keyFault(text: Secret<string>, slot: ProviderSlot): string | null {
    try {
      const keys = readSlotKeys(text.reveal().trim(), this.#seats[slot])
      return keys.map(({ seat, key }) => seat.keyFault(key)).find(fault => fault !== undefined) ?? null
    } catch (error) {
      if (error instanceof SlotKeysError) return error.message
      throw error
    }
  }

  /**
   * Validates an unsaved key.
   * @throws as `validate`
   */
  async validateKey(text: Secret<string>, slot: ProviderSlot, seats = this.#seats[slot]): Promise<KeyVerdict> {
    let keys: ReadonlyArray<SlotKey<Seat>>
    try {
      keys = readSlotKeys(text.reveal().trim(), seats)
    } catch (error) {
      if (error instanceof SlotKeysError) return { isValid: false, message: error.message }
      throw error
    }
    const tried = await Promise.allSettled(
      keys.map(async ({ seat, key }) => verdictOn(await seat.provider.validateKey(new Secret(key)), seat.network))
    )
    const said = tried.map((one, index) => ({ one, kind: keys[index]?.seat.kind ?? '' }))
    const failure = tried.find(one => one.status === 'rejected')
    const verdicts = said.flatMap(({ one, kind }) => (one.status === 'fulfilled' ? [{ ...one.value, kind }] : []))
    const isValid = verdicts.every(verdict => verdict.isValid)
    if (failure !== undefined && isValid) throw failure.reason
    const [only] = verdicts
    if (keys.length === 1 && only !== undefined) return { isValid, message: only.message }
    return { isValid, message: verdicts.map(({ kind, message }) => `${kind}: ${message}`).join(' ') }
  }

  /**
   * An account's key, null for the operator, for what `Payee` lacks, such as notifications. Use and drop it. Null
   * without a saved key.
   * @throws UnsealError
   */
  key(account: ProviderAccount | null, slot: ProviderSlot, kind: KindName): Secret<string> | null {
    const sealed = account === null ? null : keyInSlot(account, slot)
    const seat = this.#seatsFor(sealed, slot).find(({ name }) => name === kind)
    if (seat === undefined) return null
    if (account === null) return seat.key
    return sealed === null ? null : this.#keyAt(sealed, seat)
  }

  inOrder(slot: ProviderSlot): readonly SeatView[] {
    return this.#seats[slot]
  }

  provider(slot: ProviderSlot, kind: KindName): Provider | null {
    return this.#seats[slot].find(({ name }) => name === kind)?.provider ?? null
  }

  #operators(): readonly Seat[] {
    return this.#seats.primary.filter(isOperated)
  }

  #note(seat: Seat, error: unknown): void {
    if (error === null) seat.failure = null
    else if (isPassedOver(error))
      seat.failure = { reason: reasonOf(error), since: seat.failure?.since ?? this.#clock.now() }
  }

  #seatedAt(seat: Seat, sealed: SealedValue, instead: Payee | null): Payee {
    // Saving reseals a key, so its ciphertext identifies account and key.
    return new SeatedPayee(
      seat,
      sealed.ciphertext,
      () => this.#keyAt(sealed, seat),
      instead,
      error => {
        if (error !== null && !isPassedOver(error)) return
        const isRefused = error instanceof ProviderRefused && error.reason === 'key'
        void this.#keep(sealed, error === null ? null : reasonOf(error), isRefused)
      }
    )
  }

  async #keep(sealed: SealedValue, reason: string | null, isRefused = false): Promise<void> {
    if (this.#state === null) return
    const key = failureOf(sealed)
    if (reason === null) return void (await quietly(this.#state.delete(key)))
    const kept = await quietly(this.#state.get(key))
    // Only `#keep` writes it.
    const former = typeof kept === 'string' ? (JSON.parse(kept) as KeyFailure) : null
    const since = former?.since ?? this.#clock.now()
    await quietly(this.#state.set(key, JSON.stringify({ reason, since } satisfies KeyFailure), FAILURE_KEPT))
    if (isRefused && former?.reason !== reason)
      await this.#refused?.(
        Number(sealed.place.row),
        sealed.place.column === 'primary_key' ? 'primary' : 'alternate',
        reason
      )
  }

  /** A key of a test account fits the sandbox alone, and no other does unless the slot has it. */
  #seatsFor(sealed: SealedValue | null, slot: ProviderSlot): readonly Seat[] {
    return isTest(sealed?.place.row ?? null) ? this.#test : this.#seats[slot]
  }

  #seatsOf(sealed: SealedValue, slot: ProviderSlot): readonly Seat[] {
    const seats = this.#seatsFor(sealed, slot)
    return seats.length === 1 ? seats : this.#keysIn(sealed, seats).map(({ seat }) => seat)
  }

  #keyAt(sealed: SealedValue, seat: Seat): Secret<string> | null {
    const seats = this.#seatsFor(sealed, seat.slot)
    // The text itself, not a copy.
    if (seats.length === 1) return this.#open(sealed)
    const found = this.#keysIn(sealed, seats).find(one => one.seat.kind === seat.kind)
    return found === undefined ? null : new Secret(found.key)
  }

  /** @throws ProviderRefused 'key' for an ambiguous text */
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
  return [seats]
    .flat()
    .map(({ name, provider, key, network = null, invoicesAhead = 0, polling = null, isShared = false, keyFault }) => ({
      slot,
      name: name ?? provider.kind,
      kind: provider.kind,
      provider,
      key,
      network,
      invoicesAhead,
      polling,
      isShared,
      keyFault: keyFault ?? (() => undefined),
      failure: null
    }))
}

function chained(seats: readonly Seat[], payee: (seat: Seat, instead: Payee | null) => Payee): Payee | null {
  return seats.reduceRight<Payee | null>((instead, seat) => payee(seat, instead), null)
}

function isOperated({ key, provider }: Seat): boolean {
  return key !== null || provider.keyless
}

/** Saving reseals a key, so a new one has no failure. */
function failureOf({ ciphertext }: SealedValue): string {
  return `provider-failure:${createHash('sha256').update(ciphertext).digest('base64url')}`
}

function requireKey(account: ProviderAccount, slot: ProviderSlot): SealedValue {
  const sealed = keyInSlot(account, slot)
  if (sealed === null) throw new ProviderKeyRequired()
  return sealed
}

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
