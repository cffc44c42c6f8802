/**
 * Everything used of postgres.js beyond its README and its types, from the source of 3.4.9. Check it again before an
 * upgrade. `test/platform/database/postgres/postgres-fixes.test.ts` shows which fault each use fixes.
 */
import type { Duplex } from 'node:stream'
import postgres from 'postgres'
import { beginCall, isTracing } from '../../telemetry/tracing.ts'

export interface Statement extends PromiseLike<unknown> {
  cancel(): void
}

interface UntypedOptions {
  readonly socket?: (options: PostgresAddress) => Duplex | Promise<Duplex>
  readonly onnotify?: (channel: string, payload: string) => void
  /** Statements in flight per connection. */
  readonly max_pipeline?: number
}

export interface PostgresAddress {
  readonly host: readonly string[]
  readonly port: readonly number[]
  readonly path?: string | false
}

type Types = Record<string, postgres.PostgresType>

export type Options<T extends Types> = postgres.Options<T> & UntypedOptions

interface InnerClient {
  readonly options: { readonly shared: { readonly typeArrayMap: Record<number, number> } }
}
interface InnerStatement {
  readonly state: unknown
  /** Called once on execution; never for parts of other statements. */
  handler: (statement: unknown) => unknown
  resolve: (rows: unknown) => void
  reject: (error: unknown) => void
  readonly parameters?: readonly unknown[]
}

const inner = (statement: Statement): InnerStatement => statement as unknown as InnerStatement

export function setArrayTypes(client: object, arrayOf: Readonly<Record<number, number>>): void {
  Object.assign((client as InnerClient).options.shared.typeArrayMap, arrayOf)
}

export function onExecution(statement: Statement, run: (execute: () => unknown) => unknown): void {
  const { handler } = inner(statement)
  inner(statement).handler = given => run(() => handler(given))
}

/** Its span has the statement without values. Parts of statements are never executed, so have none. */
export function traced<Q extends Statement>(statement: Q, strings: readonly string[]): Q {
  if (isTracing)
    onExecution(statement, execute => {
      const text = strings.join('?').replace(/\s+/g, ' ').trim()
      const attributes = { 'db.system.name': 'postgresql', 'db.query.text': text }
      const call = beginCall(text.split(' ', 1)[0]?.toUpperCase() ?? '', attributes)
      if (call !== null)
        statement.then(
          () => call.end(),
          (error: unknown) => call.end(error)
        )
      return execute()
    })
  return statement
}

/**
 * Calls `heard` before other handlers when the statement fails; true keeps it pending. An unsendable value fails with a
 * TypeError.
 */
export function onFailure(statement: Statement, heard: (error: unknown) => boolean): void {
  const { reject } = inner(statement)
  inner(statement).reject = error => {
    if (heard(error)) return
    const reason = error instanceof postgres.PostgresError ? unsendable(inner(statement).parameters ?? []) : null
    reject(reason === null ? error : new TypeError(`A value for the database ${reason}`, { cause: error }))
  }
}

export function settle(statement: Statement, other: PromiseLike<unknown>): void {
  other.then(inner(statement).resolve, (error: unknown) => {
    inner(statement).reject(error)
  })
}

/** The routine of PostgreSQL that refuses a prepared statement before it runs. */
const STALE = 'RevalidateCachedQuery'
const staleRoutine = Symbol('stale routine')

// The package checks that routine too, and resends the statement over the same connection. With others in flight the
// connection hangs, and in a transaction it only repeats the error.
Object.defineProperty(postgres.PostgresError.prototype, 'routine', {
  set(this: object, routine: string) {
    const name = routine === STALE ? staleRoutine : 'routine'
    Object.defineProperty(this, name, { value: routine, enumerable: true, configurable: true, writable: true })
  }
})

export function isStalePlan(error: unknown): boolean {
  return error instanceof postgres.PostgresError && staleRoutine in error
}

export function fail(statement: Statement, error: unknown): void {
  inner(statement).reject(error)
}

export function isTaken(statement: Statement): boolean {
  return inner(statement).state !== null
}

/** Prefix of an unsendable value's text, before the reason. PostgreSQL accepts a NUL in no value of any type. */
const MARK = '\0cannot be sent: '

export const UNDEFINED = `${MARK}undefined; say null`

/**
 * Makes serializers send a value that they fail on as one that PostgreSQL refuses. postgres.js 3.4 reports an error
 * while writing a statement to the one whose answer is due, and keeps the unwritten one queued: answers then reach the
 * wrong statements, and the connection hangs.
 */
export function guardSerializers(serializers: Record<string, (value: unknown) => unknown>): void {
  for (const [type, serialize] of Object.entries(serializers)) serializers[type] = value => sendable(value, serialize)
}

function sendable(value: unknown, serialize: (value: unknown) => unknown): string {
  if (value === UNDEFINED) return UNDEFINED
  try {
    const text = serialize(value)
    return typeof text === 'string' ? text : `${MARK}${typeof value}`
  } catch (error) {
    return `${MARK}${error instanceof Error ? error.message : String(error)}`
  }
}

function unsendable(values: readonly unknown[]): string | null {
  for (const value of values) if (typeof value === 'string' && value.startsWith(MARK)) return value.slice(1)
  return null
}
