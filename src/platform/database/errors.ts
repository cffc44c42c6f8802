import postgres from 'postgres'
import { defineError } from '../system/errors.ts'

export const DATABASE_REJECTED = defineError('BG_DATABASE_URL', {
  cause: '`database.url` is not valid, or PostgreSQL rejects its user, password, database name or permissions.',
  fix: 'Correct `database.url`, such as `postgres://user:password@host:5432/name`, or create the role and database.'
})

const DATABASE_OPEN = defineError('BG_DATABASE_OPEN', {
  cause:
    'The embedded database cannot be opened: the path is taken, its files are damaged, or disk, memory or permissions are missing.',
  fix: 'Follow the message: move the obstacle away, restore the folder from a backup, or set another `data` folder.'
})

export class DatabaseStopped extends Error {
  override name = 'DatabaseStopped'
  readonly code = 'DATABASE_STOPPED'
  readonly reason: string

  constructor(reason: string) {
    super(`The embedded database has stopped: ${reason}`)
    this.reason = reason
  }
}

/** The embedded database cannot be opened; the message says where, why, and how to fix it. */
export class DatabaseOpenError extends Error {
  override name = 'DatabaseOpenError'
  readonly code = DATABASE_OPEN.code

  constructor(folder: string, reason: string, options?: ErrorOptions) {
    super(`The embedded database in ${folder} cannot be opened: ${reason}`, options)
  }
}

/** The outer handle was used inside a transaction. Always a bug, never a user's fault. */
export class OutsideTransaction extends Error {
  override name = 'OutsideTransaction'

  constructor(what: string) {
    super(
      `${what} was used inside a transaction. Use the handle that transaction() passed in: the embedded database has one connection, so this would deadlock.`
    )
  }
}

const faultCodes = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECTION_DESTROYED',
  'CONNECT_TIMEOUT',
  'DATABASE_STOPPED',
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  // query_canceled: its time was over. admin_shutdown, crash_shutdown, cannot_connect_now, read_only_sql_transaction (a
  // standby)
  '57014',
  '57P01',
  '57P02',
  '57P03',
  '25006'
])

function codeOf(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error)) return null
  return typeof error.code === 'string' ? error.code : null
}

/** A unique index (SQLSTATE 23505) or exclusion constraint (23P01) refused the row; with `constraint`, that one. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  const code = codeOf(error)
  if (code !== '23505' && code !== '23P01') return false
  return (
    constraint === undefined ||
    (error instanceof Error && 'constraint_name' in error && error.constraint_name === constraint)
  )
}

/** A row was locked for longer than the statement's timeout (SQLSTATE 55P03). */
export function isLockedOut(error: unknown): boolean {
  return codeOf(error) === '55P03'
}

/** Whether the failed statement certainly wrote nothing. Unknown after a connection fault. */
export function isCertainlyUndone(error: unknown): boolean {
  if (isConnectionFault(error)) return false
  return error instanceof postgres.PostgresError || codeOf(error) === null
}

// invalid_password, invalid_authorization_specification, invalid_catalog_name, insufficient_privilege
const refusals = new Set(['28P01', '28000', '3D000', '42501'])

/** PostgreSQL refuses user, password, database name or privileges, which the operator must fix. */
export function isRefused(error: unknown): boolean {
  return error instanceof postgres.PostgresError && refusals.has(error.code)
}

/** A retry may succeed: the response is 503 (engine/operations/errors.ts), never 500 or 4xx. */
export function isConnectionFault(error: unknown): boolean {
  const code = codeOf(error)
  if (code === null) return false
  // A missing Unix socket, and no other missing file.
  if (code === 'ENOENT') return error instanceof Error && 'syscall' in error && error.syscall === 'connect'
  // Class 08: connection exceptions. Class 53: out of disk, memory or connections.
  return faultCodes.has(code) || /^(08|53)...$/.test(code)
}
