import { configurationErrors } from './configuration.ts'
import type { ErrorEntry, ResponseEntry } from './entry.ts'
import { operationErrors } from './operation.ts'
import { responseErrors } from './response.ts'
import { startErrors } from './start.ts'

/**
 * Every error that an operator or a client can meet, by its code. A code never changes its meaning and is never given
 * to another error; docs/errors.md is made from this table.
 */
export const errorTable = { ...configurationErrors, ...startErrors, ...operationErrors, ...responseErrors }

/** The name of an error, such as `BG_CONFIG_SYNTAX`. */
export type ErrorCode = keyof typeof errorTable

/** Codes of errors in the configuration. */
export type ConfigurationCode = keyof typeof configurationErrors

/** Codes of errors that clients are answered with. */
export type ResponseCode = keyof typeof responseErrors

const byResponse = new Map<string, ResponseCode>()
for (const [code, { status, error }] of Object.entries<ResponseEntry>(responseErrors)) {
  // The keys of the table are its codes.
  if (error !== undefined) byResponse.set(`${status} ${error}`, code as ResponseCode)
}

/**
 * The code of a response by what clients know it by: its status and the `error` or `title` of its body. What the table
 * does not have is a plugin's own.
 */
export function responseCode(status: number, error: string): ResponseCode {
  return byResponse.get(`${status} ${error}`) ?? 'BG_PLUGIN_RESPONSE'
}

/** The code that an error carries; null for what has none. */
export function codeOf(error: unknown): ErrorCode | null {
  const code = error instanceof Error && 'code' in error ? error.code : null
  return typeof code === 'string' && isErrorCode(code) ? code : null
}

function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(errorTable, text)
}

/** What the table says of a code. */
export function entryOf(code: ErrorCode): ErrorEntry {
  return errorTable[code]
}
