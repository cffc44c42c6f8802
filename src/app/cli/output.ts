import { defineError } from '../../platform/system/errors.ts'

export const USAGE = defineError('BG_USAGE', {
  cause: 'A command was called with unknown or invalid arguments. Exit code 2.',
  fix: 'Run `boltgate <command> --help`.'
})

export const FILE_ACCESS = defineError('BG_FILE_ACCESS', {
  cause: 'A file or folder cannot be created, read or written; mostly in the `data` folder.',
  fix: "Give the gateway's user access, free disk space, or set another folder with `data`."
})

export const NOT_REACHED = defineError('BG_NOT_REACHED', {
  cause: 'A command could not connect to the gateway or the database.',
  fix: 'Start it, or correct the address.'
})

export const OTHER_RESPONSE = defineError('BG_OTHER_RESPONSE', {
  cause:
    'A command received an unexpected response: no 402, no challenge of the scheme, a long wait, an invoice that cannot be paid, or an error.',
  fix: 'Check that the address is a priced path of a gateway, and for `--wallet` its sandbox. The message has the response.'
})

export const UNEXPECTED = defineError('BG_UNEXPECTED', {
  cause: 'A command failed with an unexpected error.',
  fix: 'Run it again with `BOLTGATE_DEBUG=1` for the stack, and report it.'
})

/** Output of a command; tests pass arrays. */
export interface Output {
  print(line: string): void
  complain(line: string): void
}

export const processOutput: Output = {
  print: line => {
    process.stdout.write(`${line}\n`)
  },
  complain: line => {
    process.stderr.write(`${line}\n`)
  }
}

/**
 * Ignores a closed output pipe, as behind `| head`: a serving gateway must not exit. Other stream errors still end the
 * process.
 */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
    })
  }
}

/** Invalid usage of a command; shown without a stack, exit code 2. */
export class UsageError extends Error {
  override name = 'UsageError'
  readonly code = USAGE.code
}
