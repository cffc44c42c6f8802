/** A finished request as the request log of its account shows it. */
export interface LoggedRequest {
  readonly key: string
  /** Milliseconds since the epoch. */
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
const MOST = 5_000

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
      if (this.#count >= MOST) return
      this.#byKey.set(request.key, (held = { ring: [], next: 0 }))
    }
    const { ring } = held
    const entry = { ...request, method: cut(request.method, 20), path: cut(request.path, LONGEST_PATH) }
    if (ring.length < MOST_OF_KEY && this.#count < MOST) {
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
