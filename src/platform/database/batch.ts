import { systemClock, type Clock, type Timer } from '../system/clock.ts'
import { isCertainlyUndone, isConnectionFault, isLockedOut } from './errors.ts'
import { refuseInside } from './client.ts'

/** How items are batched. `I` is a caller's item, `V` its verdict. */
interface BatchOptions<I, V> {
  /**
   * Returns a verdict for each item, in order. Items are sorted by key, the order of row locks, and their keys differ.
   */
  readonly write: (items: readonly I[]) => Promise<readonly V[]>
  /** Items of one key are written one at a time, in order. Null for an item without a conflict. */
  readonly key: (item: I) => string | null
  /** Bytes of an item; default 1, which leaves them unbounded. */
  readonly size?: (item: I) => number
  readonly clock?: Clock
}

/** Most items, and most bytes, of one statement; a single item may exceed the bytes. */
const ITEMS = 256
const BYTES = 1_048_576
/** Milliseconds that items wait for the current statement: a blocked one must not hold up later ones. */
const PATIENCE = 100
/**
 * Milliseconds after which an unsent item fails with a statement that got no answer. Otherwise each item of a key would
 * wait in turn.
 */
const HOPE = 5_000

interface Entry<I, V> {
  readonly item: I
  readonly key: string | null
  readonly resolve: (verdict: V) => void
  readonly reject: (error: unknown) => void
  /** Arrival in monotonic milliseconds. */
  readonly since: number
  behind: Entry<I, V> | null
}

/**
 * Batches concurrent writes. Items of one turn of the loop form a statement; those that arrive while it runs form the
 * next. Without concurrency no item waits.
 *
 * When the database refuses a statement, its halves are retried, down to the faulty item, which fails alone. A lost
 * answer fails every item: nothing is retried here.
 */
export class Batch<I, V> {
  readonly #write: BatchOptions<I, V>['write']
  readonly #keyOf: (item: I) => string | null
  readonly #sizeOf: (item: I) => number
  readonly #clock: Clock
  #ready: Entry<I, V>[] = []
  readonly #last = new Map<string, Entry<I, V>>()
  #open = 0
  /** The statement that others wait for; null for none, or when it exceeds `PATIENCE`. */
  #current: { isAnswered: boolean } | null = null
  #patience: Timer | null = null
  #idle: PromiseWithResolvers<void> | null = null

  constructor({ write, key, size = () => 1, clock = systemClock }: BatchOptions<I, V>) {
    this.#write = write
    this.#keyOf = key
    this.#sizeOf = size
    this.#clock = clock
  }

  /**
   * @returns its verdict; rejects with its statement's error
   * @throws OutsideTransaction inside a transaction, also while others' items are in progress: on the embedded database
   * it would deadlock
   */
  add(item: I): Promise<V> {
    refuseInside('A shared statement')
    const { promise, resolve, reject } = Promise.withResolvers<V>()
    const since = this.#clock.monotonic()
    const entry: Entry<I, V> = { item, key: this.#keyOf(item), resolve, reject, since, behind: null }
    this.#open++
    const before = entry.key === null ? undefined : this.#last.get(entry.key)
    if (entry.key !== null) this.#last.set(entry.key, entry)
    if (before !== undefined) before.behind = entry
    else this.#admit(entry)
    return promise
  }

  drained(): Promise<void> {
    if (this.#open === 0) return Promise.resolve()
    this.#idle ??= Promise.withResolvers()
    return this.#idle.promise
  }

  #admit(entry: Entry<I, V>): void {
    this.#ready.push(entry)
    if (this.#current === null) this.#sendAtTurnsEnd({ isAnswered: true })
    else if (!this.#current.isAnswered) this.#wait()
  }

  /** At the end of the turn, so that callers whose verdicts just arrived can join with their next items. */
  #sendAtTurnsEnd(last: { isAnswered: boolean }): void {
    this.#current = last
    process.nextTick(() => {
      if (this.#current === last) this.#send()
    })
  }

  #wait(): void {
    this.#patience ??= this.#clock.after(PATIENCE, () => {
      this.#patience = null
      this.#send()
    })
  }

  #send(): void {
    this.#patience?.cancel()
    this.#patience = null
    const entries = this.#take()
    if (entries.length === 0) {
      this.#current = null
      return
    }
    const statement = { isAnswered: false }
    this.#current = statement
    if (this.#ready.length > 0) this.#wait()
    void this.#run(statement, entries)
  }

  async #run(statement: { isAnswered: boolean }, entries: readonly Entry<I, V>[]): Promise<void> {
    const lost = await this.#settle(entries)
    if (lost !== null) this.#giveUp(entries, lost.by)
    for (const { key, behind } of entries) {
      if (behind !== null) this.#ready.push(behind)
      else if (key !== null) this.#last.delete(key)
    }
    this.#open -= entries.length
    if (this.#current === statement || this.#current === null) {
      statement.isAnswered = true
      this.#sendAtTurnsEnd(statement)
    } else if (this.#ready.length > 0) this.#wait()
    if (this.#open > 0) return
    this.#idle?.resolve()
    this.#idle = null
  }

  #giveUp(entries: readonly Entry<I, V>[], error: unknown): void {
    const hopeless = this.#clock.monotonic() - HOPE
    const left = (first: Entry<I, V> | null): Entry<I, V> | null => {
      let entry = first
      for (; entry !== null && entry.since <= hopeless; entry = entry.behind) {
        entry.reject(error)
        this.#open--
        if (entry.behind === null && entry.key !== null) this.#last.delete(entry.key)
      }
      return entry
    }
    this.#ready = this.#ready.flatMap(entry => left(entry) ?? [])
    for (const entry of entries) {
      if (entry.behind === null) continue
      entry.behind = left(entry.behind)
    }
  }

  #take(): Entry<I, V>[] {
    let [count, bytes] = [0, 0]
    for (const { item } of this.#ready) {
      bytes += this.#sizeOf(item)
      if (count === ITEMS || (count > 0 && bytes > BYTES)) break
      count++
    }
    const taken = this.#ready.splice(0, count)
    return taken.sort(({ key: one }, { key: other }) => (one === null || other === null ? 0 : one < other ? -1 : 1))
  }

  /** Resolves each entry. @returns the error by which answers were lost, if any */
  async #settle(entries: readonly Entry<I, V>[]): Promise<{ readonly by: unknown } | null> {
    let verdicts: readonly V[]
    try {
      verdicts = await this.#write(entries.map(({ item }) => item))
    } catch (error) {
      if (entries.length > 1 && isLockedOut(error)) {
        // Only the one whose row is locked must wait for it.
        const all = await Promise.all(entries.map(entry => this.#settle([entry])))
        return all.find(lost => lost !== null) ?? null
      }
      if (entries.length > 1 && isCertainlyUndone(error)) {
        const half = entries.length >> 1
        const first = await this.#settle(entries.slice(0, half))
        return (await this.#settle(entries.slice(half))) ?? first
      }
      for (const entry of entries) entry.reject(error)
      return isConnectionFault(error) ? { by: error } : null
    }
    // `write` returns one for each.
    for (const [at, entry] of entries.entries()) entry.resolve(verdicts[at] as V)
    return null
  }
}
