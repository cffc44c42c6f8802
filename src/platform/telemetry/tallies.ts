import { LATENCY_PART_BOUNDS, partOf, type LatencyCounts } from './latency.ts'

interface Counts {
  requests: number
  asked: number
  paidRequests: number
  clientErrors: number
  serverErrors: number
  upstreamFailures: number
  unfinished: number
}

interface Tallied extends Readonly<Counts> {
  readonly key: string
  readonly latencies: LatencyCounts
}

const none = (): Counts => ({
  requests: 0,
  asked: 0,
  paidRequests: 0,
  clientErrors: 0,
  serverErrors: 0,
  upstreamFailures: 0,
  unfinished: 0
})

/**
 * Counts requests of one of many things within a route, such as a merchant's proxy. Hidden from Prometheus, which would
 * keep series of each.
 */
export class Tally {
  readonly key: string
  readonly #touch: (tally: Tally) => boolean
  readonly #recent: RecentRequests
  #latencies: Uint32Array | null = null
  #counts = none()

  constructor(key: string, touch: (tally: Tally) => boolean, recent: RecentRequests) {
    this.key = key
    this.#touch = touch
    this.#recent = recent
  }

  /** `status` as answered. Call before the other methods of the same request. */
  over(status: number, seconds: number): void {
    if (this.#latencies === null) {
      if (!this.#touch(this)) return
      this.#latencies = new Uint32Array(LATENCY_PART_BOUNDS.length + 1)
    }
    const part = partOf(seconds)
    this.#latencies[part] = (this.#latencies[part] ?? 0) + 1
    this.#counts.requests++
    if (status === 402) this.#counts.asked++
    else if (status >= 500) this.#counts.serverErrors++
    else if (status >= 400) this.#counts.clientErrors++
  }

  paid(): void {
    if (this.#latencies !== null) this.#counts.paidRequests++
  }

  upstreamFailed(): void {
    if (this.#latencies !== null) this.#counts.upstreamFailures++
  }

  brokenOff(): void {
    if (this.#latencies !== null) this.#counts.unfinished++
  }

  log(request: Omit<LoggedRequest, 'key'>): void {
    this.#recent.add({ key: this.key, ...request })
  }

  take(): Tallied {
    const latencies = new Map<number, number>()
    this.#latencies?.forEach((count, part) => {
      if (count > 0) latencies.set(part, count)
    })
    const taken = { key: this.key, ...this.#counts, latencies }
    this.#latencies = null
    this.#counts = none()
    return taken
  }
}

/** Most tallies in use; further ones of the same minute are not counted, which bounds memory (about 600 bytes each). */
const MOST = 20_000

export class Tallies {
  readonly recent = new RecentRequests()
  #touched: Tally[] = []
  readonly #touch = (tally: Tally): boolean => this.#touched.length < MOST && this.#touched.push(tally) > 0

  of(key: string): Tally {
    return new Tally(key, this.#touch, this.recent)
  }

  take(): Tallied[] {
    const touched = this.#touched
    this.#touched = []
    return touched.map(tally => tally.take())
  }
}

export interface LoggedRequest {
  readonly key: string
  readonly at: number
  readonly method: string
  readonly path: string
  readonly status: number
  readonly isPaid: boolean
  readonly latencyMs: number
  readonly correlationId: string
}

/** Unwritten requests per key, and of all keys together (about 2 MB). */
const MOST_OF_KEY = 1_000
const MAX_RECENT = 5_000

const LONGEST_PATH = 500

/** Cuts a long text by copying: a slice would keep the whole one in memory. */
const cut = (text: string, length: number): string =>
  text.length <= length ? text : Buffer.from(text.slice(0, length)).toString()

/**
 * The last requests of each key since the last `take`. Beyond the bounds a request replaces the oldest of its own key,
 * and a key without one is left out, so that a busy one costs others nothing that they have.
 */
export class RecentRequests {
  #byKey = new Map<string, { readonly ring: LoggedRequest[]; next: number }>()
  #count = 0

  add(request: LoggedRequest): void {
    let held = this.#byKey.get(request.key)
    if (held === undefined) {
      if (this.#count >= MAX_RECENT) return
      this.#byKey.set(request.key, (held = { ring: [], next: 0 }))
    }
    const { ring } = held
    const entry = { ...request, method: cut(request.method, 20), path: cut(request.path, LONGEST_PATH) }
    if (ring.length < MOST_OF_KEY && this.#count < MAX_RECENT) {
      ring.push(entry)
      this.#count++
    } else {
      ring[held.next] = entry
      held.next = (held.next + 1) % ring.length
    }
  }

  /** Oldest first within a key. */
  take(): LoggedRequest[] {
    const taken = [...this.#byKey.values()].flatMap(({ ring, next }) => [...ring.slice(next), ...ring.slice(0, next)])
    this.#byKey = new Map()
    this.#count = 0
    return taken
  }
}

/** A kind of failure of a route's requests, and its count. */
export interface FaultSum {
  readonly route: string
  readonly status: number
  readonly message: string
  readonly times: number
  readonly firstAt: number
  readonly lastAt: number
  /** Of the last such request, for its line in the log. */
  readonly correlationId: string
}

const MOST_FAULTS = 100
const LONGEST = 300

/** Failures since the last `take`, bounded. */
export class Faults {
  #sums = new Map<string, FaultSum>()

  /** `message` as clients may read it, without addresses or keys. */
  add(fault: {
    readonly route: string
    readonly status: number
    readonly message: string
    readonly at: number
    readonly correlationId: string
  }): void {
    const { route, status, at, correlationId } = fault
    const message = fault.message.slice(0, LONGEST)
    const key = JSON.stringify([route, status, message])
    const sum = this.#sums.get(key)
    if (sum === undefined && this.#sums.size >= MOST_FAULTS) return
    this.#sums.set(key, {
      route,
      status,
      message,
      times: (sum?.times ?? 0) + 1,
      firstAt: sum?.firstAt ?? at,
      lastAt: at,
      correlationId
    })
  }

  take(): FaultSum[] {
    const sums = [...this.#sums.values()]
    this.#sums = new Map()
    return sums
  }
}
