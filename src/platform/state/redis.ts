// Before ioredis, which it changes.
import './fast-strings.ts'
import { Cluster, Redis } from 'ioredis'
import { inTime, pause, type Clock } from '../system/clock.ts'
import type { Log } from '../telemetry/log.ts'
import { MemoryState } from './memory.ts'
import { HeldPermits } from './permits.ts'
import { scripts } from './scripts.ts'
import {
  quietly,
  StateUnavailable,
  type Begun,
  type Bucket,
  type Maybe,
  type ReplayRecord,
  type State,
  type Taken,
  type LimitVerdict,
  type Waited
} from './state.ts'

interface RedisStateOptions {
  clock: Clock
  log: Log
  /** Prefix of every key; default `bg:`. */
  prefix?: string
  /**
   * Time source of windows: Redis (`server`, the default), so that nodes with different clocks agree; or the Clock, for
   * tests.
   */
  time?: 'server' | 'clock'
}

const commandTimeoutMs = 1_000
const connectTimeoutMs = 2_000

const retryAfter = (times: number): number => Math.min(100 * 2 ** Math.min(times, 6), 3_000)

export function redisAddresses(url: string): string[] {
  // A password may contain a comma.
  return url.split(/,(?=rediss?:\/\/)/)
}

/**
 * The client of one Redis, or of a cluster by some of its nodes. Fails fast while Redis is down: a request must not
 * queue for it.
 */
function clientOf(url: string): Redis | Cluster {
  const addresses = redisAddresses(url)
  if (addresses.length === 1)
    return new Redis(url, {
      lazyConnect: true,
      connectTimeout: connectTimeoutMs,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      enableAutoPipelining: true,
      retryStrategy: retryAfter,
      scripts
    })
  const nodes = addresses.map(address => new URL(address))
  const [first] = nodes
  return new Cluster(
    nodes.map(({ hostname, port }) => ({ host: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port || 6379) })),
    {
      lazyConnect: true,
      enableOfflineQueue: false,
      enableAutoPipelining: true,
      clusterRetryStrategy: retryAfter,
      slotsRefreshTimeout: connectTimeoutMs,
      // A command lost with its node is not resent: it may have run.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      redisOptions: {
        connectTimeout: connectTimeoutMs,
        maxRetriesPerRequest: 0,
        // All nodes have the same user, as a cluster needs for `MIGRATE`.
        ...(first?.username ? { username: decodeURIComponent(first.username) } : {}),
        ...(first?.password ? { password: decodeURIComponent(first.password) } : {}),
        ...(first?.protocol === 'rediss:' ? { tls: {} } : {})
      },
      scripts
    }
  )
}

/**
 * Waits up to 2 s for the connection, then retries in the background: until then every operation rejects with
 * StateUnavailable.
 */
export async function openRedisState(url: string, options: RedisStateOptions): Promise<RedisState> {
  const redis = clientOf(url)
  let isDown = false
  const gone = (reason: string): void => {
    if (!isDown) options.log.error({ reason }, 'The state (Redis) is unavailable; retrying')
    isDown = true
  }
  const back = (): void => {
    if (isDown) options.log.info('The state (Redis) is back')
    isDown = false
  }
  redis.on('error', (error: Error) => {
    gone(error.message)
  })
  redis.on('ready', back)
  // A cluster's client stays ready while nodes come and go. While it connects it resolves names.
  redis.on('-node', () => {
    if (redis.status === 'ready') gone('a node of the cluster has left')
  })
  redis.on('+node', (node: Redis) => {
    // One that is still down is retried with each refresh of the cluster.
    node.once('ready', back)
  })
  const failed = redis.connect().then(
    () => null,
    (error: unknown) => error
  )
  await inTime(options.clock, connectTimeoutMs, failed, null)
  return new RedisState(redis, options)
}

/**
 * One Lua script per operation makes it atomic; commands of one turn of the event loop are pipelined. Scripts have one
 * key, so that a cluster can place keys freely.
 */
export class RedisState implements State {
  readonly kind = 'redis'
  readonly #redis: Redis | Cluster
  readonly #clock: Clock
  readonly #prefix: string
  readonly #ownTime: boolean
  readonly #permits: HeldPermits
  #tokens = 0
  readonly #worker = `${process.pid}-${Math.random().toString(36).slice(2)}`

