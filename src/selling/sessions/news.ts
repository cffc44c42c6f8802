import type { Database } from '../../platform/database/database.ts'
import type { Log } from '../../platform/telemetry/log.ts'

const CHANNEL = 'boltgate_sessions'

/** Called at each deposit and at the close of the session. */
type Waiting = () => void

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

  /** Never rejects: the change is stored, and waiting streams also poll. */
  async tell(id: string): Promise<void> {
    this.#hear(id)
    try {
      await this.#database.notify(CHANNEL, id)
    } catch (error) {
      this.#log.warn({ session: id, err: error }, 'Other gateways could not be notified of a session')
    }
  }

  /** Calls `heard` at the session's changes, until the returned function is called. */
  wait(id: string, heard: Waiting): () => void {
    const waiting = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, waiting.add(heard))
    return () => {
      waiting.delete(heard)
      if (waiting.size === 0) this.#waiting.delete(id)
    }
  }

  async close(): Promise<void> {
    await this.#unlisten?.()
    this.#unlisten = null
  }

  #hear(id: string): void {
    for (const heard of this.#waiting.get(id) ?? []) heard()
  }
}
