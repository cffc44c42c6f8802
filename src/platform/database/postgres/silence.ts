import type { Duplex } from 'node:stream'
import { fail, isTaken, onExecution, traced, type Statement } from './inside.ts'

class DatabaseSilent extends Error {
  override name = 'DatabaseSilent'
  readonly code = 'ETIMEDOUT'

  constructor() {
    super('The database did not answer in time')
  }
}

const SYNC = 0x53
const QUERY = 0x51
const FLUSH = 0x48
const READY = 0x5a

interface SilenceOptions {
  /** All statements share one session: a waiting one fails only when nothing at all was received in time. */
  readonly oneSession?: boolean
}

/**
 * Fails queries on a silent connection. Without it, a network that drops packets keeps a dead connection open for 15
 * minutes. A server's own statement_timeout is shorter, so one that is only slow answers earlier.
 */
export class Silence {
  /** Milliseconds of silence allowed where an answer is due. */
  readonly ms: number
  readonly #oneSession: boolean
  #patient = 0
  readonly #statements = new Set<Statement>()
  /** Transactions that have a connection, and those that wait for one. */
  #transactions = 0
  #beginning = 0
  #heardAt = performance.now()

  constructor(ms: number, { oneSession = false }: SilenceOptions = {}) {
    this.ms = ms
    this.#oneSession = oneSession
  }

  /** Statements and transactions that have a connection, and those that wait for one. */
  get load(): { readonly running: number; readonly waiting: number } {
    const taken = [...this.#statements].filter(isTaken).length
    return { running: taken + this.#transactions, waiting: this.#statements.size - taken + this.#beginning }
  }

  /** Suspends the limit while this runs: migrations may take long, and wait for another process's. */
  async bear<T>(run: () => Promise<T>): Promise<T> {
    this.#patient++
    try {
      return await run()
    } finally {
      this.#patient--
    }
  }

  /**
   * Destroys the socket with `DatabaseSilent` when a due answer does not come, or when its pool has forgotten it.
   *
   * postgres.js 3.4 makes a connection for a statement, and counts it as connecting until that statement has run: when
   * it was canceled meanwhile, the connection is leaked.
   */
  watch(socket: Duplex): void {
    const answers = new AnswersDue()
    let timer: NodeJS.Timeout | null = null
    let quietFrom = 0
    let writes = 0
    let ready = false
    const left = (): number => (this.#patient > 0 ? this.ms : quietFrom + this.ms - performance.now())
    const look = (): void => {
      timer = null
      if (!answers.due || socket.destroyed) return
      if (left() > 0) {
        again()
        return
      }
      // This process may have been blocked: buffered input is read before this.
      setImmediate(() => {
        if (!answers.due) return
        if (left() > 0) again()
        else socket.destroy(new DatabaseSilent())
      })
    }
    const again = (): void => {
      timer ??= setTimeout(look, left()).unref()
    }
    const write = socket.write.bind(socket)
    // The client writes whole messages as one buffer; the callback is the only other argument that it gives.
    socket.write = (bytes: Uint8Array | string, ...rest: unknown[]): boolean => {
      if (writes === 0) socket.on('data', heard)
      if (!answers.due) quietFrom = performance.now()
      if (typeof bytes !== 'string')
        answers.sent(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), writes === 0)
      writes++
      if (answers.due) timer ??= setTimeout(look, this.ms).unref()
      const [done] = rest
      return typeof done === 'function' ? write(bytes, done as () => void /* a write's callback */) : write(bytes)
    }
    const heard = (bytes: Buffer): void => {
      quietFrom = this.#heardAt = performance.now()
      answers.heard(bytes)
      if (ready || !answers.begun) return
      ready = true
      // One of a kilobyte or more was written during the ready event.
      if (answers.due) return
      const before = writes
      // A statement started on readiness is written in this turn or the next.
      setImmediate(() => {
        setImmediate(() => {
          if (writes === before) socket.destroy()
        })
      })
    }
    // An unanswered Terminate message leaks the pool slot.
    socket.once('finish', () => {
      setTimeout(() => {
        socket.destroy()
      }, this.ms).unref()
    })
  }

  /**
   * Rejects a statement that no connection has taken in time; one that was sent gets as long again, for its connection
   * to end. Call it before the statement is awaited. `strings` are the template's, for traces.
   */
  limit<Q extends Statement>(statement: Q, strings: readonly string[] = []): Q {
    traced(statement, strings)
    onExecution(statement, execute => {
      const late = (): void => {
        fail(statement, new DatabaseSilent())
        // For a statement whose connection is being made this costs the connection (see `watch`).
        if (!isTaken(statement)) statement.cancel()
      }
      let timer: NodeJS.Timeout
      let sentBefore = false
      const look = (): void => {
        const left = this.#waitLeft()
        if (left > 0) timer = setTimeout(look, left)
        else if (!isTaken(statement) || sentBefore) late()
        else {
          sentBefore = true
          timer = setTimeout(look, this.ms)
        }
      }
      timer = setTimeout(look, this.ms)
      this.#statements.add(statement)
      const settled = (): void => {
        clearTimeout(timer)
        this.#statements.delete(statement)
      }
      statement.then(settled, settled)
      return execute()
    })
    return statement
  }

  /**
   * Runs `begin` with a callback for having a connection; rejects when that takes too long, and then rolls back a late
   * one.
   */
  async begun<T>(begin: (had: () => void) => Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>()
    let over = false
    const look = (): void => {
      const left = this.#waitLeft()
      if (left > 0) {
        timer = setTimeout(look, left)
        return
      }
      over = true
      late.reject(new DatabaseSilent())
    }
    let timer = setTimeout(look, this.ms)
    let hasConnection = false
    this.#beginning++
    try {
      return await Promise.race([
        begin(() => {
          clearTimeout(timer)
          if (over) throw new DatabaseSilent()
          hasConnection = true
          this.#beginning--
          this.#transactions++
        }),
        late.promise
      ])
    } finally {
      clearTimeout(timer)
      if (hasConnection) this.#transactions--
      else this.#beginning--
    }
  }

  #waitLeft(): number {
    if (!this.#oneSession) return 0
    return this.#patient > 0 ? this.ms : this.#heardAt + this.ms - performance.now()
  }
}

/** Counts due answers on one connection, by the messages of both sides (PostgreSQL, Message Flow). */
class AnswersDue {
  #ready = 0
  #described = false
  begun = false
  readonly #head = Buffer.alloc(5)
  #have = 0
  #left = 0

  get due(): boolean {
    return this.#ready > 0 || this.#described
  }

  sent(bytes: Buffer, first: boolean): void {
    let at = 0
    if (first) {
      this.#ready++
      at = bytes.readUInt32BE(0)
    }
    while (at + 5 <= bytes.length) {
      const type = bytes[at]
      if (type === SYNC || type === QUERY) this.#ready++
      else if (type === FLUSH) this.#described = true
      at += 1 + bytes.readUInt32BE(at + 1)
    }
  }

  heard(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length) {
      if (this.#left > 0) {
        const step = Math.min(this.#left, bytes.length - at)
        this.#left -= step
        at += step
        continue
      }
      this.#head[this.#have++] = bytes[at++] ?? 0
      if (this.#have < 5) continue
      this.#have = 0
      this.#left = this.#head.readUInt32BE(1) - 4
      if (this.#ready === 0) this.#described = false
      if (this.#head[0] !== READY) continue
      this.begun = true
      this.#ready--
    }
  }
}