  constructor(redis: Redis | Cluster, options: RedisStateOptions) {
    this.#redis = redis
    this.#clock = options.clock
    this.#prefix = options.prefix ?? 'bg:'
    this.#ownTime = options.time === 'clock'
    this.#permits = new HeldPermits(options.clock, {
      take: async (key, limit, windowMs, want, heldMs) => {
        const answer = list(await this.#run('bgFixed', `f:${key}`, limit, windowMs, want, this.#worker, heldMs))
        const [granted, beyond, left, back] = numbers(answer)
        return { granted, beyond, left, back, window: String(answer[4]) }
      },
      giveBack: async (key, window, count) => {
        await quietly(this.#run('bgGiveBack', `f:${key}`, window, count))
      }
    })
  }

  takeFixed(key: string, limit: number, windowMs: number): Maybe<LimitVerdict> {
    return this.#permits.take(key, limit, windowMs)
  }

  async takeSliding(key: string, limit: number, windowMs: number, segments: number): Promise<LimitVerdict> {
    const [remaining, retryAfterMs] = numbers(list(await this.#run('bgSliding', `s:${key}`, limit, windowMs, segments)))
    return { allowed: retryAfterMs === 0, remaining, retryAfterMs }
  }

  async recordFailure(key: string, limit: number, windowMs: number): Promise<number> {
    return number(await this.#run('bgFail', `a:${key}`, limit, windowMs))
  }

  async blockedFor(key: string, limit: number): Promise<number> {
    return number(await this.#run('bgBlocked', `a:${key}`, limit))
  }

  async takeTokens(key: string, { burst, perMinute }: Bucket, cost: number, keep: number): Promise<Taken> {
    const [retryAfterMs, left] = numbers(list(await this.#run('bgTokens', `b:${key}`, burst, perMinute, cost, keep)))
    return { allowed: retryAfterMs === 0, left, retryAfterMs }
  }

  async restBucket(key: string, { burst, perMinute }: Bucket, ms: number): Promise<void> {
    await this.#run('bgRest', `b:${key}`, burst, perMinute, ms)
  }

  async tally(key: string, add: number, halfLifeMs: number): Promise<number> {
    return Number(await this.#run('bgTally', `t:${key}`, add, halfLifeMs))
  }

  async begin(key: string, fingerprint: string, lockMs: number): Promise<Begun> {
    const token = `${this.#worker}-${++this.#tokens}`
    const [kind, record] = list(await this.#run('bgBegin', `i:${key}`, fingerprint, token, lockMs)).map(String)
    switch (kind) {
      case 'run':
        return { kind, token }
      case 'replay':
        return { kind, record: readRecord(record) }
      case 'conflict':
      case 'running':
        return { kind }
      default:
        throw notOurs()
    }
  }

  async extend(key: string, token: string, lockMs: number): Promise<boolean> {
    return (await this.#run('bgExtend', `i:${key}`, token, lockMs)) === 1
  }

  async finish(key: string, token: string, record: ReplayRecord, ttlMs: number): Promise<boolean> {
    return (await this.#run('bgFinish', `i:${key}`, token, writeRecord(record), ttlMs)) === 1
  }

  async abandon(key: string, token: string): Promise<boolean> {
    return (await this.#run('bgAbandon', `i:${key}`, token)) === 1
  }

  /** Polls every 50 to 250 ms: waiting is rare, and subscriptions would need a second connection. */
  async waitFor(key: string, timeoutMs: number): Promise<Waited> {
    const end = this.#clock.monotonic() + timeoutMs
    for (let wait = 50; ; wait = Math.min(wait * 2, 250)) {
      const [kind, record] = list(await this.#run('bgLook', `i:${key}`)).map(String)
      if (kind === 'replay') return { kind, record: readRecord(record) }
      if (kind === 'gone') return { kind }
      const left = end - this.#clock.monotonic()
      if (left <= 0) return { kind: 'timeout' }
      await pause(this.#clock, Math.min(wait, left))
    }
  }

  async get(key: string): Promise<string | undefined> {
    const answer = await this.#run('bgGet', `c:${key}`)
    return typeof answer === 'string' ? answer : undefined
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    await this.#run('bgSet', `c:${key}`, value, ttlMs)
  }

  async delete(key: string): Promise<void> {
    await this.#run('bgDelete', `c:${key}`)
  }

  async healthy(): Promise<boolean> {
    try {
      const redis = this.#redis
      if (!(redis instanceof Cluster)) await this.#inTime(redis.ping())
      // A live node answers a ping while the cluster is down.
      else if (!String(await this.#inTime(redis.cluster('INFO'))).includes('cluster_state:ok')) return false
      return true
    } catch {
      // Any reason means the same here, and the connection logs its own.
      return false
    }
  }

  async inspect(): ReturnType<State['inspect']> {
    const nodes = this.#redis instanceof Cluster ? this.#redis.nodes('master') : [this.#redis]
    const found = await Promise.all(
      nodes.map(async node => {
        const text = await this.#inTime(node.info())
        const [, policy = 'unknown'] = /^maxmemory_policy:(\S+)/m.exec(text) ?? []
        const [, micros] = /^server_time_usec:(\d+)/m.exec(text) ?? []
        return { policy, at: micros === undefined ? this.#clock.now() : Number(micros) / 1000 }
      })
    )
    const worst = found.find(({ policy }) => policy !== 'noeviction') ?? found[0]
    if (worst === undefined) throw new StateUnavailable('the cluster has no nodes')
    return worst
  }

  async close(): Promise<void> {
    await this.#permits.close()
    if (this.#redis.status === 'ready')
      await this.#inTime(this.#redis.quit()).catch(() => {
        this.#redis.disconnect()
      })
    else this.#redis.disconnect()
  }

  /**
   * The reply, if in time. ioredis' own `commandTimeout` fires before the socket is read: after a blocked event loop,
   * buffered replies would look like an outage. One more turn reads them.
   */
  #inTime<R>(reply: Promise<R>): Promise<R> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.after(commandTimeoutMs, () => {
        setImmediate(() => {
          reject(new Error(`no reply within ${commandTimeoutMs} ms`))
        })
      })
      reply.then(resolve, reject).finally(() => {
        timer.cancel()
      })
    })
  }

  async #run(name: keyof typeof scripts, key: string, ...args: (string | number)[]): Promise<unknown> {
    // ioredis adds one method for each script to the instance, which its types cannot know.
    const commands = this.#redis as unknown as Record<string, (...args: (string | number)[]) => Promise<unknown>>
    const command = commands[name]
    if (command === undefined) throw new Error(`The script ${name} was not defined`)
    const time = this.#ownTime ? this.#clock.now() : ''
    try {
      return await this.#inTime(command.call(this.#redis, this.#prefix + key, time, ...args))
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      const isNode = this.#redis instanceof Redis && reason.startsWith('MOVED ')
      throw new StateUnavailable(
        `The state (Redis) is unavailable: ${isNode ? 'it is a node of a cluster, name another beside it in state.url' : reason}`,
        { cause: error }
      )
    }
  }
}

function notOurs(): StateUnavailable {
  return new StateUnavailable('Redis gave an answer that is not ours')
}

function list(answer: unknown): unknown[] {
  if (!Array.isArray(answer)) throw notOurs()
  return answer
}

function numbers(answer: unknown[]): [number, number, number, number] {
  const [first = 0, second = 0, third = 0, fourth = 0] = answer.map(Number)
  return [first, second, third, fourth]
}

function number(answer: unknown): number {
  if (typeof answer !== 'number') throw notOurs()
  return answer
}

function writeRecord(record: ReplayRecord): string {
  return JSON.stringify([record.status, record.headers, Buffer.from(record.body).toString('base64')])
}

function readRecord(text: string | undefined): ReplayRecord {
  // Written by writeRecord above, under keys that nothing else writes.
  const [status, headers, body] = JSON.parse(text ?? '') as [number, [string, string][], string]
  return { status, headers, body: Buffer.from(body, 'base64') }
}

/**
 * `memory:`, or `redis://…` (`rediss://` with TLS), comma-separated for a cluster. An unavailable Redis is logged and
 * retried; until then operations reject with StateUnavailable.
 * @throws RangeError for another scheme.
 */
export async function openState(url: string, options: RedisStateOptions): Promise<State> {
  if (url === 'memory:') return new MemoryState(options.clock)
  if (/^rediss?:\/\//.test(url)) return openRedisState(url, options)
  throw new RangeError(
    `state.url must be memory: or begin with redis:// or rediss://, not ${/^[a-z][a-z0-9+.-]*:/i.exec(url)?.[0] ?? 'no scheme at all'}`
  )
}
