import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Measured } from './measure.ts'

const run = promisify(execFile)
const program = fileURLToPath(new URL('measure.ts', import.meta.url))

/**
 * Only the interpreter, one thread, and a young space in which nothing is collected: what is counted does not depend on
 * the machine.
 */
const COUNTING = [
  '--expose-gc',
  '--max-lazy',
  '--no-opt',
  '--no-maglev',
  '--no-sparkplug',
  '--single-threaded',
  '--min-semi-space-size=128',
  '--max-semi-space-size=128'
]

/** Bytes that each case allocates, or nanoseconds that it takes, by its id. */
export async function measured(what: 'bytes' | 'time'): Promise<ReadonlyMap<string, number>> {
  const { stdout } = await run(process.execPath, [...(what === 'bytes' ? COUNTING : []), program, what])
  // The program prints this type.
  return new Map(
    stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line) as Measured)
      .map(({ id, value }) => [id, value])
  )
}
