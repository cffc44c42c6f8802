import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import postgres from 'postgres'
import { Redis } from 'ioredis'
import { Agent, request } from 'undici'
import type { Test as T } from 'tap'
import { makeImage } from '../../src/app/image-making.ts'
import { readKeys } from '../../src/platform/keys/keyfile.ts'
import { rootFolder, sender, type Answer, type Look, type Send, type TestGateway } from './gateway.ts'
import { temporaryFolder } from './database.ts'
import { OpenApiCheck } from './openapi-check.ts'

/** One line of a gateway's log. */
export type LogLine = Readonly<Record<string, unknown>>

/** How a gateway process is started. */
export interface GatewayProcessOptions {
  /** Its gateway.yaml. */
  readonly yaml: string
  readonly env?: Readonly<Record<string, string>>
  /** Its data folder; a new one unless said. Two processes of one gateway share one, or its secrets. */
  readonly data?: string
  /** Serving processes to wait for. */
  readonly workers?: number
  /** Message of the line that says it serves; `listening without a database` where that is expected. */
  readonly until?: string
  /** The command line's file; the checkout's own unless said. */
  readonly program?: string
  /** Arguments for Node itself; none unless said. */
  readonly nodeArgs?: readonly string[]
  /** False where even one request for the document would be one too many; then answers are not held against it. */
  readonly documented?: false
}

/** A gateway as a process of its own, as `boltgate start` runs it. */
export interface GatewayProcess extends Pick<TestGateway, 'send' | 'pay' | 'merchantSend'> {
  readonly url: string
  readonly data: string
  readonly pid: number
  /** What it printed for people, line by line. */
  readonly said: readonly string[]
  readonly log: readonly LogLine[]
  /** What it wrote to standard error. */
  readonly errors: readonly string[]
  readonly file: string
  /** Process ids of those that serve, in the order in which they said so. */
  readonly serving: readonly number[]
  readonly ended: Promise<{ readonly code: number | null; readonly signal: string | null }>
  /** Resolves with the first line, already written or to come, that `matches`. */
  line(matches: (line: LogLine) => boolean): Promise<LogLine>
  kill(signal: NodeJS.Signals): void
}

/** Holds answers against the document that the gateway itself gives, which is asked for once it can be. */
function lookFrom(url: string): Look {
  let pending: Promise<OpenApiCheck | null> | null = null
  const ask = async (): Promise<OpenApiCheck | null> => {
    const answer = await request(`${url}/api/openapi.json`)
    const text = await answer.body.text()
    return answer.statusCode === 200 ? new OpenApiCheck(JSON.parse(text) as Record<string, unknown>) : null
  }
  return async answered => {
    // Where it cannot be had, the answer that was got before it still counts; the next one retries.
    const check = await (pending ??= ask().catch(() => null))
    if (check === null) pending = null
    else check.check(answered)
  }
}

