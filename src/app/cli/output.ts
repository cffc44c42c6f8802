import type { ErrorCode } from '../../engine/errors/codes.ts'

/** Where a command writes; tests pass arrays. */
export interface Output {
  /** One line of result. */
  print(line: string): void
  /** One line about a mistake. */
  complain(line: string): void
}

/** Standard output and standard error. */
export const processOutput: Output = {
  print: line => {
    process.stdout.write(`${line}\n`)
  },
  complain: line => {
    process.stderr.write(`${line}\n`)
  }
}

/**
 * Lets the process go on when the reader of its output has gone, as behind `| head`: a gateway that serves must not end
 * for it. Other faults of the streams still end the process.
 */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
    })
  }
}

/** A mistake in how a command was called; shown without a stack, with exit code 2. */
export class UsageError extends Error {
  override name = 'UsageError'
  readonly code = 'BG_USAGE'
}

/** What kept a command that was called rightly from its work; shown without a stack, with exit code 1. */
export class CommandError extends Error {
  override name = 'CommandError'
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}
