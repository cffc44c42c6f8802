import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { HealthConfig } from '../sections/upstream.ts'
import type { OutboundCall } from './outbound.ts'

/** Most milliseconds for one check. */
const LONGEST_CHECK = 5_000

/** Asks one address of an upstream whether it is healthy, beside what requests find out. Healthy until checks fail. */
export class HealthCheck {
  isHealthy = true
  isChecking = false
  /** Consecutive failed checks, and milliseconds since the epoch of the first and the last. */
  failures = 0
  since = 0
  lastAt = 0
  readonly every: number
  readonly #settings: HealthConfig
  readonly #url: string
  readonly #call: OutboundCall
  readonly #clock: Clock
  #successes = 0
  #timer: Timer | null = null

  constructor(settings: HealthConfig, origin: string, call: OutboundCall, clock: Clock) {
    this.every = settings.every
    this.#settings = settings
    this.#url = origin + settings.path
    this.#call = call
    this.#clock = clock
  }

  start(): void {
    this.#timer ??= this.#clock.every(this.every, () => void this.#check())
    void this.#check()
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  async #check(): Promise<void> {
    if (this.isChecking) return
    this.isChecking = true
    const isGood = await this.#ask()
    this.isChecking = false
    this.#successes = isGood ? this.#successes + 1 : 0
    if (!isGood) {
      this.lastAt = this.#clock.now()
      if (this.failures++ === 0) this.since = this.lastAt
      if (this.failures >= this.#settings.unhealthyAfter) this.isHealthy = false
    } else if (this.isHealthy || this.#successes >= this.#settings.healthyAfter) {
      this.isHealthy = true
      this.failures = 0
    }
  }

  async #ask(): Promise<boolean> {
    try {
      const timeout = Math.min(this.every, LONGEST_CHECK)
      const { status } = await this.#call({ method: 'GET', url: this.#url, headers: [], timeout })
      return status >= 200 && status < 400
    } catch {
      // However it fails, the address is not healthy.
      return false
    }
  }
}
