/**
 * Everything that is used of postgres.js beyond its README and its types: read in the source of 3.4.9, to be read again
 * there before another version is taken. `test/platform/database/postgres/postgres-mends.test.ts` shows for each use which fault of the
 * bare package it mends.
 */
import type { Duplex } from 'node:stream'
import postgres from 'postgres'
import { unsendable } from './unsendable.ts'

/** What is asked here of a statement as the package gives it, a `PendingQuery`. */
export interface Statement extends PromiseLike<unknown> {
  cancel(): void
}

/** Options that the package takes and its types do not know. */
interface UntypedOptions {
  /** Makes a connection; the README has it. It gets the options as parsed. */
  readonly socket?: (options: PostgresAddress) => Duplex | Promise<Duplex>
  /** Hears every notification of every connection, on whichever channel. */
  readonly onnotify?: (channel: string, payload: string) => void
  /** Statements that may be on their way over one connection. */
  readonly max_pipeline?: number
}

/** Where postgres.js wants to go: the members of its parsed options that a socket is made from. */
export interface PostgresAddress {
  readonly host: readonly string[]
  readonly port: readonly number[]
  /** A Unix socket in the place of host and port. */
  readonly path?: string | false
}

type Types = Record<string, postgres.PostgresType>

/** All options of a client. */
export type Options<T extends Types> = postgres.Options<T> & UntypedOptions

/** Members of a client and of its statements that are nobody's but the package's. */
interface InnerClient {
  readonly options: { readonly shared: { readonly typeArrayMap: Record<number, number> } }
}
interface InnerStatement {
  /** The connection that has taken it. */
  readonly state: unknown
  /** Called once, when it is executed; parts of other statements never are. */
  handler: (statement: unknown) => unknown
  resolve: (rows: unknown) => void
  reject: (error: unknown) => void
  /** Its values as they were sent; not there before. */
  readonly parameters?: readonly unknown[]
}

const inner = (statement: Statement): InnerStatement => statement as unknown as InnerStatement

/** Tells `sql.array` which array each type of element goes by, by OID. */
export function setArrayTypes(client: object, arrayOf: Readonly<Record<number, number>>): void {
  Object.assign((client as InnerClient).options.shared.typeArrayMap, arrayOf)
}

/** Calls `run` in the place of the statement's execution, with what executes it. */
export function onExecution(statement: Statement, run: (execute: () => unknown) => unknown): void {
  const { handler } = inner(statement)
  inner(statement).handler = given => run(() => handler(given))
}

/**
 * Calls `heard` when the statement fails, before anyone who waits for it hears; true keeps it pending. One with a value
 * that cannot be sent fails with a TypeError.
 */
export function onFailure(statement: Statement, heard: (error: unknown) => boolean): void {
  const { reject } = inner(statement)
  inner(statement).reject = error => {
    if (heard(error)) return
    const reason = error instanceof postgres.PostgresError ? unsendable(inner(statement).parameters ?? []) : null
    reject(reason === null ? error : new TypeError(`A value for the database ${reason}`, { cause: error }))
  }
}

/** Gives the statement the outcome of another one. */
export function settle(statement: Statement, other: PromiseLike<unknown>): void {
  other.then(inner(statement).resolve, (error: unknown) => {
    inner(statement).reject(error)
  })
}

/** The routine of PostgreSQL that refuses a prepared statement before it runs. */
const STALE = 'RevalidateCachedQuery'
const staleRoutine = Symbol('stale routine')

// The package knows that routine too, and sends the statement again over the same connection. Where others are on
// their way behind it the answers get mixed up and the connection hangs, and in a transaction it only repeats the error.
Object.defineProperty(postgres.PostgresError.prototype, 'routine', {
  set(this: object, routine: string) {
    const name = routine === STALE ? staleRoutine : 'routine'
    Object.defineProperty(this, name, { value: routine, enumerable: true, configurable: true, writable: true })
  }
})

/** Whether a prepared statement was refused because the tables have changed. It did not run. */
export function isStalePlan(error: unknown): boolean {
  return error instanceof postgres.PostgresError && staleRoutine in error
}

export function fail(statement: Statement, error: unknown): void {
  inner(statement).reject(error)
}

/** Whether a connection has taken the statement; while none has, `cancel()` takes it out of the line. */
export function isTaken(statement: Statement): boolean {
  return inner(statement).state !== null
}
