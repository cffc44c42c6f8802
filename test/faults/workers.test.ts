import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import postgres from 'postgres'
import t, { type Test as T } from 'tap'
import { buy, challengeOf, rootFolder, use } from '../support/gateway.ts'
import { systemClock } from '../../src/platform/system/clock.ts'
import { openDatabase } from '../../src/platform/database/database.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { migrate } from '../../src/platform/database/migrations.ts'
import { migrations } from '../../src/platform/database/migrations/list.ts'
import { temporaryFolder } from '../support/database.ts'
import {
  eventually,
  freshPostgres,
  freshRedis,
  spawnGateway,
  unshed,
  type GatewayProcess
} from '../support/gateway-process.ts'
import { behindGate } from './tcp-gate.ts'
import { RawClient } from '../support/raw-client.ts'
import { countingUpstream, shopYaml } from '../security/shop.ts'
import { serve } from '../support/serve.ts'

const path = '/paid/item'
const reloads = (gateway: GatewayProcess) =>
  gateway.log.filter(line => line['msg'] === 'the configuration was reloaded').length

/** A database and a Redis for one gateway of several processes; null where there are none to test with. */
async function shared(t: T) {
  const database = await freshPostgres(t)
  const redis = await freshRedis(t)
  if (database === null || redis === null) return null
  return { DATABASE_URL: database, REDIS_URL: redis, BOLTGATE_SECRET: randomBytes(32).toString('hex') }
}

t.test(
  'two workers serve one port, both reload on SIGHUP, are replaced when they die, and SIGTERM drains both',
  async t => {
    const env = await shared(t)
    if (env === null) return
    let held: (() => void) | null = null
    const upstream = await countingUpstream(t, (req, res) => {
      if (req.url === '/free/slow')
        held = () => {
          res.end('finished')
        }
      else res.end('sold')
    })
    const yaml = (price: number) =>
      shopYaml(upstream.origin, {
        price,
        replace: [['server:\n', 'server:\n  workers: 2\n']],
        route: `  - { match: { path: /free/* }, chain: public, upstream: { url: "${upstream.origin}" } }\n`
      })
    const gateway = await spawnGateway(t, { yaml: yaml(7), env, workers: 2 })
    t.equal(new Set(gateway.serving).size, 2, `those that said so: ${gateway.serving.join(', ')}`)
    t.notOk(gateway.serving.includes(gateway.pid), 'the supervisor does not serve')
    /** Prices as returned over connections of their own, which go to the workers in turn. */
    const prices = async () =>
      new Set(
        await Promise.all(
          Array.from({ length: 16 }, async () => {
            const answer = await gateway.send('GET', path, { headers: { connection: 'close' } })
            return (
              /invoice="(ln\w{3,4}?\d+[munp])/.exec(String(answer.headers['www-authenticate']))?.[1] ??
              `${answer.status}`
            )
          })
        )
      )
    const [old, ...others] = await prices()
    t.same(others, [])
    const authorization = await buy(gateway, path, 'payment')
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => gateway.send('GET', path, { headers: { authorization, connection: 'close' } }))
    )
    t.equal(answers.filter(answer => answer.status === 200).length, 1, 'one payment is one delivery, at any worker')

    let before = reloads(gateway)
    gateway.kill('SIGHUP')
    await eventually('a reload of each worker by signal', async () => reloads(gateway) >= before + 2)
    before = reloads(gateway)
    writeFileSync(gateway.file, yaml(8))
    gateway.kill('SIGHUP')
    await eventually('the new price everywhere', async () => {
      const found = await prices()
      return found.size === 1 && !found.has(old ?? '')
    })
    // A worker serves the new price before its line has come through the pipe.
    await eventually('the lines of both reloads', async () => reloads(gateway) >= before + 2)

    for (const pid of [gateway.pid, ...gateway.serving])
      for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) process.kill(pid, signal)
    t.same([...(await prices())].length, 1, 'all continue')
    t.equal(gateway.serving.length, 2)

    const victim = gateway.serving[0] ?? 0
    process.kill(victim, 'SIGKILL')
    await eventually('a replacement', async () => gateway.serving.length === 3)
    const served = await gateway.send('GET', path, { headers: { connection: 'close' } })
    t.equal(served.status, 402, served.text)
    t.ok(gateway.log.some(line => line['msg'] === 'a worker ended and is replaced' && line['pid'] === victim))

    const client = await RawClient.connect(Number(new URL(gateway.url).port))
    t.teardown(() => {
      client.close()
    })
    client.send('GET /free/slow HTTP/1.1\r\nHost: x\r\n\r\n')
    const finish = await eventually('the slow request upstream', async () => held)
    gateway.kill('SIGTERM')
    await gateway.line(line => String(line['msg']).startsWith('stopping'))
    finish()
    t.equal((await client.response()).body, 'finished', 'requests in flight are finished')
    t.same(await gateway.ended, { code: 0, signal: null })
    for (const pid of gateway.serving)
      t.throws(
        () => {
          process.kill(pid, 0)
        },
        { code: 'ESRCH' },
        'no worker is left behind'
      )
  }
)

