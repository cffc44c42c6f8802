import type net from 'node:net'
import type postgres from 'postgres'

/** The database did not answer, or did not take a statement, in the time that it is given. */
export class DatabaseSilent extends Error {
  override name = 'DatabaseSilent'
  readonly code = 'ETIMEDOUT'

  constructor () {
    super('The database did not answer in time')
  }
}

const SYNC = 0x53
const QUERY = 0x51
const FLUSH = 0x48
const READY = 0x5a

/**
 * Ends what waits for a PostgreSQL that says nothing: behind a network that drops packets a connection stays open for a quarter
 * of an hour, and with it every statement on it. The server's own statement_timeout is shorter, so a server that is only slow
 * has spoken before.
 */
export class Silence {
  /** Milliseconds for which nothing may come where an answer is due. */
  readonly ms: number
  #patient = 0

  constructor (ms: number) {
    this.ms = ms
  }

  /** While this runs silence is borne: migrations may take long, and wait for those of another process. */
  async bear<T> (run: () => Promise<T>): Promise<T> {
    this.#patient++
    try {
      return await run()
    } finally {
      this.#patient--
    }
  }

  /** Destroys the socket with `DatabaseSilent` when an answer is due on it and nothing comes. */
  watch (socket: net.Socket): void {
    const answers = new AnswersDue()
    let timer: NodeJS.Timeout | null = null
    let quietFrom = 0
    const look = (): void => {
      timer = null
      if (!answers.due || socket.destroyed) return
      const left = this.#patient > 0 ? this.ms : quietFrom + this.ms - performance.now()
      if (left <= 0) socket.destroy(new DatabaseSilent())
      else timer = setTimeout(look, left).unref()
    }
    const write = socket.write.bind(socket)
    let first = true
    // The client writes whole messages as one buffer; the callback is the only other argument that it gives.
    socket.write = (bytes: Uint8Array | string, ...rest: unknown[]): boolean => {
      if (first) socket.on('data', heard)
      if (!answers.due) quietFrom = performance.now()
      if (typeof bytes !== 'string') answers.sent(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), first)
      first = false
      if (answers.due) timer ??= setTimeout(look, this.ms).unref()
      const [done] = rest
      return typeof done === 'function' ? write(bytes, done as () => void /* a write's callback */) : write(bytes)
    }
    const heard = (bytes: Buffer): void => {
      quietFrom = performance.now()
      answers.heard(bytes)
    }
  }

  /**
   * Rejects a statement that no connection has taken in time, and then never runs it; one that was sent is given as long again, for
   * its connection to end. Call it before the statement is awaited.
   */
  limit<Q extends postgres.PendingQuery<postgres.Row[]>> (query: Q): Q {
    // postgres.js' Query has these; its types do not tell.
    const inner = query as unknown as { state: unknown, handler: (query: unknown) => unknown, reject: (error: Error) => void }
    const handler = inner.handler
    // Called when it is executed: parts of other statements never are.
    inner.handler = given => {
      const late = (): void => {
        inner.reject(new DatabaseSilent())
        if (inner.state === null) query.cancel()
      }
      let timer = setTimeout(() => {
        if (inner.state === null) late()
        else timer = setTimeout(late, this.ms)
      }, this.ms)
      const settled = (): void => { clearTimeout(timer) }
      query.then(settled, settled)
      return handler(given)
    }
    return query
  }

  /** Runs `begin` with what tells that its connection was had; rejects when that takes too long, and then undoes what comes of it. */
  async begun<T> (begin: (had: () => void) => Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>()
    let over = false
    const timer = setTimeout(() => {
      over = true
      late.reject(new DatabaseSilent())
    }, this.ms)
    try {
      return await Promise.race([begin(() => {
        clearTimeout(timer)
        if (over) throw new DatabaseSilent()
      }), late.promise])
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Counts the answers that are due on one connection, by the messages of both sides (PostgreSQL, Message Flow). */
class AnswersDue {
  #ready = 0
  #described = false
  readonly #head = Buffer.alloc(5)
  #have = 0
  #left = 0

  get due (): boolean {
    return this.#ready > 0 || this.#described
  }

  /** `first`: the start-up message, which has no type. */
  sent (bytes: Buffer, first: boolean): void {
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

  heard (bytes: Buffer): void {
    this.#described = false
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
      if (this.#head[0] === READY) this.#ready--
    }
  }
}
