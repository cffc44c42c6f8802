import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Context } from '../message/context.ts'
import { Unavailable } from '../operations/errors.ts'

/** Milliseconds between two measurements. */
const TICK = 50
/** Event loop delay, in two consecutive ticks: one alone may be a garbage collection. */
const LATE = 250
/** Requests within two ticks below which a late event loop is no overload: something else blocks it. */
const ARRIVALS = 32
/** Latency of an empty statement above which the database is slow. */
const SLOW = 100
/** Milliseconds that a request may queue while the database is slow. */
const WAIT = 200
/** Queue length that is watched, and that a route may have while the database is slow. */
const BURST = 256
/** Queue length before the database is known to be slow: thousands of redemptions in one burst are no overload. */
const UNKNOWN = 2_048
/** Queue limit after as many milliseconds of a slow database: a standing queue only adds latency. */
const QUEUE_LIMIT = 128
const QUEUE_LIMIT_AFTER = 500
/** Allowed queue growth per statement that the database answers in time. */
const GROWTH = 64
/** Milliseconds without a slow statement or a shed request until the database counts as recovered. */
const RECOVERY = 2_000
/** Milliseconds over which completions are averaged. */
const WINDOW = 500
/** Multiple of the delay and queue length at which paid requests are shed. */
const PAID = 1.6
const REPORT = 1_000

const PROBES: ReadonlySet<string> = new Set(['/health', '/ready'])

export const OVERLOADED = new Unavailable('Service unavailable', 'The gateway is overloaded. Try again in a moment.', 1)

export type ShedReason = 'event_loop' | 'database'

/** A route's requests that are neither answered nor with an upstream: they wait for the gateway itself. */
export class RouteQueue {
  waiting = 0
  limit = Infinity
  /** Completions per millisecond. */
  #rate = 0
  #done = 0
  #seen = 0
  #since = 0

  leave(): void {
    this.waiting--
    this.#done++
  }

  measure(now: number): void {
    this.#rate = 0
    this.#seen = this.#done
    this.#since = now
  }

