import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { checkHealth, platformFacts, type HealthDependencies } from '../../../src/web/admin/health.ts'
import { judge, judgePlatform } from '../../../src/web/admin/problems.ts'
import type { ProviderState } from '../../../src/web/admin/overview.ts'
import { eachDatabase } from '../../support/database.ts'
import { speaking } from '../../../src/engine/formats/language.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import type { Database, Health } from '../../../src/platform/database/database.ts'
import { selfSigned } from '../../fakes/certificate.ts'
import { nothingMeasured } from '../../../src/accounts/traffic/measured.ts'

/** A database that is as the test says; what else it is asked is asked of a real one. */
function seeming(database: Database, health: Health) {
  return { ...database, kind: database.kind, sql: database.sql, health: async () => health }
}

const queue = {
  title: 'Pays',
  failed: 0,
  waiting: 0,
  later: 0,
  running: 0,
  done: 1,
  every: null,
  lastDone: null,
  lastFailed: null,
  overdue: 0,
  name: 'q'
}
const seen = { id: 'a', pid: 1, host: 'h', generation: 1, startedAt: 0, seenAt: 0, written: 1, lostMinutes: 0 }
const provider: ProviderState = { slot: 'primary', kind: 'strike', hasKey: true, budgets: [], hosts: [], failure: null }

const traffic = { processes: async () => [seen], recent: async () => nothingMeasured() }
const route = { name: 'weather', upstream: { kind: 'url', url: ['http://127.0.0.1:9/v1'] } }
const trouble = {
  route: 'weather',
  tenant: '',
  origin: 'http://127.0.0.1:9',
  failures: 2,
  since: 5,
  lastAt: 6,
  client: null
}

const withProvider = (more: Partial<ProviderState>) => ({ providers: async () => [{ ...provider, ...more }] })
const withTraffic = (sums: object) => ({
  traffic: { ...traffic, recent: async () => ({ ...nothingMeasured(), ...sums }) }
})
const withQueue = (more: object) => ({ jobs: { queues: async () => [{ ...queue, ...more }] } })
const withUpstream = (more: object) => ({ upstreams: () => [{ ...trouble, ...more }] })

const DAY = 86_400_000
const answering = (policy = 'noeviction', ahead = 0) => ({
  healthy: async () => true,
  inspect: async () => ({ policy, at: systemClock.now() + ahead })
})
const folder = mkdtempSync(join(tmpdir(), 'boltgate-health-'))

/** The parts of a running configuration that the checks read. */
function withTls(...certs: readonly string[]): never {
  const server = { tls: certs.map(cert => ({ cert, key: cert })) }
  return {
    config: { data: '/', server, state: { url: 'redis://x' }, routes: [route] },
    reload: null
  } as never
}

/** Two certificates, of which one is valid for so long yet. */
function secured(left: number) {
  const files = [left, 90 * DAY].map((ms, index) => {
    const file = join(folder, `${left}-${index}.pem`)
    writeFileSync(file, selfSigned({ names: ['a'], from: Date.now() - DAY, until: Date.now() + ms }).certificate)
    return file
  })
  return { running: () => withTls(...files) }
}

