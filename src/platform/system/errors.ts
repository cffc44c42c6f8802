/** Name of an error, such as `BG_CONFIG_SYNTAX`. It is printed by commands and written to the log. */
export type ErrorCode = `BG_${string}`

/** What docs/errors.md says of a code. */
export interface ErrorText {
  /** What went wrong. */
  readonly cause: string
  /** What to do. */
  readonly fix: string
  /** Status of the response; null where a plugin chooses it, left out where the error only reaches the log. */
  readonly status?: number | null
  /** `error` or `title` of the body, unless the response says another. */
  readonly title?: string
}

const defined = new Map<string, ErrorText>()

/** Every error that the loaded modules define, by code. */
export const definedErrors: ReadonlyMap<string, ErrorText> = defined

/**
 * Defines an error beside the code that throws it. A code is defined once and never changes its meaning.
 * @throws TypeError for a code that is defined already
 */
export function defineError<const T extends ErrorText>(code: ErrorCode, text: T): T & { readonly code: ErrorCode } {
  if (defined.has(code)) throw new TypeError(`the error code ${code} is defined already`)
  defined.set(code, text)
  return { code, ...text }
}

/** An error for operators that nothing but its code and message tells apart: printed without a stack. */
export class CodedError extends Error {
  override name = 'CodedError'
  readonly code: ErrorCode

  constructor({ code }: { readonly code: ErrorCode }, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** The code that an error carries; null for one without. */
export function codeOf(error: unknown): ErrorCode | null {
  const code = error instanceof Error && 'code' in error ? error.code : null
  return typeof code === 'string' && isErrorCode(code) ? code : null
}

function isErrorCode(text: string): text is ErrorCode {
  return defined.has(text)
}
