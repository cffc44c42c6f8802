import { setTimeout } from 'node:timers/promises'
import type { Lifetime } from './database.ts'
import type { TestGateway } from './gateway.ts'
import type { ManualClock } from './manual-clock.ts'

/**
 * Lets time pass until `over` is aborted: `step` milliseconds of the clock for each turn, and no turn before `pace`, which
 * asks the server that others wait for, has had its reply. On a loaded machine they would give up otherwise before that
 * server had come to them.
 */
export async function passTime(
  clock: ManualClock,
  pace: () => Promise<unknown>,
  over: AbortSignal,
  step = 50
): Promise<void> {
  while (!over.aborted) {
    clock.advance(step)
    await setTimeout(2)
    await pace()
  }
}

/**
 * What comes of something at a gateway that waits for time: a quarter of a second passes for each turn in which its
 * database and the gateway itself have answered, so that its own time limits are not over before others had theirs.
 */
export async function inTimeOf<R>({ database, send }: TestGateway, clock: ManualClock, doing: Promise<R>): Promise<R> {
  const over = new AbortController()
  const pace = async (): Promise<void> => {
    await database.sql`select 1`
    await send('GET', '/health')
  }
  const time = passTime(clock, pace, over.signal, 250)
  try {
    return await doing
  } finally {
    over.abort()
    await time
  }
}

const TURN = 10

/**
 * Milliseconds since now in which this process had its turns. Where a loaded machine lets it wait, real time says nothing
 * about how long something takes.
 */
export function stopwatch(t: Lifetime): () => number {
  let turns = 0
  const counting = setInterval(() => {
    turns++
  }, TURN)
  t.teardown(() => {
    clearInterval(counting)
  })
  return () => turns * TURN
}