await eachDatabase(t, 'every check reports its result, and the fix for a failure', async (t, database) => {
  const parts = (changed: Partial<HealthDependencies> = {}) => ({
    clock: systemClock,
    database,
    jobs: { queues: async () => [queue] },
    state: answering(),
    traffic,
    // No more of it is asked for.
    running: () => withTls(),
    upstreams: () => [],
    providers: async () => [provider],
    serving: () => true,
    free: async () => 1e12,
    ...changed
  })
  const one = async (name: string, changed: Partial<HealthDependencies>) =>
    (await checkHealth(parts(changed), new Map())).checks.find(check => check.name === name)
  const all = await checkHealth(parts(), new Map())
  t.equal(all.ready, true)
  t.same(
    all.checks.filter(({ state, wayOut }) => state !== 'good' || wayOut !== null),
    [],
    'nothing is wrong'
  )
  t.ok(all.checks.length >= 15)
  const at = systemClock.now()
  const cases: ReadonlyArray<[name: string, state: string, says: RegExp, changed: Partial<HealthDependencies>]> = [
    [
      'database',
      'warning',
      /slowly: 1500 ms/,
      { database: seeming(database, { status: 'degraded', ms: 1500, error: null }) }
    ],
    ['database', 'bad', /gone/, { database: seeming(database, { status: 'unhealthy', ms: 1, error: 'gone' }) }],
    [
      'state',
      'bad',
      /Redis does not respond/,
      { state: { ...answering(), healthy: () => Promise.reject(new Error('x')) } }
    ],
    [
      'providers',
      'bad',
      /strike \(primary\) does not respond/,
      withProvider({ hosts: [{ host: null, failures: 5, isLeftAlone: true, retryAfter: 3 }] })
    ],
    [
      'providers',
      'bad',
      /strike \(primary\) refuses its key/,
      {
        providers: async () => [
          { ...provider, failure: { reason: 'refuses its key', since: '2026-11-26T00:00:00.000Z' } }
        ]
      }
    ],
    [
      'providers',
      'warning',
      /node\.example/,
      {
        providers: async () => [
          { ...provider, hosts: [{ host: 'node.example', failures: 5, isLeftAlone: true, retryAfter: 3 }] }
        ]
      }
    ],
    [
      'upstreams',
      'bad',
      /weather at http:\/\/127\.0\.0\.1:9 \(failed requests in a row: 2\)/,
      { upstreams: () => [trouble] }
    ],
    ['upstreams', 'warning', /in a row: 1\)/, withUpstream({ failures: 1 })],
    ['upstreams', 'warning', /weather/, withUpstream({ failures: 9, client: '10.0.0.1' })],
    ['upstreams', 'warning', /APIs of merchants fail: 1/, withUpstream({ tenant: '7', lastAt: systemClock.now() })],
    ['errors', 'bad', /last 5 minutes: 10 of 20/, withTraffic({ requests: 20, serverErrors: 10 })],
    ['errors', 'warning', /2 of 20/, withTraffic({ requests: 20, serverErrors: 2 })],
    [
      'providers',
      'warning',
      /limit reached: strike/,
      withProvider({ budgets: [{ limit: 'account', exhausted: true, retryAfter: 3 }] })
    ],
    ['providers', 'warning', /No provider has your key/, withProvider({ hasKey: false })],
    ['providers', 'warning', /check failed/, { providers: () => Promise.reject(new Error('x')) }],
    [
      'providers',
      'warning',
      /Failing: strike \(primary\) cannot be reached\. Another provider creates/,
      {
        providers: async () => [
          { ...provider, failure: { reason: 'cannot be reached', since: '2026-11-26T00:00:00.000Z' } },
          { ...provider, kind: 'blink' }
        ]
      }
    ],
    ['jobs', 'bad', /Failed jobs.*: Pays \(2\)/, withQueue({ failed: 2, lastFailed: at })],
    ['jobs', 'bad', /Overdue: Pays/, withQueue({ every: 60_000, lastDone: at - 301_000 })],
    ['certificate', 'warning', /certificate expires on 20/, secured(10 * DAY)],
    ['certificate', 'bad', /certificate expires on 20/, secured(2 * DAY)],
    ['certificate', 'bad', /certificate expired on 20/, secured(-1)],
    ['certificate', 'warning', /check failed/, { running: () => withTls('/nowhere.pem') }],
    ['state', 'warning', /maxmemory-policy is allkeys-lru/, { state: answering('allkeys-lru') }],
    ['clock', 'warning', /9\d{3} ms behind Redis/, { state: answering('noeviction', 9_900) }],
    ['files', 'warning', /1024 files/, { openFiles: async () => 1024 }],
    ['disk', 'warning', /900 MiB/, { free: async () => 900 * 1024 ** 2 }],
    ['disk', 'bad', /10 MiB/, { free: async () => 10 * 1024 ** 2 }],
    ['clock', 'warning', /behind/, { clock: { ...systemClock, now: () => systemClock.now() - 9_000 } }],
    ['clock', 'bad', /ahead of/, { clock: { ...systemClock, now: () => systemClock.now() + 60_000 } }],
    [
      'processes',
      'warning',
      /dropped since .*: 4\./,
      { traffic: { ...traffic, processes: async () => [{ ...seen, lostMinutes: 4 }] } }
    ],
    [
      'processes',
      'warning',
      /different number/,
      { traffic: { ...traffic, processes: async () => [seen, { ...seen, generation: 2 }] } }
    ]
  ]
  for (const [name, state, says, changed] of cases) {
    const check = await one(name, changed)
    t.equal(check?.state, state, `${name}: ${says}`)
    t.match(check?.says, says)
    t.ok((check?.wayOut ?? '').length > 20, 'and the fix')
    t.ok((check?.effect ?? '').length > 10, 'its effect on sales')
    t.ok(Date.parse(check?.since ?? ''), 'and since when')
    const german = await speaking('de', () => one(name, changed))
    for (const text of ['says', 'wayOut', 'effect'] as const)
      t.not(german?.[text], check?.[text], `in German: ${check?.[text]}`)
  }
  t.equal((await checkHealth(parts({ serving: () => false }), new Map())).ready, false)
  for (const [what, changed] of [
    [
      'a periodic job that succeeded after its failure',
      withQueue({ every: 60_000, failed: 1, lastFailed: at - 2, lastDone: at - 1 })
    ],
    ['a certificate that is valid for 20 days', secured(20 * DAY)],
    [
      'errors before the last minute',
      {
        traffic: {
          ...traffic,
          recent: async minutes => ({ ...nothingMeasured(), requests: 20, serverErrors: minutes === 1 ? 0 : 10 })
        }
      }
    ],
    ['an upstream that the file no longer has', withUpstream({ origin: 'http://127.0.0.1:8' })],
    ['a merchant whose upstream failed an hour ago', withUpstream({ tenant: '7', lastAt: at - 3_600_000 })],
    ['a few errors of few requests', withTraffic({ requests: 19, serverErrors: 19 })]
  ] satisfies ReadonlyArray<[string, Partial<HealthDependencies>]>)
    t.ok(
      (await checkHealth(parts(changed), new Map())).checks.every(({ state }) => state === 'good'),
      `${what} is no problem`
    )
  const away = await checkHealth(
    parts({ database: seeming(database, { status: 'unhealthy', ms: 1, error: 'x' }) }),
    new Map()
  )
  t.equal(away.ready, false, 'and not without its database')
  t.match(away.checks[0], { name: 'database', state: 'bad' }, 'the worst is first')
  t.notOk(
    away.checks.some(({ name }) => ['jobs', 'refunds', 'clock'].includes(name)),
    'facts from the database are left out'
  )
  const seenAt = new Map()
  const clock = { ...systemClock, now: () => 1_000 }
  const gone = { state: { ...answering(), healthy: async () => false }, clock }
  await checkHealth(parts(gone), seenAt)
  const later = await checkHealth(parts({ ...gone, clock: { ...clock, now: () => 9_000 } }), seenAt)
  t.equal(
    later.checks.find(({ name }) => name === 'state')?.since,
    '1970-01-01T00:00:01.000Z',
    'it remembers since when'
  )
})

