// Run by micro.ts and guard.ts with flags of its own: `measure.ts time|bytes` prints a line of JSON for each case.
import { cases } from './cases.ts'

/** What was found of one case. */
export interface Measured {
  readonly id: string
  readonly value: number
}

/** Kept where the compiler cannot see that it is never read. */
const kept: { last: unknown } = { last: null }

/** Nanoseconds for one run: the best of several batches, which other programs disturbed least. */
function time(run: () => unknown): number {
  let best = Infinity
  for (let batch = 0; batch < 20; batch++) {
    const begin = process.hrtime.bigint()
    for (let at = 0; at < 5_000; at++) kept.last = run()
    best = Math.min(best, Number(process.hrtime.bigint() - begin) / 5_000)
  }
  return best
}

const RUNS = 2_000

/**
 * Bytes that one run allocates on the heap. It is the same every time: the interpreter alone runs (a compiler would
 * leave some objects out, sooner or later), no other thread allocates, and the young space holds a whole batch, so that
 * nothing is collected.
 */
function bytes(run: () => unknown): number {
  const { gc } = globalThis
  if (gc === undefined) throw new Error('run it with --expose-gc')
  for (let at = 0; at < 200; at++) kept.last = run()
  const found: number[] = []
  for (let batch = 0; batch < 5; batch++) {
    void gc()
    const before = process.memoryUsage().heapUsed
    for (let at = 0; at < RUNS; at++) kept.last = run()
    found.push((process.memoryUsage().heapUsed - before) / RUNS)
  }
  return found.toSorted((a, b) => a - b)[2] ?? NaN
}

const measure = process.argv[2] === 'bytes' ? bytes : time
for (const { id, run } of cases)
  process.stdout.write(`${JSON.stringify({ id, value: measure(run) } satisfies Measured)}\n`)
