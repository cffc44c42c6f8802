import type { OpenInvoice, SentChallenge } from '../holding/challenge.ts'

/** A challenge that is being made. */
export interface Making {
  readonly made: Promise<SentChallenge>
  readonly binding: string
  /** Milliseconds since the epoch; its row is no older. */
  readonly begunAt: number
  /** Known with its invoice; from then on it may have a row. */
  paymentHash: string | null
}

/** A count of one client's open rows in progress. */
export interface Counting {
  /** Challenges made since it began, which its rows may hold or not. */
  readonly meanwhile: OpenInvoice[]
}

/** Open challenges of a client in a place, and those of one binding. */
export interface Held {
  readonly inPlace: number
  readonly ofRequest: number
}

/** Rows: counts of those older than everything in the making, and the others one by one. */
export interface OpenRows extends Held {
  readonly recent: readonly OpenInvoice[]
}

/**
 * Challenges that this process is making, by client and place. A count of rows may or may not include them: a row is
 * written before its making ends. The payment hashes let each be counted exactly once.
 */
export class Makings {
  readonly #running = new Map<string, Set<Making>>()
  readonly #countings = new Map<string, Set<Counting>>()

  begin(client: string, making: Making): void {
    add(this.#running, client, making)
  }

  /** `done`: the challenge was made. */
  end(client: string, making: Making, done: boolean): void {
    take(this.#running, client, making)
    const { paymentHash, binding } = making
    if (!done || paymentHash === null) return
    this.#countings.get(client)?.forEach(counting => {
      counting.meanwhile.push({ paymentHash, binding })
    })
  }

  /** Call before rows are counted, and `counted` after `held`. */
  counting(client: string): Counting {
    const counting: Counting = { meanwhile: [] }
    add(this.#countings, client, counting)
    return counting
  }

  counted(client: string, counting: Counting): void {
    take(this.#countings, client, counting)
  }

  /** Begin of the client's oldest making, in milliseconds since the epoch; `now` without any. */
  since(client: string, now: number): number {
    let since = now
    for (const { begunAt } of this.#running.get(client) ?? []) since = Math.min(since, begunAt)
    return since
  }

  /** How many challenges the client holds: rows, those made meanwhile, and those being made. */
  held(client: string, rows: OpenRows, counting: Counting, binding: string): Held {
    const known = new Map<string, string>()
    for (const open of rows.recent) known.set(open.paymentHash, open.binding)
    for (const open of counting.meanwhile) known.set(open.paymentHash, open.binding)
    let [nameless, ofRequest] = [rows.inPlace, rows.ofRequest]
    for (const making of this.#running.get(client) ?? []) {
      if (making.paymentHash !== null) known.set(making.paymentHash, making.binding)
      else {
        nameless++
        if (making.binding === binding) ofRequest++
      }
    }
    for (const other of known.values()) if (other === binding) ofRequest++
    return { inPlace: known.size + nameless, ofRequest }
  }

  /** The client's, newest first. */
  running(client: string): readonly Making[] {
    return [...(this.#running.get(client) ?? [])].toReversed()
  }
}

function add<T>(sets: Map<string, Set<T>>, key: string, value: T): void {
  const set = sets.get(key)
  if (set === undefined) sets.set(key, new Set([value]))
  else set.add(value)
}

function take<T>(sets: Map<string, Set<T>>, key: string, value: T): void {
  const set = sets.get(key)
  if (set?.delete(value) === true && set.size === 0) sets.delete(key)
}
