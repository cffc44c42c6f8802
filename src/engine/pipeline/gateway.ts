import type { Context } from '../message/context.ts'
import type { WholeReply } from '../message/reply.ts'
import type { InternalContext } from './in-process.ts'
import type { Snapshot } from './snapshot.ts'
import type { Wire } from '../message/wire.ts'

export class Gateway {
  #current: Snapshot
  readonly #retiring = new Set<Promise<void>>()
  readonly #retired = new Set<Snapshot>()

  constructor(first: Snapshot) {
    this.#current = first
  }

  get generation(): number {
    return this.#current.generation
  }

  get active(): number {
    let active = this.#current.active
    for (const snapshot of this.#retired) active += snapshot.active
    return active
  }

  handle(ctx: Context, wire: Wire): void {
    this.#current.handle(ctx, wire)
  }

  /** Answers a request of one of the gateway's own pages. Never rejects. */
  ask(ctx: InternalContext): Promise<WholeReply> {
    return this.#current.ask(ctx)
  }

  /** Whether only own operations serve this path in the current snapshot. `path` is raw, without a query. */
  answersItself(method: string, host: string, path: string): boolean {
    return this.#current.answersItself(method, host, path)
  }

  swap(next: Snapshot): void {
    const old = this.#current
    this.#current = next
    this.#watch(old)
  }

  /** Resolves when every generation has closed; call after the last request. */
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
