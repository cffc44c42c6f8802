/** A way in which requests of a route failed, and how often. Times in milliseconds since the epoch. */
export interface FaultSum {
  readonly route: string
  readonly status: number
  readonly message: string
  readonly times: number
  readonly firstAt: number
  readonly lastAt: number
  /** Of the last request that failed so; its line in the log has more. */
  readonly correlationId: string
}

/** Ways to fail that are kept until somebody takes them; of others only that there were some. */
const MOST = 100
/** Characters of a message that are kept. */
const LONGEST = 300

/** How requests failed since somebody last asked. Bounded, whatever fails and however often. */
export class Faults {
  #sums = new Map<string, FaultSum>()

  /** `message` as clients may read it, without addresses or keys. `at` in milliseconds since the epoch. */
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
    if (sum === undefined && this.#sums.size >= MOST) return
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

  /** All there are; from here on they are the caller's. */
  take(): FaultSum[] {
    const sums = [...this.#sums.values()]
    this.#sums = new Map()
    return sums
  }
}
