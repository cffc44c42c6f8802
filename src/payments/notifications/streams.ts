import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import { freshId } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { KindName, Provider, SettledCharge } from '../../lightning/provider-calls/provider.ts'
import type { Charges } from './charges.ts'
import { ownerKey, ownerOfName, type Owner } from './registration.ts'

export interface SeatDependencies {
  readonly slot: ProviderSlot
  readonly kind: KindName
  readonly provider: Provider
  readonly clock: Clock
  readonly log: Log
  readonly payees: Payees
  readonly charges: Charges
  readonly merchants: Pick<Merchants, 'byId'>
}

interface StreamsDependencies extends SeatDependencies {
  readonly database: Database
}

interface Followed {
  readonly owner: Owner
  wantedUntil: number
  readonly end: AbortController
  done: Promise<void>
}

/** Streams per process, one connection each. Further accounts are only polled. */
const MAX_STREAMS = 200
/** Milliseconds for which an account is followed after it was last wanted. */
const WANTED = 60_000
/** Lease renewal in milliseconds, and lease TTL in seconds. */
const RENEW_EVERY = 10_000
const LEASE = 30
/** First and longest reconnect delay. */
const RESTS = { first: 1_000, longest: 60_000 }
/** Milliseconds of batching, and the most charges of a batch; the listing covers the rest. */
const GATHER = 100
const MAX_GATHERED = 200

/**
 * Follows providers' streams of settled invoices, so that a payment is recorded within a second. Best effort: the
 * poller's next listing finds what a stream misses. A lease in the database lets one process follow an account.
 */
export class Streams {
  readonly #dependencies: StreamsDependencies
  readonly #holder = freshId()
  readonly #followed = new Map<string, Followed>()
  #isClosed = false

  constructor(dependencies: StreamsDependencies) {
    this.#dependencies = dependencies
  }

  want(accounts: readonly string[]): void {
    if (this.#isClosed || this.#dependencies.provider.follow === undefined) return
    const wantedUntil = this.#dependencies.clock.now() + WANTED
    for (const account of accounts) {
      const known = this.#followed.get(account)
      const owner = ownerOfName(account)
      if (known !== undefined) known.wantedUntil = wantedUntil
      else if (owner !== undefined && this.#followed.size < MAX_STREAMS) {
        const followed: Followed = { owner, wantedUntil, end: new AbortController(), done: Promise.resolve() }
        this.#followed.set(account, followed)
        followed.done = this.#keep(account, followed)
      }
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const all = [...this.#followed.values()]
    for (const { end } of all) end.abort()
    await Promise.all(all.map(({ done }) => done))
  }

  async #keep(account: string, followed: Followed): Promise<void> {
    const { clock, log, slot, kind } = this.#dependencies
    const { end, owner } = followed
    let rest = RESTS.first
    try {
      while (!end.signal.aborted && followed.wantedUntil > clock.now() && (await this.#lease(account))) {
        const since = clock.monotonic()
        try {
          const key = await ownerKey(owner, this.#dependencies, this.#dependencies)
          if (key === null) break
          await this.#follow(account, followed, key)
        } catch (error) {
          log.debug({ err: error, slot, provider: kind, merchantId: owner }, 'the stream of a provider ended')
        }
        // Resets the backoff after a long connection.
        rest = clock.monotonic() - since > RESTS.longest ? RESTS.first : Math.min(rest * 2, RESTS.longest)
        await this.#pause(rest, end.signal)
      }
      await this.#dependencies.database
        .sql`delete from provider_streams where seat = ${this.#seat} and account = ${account} and holder = ${this.#holder}`
    } catch (error) {
      log.warn({ err: error, slot, provider: kind }, 'the lease of a stream could not be written; it is tried again')
    } finally {
      this.#followed.delete(account)
    }
  }

  async #follow(account: string, followed: Followed, key: Secret<string>): Promise<void> {
    const { slot, kind, clock, provider, log, charges } = this.#dependencies
    const { owner, end } = followed
    const over = new AbortController()
    const gathered = new Map<string, SettledCharge>()
    let observing = Promise.resolve()
    let timer: Timer | null = null
    const record = async (settled: readonly SettledCharge[]): Promise<void> => {
      try {
        await charges.observeSettled({ slot, kind, owner, provider, key }, settled, clock.now())
      } catch (error) {
        log.warn(
          { err: error, merchantId: owner },
          'payments of a stream could not be recorded; the listing finds them'
        )
      }
    }
    const observe = (): void => {
      timer = null
      const settled = [...gathered.values()]
      gathered.clear()
      observing = observing.then(() => record(settled))
    }
    let renewing = Promise.resolve()
    const renewal = clock.every(RENEW_EVERY, () => {
      renewing = renewing.then(() => (over.signal.aborted ? undefined : this.#renew(account, followed, key, over)))
    })
    try {
      await provider.follow?.(key, AbortSignal.any([end.signal, over.signal]), charge => {
        if (gathered.size >= MAX_GATHERED) return over.abort()
        gathered.set(charge.chargeId, charge)
        timer ??= clock.after(GATHER, observe)
      })
    } finally {
      renewal.cancel()
      ;(timer as Timer | null)?.cancel()
      if (gathered.size > 0) observe()
      // A renewal in flight would retake the released lease.
      over.abort()
      await renewing
      await observing
    }
  }

  async #renew(account: string, followed: Followed, key: Secret<string>, over: AbortController): Promise<void> {
    try {
      if (await this.#isHeld(account, followed, key)) return
    } catch (error) {
      this.#dependencies.log.warn(
        { err: error, merchantId: followed.owner },
        'the lease of a stream could not be renewed; it ends'
      )
    }
    over.abort()
  }

  async #isHeld(account: string, { owner, wantedUntil }: Followed, key: Secret<string>): Promise<boolean> {
    if (wantedUntil <= this.#dependencies.clock.now()) return false
    return (
      (await ownerKey(owner, this.#dependencies, this.#dependencies))?.reveal() === key.reveal() &&
      (await this.#lease(account))
    )
  }

  async #lease(account: string): Promise<boolean> {
    const taken = await this.#dependencies.database.sql`
      insert into provider_streams as held (seat, account, holder, until)
      values (${this.#seat}, ${account}, ${this.#holder}, now() + ${LEASE} * interval '1 s')
      on conflict (seat, account) do update set holder = excluded.holder, until = excluded.until
        where held.holder = excluded.holder or held.until <= now()`
    return taken.count === 1
  }

  get #seat(): string {
    return `${this.#dependencies.slot} ${this.#dependencies.kind}`
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const over = Promise.withResolvers<void>()
    const timer = this.#dependencies.clock.after(ms, over.resolve)
    signal.addEventListener('abort', () => {
      over.resolve()
    })
    await over.promise
    timer.cancel()
  }
}