/** Starts `boltgate start` and waits until it serves; kills it when the test ends. */
export async function spawnGateway(t: T, options: GatewayProcessOptions): Promise<GatewayProcess> {
  const data = options.data ?? temporaryFolder(t)
  const file = join(temporaryFolder(t), 'gateway.yaml')
  // As in an installed package.
  await makeImage()
  writeFileSync(file, options.yaml)
  // tap puts its loaders into every child's NODE_OPTIONS, which costs start-up time and memory: the gateway runs
  // without.
  const child = spawn(
    'env',
    [
      '-u',
      'NODE_OPTIONS',
      process.execPath,
      ...(options.nodeArgs ?? []),
      options.program ?? join(rootFolder, 'src/app/cli/boltgate.mjs'),
      'start',
      '--config',
      file
    ],
    {
      cwd: rootFolder,
      env: { PATH: process.env['PATH'] ?? '', HOST: '127.0.0.1', PORT: '0', BOLTGATE_DATA: data, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe']
    }
  )
  const log: LogLine[] = []
  const said: string[] = []
  const errors: string[] = []
  const waiting = new Set<() => void>()
  const told = (): void => {
    for (const look of waiting) look()
  }
  createInterface({ input: child.stdout }).on('line', text => {
    if (!text.startsWith('{')) {
      said.push(text)
      return
    }
    log.push(JSON.parse(text) as LogLine)
    told()
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors.push(text)
  })
  let over = false
  const ended = once(child, 'exit').then(([code, signal]) => {
    over = true
    told()
    return { code: code as number | null, signal: signal as string | null }
  })
  const agent = new Agent({ keepAliveTimeout: 1000, connections: 256 })
  t.teardown(async () => {
    await agent.destroy()
    if (!over) child.kill('SIGKILL')
    await ended
  })
  const look = (matches: (line: LogLine) => boolean, from: number): Promise<LogLine> =>
    new Promise((resolve, reject) => {
      const again = (): void => {
        const found = log.slice(from).find(matches)
        if (found !== undefined) resolve(found)
        else if (over)
          reject(
            new Error(`the gateway ended: ${errors.join('')}\n${log.map(line => JSON.stringify(line)).join('\n')}`)
          )
        else return
        waiting.delete(again)
      }
      waiting.add(again)
      again()
    })
  const message = options.until ?? 'ready'
  const first = await look(line => line['msg'] === message, 0)
  const servers = (): number[] => log.filter(line => line['msg'] === message).map(line => Number(line['pid']))
  if ((options.workers ?? 1) > 1) await look(() => servers().length >= (options.workers ?? 1), 0)
  const url = `http://127.0.0.1:${String(first['port'])}`
  const send = sender(url, agent, options.documented === false ? undefined : lookFrom(url))
  return {
    url,
    data,
    file,
    log,
    errors,
    said,
    pid: child.pid ?? 0,
    get serving() {
      return servers()
    },
    ended,
    send,
    merchantSend: (method, path, body) =>
      send(method, path, {
        headers: { 'x-api-key': readKeys(data)?.merchant?.apiKey.reveal() ?? '' },
        ...(body === undefined ? {} : { body })
      }),
    pay: async invoice => {
      const answer = await send('POST', '/sandbox/pay', { body: { invoice } })
      if (answer.status !== 200) throw new Error(`the sandbox did not pay: ${answer.status} ${answer.text}`)
      return (answer.json() as { preimage: string }).preimage
    },
    line: matches => look(matches, 0),
    kill: signal => {
      child.kill(signal)
    }
  }
}

/** All that a Redis has by default, but the one that other tests use under prefixes of their own. */
const redisDatabases = Array.from({ length: 15 }, (_, index) => index + 1)
/** What a killed test took is free again after this. */
const LONGEST_TEST_MS = 600_000
const takenBy = (number: number): string => `test:database:${number}`

/** The address that a variable of the environment names; null, and the test says why it is skipped, without one. */
function serverOf(t: T, variable: string): string | null {
  const server = process.env[variable] ?? ''
  if (server !== '') return server
  t.pass('no server here', { skip: `${variable} names no server` })
  return null
}

/** A new database on the server of `TEST_DATABASE_URL`, dropped when the test ends; null where there is no server. */
export async function freshPostgres(t: T): Promise<string | null> {
  const server = serverOf(t, 'TEST_DATABASE_URL')
  if (server === null) return null
  const name = `boltgate_test_${randomBytes(6).toString('hex')}`
  const maintenance = postgres(server, { max: 1, onnotice: () => {} })
  await maintenance`create database ${maintenance(name)}`
  t.teardown(async () => {
    await maintenance`drop database ${maintenance(name)} with (force)`
    await maintenance.end()
  })
  const own = new URL(server)
  own.pathname = `/${name}`
  return own.href
}

/**
 * A database of the server of `TEST_REDIS_URL` that no other test has at the same time, emptied now and when the test
 * ends; null where there is no server. Database 0 records which ones are taken, so that test files which run concurrently
 * do not empty each other's.
 */
export async function freshRedis(t: T): Promise<string | null> {
  const server = serverOf(t, 'TEST_REDIS_URL')
  if (server === null) return null
  const redis = new Redis(server, { db: 0 })
  const number = await eventually('a free Redis database', async () => {
    for (const candidate of redisDatabases)
      if ((await redis.set(takenBy(candidate), process.pid, 'PX', LONGEST_TEST_MS, 'NX')) !== null) return candidate
    return null
  })
  const own = new URL(server)
  own.pathname = `/${number}`
  const empty = async (): Promise<void> => {
    const there = new Redis(own.href)
    await there.flushdb()
    await there.quit()
  }
  t.teardown(async () => {
    await empty()
    await redis.del(takenBy(number))
    await redis.quit()
  })
  await empty()
  return own.href
}

/**
 * Repeats `attempt` until it answers something other than null. Throws after `ms`, with what was being waited for; that
 * is only so that a test ends, and no promise of the product: a loaded machine may take minutes to start a gateway.
 */
export async function eventually<R>(what: string, attempt: () => Promise<R | false | null>, ms = 240_000): Promise<R> {
  const begin = Date.now()
  for (;;) {
    const found = await attempt()
    if (found !== null && found !== false) return found
    const waited = Date.now() - begin
    if (waited > ms) throw new Error(`not within ${ms} ms: ${what}`)
    // What takes long is asked for less often: it may be a lease of a minute, and each attempt a request.
    await wait(Math.min(Math.max(50, waited / 10), 1_000))
  }
}

/**
 * Sends a request again when the gateway sheds it, after the time that it asks for. For bursts that a process of its own takes: on a slow
 * machine they are an overload.
 */
export function unshed<G extends Pick<GatewayProcess, 'send'>>(gateway: G): G {
  return {
    ...gateway,
    send: async (...request: Parameters<Send>) => {
      for (;;) {
        const answer = await gateway.send(...request)
        if (answer.status !== 503 || !answer.text.includes('The gateway is overloaded.')) return answer
        await wait(Number(answer.headers['retry-after']) * 1_000)
      }
    }
  }
}

/**
 * Whether an answer is one that a client can go on from: a 402 with both challenges, or a 429 or 503 that says when.
 */
export function wellFormedRefusal(answer: Answer): boolean {
  if (answer.status === 402)
    return (
      [answer.headers['www-authenticate'] ?? []].flat().length === 2 && answer.headers['cache-control'] === 'no-store'
    )
  return (answer.status === 429 || answer.status === 503) && /^[1-9]\d*$/.test(String(answer.headers['retry-after']))
}