  /** Averages in the completions of the last `passed` milliseconds. */
  measured(now: number, passed: number): void {
    const weight = Math.min(passed / Math.min(Math.max(now - this.#since, passed), WINDOW), 1)
    this.#rate += ((this.#done - this.#seen) / passed - this.#rate) * weight
    this.#seen = this.#done
  }

  completing(ms: number): number {
    return Math.floor(this.#rate * ms)
  }
}

interface LoadOptions {
  readonly clock: Clock
  readonly probe: () => PromiseLike<unknown>
  /** Whether a request has a payment credential, valid or not. */
  readonly isPaid: (ctx: Context) => boolean
  readonly shed: (reason: ShedReason) => void
  /** Called at most once a second with the number of requests shed since the last call. */
  readonly report: (count: number) => void
}

/**
 * Decides which requests are shed before they start. A slow event loop delays all requests, a slow database the routes
 * that use it. Slow upstreams and providers shed nothing.
 */
export class Load {
  readonly #options: LoadOptions
  readonly #database: DatabaseLoad
  #timer: Timer | null = null
  #tickAt = 0
  /** Event loop delay at the last tick, and the lesser of the last two. */
  #late = 0
  #lag = 0
  #arrived = 0
  #arrivedBefore = 0
  #shed = 0
  #reportedAt = -Infinity

  constructor(options: LoadOptions) {
    this.#options = options
    this.#database = new DatabaseLoad(options)
  }

  start(): void {
    const { clock } = this.#options
    this.#tickAt = clock.monotonic()
    this.#timer ??= clock.every(TICK, () => {
      this.#tick(clock.monotonic())
    })
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  enter(queue: RouteQueue): void {
    if (++queue.waiting >= BURST) this.#database.watch(queue)
  }

  /** Never sheds probes, and requests with payment credentials last. */
  sheds(ctx: Context, queue: RouteQueue): boolean {
    this.#arrived++
    const reason = this.#behind(ctx.startedAt, queue, 1)
    if (reason === null || ctx.internal || PROBES.has(ctx.path)) return false
    if (this.#behind(ctx.startedAt, queue, PAID) === null && this.#options.isPaid(ctx)) return false
    if (reason === 'database') this.#database.full(ctx.startedAt)
    this.#shed++
    this.#options.shed(reason)
    return true
  }

  #behind(now: number, queue: RouteQueue, tolerance: number): ShedReason | null {
    const limit = LATE * tolerance
    // Late once; after as much of the next tick it counts as late twice.
    if (this.#lag > limit || (this.#late > limit && now >= this.#tickAt + TICK + limit)) return 'event_loop'
    return queue.waiting >= queue.limit * tolerance ? 'database' : null
  }

  #tick(now: number): void {
    const passed = Math.max(now - this.#tickAt, 1)
    const late = this.#arrived + this.#arrivedBefore < ARRIVALS ? 0 : passed - TICK
    this.#lag = Math.min(late, this.#late)
    this.#late = late
    this.#database.tick(now, passed)
    this.#tickAt = now
    this.#arrivedBefore = this.#arrived
    this.#arrived = 0
    if (this.#shed === 0 || now - this.#reportedAt < REPORT) return
    this.#options.report(this.#shed)
    this.#shed = 0
    this.#reportedAt = now
  }
}

/**
 * Limits route queues by the database's latency. A long queue may only wait for a slow provider, so an empty statement
 * distinguishes the two: each timely response lets queues grow by `GROWTH`.
 */
class DatabaseLoad {
  readonly #clock: Clock
  readonly #send: LoadOptions['probe']
  readonly #queues = new Set<RouteQueue>()
  #sentAt: number | null = null
  #wasSlow = false
  #behindSince: number | null = null
  #behindUntil = 0

  constructor({ clock, probe }: LoadOptions) {
    this.#clock = clock
    this.#send = probe
  }

  watch(queue: RouteQueue): void {
    if (!this.#queues.has(queue)) {
      this.#queues.add(queue)
      queue.measure(this.#clock.monotonic())
      queue.limit = this.#behindSince === null ? UNKNOWN : BURST
    }
    if (queue.waiting + GROWTH / 2 > queue.limit) this.#probe()
  }

  full(now: number): void {
    if (this.#behindSince !== null) this.#behindUntil = now + RECOVERY
  }

  tick(now: number, passed: number): void {
    if (this.#queues.size === 0) return
    // Measured from the previous tick: event loop delay is not the database's latency.
    if (this.#sentAt !== null && now - passed - this.#sentAt > SLOW) {
      this.#fallBehind(now)
    } else if (now >= this.#behindUntil) this.#behindSince = null
    for (const queue of this.#queues) {
      queue.measured(now, passed)
      if (this.#behindSince !== null) queue.limit = this.#limit(queue, now - this.#behindSince)
      else if (queue.waiting < BURST) {
        queue.limit = Infinity
        this.#queues.delete(queue)
      }
    }
    this.#probe()
  }

  #fallBehind(now: number): void {
    this.#behindSince ??= now
    this.#behindUntil = now + RECOVERY
  }

  #limit(queue: RouteQueue, behindFor: number): number {
    return Math.max(behindFor < QUEUE_LIMIT_AFTER ? BURST : QUEUE_LIMIT, queue.completing(WAIT))
  }

  #probe(): void {
    if (this.#sentAt !== null) return
    const sentAt = this.#clock.monotonic()
    this.#sentAt = sentAt
    const answered = (): void => {
      this.#sentAt = null
      const now = this.#clock.monotonic()
      const isSlow = now - sentAt > SLOW
      // Two in a row: an event loop whose turns all take that long looks like a slow database.
      if (isSlow && this.#wasSlow) this.#fallBehind(now)
      this.#wasSlow = isSlow
      if (isSlow || this.#behindSince !== null) return
      for (const queue of this.#queues) queue.limit = Math.max(queue.limit, queue.waiting + GROWTH)
    }
    // A refusing database is not slow: requests that need it get its error.
    this.#send().then(answered, answered)
  }
}
