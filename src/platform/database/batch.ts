import { systemClock, type Clock, type Timer } from '../system/clock.ts'
import { isCertainlyUndone, isConnectionFault, isLockedOut } from './errors.ts'
import { refuseInside } from './scope.ts'

/** How items are written together. `I` is what one caller brings, `V` what it is told. */
export interface BatchOptions<I, V> {
  /**
   * Runs items in one statement, or one transaction, and answers a verdict for each, in their order. They come sorted by
   * key, which is the order in which rows are to be locked, and no two have the same key.
   */
  readonly write: (items: readonly I[]) => Promise<readonly V[]>
  /**
   * What an item changes. Of one key one item at a time is under way, in the order in which they came. Null for one that
   * changes nothing: it waits for no other.
   */
  readonly key: (item: I) => string | null
  /** Bytes of an item, where they differ much; one unless said, which leaves them unbounded. */
  readonly size?: (item: I) => number
  /** For `PATIENCE`. */
  readonly clock?: Clock
}

/** Most items, and most bytes, of one statement; a single item may have more. */
const ITEMS = 256
const BYTES = 1_048_576
/**
 * Milliseconds that an item waits for a statement of others: one that stands, behind a lock or a network that says
 * nothing, must not hold up whoever came after it.
 */
const PATIENCE = 100
/**
 * Milliseconds after which an item that has not been sent goes down with a statement that the database did not answer.
 * By itself it would by then have waited about as long as that one; behind it, each of a key would wait anew.
 */
const HOPE = 5_000

/** One caller's item on its way. */
interface Entry<I, V> {
  readonly item: I
  readonly key: string | null
  readonly resolve: (verdict: V) => void
  readonly reject: (error: unknown) => void
  /** When it came, in monotonic milliseconds. */
  readonly since: number
  /** Of the same key, the one that came next. */
  behind: Entry<I, V> | null
}

/**
 * Writes what comes at the same time with one statement. What comes in one turn of the loop while nothing is under way
 * is written at the end of this turn; what comes until its answer is there goes together, and so on: nobody waits for
 * company, and with one caller at a time each statement has one item.
 *
 * Each caller gets the verdict of its own item. When the database refuses a statement of several, its halves are tried
 * by themselves, down to the item that is at fault, so that this one fails alone. When the answer is lost every item of
 * the statement is, as it would be by itself: nothing is repeated here.
 */
export class Batch<I, V> {
  readonly #write: BatchOptions<I, V>['write']
  readonly #keyOf: (item: I) => string | null
  readonly #sizeOf: (item: I) => number
  readonly #clock: Clock
  /** What may go with the next statement. */
  #ready: Entry<I, V>[] = []
  /** Of each key that is ready or under way, the entry that came last. */
  readonly #last = new Map<string, Entry<I, V>>()
  /** Items without a verdict. */
  #open = 0
  /** The statement for which the others wait; null for none, also when it has outlasted their patience. */
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
   * Writes an item, together with those that come while it must wait.
   * @returns its own verdict; rejects with what its statement was refused with, or lost by
   * @throws OutsideTransaction inside a transaction, also while others' items are under way: the embedded database
   *   would come to the statement after the transaction that waits for it
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

  /** Resolves when nothing waits and nothing is under way. */
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

  /**
   * Sends what is ready with what comes yet in this turn of the loop: those who are told just now may come again at once,
   * and those whom a statement of another kind has just told come one after the other. Else the first of them would go
   * by itself, and all others behind it.
   */
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

  /** Sends what is ready, as much of it as one statement takes. */
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

  /** Rejects what has waited for long, ready or behind `entries`. */
  #giveUp(entries: readonly Entry<I, V>[], error: unknown): void {
    const hopeless = this.#clock.monotonic() - HOPE
    /** Of those of a key that have not been sent the first that is left, as the older ones come first. */
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

  /** Tells each its verdict. @returns by what answers were lost, as far as any were */
  async #settle(entries: readonly Entry<I, V>[]): Promise<{ readonly by: unknown } | null> {
    let verdicts: readonly V[]
    try {
      verdicts = await this.#write(entries.map(({ item }) => item))
    } catch (error) {
      if (entries.length > 1 && isLockedOut(error)) {
        // Only the one whose row is held must wait for it.
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
    // `write` promises one for each.
    for (const [at, entry] of entries.entries()) entry.resolve(verdicts[at] as V)
    return null
  }
}
