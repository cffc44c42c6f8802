import type { Context } from '../message/context.ts'
import type { WholeReply } from '../message/reply.ts'
import type { InternalContext } from './in-process.ts'
import type { Snapshot } from './snapshot.ts'
import type { Wire } from '../message/wire.ts'

/** The running gateway: a pointer to the snapshot that new requests take. Swapping it is the whole of a reload. */
export class Gateway {
  #current: Snapshot
  readonly #retiring = new Set<Promise<void>>()
  /** Snapshots that new requests do not take, and old ones may still. */
  readonly #retired = new Set<Snapshot>()

  constructor(first: Snapshot) {
    this.#current = first
  }

  /** The generation that new requests take. */
  get generation(): number {
    return this.#current.generation
  }

  /** Requests under way, of every generation. */
  get active(): number {
    let active = this.#current.active
    for (const snapshot of this.#retired) active += snapshot.active
    return active
  }

  handle(ctx: Context, wire: Wire): void {
    this.#current.handle(ctx, wire)
  }

  /** Answers a request that one of this gateway's own pages makes. Never rejects. */
  ask(ctx: InternalContext): Promise<WholeReply> {
    return this.#current.ask(ctx)
  }

  /**
   * Whether a request goes to operations of our own and nowhere else, as things stand. `path` is raw, without a query.
   */
  answersItself(method: string, host: string, path: string): boolean {
    return this.#current.answersItself(method, host, path)
  }

  /** Lets new requests take `next`; those under way keep theirs, which closes when the last of them is over. */
  swap(next: Snapshot): void {
    const old = this.#current
    this.#current = next
    this.#watch(old)
  }

  /** Resolves when every generation has closed; call it once no more requests come. */
  async close(): Promise<void> {
    this.#watch(this.#current)
    await Promise.all(this.#retiring)
  }

  #watch(snapshot: Snapshot): void {
    this.#retired.add(snapshot)
    const gone = snapshot.retire().finally(() => {
      this.#retiring.delete(gone)
      this.#retired.delete(snapshot)
    })
    this.#retiring.add(gone)
  }
}