await eachDatabase(t, 'settings of PostgreSQL are judged in production alone', async (t, database) => {
  if (database.kind === 'pglite') return
  const judged = async (mode: string, connections: number) => {
    // The parts of a configuration that the facts are read from.
    const config = {
      data: '/',
      mode,
      database: { connections, listenUrl: '' },
      server: { tls: [], workers: 2 },
      state: { url: 'memory:' }
    } as never
    const facts = await platformFacts({ clock: systemClock, database, state: answering() }, config)
    return judgePlatform(facts).find(({ name }) => name === 'database')
  }
  t.match(await judged('development', 100_000), { state: 'good' })
  const bad = await judged('production', 100_000)
  t.match(bad, { state: 'warning', wayOut: /postgresql\.conf/ })
  t.match(bad?.says, /max_connections is \d+, and these 2 processes may use 200002/)
  t.match((await judged('production', 2))?.says, /^PostgreSQL 1\d responds/)
})

t.test('health: a warning that worsens has its own start and effect', async t => {
  const facts = {
    now: 60_000,
    database: { status: 'healthy', ms: 1, error: null },
    isEmbedded: false,
    version: 17,
    flaws: ['fsync is off'],
    redis: null,
    free: null,
    openFiles: undefined,
    certificateUntil: undefined,
    clockOff: 0,
    upstreams: [],
    providers: null,
    reload: null,
    traffic: null,
    lastMinute: null,
    work: null,
    queues: null,
    processes: null
  } as const
  const seen = new Map()
  const [warned] = judge(facts, seen, ['database'])
  t.match(warned, { state: 'warning', since: '1970-01-01T00:01:00.000Z' })
  t.notMatch(warned?.effect, /stop/)
  const away = { status: 'unhealthy', ms: 1, error: 'refused' } as const
  const failed = { state: 'bad', since: '1970-01-01T00:02:00.000Z', effect: /Sales stop/ }
  t.match(judge({ ...facts, now: 120_000, database: away }, seen, ['database']), [failed])
  t.match(judge({ ...facts, now: 180_000, database: away }, seen, ['database']), [failed])
})
