/** Name of an error, such as `BG_CONFIG_SYNTAX`, printed by commands and logged. */
export type ErrorCode = `BG_${string}`

export interface ErrorText {
  readonly cause: string
  readonly fix: string
  /** Status of the response; null where a plugin chooses it, omitted where the error only reaches the log. */
  readonly status?: number | null
  /** `error` or `title` of the body, unless the response says another. */
  readonly title?: string
}

const defined = new Map<string, ErrorText>()

export const definedErrors: ReadonlyMap<string, ErrorText> = defined

/**
 * Defines an error beside the code that throws it. A code never changes its meaning.
 * @throws TypeError for a duplicate code
 */
export function defineError<const T extends ErrorText>(code: ErrorCode, text: T): T & { readonly code: ErrorCode } {
  if (defined.has(code)) throw new TypeError(`the error code ${code} is defined already`)
  defined.set(code, text)
  return { code, ...text }
}

export class CodedError extends Error {
  override name = 'CodedError'
  readonly code: ErrorCode

  constructor({ code }: { readonly code: ErrorCode }, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

export function codeOf(error: unknown): ErrorCode | null {
  const code = error instanceof Error && 'code' in error ? error.code : null
  return typeof code === 'string' && isErrorCode(code) ? code : null
}

function isErrorCode(text: string): text is ErrorCode {
  return defined.has(text)
}
