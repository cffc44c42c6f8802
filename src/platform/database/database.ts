import { existsSync, mkdirSync } from 'node:fs'
import { isAbsolute, join, relative } from 'node:path'
import type { Duplex } from 'node:stream'
import postgres from 'postgres'
import type { Clock } from '../system/clock.ts'
import { DatabaseOpenError, DatabaseStopped, DATABASE_REJECTED } from './errors.ts'
import { lockFolder, type FolderLock } from './folder-lock.ts'
import type { Log } from '../telemetry/log.ts'
import { PgliteServer } from './pglite/pglite.ts'
import { isPostgresUrl, PostgresUrlError } from '../system/postgres-url.ts'
import { openClient, openServer } from './postgres/client.ts'
import { PostgresListener } from './postgres/listener.ts'
import { sessionLimits, verifySessions } from './postgres/session.ts'
import { Silence } from './postgres/silence.ts'
import { folderProbe } from './write-probe.ts'
import { CodedError } from '../system/errors.ts'
import { Client } from './client.ts'

export { DatabaseStopped, OutsideTransaction, isConnectionFault, isUniqueViolation } from './errors.ts'

/**
 * Runs SQL on the database or in a transaction. Tagged templates only; values become parameters.
 *
 * Types, the same on PostgreSQL and on the embedded database:
 * - `bigint` columns and `count(*)` arrive as BigInt (write `count(*)::int` for a number); both BigInt and number may
 * be sent.
 * - `integer`, `smallint`, floats: number. `numeric`: string, never a computed float (decision 8).
 * - `timestamptz`: Date, in milliseconds. Send Dates from the Clock; never write `now()`, which has microseconds and
 * ignores the injected clock (decision 9: what is written must compare equal when read).
 * - `jsonb`: send with `sql.json(value)`, an object; a string would become a JSON string. Arrives parsed.
 * - `bytea`: Buffer. Arrays: `sql.array([...])` or `= any(${list})`.
 * - `undefined` as a value is an error; use null.
 */
export type Sql = postgres.ISql<{ bigint: bigint }>

export type TransactionSql = postgres.TransactionSql<{ bigint: bigint }>

/** Result of a health check (decision 22). */
export interface Health {
  status: 'healthy' | 'degraded' | 'unhealthy'
  ms: number
  /** Without address or secrets; null when healthy. */
  error: string | null
}

export interface DatabaseLoad {
  readonly running: number
  readonly waiting: number
}

export interface Database {
  readonly kind: 'postgres' | 'pglite'
  /**
   * Each statement is its own transaction. Throws OutsideTransaction inside `transaction`: the embedded database would
   * deadlock.
   */
  readonly sql: Sql
  /**
   * Commits when `run` returns, rolls back when it throws. Use only the handle passed in, and make no network call
   * inside: reserve the row, call, then write. `run` is repeated, after a rollback, when a newer version's migration
   * invalidated a prepared statement. `slow`: statements may exceed a request's limits, as in migrations.
   * @throws OutsideTransaction when nested (use `tx.savepoint`).
   */
  transaction<T>(run: (tx: TransactionSql) => Promise<T>, options?: { readonly slow?: boolean }): Promise<T>
  /**
   * Notifications from any process. Those during a lost connection are lost, so listeners must also poll.
   * @returns a function that stops it.
   */
  listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>>
  /** Notifies `channel` with `payload` (at most 7,999 bytes); with `tx`, when that transaction commits. */
  notify(channel: string, payload: string, tx?: Sql): Promise<void>
  /**
   * `select 1`: healthy within 1 s, degraded within 3 s, else unhealthy (decision 22). Also unhealthy when unwritable,
   * checked every 30 s. Never throws, never waits longer than 3 s.
   */
  health(): Promise<Health>
  /** Use of this process's connections. `waiting`: statements and transactions without one. */
  load(): DatabaseLoad
  /**
   * Call once before the first use (postgres/session.ts).
   * @throws CodedError; the database's error when it is unavailable
   */
  verify(): Promise<void>
  /** Closes all connections after their running statements, waiting at most 5 s, and unlocks the folder. */
  close(): Promise<void>
}

export interface DatabaseOptions {
  /**
   * `postgres://…` (platform/system/postgres-url.ts); `pglite:` for the embedded one in `<dataDir>/database`,
   * `pglite:<name>` in another folder below the data folder, `pglite:memory` for a transient one.
   */
  url: string
  dataDir: string
  log: Log
  clock: Clock
  /** Most connections to PostgreSQL; default 10. The embedded one always has one. */
  connections?: number
  /** Address for LISTEN past a pooler at `url` that lends a session for each transaction; by default there is none. */
  listenUrl?: string
  /**
   * Milliseconds of silence where an answer is due, and of waiting for a connection; default 10,000. Then the statement
   * fails as if the connection had been lost. PostgreSQL cancels one after four fifths.
   */
  silence?: number
  /**
   * Image file for a new embedded database (pglite/image.ts), which saves seconds. Must be in a folder that only
   * trusted users can write.
   */
  image?: string | null
  /** Called when the embedded database exits unexpectedly. Every later statement fails. */
  onStopped?: (reason: DatabaseStopped) => void
}

