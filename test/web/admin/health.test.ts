import t from 'tap'
import { checkHealth, type AdminHealth, type HealthParts } from '../../../src/web/admin/health.ts'
import type { ProviderState } from '../../../src/web/admin/overview.ts'
import { eachDatabase } from '../../support/database.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import type { Database, Health } from '../../../src/platform/database/database.ts'

/** A database that is as the test says; what else it is asked is asked of a real one. */
function seeming(database: Database, health: Health): Database {
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
  name: 'q'
}
const seen = { id: 'a', pid: 1, host: 'h', generation: 1, startedAt: 0, seenAt: 0, written: 1, lostMinutes: 0 }
const provider: ProviderState = { slot: 'primary', kind: 'strike', hasKey: true, budgets: [], hosts: [] }

await eachDatabase(t, 'every check says what it found, and the way out where that is not good', async (t, database) => {
  const parts = (changed: Partial<HealthParts> = {}): HealthParts => ({
    clock: systemClock,
    database,
    jobs: { queues: async () => [queue] },
    state: { healthy: async () => true },
    traffic: { processes: async () => [seen] },
    // No more of it is asked for.
    config: () => ({ data: '/', state: { url: 'redis://x', cluster: false }, server: { workers: 1 } }) as never,
    providers: async () => [provider],
    makers: () => [],
    serving: () => true,
    free: async () => 1e12,
    ...changed
  })
  const one = async (name: string, changed: Partial<HealthParts>): Promise<AdminHealth['checks'][number] | undefined> =>
    (await checkHealth(parts(changed))).checks.find(check => check.name === name)
  const all = await checkHealth(parts())
  t.equal(all.ready, true)
  t.same(
    all.checks.filter(({ state, wayOut }) => state !== 'good' || wayOut !== null),
    [],
    'nothing is wrong'
  )
  t.equal(all.checks.length, 8)
  const at = systemClock.now()
  const cases: ReadonlyArray<[name: string, state: string, says: RegExp, changed: Partial<HealthParts>]> = [
    [
      'database',
      'warning',
      /slowly: 1500 ms/,
      { database: seeming(database, { status: 'degraded', ms: 1500, error: null }) }
    ],
    ['database', 'bad', /gone/, { database: seeming(database, { status: 'unhealthy', ms: 1, error: 'gone' }) }],
    ['state', 'bad', /Redis does not respond/, { state: { healthy: () => Promise.reject(new Error('x')) } }],
    [
      'providers',
      'bad',
      /node\.example/,
      {
        providers: async () => [
          { ...provider, hosts: [{ host: 'node.example', failures: 5, isLeftAlone: true, retryAfter: 3 }] }
        ]
      }
    ],
    [
      'providers',
      'warning',
      /limit reached: strike/,
      { providers: async () => [{ ...provider, budgets: [{ limit: 'account', exhausted: true, retryAfter: 3 }] }] }
    ],
    ['providers', 'warning', /No provider has your key/, { providers: async () => [{ ...provider, hasKey: false }] }],
    ['providers', 'warning', /check failed/, { providers: () => Promise.reject(new Error('x')) }],
    [
      'makers',
      'bad',
      /No provider can create/,
      { makers: () => [{ slot: 'primary', provider: 'a', use: 'passed over', reason: 'r' }] }
    ],
    [
      'makers',
      'warning',
      /b creates your invoices; skipped: a \(full\)/,
      {
        makers: () => [
          { slot: 'primary', provider: 'a', use: 'passed over', reason: 'full' },
          { slot: 'primary', provider: 'b', use: 'used', reason: null }
        ]
      }
    ],
    ['jobs', 'warning', /2 failed jobs/, { jobs: { queues: async () => [{ ...queue, failed: 2 }] } }],
    [
      'jobs',
      'bad',
      /Overdue: Pays/,
      { jobs: { queues: async () => [{ ...queue, every: 60_000, lastDone: at - 301_000 }] } }
    ],
    ['disk', 'warning', /900 MiB/, { free: async () => 900 * 1024 ** 2 }],
    ['disk', 'bad', /10 MiB/, { free: async () => 10 * 1024 ** 2 }],
    ['clock', 'warning', /behind/, { clock: { ...systemClock, now: () => systemClock.now() - 9_000 } }],
    ['clock', 'bad', /ahead of/, { clock: { ...systemClock, now: () => systemClock.now() + 60_000 } }],
    ['processes', 'warning', /4 minutes/, { traffic: { processes: async () => [{ ...seen, lostMinutes: 4 }] } }],
    [
      'processes',
      'warning',
      /different number/,
      { traffic: { processes: async () => [seen, { ...seen, generation: 2 }] } }
    ]
  ]
  for (const [name, state, says, changed] of cases) {
    const check = await one(name, changed)
    t.equal(check?.state, state, `${name}: ${says}`)
    t.match(check?.says, says)
    t.ok((check?.wayOut ?? '').length > 20, 'and what to do')
  }
  t.equal((await checkHealth(parts({ serving: () => false }))).ready, false)
  const away = await checkHealth(parts({ database: seeming(database, { status: 'unhealthy', ms: 1, error: 'x' }) }))
  t.equal(away.ready, false, 'and not without its database')
})
