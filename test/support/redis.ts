import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import type { Test as T } from 'tap'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { MemoryState } from '../../src/platform/state/memory.ts'
import { openRedisState, redisAddresses, type RedisState } from '../../src/platform/state/redis.ts'
import type { State } from '../../src/platform/state/state.ts'
import { serversOnly } from './database.ts'
import { ManualClock } from './manual-clock.ts'

/**
 * The addresses of some nodes of a Redis Cluster, with commas between them, or null. With them the tests of the state
 * take the cluster instead of the one Redis.
 */
export function testClusterUrl(): string | null {
  const url = process.env['TEST_REDIS_CLUSTER_URL']
  return url === undefined || url === '' ? null : url
}

/** The address of a Redis to test with, or null. */
export function testRedisUrl(): string | null {
  const url = process.env['TEST_REDIS_URL']
  return testClusterUrl() ?? (url === undefined || url === '' ? null : url)
}

/** Removes the keys with this beginning, on whichever node they are. */
async function removeKeys(url: string, prefix: string): Promise<void> {
  const nodes = testClusterUrl() === null ? [url] : redisAddresses(url)
  for (const node of nodes) {
    const redis = new Redis(node)
    for (const key of await redis.keys(`${prefix}*`)) await redis.del(key)
    await redis.quit()
  }
}

/**
 * A state on Redis whose windows follow `clock` and whose keys no other test shares; they are removed when the test
 * ends.
 */
export async function openTestRedis(
  t: T,
  url: string,
  clock: ManualClock,
  prefix = `test:${randomBytes(6).toString('hex')}:`
): Promise<RedisState> {
  const state = await openRedisState(url, { clock, log: silentLog, prefix, time: 'clock' })
  t.teardown(async () => {
    await state.close()
    await removeKeys(url, prefix)
  })
  return state
}

/** Runs a test on the state in memory, and on Redis too where `TEST_REDIS_URL` names one. */
export async function eachState(
  t: T,
  name: string,
  run: (t: T, state: State, clock: ManualClock) => Promise<void>
): Promise<void> {
  const url = testRedisUrl()
  if (url === null || !serversOnly()) {
    await t.test(`${name} (memory)`, async t => {
      const clock = new ManualClock()
      await run(t, new MemoryState(clock), clock)
    })
  }
  if (url !== null) {
    await t.test(`${name} (Redis)`, async t => {
      const clock = new ManualClock()
      await run(t, await openTestRedis(t, url, clock), clock)
    })
  }
}