/**
 * Does not contact PostgreSQL, so that a gateway can start and answer 503 while it is unavailable; locks, creates and
 * starts the embedded one.
 * @throws CodedError, FolderInUse, DatabaseOpenError, DatabaseStopped
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  if (isPostgresUrl(options.url)) {
    try {
      return openPostgres(options)
    } catch (error) {
      if (error instanceof PostgresUrlError) throw new CodedError(DATABASE_REJECTED, `database.url ${error.message}`)
      throw error
    }
  }
  if (options.url.startsWith('pglite:')) return openPglite(options)
  const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(options.url)?.[0] ?? 'no scheme'
  throw new CodedError(DATABASE_REJECTED, `database.url has ${scheme} but must begin with postgres:// or pglite:`)
}

function openPostgres(options: DatabaseOptions): Database {
  const { clock, listenUrl = '' } = options
  const isPooled = listenUrl !== ''
  const silence = new Silence(options.silence ?? 10_000)
  const limits = sessionLimits(silence.ms)
  const client = openServer(
    options.url,
    {
      silence,
      // A pooler sets the limits of its sessions.
      settings: { application_name: 'boltgate', TimeZone: 'UTC', ...(isPooled ? {} : limits) }
    },
    { max: options.connections ?? 10 }
  )
  const listener = new PostgresListener(isPooled ? listenUrl : options.url, {
    clock,
    log: options.log,
    silence
  })
  const listen = (channel: string, heard: (payload: string) => void): Promise<() => Promise<void>> =>
    listener.listen(channel, heard)
  return new Client('postgres', client, clock, silence, {
    listen,
    verify: () => verifySessions({ client, clock, limits, isPooled, listen }),
    close: async () => {
      await Promise.all([client.end({ timeout: 5 }), listener.close()])
    }
  })
}

async function openPglite(options: DatabaseOptions): Promise<Database> {
  const name = options.url.slice('pglite:'.length)
  const folder = name === 'memory' ? null : folderBelow(options.dataDir, name === '' ? 'database' : name)
  let lock: FolderLock | null = null
  if (folder !== null) {
    mkdirSync(options.dataDir, { recursive: true, mode: 0o700 })
    lock = lockFolder(folder)
  }
  const begun = options.clock.monotonic()
  const server = await startIn(folder, options).catch((error: unknown) => {
    lock?.release()
    throw error
  })
  let isClosing = false
  const follow = async (): Promise<void> => {
    const reason = await server.stop
    if (!isClosing) options.onStopped?.(reason)
  }
  void follow()
  if (folder !== null) {
    options.log.info(
      { folder, ms: Math.round(options.clock.monotonic() - begun) },
      'The embedded database is open. It does not fsync: it survives a crash of the gateway, but a power failure can lose the last writes. Use PostgreSQL where that matters'
    )
  }
  return databaseOn(
    {
      connect: () => server.connect(),
      get stopped() {
        return server.stopped
      },
      close: async () => {
        isClosing = true
        await server.close()
        lock?.release()
      }
    },
    options,
    folder
  )
}

/** @throws DatabaseOpenError for a fault of the folder or its content, FolderInUse, DatabaseStopped */
async function startIn(folder: string | null, { image = null, log, clock }: DatabaseOptions): Promise<PgliteServer> {
  const isThere = folder !== null && existsSync(folder)
  if (isThere && !existsSync(join(folder, 'PG_VERSION')))
    throw new DatabaseOpenError(
      folder,
      'what is there is no database; move it away, or name another folder with `data`'
    )
  if (folder !== null && !isThere) log.info({ folder }, 'Making the embedded database, this takes some seconds')
  try {
    return await PgliteServer.start({ folder, image }, log, clock)
  } catch (error) {
    if (folder === null || !(error instanceof DatabaseStopped)) throw error
    const cure = isThere
      ? 'its files are damaged or of another version: restore them from a copy, or name another folder with `data`'
      : 'it cannot be made there: name another folder with `data`'
    throw new DatabaseOpenError(
      folder,
      `${error.reason.replace(/\.$/, '')}; where disk and memory are not the reason, ${cure}`,
      {
        cause: error
      }
    )
  }
}

interface EmbeddedServer {
  readonly stopped: boolean
  connect(): Duplex
  close(): Promise<void>
}

/** The only client of a running embedded database; closing it closes the server. `folder` as the server has it. */
export function databaseOn(
  server: EmbeddedServer,
  options: Pick<DatabaseOptions, 'clock' | 'silence'>,
  folder: string | null
): Database {
  const silence = new Silence(options.silence ?? 10_000, { oneSession: true })
  const channels = new Map<string, Set<(payload: string) => void>>()
  const client = openClient({
    max: 1,
    max_lifetime: null,
    username: 'postgres',
    database: 'postgres',
    connection: { application_name: 'boltgate', TimeZone: 'UTC' },
    socket: () => {
      const socket = server.connect()
      silence.watch(socket)
      return socket
    },
    onnotify: (channel: string, payload: string) => {
      for (const heard of channels.get(channel) ?? []) heard(payload)
    }
  })
  return new Client('pglite', client, options.clock, silence, {
    // Its own tables would grow with each probe without vacuum; a database in memory has no disk.
    probe: folder === null ? { fault: async () => null } : folderProbe(folder, options.clock),
    listen: async (channel, heard) => {
      const subscribers = channels.get(channel) ?? new Set()
      channels.set(channel, subscribers)
      subscribers.add(heard)
      if (subscribers.size === 1) await client`listen ${client(channel)}`
      return async () => {
        if (!subscribers.delete(heard) || subscribers.size > 0) return
        channels.delete(channel)
        await client`unlisten ${client(channel)}`
      }
    },
    close: async () => {
      await client.end({ timeout: server.stopped ? 0 : 5 })
      await server.close()
    }
  })
}

function folderBelow(dataDir: string, name: string): string {
  const folder = join(dataDir, name)
  const way = relative(dataDir, folder)
  if (way === '' || way.startsWith('..') || isAbsolute(name)) {
    throw new CodedError(
      DATABASE_REJECTED,
      `database.url names the folder ${name}, which must be below the data folder; for example pglite:database`
    )
  }
  return folder
}
