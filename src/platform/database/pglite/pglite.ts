import { spawn, type ChildProcess } from 'node:child_process'
import { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Clock } from '../../system/clock.ts'
import { DatabaseStopped } from '../errors.ts'
import { FolderInUse } from '../folder-lock.ts'
import type { Log } from '../../telemetry/log.ts'
import { frame, FrameReader, sendFrame } from './frames.ts'
import type { PgliteInput } from './process.ts'

// This file runs as .ts or, built, as .js; the process's file is beside it either way.
const processFile = fileURLToPath(
  new URL(`./process${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
)

// V8's optimizing compiler takes over 700 MB for PostgreSQL's largest functions, with little gain for short queries. A
// small young generation suits one query at a time.
const flags = [
  '--disable-sigusr1',
  '--liftoff-only',
  '--max-semi-space-size=2',
  '--disable-warning=ExperimentalWarning'
]

/** Milliseconds for the process to close the database and exit. It takes less than one second. */
const closingMs = 10_000

const cancelRequest = 80877102
const terminateMessage = 0x58
const nothing = Buffer.alloc(0)

/** Resets the session after a connection: Sync, for an error within a statement, and then a Query. */
const leave = ((): Buffer => {
  const statement = Buffer.from('rollback; deallocate all\0')
  const head = Buffer.from([0x53, 0, 0, 0, 4, 0x51, 0, 0, 0, 0])
  head.writeInt32BE(4 + statement.length, 6)
  return Buffer.concat([head, statement])
})()

/**
 * The embedded database as a server of postgres.js. All sockets share one session, so only one may be open at a time
 * (`max: 1`).
 */
export class PgliteServer {
  readonly #process: ChildProcess
  readonly #pipe: Socket
  readonly #folder: string | null
  readonly #log: Log
  readonly #clock: Clock
  readonly #sockets = new Set<PgliteSocket>()
  readonly #started = Promise.withResolvers<void>()
  readonly #ended = Promise.withResolvers<void>()
  readonly #stop = Promise.withResolvers<DatabaseStopped>()
  #reader: PgliteSocket | null = null
  #owed = 0
  /** A connection that waits for the previous one's abandoned answers. */
  #next: { readonly socket: PgliteSocket; readonly requests: Buffer[] } | null = null
  #stopped: DatabaseStopped | null = null

  private constructor(child: ChildProcess, pipe: Socket, folder: string | null, log: Log, clock: Clock) {
    this.#process = child
    this.#pipe = pipe
    this.#folder = folder
    this.#log = log
    this.#clock = clock
    const frames = new FrameReader(
      (bytes, whole) => {
        this.#answer(bytes, whole)
      },
      (kind, bytes) => {
        this.#hear(kind, bytes)
      }
    )
    pipe.on('data', bytes => {
      frames.read(bytes)
    })
    // The process has closed its side: its exit, reported next, has the reason.
    pipe.on('error', () => {
      pipe.destroy()
    })
    // Without the pipe the process is useless, and would keep the folder locked.
    pipe.on('close', () => {
      child.kill('SIGKILL')
    })
    child.on('error', error => {
      this.#end(error.message)
    })
    child.on('exit', (code, signal) => {
      this.#end(signal === null ? `its process ended with code ${code}` : `its process was ended by ${signal}`)
    })
  }

  /** @throws DatabaseStopped when it cannot start, FolderInUse when another process keeps the folder locked. */
  static async start(input: PgliteInput, log: Log, clock: Clock): Promise<PgliteServer> {
    const child = spawn(process.execPath, [...flags, processFile, JSON.stringify(input)], {
      // Nothing may come between the lines of the gateway's output. Other output, such as why V8 crashed, goes to
      // stderr.
      stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
      // It needs no environment, and must not inherit the gateway's NODE_OPTIONS.
      env: {},
      windowsHide: true
    })
    const pipe = child.stdio[3]
    if (!(pipe instanceof Socket)) throw new DatabaseStopped('its process has no pipe')
    const server = new PgliteServer(child, pipe, input.folder, log, clock)
    try {
      await server.#started.promise
    } catch (error) {
      // It unlocks the folder only when it exits.
      await server.#ended.promise
      throw error
    }
    return server
  }

  get stopped(): boolean {
    return this.#stopped !== null
  }

  get stop(): Promise<DatabaseStopped> {
    return this.#stop.promise
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  /** A fresh connection. Never throws: after a stop the connection itself fails with the reason, like a network one. */
  connect(): Duplex {
    const socket = new PgliteSocket(this)
    this.#sockets.add(socket)
    if (this.#stopped !== null) {
      const reason = this.#stopped
      setImmediate(() => {
        socket.destroy(reason)
      })
    }
    return socket
  }

  /**
   * Closes the database after pending queries. Kills the process after ten seconds: acknowledged data is written, and
   * shutdown must end.
   */
  async close(): Promise<void> {
    if (this.#stopped === null) sendFrame(this.#pipe, frame.close, nothing)
    const late = this.#clock.after(closingMs, () => {
      this.#log.warn(`The embedded database did not close within ${closingMs / 1000} s; its process is ended`)
      this.#process.kill('SIGKILL')
    })
    await this.#ended.promise
    late.cancel()
  }

  /** For tests: whether the database keeps this process alive, as it does by default; otherwise it exits too. */
  keepsAlive(keeps: boolean): void {
    this.#process[keeps ? 'ref' : 'unref']()
    this.#pipe[keeps ? 'ref' : 'unref']()
  }

  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.#ended.promise
  }

  send(socket: PgliteSocket, bytes: Buffer): void {
    if (this.#reader !== socket && this.#owed > 0) {
      if (this.#next?.socket !== socket) this.#next = { socket, requests: [] }
      this.#next.requests.push(bytes)
      return
    }
    this.#reader = socket
    this.#request(bytes)
  }

  forget(socket: PgliteSocket): void {
    this.#sockets.delete(socket)
    if (this.#next?.socket === socket) this.#next = null
    if (this.#reader !== socket) return
    this.#reader = null
    if (this.#stopped === null) this.#request(leave)
  }

  #request(bytes: Buffer): void {
    if (!this.#pipe.writable) return
    this.#owed++
    sendFrame(this.#pipe, frame.request, bytes)
  }

  #answer(bytes: Buffer, whole: boolean): void {
    if (bytes.length > 0) this.#reader?.push(bytes)
    if (!whole) return
    this.#owed--
    const next = this.#next
    if (this.#owed > 0 || next === null) return
    this.#next = null
    for (const request of next.requests) this.send(next.socket, request)
  }

  #hear(kind: number, bytes: Buffer): void {
    switch (kind) {
      case frame.ready:
        this.#started.resolve()
        break
      case frame.warning:
        this.#log.warn(bytes.toString())
        break
      case frame.failed:
        this.#fail(bytes.toString())
        break
      case frame.inUse:
        if (this.#folder !== null)
          this.#started.reject(new FolderInUse(this.#folder, bytes.length === 0 ? null : Number(bytes.toString())))
        break
      case frame.broken:
        // The protocol's state is unknown from here on, so nothing may be read from this session again.
        this.#fail(bytes.toString())
        this.#process.kill('SIGKILL')
        break
    }
  }

  #end(reason: string): void {
    this.#fail(reason)
    this.#ended.resolve()
  }

  #fail(reason: string): void {
    if (this.#stopped !== null) return
    this.#stopped = new DatabaseStopped(reason)
    this.#stop.resolve(this.#stopped)
    for (const socket of this.#sockets) socket.destroy(this.#stopped)
    this.#started.reject(this.#stopped)
  }
}

class PgliteSocket extends Duplex {
  /** postgres.js sends Terminate only to a socket that reads `open`. */
  get readyState(): string {
    return this.destroyed ? 'closed' : 'open'
  }

  readonly #server: PgliteServer

  constructor(server: PgliteServer) {
    super()
    this.#server = server
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    // Drops cancel requests, which would disturb the only session as a start-up message, and Terminate, which would end
    // it.
    const isCancel = chunk.length === 16 && chunk.readInt32BE(4) === cancelRequest
    if (isCancel)
      setImmediate(() => {
        this.destroy()
      })
    else if (chunk[0] !== terminateMessage) this.#server.send(this, chunk)
    done()
  }

  override _final(done: (error?: Error | null) => void): void {
    done()
    setImmediate(() => {
      this.destroy()
    })
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#server.forget(this)
    done(error)
  }
}
