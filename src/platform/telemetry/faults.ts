/** A kind of failure of a route's requests, and its count. Times in milliseconds since the epoch. */
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

const MOST = 100
const LONGEST = 300

/** Failures since the last `take`, bounded. */
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

  take(): FaultSum[] {
    const sums = [...this.#sums.values()]
    this.#sums = new Map()
    return sums
  }
}
