import type { Database } from '../../platform/database/database.ts'
import type { Log } from '../../platform/telemetry/log.ts'

const CHANNEL = 'boltgate_sessions'

/** Told once, when a session got a deposit or was closed; another wait begins anew. */
type Waiting = () => void

/** Tells all gateways of sessions that got a deposit or were closed, for the streams that wait for that. */
export class SessionNews {
  readonly #database: Pick<Database, 'listen' | 'notify'>
  readonly #log: Log
  readonly #waiting = new Map<string, Set<Waiting>>()
  #unlisten: (() => Promise<void>) | null = null

  constructor(database: Pick<Database, 'listen' | 'notify'>, log: Log) {
    this.#database = database
    this.#log = log
  }

  async start(): Promise<void> {
    this.#unlisten ??= await this.#database.listen(CHANNEL, id => {
      this.#hear(id)
    })
  }

  /** Never rejects: what is told has been written, and whoever waits looks by itself now and then. */
  async tell(id: string): Promise<void> {
    this.#hear(id)
    try {
      await this.#database.notify(CHANNEL, id)
    } catch (error) {
      this.#log.warn({ session: id, err: error }, 'Other gateways could not be told of a session')
    }
  }

  /** Calls `heard` at the next news of a session, unless the function that is returned was called before. */
  wait(id: string, heard: Waiting): () => void {
    const waiting = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, waiting.add(heard))
    return () => {
      waiting.delete(heard)
      if (waiting.size === 0 && this.#waiting.get(id) === waiting) this.#waiting.delete(id)
    }
  }

  async close(): Promise<void> {
    await this.#unlisten?.()
    this.#unlisten = null
  }

  #hear(id: string): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    for (const heard of waiting ?? []) heard()
  }
}
