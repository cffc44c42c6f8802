import type { OpenInvoice, SentChallenge } from '../holding/challenge.ts'

export interface PendingChallenge {
  readonly made: Promise<SentChallenge>
  readonly binding: string
  /** No later than its row. */
  readonly begunAt: number
  /** Known with its invoice; a row may exist from then on. */
  paymentHash: string | null
}

interface Counting {
  /** Made since it began; its rows may include them. */
  readonly meanwhile: OpenInvoice[]
}

/** A client's open challenges in a place, and those of one binding. */
export interface Held {
  readonly inPlace: number
  readonly ofRequest: number
}

/** Rows: counts of those older than every pending challenge, the others one by one. */
interface OpenRows extends Held {
  readonly recent: readonly OpenInvoice[]
}

/**
 * Pending challenges of this process, by client and place. A count of rows may or may not include them, since a row
 * precedes the end. Payment hashes let each count exactly once.
 */
export class PendingChallenges {
  readonly #running = new Map<string, PendingChallenge[]>()
  readonly #countings = new Map<string, Counting[]>()

  begin(client: string, pending: PendingChallenge): void {
    add(this.#running, client, pending)
  }

  /** `done`: the challenge was made. */
  end(client: string, pending: PendingChallenge, done: boolean): void {
    take(this.#running, client, pending)
    const { paymentHash, binding } = pending
    if (!done || paymentHash === null) return
    this.#countings.get(client)?.forEach(counting => {
      counting.meanwhile.push({ paymentHash, binding })
    })
  }

  /** Call before counting rows, and `counted` after `held`. */
  counting(client: string): Counting {
    const counting: Counting = { meanwhile: [] }
    add(this.#countings, client, counting)
    return counting
  }

  counted(client: string, counting: Counting): void {
    take(this.#countings, client, counting)
  }

  /** Start of the client's oldest pending challenge; else `now`. */
  since(client: string, now: number): number {
    let since = now
    for (const { begunAt } of this.#running.get(client) ?? []) since = Math.min(since, begunAt)
    return since
  }

  /** The client's challenges: rows, those made meanwhile, and pending ones. */
  held(client: string, rows: OpenRows, counting: Counting, binding: string): Held {
    const known = new Map<string, string>()
    for (const open of rows.recent) known.set(open.paymentHash, open.binding)
    for (const open of counting.meanwhile) known.set(open.paymentHash, open.binding)
    let [nameless, ofRequest] = [rows.inPlace, rows.ofRequest]
    for (const pending of this.#running.get(client) ?? []) {
      if (pending.paymentHash !== null) known.set(pending.paymentHash, pending.binding)
      else {
        nameless++
        if (pending.binding === binding) ofRequest++
      }
    }
    for (const other of known.values()) if (other === binding) ofRequest++
    return { inPlace: known.size + nameless, ofRequest }
  }

  /** Newest first. */
  running(client: string): readonly PendingChallenge[] {
    return this.#running.get(client)?.toReversed() ?? []
  }
}

// Nearly all clients have one; a Set of one costs every 402 four times an array.
function add<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [value])
  else list.push(value)
}

function take<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key)
  const at = list?.indexOf(value) ?? -1
  if (list === undefined || at < 0) return
  if (list.length === 1) lists.delete(key)
  else list.splice(at, 1)
}