t.test('a change in one process reaches another within five seconds', async t => {
  const env = await shared(t)
  if (env === null) return
  const upstream = await countingUpstream(t)
  const data = temporaryFolder(t)
  const yaml = shopYaml(upstream.origin)
  const first = await spawnGateway(t, { yaml, env, data })
  const second = await spawnGateway(t, { yaml, env, data })
  const make = async () => {
    const answer = await first.merchantSend('POST', '/api/proxy', {
      name: 'Shop',
      targetBaseUrl: upstream.origin,
      defaultPriceSats: 5
    })
    t.equal(answer.status, 201, answer.text)
    return (answer.json() as { proxyId: string }).proxyId
  }
  const id = await make()
  const at = `/l402/proxy/${id}/a`
  const token = await buy(second, at)
  t.equal((await use(second, at, token)).status, 200)
  const timed = async (what: string, attempt: () => Promise<boolean>) => {
    // Five seconds, and ten more for two processes on a loaded machine.
    await eventually(what, async () => await attempt(), 15_000)
  }

  t.equal((await first.merchantSend('PUT', `/api/proxy/${id}`, { defaultPriceSats: 6 })).status, 200)
  await timed('a price', async () => (await use(second, at, token)).status === 401)
  t.equal(
    JSON.parse(
      Buffer.from(
        challengeOf(await second.send('GET', at), 'payment').parameters.get('request') ?? '',
        'base64url'
      ).toString()
    ).amount,
    '6'
  )
  const higher = await buy(second, at)
  t.equal((await use(second, at, higher)).status, 200)

  t.equal((await first.merchantSend('PUT', `/api/proxy/${id}`, { isActive: false })).status, 200)
  await timed('a deactivation', async () => (await use(second, at, higher)).status !== 200)
  t.equal((await first.merchantSend('PUT', `/api/proxy/${id}`, { isActive: true })).status, 200)
  await timed('an activation', async () => (await use(second, at, higher)).status === 200)

  t.equal((await first.merchantSend('DELETE', `/api/proxy/${id}`)).status, 204)
  await timed('a deletion', async () => (await use(second, at, higher)).status === 404)

  // Revocations have no API yet: written as an operator's job would write them, without a notification.
  const operator = await buy(second, path)
  t.equal((await use(second, path, operator)).status, 200)
  const paymentHash = (
    (await use(second, '/api/l402/status', operator)).json() as {
      paymentHash: string
    }
  ).paymentHash
  const sql = postgres(env['DATABASE_URL'] ?? '', { max: 1, onnotice: () => {} })
  t.teardown(() => sql.end())
  await sql`insert into revocations (kind, id, revoked_at) values ('payment', ${paymentHash}, ${new Date()})`
  for (const [name, gateway] of [
    ['the first', first],
    ['the second', second]
  ] as const) {
    await timed(`a revocation at ${name}`, async () => (await use(gateway, path, operator)).status !== 200)
  }
})

t.test('one limit holds for two processes together', async t => {
  const env = await shared(t)
  if (env === null) return
  const upstream = await countingUpstream(t)
  const yaml = shopYaml(upstream.origin, {
    policies: '  global: { limit: 50, window: 10m }',
    route: `  - { match: { path: /free/* }, chain: public, upstream: { url: "${upstream.origin}" } }\n`
  })
  const data = temporaryFolder(t)
  const gateways = [await spawnGateway(t, { yaml, env, data }), await spawnGateway(t, { yaml, env, data })].map(unshed)
  const answers = await Promise.all(
    Array.from({ length: 200 }, async (_, index) => gateways[index % 2]?.send('GET', '/free/x'))
  )
  const allowed = answers.filter(answer => answer?.status === 200).length
  t.equal(answers.filter(answer => answer?.status === 429).length, 200 - allowed)
  t.ok(allowed <= 50, `${allowed} passed: never more than the limit inside one window`)
  t.ok(allowed >= 45, `${allowed} passed: at most one batch of a tenth is lost`)
  t.equal(upstream.hits.length, allowed)
})

t.test('workers start while the database is down, answer 503, and serve once it is up', async t => {
  const env = await shared(t)
  if (env === null) return
  const { gate, url: away } = await behindGate(t, env['DATABASE_URL'] ?? '')
  gate.cut()
  const gateway = await spawnGateway(t, {
    yaml: shopYaml('http://127.0.0.1:9', { replace: [['server:\n', 'server:\n  workers: 2\n']] }),
    env: { ...env, DATABASE_URL: away },
    workers: 2,
    until: 'listening without a database'
  })
  t.equal((await gateway.send('GET', '/ready')).status, 503)
  t.equal((await gateway.send('GET', path)).status, 503)
  gate.open()
  await eventually('both workers being ready', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => gateway.send('GET', '/ready', { headers: { connection: 'close' } }))
    )
    return answers.every(answer => answer.status === 200)
  })
  t.equal((await gateway.send('GET', path)).status, 402)
})

