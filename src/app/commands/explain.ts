import { ConfigError } from '../../engine/config/diagnose.ts'
import { DATABASE_REJECTED, isConnectionFault, isRefused } from '../../platform/database/errors.ts'
import { codeOf, type ErrorCode } from '../../platform/system/errors.ts'
import { FILE_ACCESS, NOT_REACHED, UNEXPECTED } from '../cli/output.ts'

export function startCode(error: unknown): ErrorCode {
  const own = codeOf(error)
  if (own !== null) return own
  const { code, syscall, cause } = systemError(error)
  if (isRefused(error)) return DATABASE_REJECTED.code
  if (isConnectionFault(error) || isConnectionFault(cause)) return NOT_REACHED.code
  return syscall !== undefined && code !== undefined ? FILE_ACCESS.code : UNEXPECTED.code
}

/** Message, with that of a cause without a code; the stack only with BOLTGATE_DEBUG. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (process.env['BOLTGATE_DEBUG'] !== undefined) return error.stack ?? error.message
  if (isRefused(error)) return `PostgreSQL refuses what database.url asks for: ${error.message}`
  const message = fileWords(error) ?? error.message
  return codeOf(error) === null && error.cause instanceof Error && !message.includes(error.cause.message)
    ? `${message}: ${error.cause.message}`
    : message
}

export interface Logged {
  readonly code?: ErrorCode
  readonly reason?: string
  readonly err?: unknown
}

/**
 * Log fields of an error: code and message when users can fix it, the stack for bugs in boltgate or a custom plugin.
 */
export function logged(error: unknown): Logged {
  const code = startCode(error)
  if (code === UNEXPECTED.code) return { err: error }
  const thrown = error instanceof ConfigError ? error.cause : undefined
  return { code, reason: describe(error), ...(thrown === undefined ? {} : { err: thrown }) }
}

/** The code ends the first line, as in configuration errors. */
export function withCode(message: string, code: ErrorCode): string {
  const end = message.indexOf('\n')
  return end === -1 ? `${message} [${code}]` : `${message.slice(0, end)} [${code}]${message.slice(end)}`
}

/** Our message for a folder that cannot be created; null: the system's message suffices. */
function fileWords(error: Error): string | null {
  const { code, syscall, path } = systemError(error)
  if (syscall !== 'mkdir' || path === undefined || (code !== 'EEXIST' && code !== 'ENOTDIR')) return null
  return `The folder ${path} cannot be created, because a file is there or above it (${code}). Name another folder, or move the file`
}

function systemError(error: unknown): Partial<NodeJS.ErrnoException> {
  return error instanceof Error ? error : {}
}
