import { ConfigError } from '../../engine/config/diagnose.ts'
import { DATABASE_REJECTED, isConnectionFault, isRefused } from '../../platform/database/errors.ts'
import { codeOf, type ErrorCode } from '../../platform/system/errors.ts'
import { FILE_ACCESS, NOT_REACHED, UNEXPECTED } from '../cli/output.ts'

/** The code of what ended a command or a start; `BG_UNEXPECTED` is a fault of boltgate. */
export function startCode(error: unknown): ErrorCode {
  const own = codeOf(error)
  if (own !== null) return own
  const { code, syscall, cause } = systemError(error)
  if (isRefused(error)) return DATABASE_REJECTED.code
  if (isConnectionFault(error) || isConnectionFault(cause)) return NOT_REACHED.code
  return syscall !== undefined && code !== undefined ? FILE_ACCESS.code : UNEXPECTED.code
}

/** The message, and that of its cause where it has no code and may not say why; the stack only where BOLTGATE_DEBUG asks for it. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (process.env['BOLTGATE_DEBUG'] !== undefined) return error.stack ?? error.message
  if (isRefused(error)) return `PostgreSQL refuses what database.url asks for: ${error.message}`
  const message = fileWords(error) ?? error.message
  return codeOf(error) === null && error.cause instanceof Error && !message.includes(error.cause.message)
    ? `${message}: ${error.cause.message}`
    : message
}

/** An error as the log has it. */
export interface Logged {
  readonly code?: ErrorCode
  readonly reason?: string
  readonly err?: unknown
}

/**
 * What the log says of an error: what others can mend by its code and its words, a fault of ours with its stack, by
 * which it is found. So is what a plugin of the operator's own threw.
 */
export function logged(error: unknown): Logged {
  const code = startCode(error)
  if (code === UNEXPECTED.code) return { err: error }
  const thrown = error instanceof ConfigError ? error.cause : undefined
  return { code, reason: describe(error), ...(thrown === undefined ? {} : { err: thrown }) }
}

/** The name of the error stands at the end of its first line, as it does for mistakes in the configuration. */
export function withCode(message: string, code: ErrorCode): string {
  const end = message.indexOf('\n')
  return end === -1 ? `${message} [${code}]` : `${message.slice(0, end)} [${code}]${message.slice(end)}`
}

/** A folder that cannot be made, in words of ours; the system's own are good enough for the rest. */
function fileWords(error: Error): string | null {
  const { code, syscall, path } = systemError(error)
  if (syscall !== 'mkdir' || path === undefined || (code !== 'EEXIST' && code !== 'ENOTDIR')) return null
  return `The folder ${path} cannot be made, since a file stands there or above it (${code}); name another folder, or move the file away`
}

function systemError(error: unknown): Partial<NodeJS.ErrnoException> {
  return error instanceof Error ? error : {}
}
