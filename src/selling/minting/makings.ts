import type { OpenInvoice, SentChallenge } from '../holding/challenge.ts'

/** One challenge that is being made. */
export interface Making {
  readonly made: Promise<SentChallenge>
  /** What requests that may be handed its challenge have in common. */
  readonly binding: string
  /** When it began, in milliseconds since the epoch: its row is no older. */
  readonly begunAt: number
  /** Its payment hash, once its invoice is there: from then on it may have a row. */
  paymentHash: string | null
}

/** A count of one client's open rows that is under way. */
export interface Counting {
  /** The challenges that were made since it began: its rows may hold them or not. */
  readonly meanwhile: OpenInvoice[]
}

/** Challenges that a client holds in a place: all of them, and those of one binding. */
export interface Held {
  readonly inPlace: number
  readonly ofRequest: number
}

/** The rows among them: those that are older than everything in the making, as numbers, and the others. */
export interface OpenRows extends Held {
  readonly recent: readonly OpenInvoice[]
}

/**
 * The challenges that this process is making, by client and place. No count of rows can tell how many they are: a row
 * is written a moment before its making ends, so some have one already, and of those that end while rows are being
 * counted some are not among them. With the payment hashes of the rows each is counted exactly once.
 */
export class Makings {
  readonly #running = new Map<string, Set<Making>>()
  readonly #countings = new Map<string, Set<Counting>>()

  begin(client: string, making: Making): void {
    add(this.#running, client, making)
  }

  /** `done`: the challenge was made, and not only tried. */
  end(client: string, making: Making, done: boolean): void {
    take(this.#running, client, making)
    const { paymentHash, binding } = making
    if (!done || paymentHash === null) return
    this.#countings.get(client)?.forEach(counting => {
      counting.meanwhile.push({ paymentHash, binding })
    })
  }

  /** Call it before rows are counted, and `counted` once `held` was asked. */
  counting(client: string): Counting {
    const counting: Counting = { meanwhile: [] }
    add(this.#countings, client, counting)
    return counting
  }

  counted(client: string, counting: Counting): void {
    take(this.#countings, client, counting)
  }

  /** When the oldest that is being made for the client began, in milliseconds since the epoch; `now` without any. */
  since(client: string, now: number): number {
    let since = now
    for (const { begunAt } of this.#running.get(client) ?? []) since = Math.min(since, begunAt)
    return since
  }

  /** How many challenges the client holds: the rows that were counted, those made meanwhile, and those being made. */
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

  /** Those that are still being made for the client, the newest first. */
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