t.test(
  'no worker is ready before the supervisor has made the first merchant, whichever reaches the database first',
  async t => {
    const env = await shared(t)
    if (env === null) return
    const url = env['DATABASE_URL'] ?? ''
    const tables = await openDatabase({
      url,
      dataDir: temporaryFolder(t),
      log: silentLog,
      clock: systemClock,
      connections: 1
    })
    await migrate(tables, migrations, { clock: systemClock, log: silentLog })
    await tables.close()
    const { gate, url: away } = await behindGate(t, url)
    gate.cut()
    const gateway = await spawnGateway(t, {
      yaml: shopYaml('http://127.0.0.1:9', { replace: [['server:\n', 'server:\n  workers: 2\n']] }),
      env: { ...env, DATABASE_URL: away },
      workers: 2,
      until: 'listening without a database'
    })
    const sql = postgres(url, { max: 2, onnotice: () => {} })
    t.teardown(() => sql.end())
    const ready = async () =>
      (
        await Promise.all(
          Array.from({ length: 8 }, () => gateway.send('GET', '/ready', { headers: { connection: 'close' } }))
        )
      ).map(({ status }) => status)
    await sql.begin(async tx => {
      // The workers may read, and the supervisor cannot write.
      await tx`lock table merchants in share row exclusive mode`
      gate.open()
      await eventually('the supervisor at its work', async () =>
        (await sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
          .length > 0
          ? true
          : null
      )
      // Twice: one that goes on after the first look is ready soon after it.
      await eventually('both workers waiting at the database', async () => {
        const waits = gateway.log
          .filter(line => line['msg'] === 'the database is there; the supervisor prepares it')
          .map(line => line['pid'])
        return new Set(waits).size === 2 && waits.length >= 2 * 2
      })
      t.same(new Set(await ready()), new Set([503]))
    })
    await eventually('both workers being ready', async () => (await ready()).every(status => status === 200))
    t.equal((await gateway.merchantSend('GET', '/api/merchant/me')).status, 200, 'whose key is there')
  }
)

t.test('workers listen at a Unix socket whose file a killed gateway left', async t => {
  const env = await shared(t)
  if (env === null) return
  const path = join(temporaryFolder(t), 'http.sock')
  const killed = spawn(process.execPath, ['-e', `require('net').createServer().listen('${path}', () => console.log())`])
  await once(killed.stdout, 'data')
  killed.kill('SIGKILL')
  await once(killed, 'exit')
  t.ok(existsSync(path))
  const listen = '"${HOST:-127.0.0.1}:${PORT:-8080}"'
  const yaml = shopYaml('http://127.0.0.1:9', {
    replace: [[`listen: ${listen}`, `workers: 2\n  listen: [${listen}, 'unix:${path}']`]]
  })
  const gateway = await spawnGateway(t, { yaml, env, workers: 2 })
  t.equal(new Set(gateway.serving).size, 2)
})

t.test('workers that cannot listen are not retried forever: one clear line, and exit 1', async t => {
  const env = await shared(t)
  if (env === null) return
  const busy = net.createServer()
  const port = await serve(t, busy)
  const file = join(temporaryFolder(t), 'gateway.yaml')
  writeFileSync(file, shopYaml('http://127.0.0.1:9', { replace: [['server:\n', 'server:\n  workers: 2\n']] }))
  const child = spawn(
    'env',
    ['-u', 'NODE_OPTIONS', process.execPath, join(rootFolder, 'src/app/cli/boltgate.mjs'), 'start', '--config', file],
    {
      cwd: rootFolder,
      env: {
        PATH: process.env['PATH'] ?? '',
        HOST: '127.0.0.1',
        PORT: String(port),
        BOLTGATE_DATA: temporaryFolder(t),
        ...env
      }
    }
  )
  let out = ''
  let err = ''
  child.stdout.on('data', text => {
    out += String(text)
  })
  child.stderr.on('data', text => {
    err += String(text)
  })
  const ended = new Promise<number | null>(resolve => {
    child.on('close', resolve)
  })
  const late = setTimeout(() => {
    child.kill('SIGKILL')
  }, 120_000)
  t.equal(await ended, 1)
  clearTimeout(late)
  t.match(err, /EADDRINUSE/, 'why')
  t.equal(err.split('giving up').length - 1, 1, `said once: ${err}`)
  t.notMatch(out, /is replaced/)
})
