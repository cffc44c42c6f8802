import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Context } from '../message/context.ts'
import { Unavailable } from '../operations/errors.ts'

/** Milliseconds between two looks. */
const TICK = 50
/** Milliseconds by which two ticks in a row must be late before requests are shed; one alone may be a pause for memory. */
const LATE = 250
/** Milliseconds that a statement may wait for the database before the queues of routes are limited. */
const SLOW = 150
/** Requests within two ticks below which a late event loop is no overload: something else blocks it. */
const ARRIVALS = 32
/** Milliseconds that a request may wait in its route's queue while the database is behind. */
const WAIT = 300
/** Paid requests are shed at this many times the lateness and wait of others. */
const PAID = 1.6
/** Milliseconds without a slow statement or a shed request until the queues are unlimited again. */
const CALM = 2_000
/** Requests that any route may have waiting. */
const FLOOR = 256
/** Milliseconds over which completions are averaged. */
const WINDOW = 500

const PROBES: ReadonlySet<string> = new Set(['/health', '/ready'])

/** 503 of a request that is shed. */
export const OVERLOADED = new Unavailable('Service unavailable', 'The gateway is overloaded. Try again in a moment.', 1)

/** A route's requests that are neither answered nor with an upstream: what they wait for is the gateway's own. */
export class RouteQueue {
  waiting = 0
  /** Requests that left the queue. */
  done = 0
  /** Most requests that may wait. */
  limit = Infinity
  /** Completions per millisecond. */
  rate = 0
  seen = 0
  since = 0

  leave(): void {
    this.waiting--
    this.done++
  }
}

/** What the load is measured with. */
interface LoadOptions {
  readonly clock: Clock
  /** Runs an empty statement: how long it takes is how far the database is behind. */
  readonly probe: () => PromiseLike<unknown>
  /** Whether a request has a payment credential, valid or not. */
  readonly isPaid: (ctx: Context) => boolean
  /** Called for each request that is shed. */
  readonly shed: () => void
}

/**
 * Decides which requests are shed. Two resources can fall behind: the event loop, which delays all requests, and the
 * database, which delays the routes that use it. Slow upstreams and providers alone shed nothing.
 */
export class Load {
  readonly #options: LoadOptions
  readonly #busy = new Set<RouteQueue>()
  #timer: Timer | null = null
  /** Monotonic time from which on arrivals are shed: now, in the middle of a late tick, or never. */
  #shedFrom = Infinity
  #shedPaidFrom = Infinity
  #tickAt = 0
  #late = 0
  #arrived = 0
  #arrivedBefore = 0
  #probedAt: number | null = null
  #limitedUntil = 0

  constructor(options: LoadOptions) {
    this.#options = options
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

  /** Counts a request into its route's queue. */
  enter(queue: RouteQueue): void {
    if (++queue.waiting < FLOOR || this.#busy.has(queue)) return
    queue.rate = 0
    queue.seen = queue.done
    queue.since = this.#tickAt
    this.#busy.add(queue)
  }

  /** Whether a request is shed. Probes never are, and those with payment credentials are the last. */
  sheds(ctx: Context, queue: RouteQueue): boolean {
    this.#arrived++
    if (ctx.startedAt < this.#shedFrom && queue.waiting < queue.limit) return false
    if (ctx.internal || PROBES.has(ctx.path)) return false
    if (ctx.startedAt < this.#shedPaidFrom && queue.waiting < queue.limit * PAID && this.#options.isPaid(ctx))
      return false
    if (queue.waiting >= queue.limit) this.#limitedUntil = ctx.startedAt + CALM
    this.#options.shed()
    return true
  }

  #tick(now: number): void {
    const passed = Math.max(now - this.#tickAt, 1)
    const late = this.#arrived + this.#arrivedBefore < ARRIVALS ? 0 : passed - TICK
    const lag = Math.min(late, this.#late)
    this.#late = late
    this.#tickAt = now
    this.#arrivedBefore = this.#arrived
    this.#arrived = 0
    this.#shedFrom = shedFrom(now, lag, late, LATE)
    this.#shedPaidFrom = shedFrom(now, lag, late, LATE * PAID)
    if (this.#busy.size > 0) this.#limit(now, passed)
  }

  #limit(now: number, passed: number): void {
    if (this.#probedAt === null) this.#probe(now)
    else if (now - this.#probedAt > SLOW) this.#limitedUntil = now + CALM
    const isLimited = now < this.#limitedUntil
    for (const queue of this.#busy) {
      const weight = Math.min(passed / Math.min(Math.max(now - queue.since, passed), WINDOW), 1)
      queue.rate += ((queue.done - queue.seen) / passed - queue.rate) * weight
      queue.seen = queue.done
      queue.limit = isLimited ? Math.max(FLOOR, Math.floor(queue.rate * WAIT)) : Infinity
      if (!isLimited && queue.waiting < FLOOR) this.#busy.delete(queue)
    }
  }

  #probe(now: number): void {
    this.#probedAt = now
    const answered = (): void => {
      this.#probedAt = null
    }
    // A database that refuses is not behind; whoever needs it is answered by its error.
    this.#options.probe().then(answered, answered)
  }
}

/** The time from which on arrivals are shed, with the lateness of the last two ticks and of the last one. */
function shedFrom(now: number, lag: number, late: number, limit: number): number {
  return lag > limit ? now : late > limit ? now + TICK + limit : Infinity
}
