import { LRUCache } from 'lru-cache'
import { clientNetwork } from '../../engine/message/addresses.ts'
import { StateUnavailable, type Maybe, type State } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'

export interface LookupDependencies {
  readonly clock: Clock
  readonly state: State
}

/** What a lookup found. */
export interface Finding<T> {
  readonly value: T
  readonly ttl: number
}

const MAX_KNOWN = 2_000
const MAX_RUNNING = 16
const MINUTE = 60_000
/** Lookups that one client, and all of them, may cause in a minute. A client must not turn the gateway on others. */
const PER_CLIENT = 10
const PER_PROCESS = 240

/** Lookups about clients: cached, coalesced and bounded. A failed or refused one is unknown (null), never an answer. */
export class Lookups<T> {
  readonly #known = new LRUCache<string, { readonly value: T | null; readonly until: number }>({ max: MAX_KNOWN })
  readonly #running = new Map<string, Promise<T | null>>()
  readonly #name: string
  readonly #ask: (key: string) => Promise<Finding<T>>
  readonly #dependencies: LookupDependencies

  constructor(name: string, ask: (key: string) => Promise<Finding<T>>, dependencies: LookupDependencies) {
    this.#name = name
    this.#ask = ask
    this.#dependencies = dependencies
  }

  /** Returns a promise only if it must ask. */
  find(key: string, address: string): Maybe<T | null> {
    const known = this.#known.get(key)
    if (known !== undefined && known.until > this.#dependencies.clock.monotonic()) return known.value
    const running = this.#running.get(key)
    if (running !== undefined) return running
    if (this.#running.size >= MAX_RUNNING) return null
    const pending = this.#bounded(key, address).finally(() => this.#running.delete(key))
    this.#running.set(key, pending)
    return pending
  }

  async #bounded(key: string, address: string): Promise<T | null> {
    const { clock, state } = this.#dependencies
    try {
      const client = await state.takeFixed(`${this.#name} ${clientNetwork(address)}`, PER_CLIENT, MINUTE)
      if (!client.allowed || !(await state.takeFixed(this.#name, PER_PROCESS, MINUTE)).allowed) return null
    } catch (error) {
      if (error instanceof StateUnavailable) return null
      throw error
    }
    let finding: Finding<T | null>
    try {
      finding = await this.#ask(key)
    } catch {
      // Unknown for a while: whatever failed must not be asked with each request.
      finding = { value: null, ttl: MINUTE }
    }
    this.#known.set(key, { value: finding.value, until: clock.monotonic() + finding.ttl })
    return finding.value
  }
}
