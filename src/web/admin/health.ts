import { Type, type Static } from 'typebox'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database } from '../../platform/database/database.ts'
import { moment, records } from '../../platform/database/rows.ts'
import { freeBytes } from '../../platform/database/write-probe.ts'
import { isoTime } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import type { Jobs } from '../../platform/jobs/jobs.ts'
import type { State } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Traffic } from '../../accounts/traffic/traffic.ts'
import type { ProviderState } from './overview.ts'

const Check = Type.Object({
  name: Type.Enum(['database', 'state', 'providers', 'makers', 'jobs', 'disk', 'clock', 'processes']),
  state: Type.Enum(['good', 'warning', 'bad'], {
    description: 'bad: something fails; warning: something may fail soon.'
  }),
  says: Type.String({ description: 'Result of the check.' }),
  wayOut: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'How to fix it; null if the state is good.'
  })
})
type Check = Static<typeof Check>

const HealthView = Type.Object(
  {
    at: isoTime(),
    ready: Type.Boolean({ description: 'Whether this process accepts traffic, as /ready reports.' }),
    checks: Type.Array(Check)
  },
  { title: 'AdminHealth' }
)

export type AdminHealth = Static<typeof HealthView>

export interface HealthParts {
  readonly clock: Clock
  readonly database: Database
  readonly jobs: Pick<Jobs, 'queues'>
  readonly state: Pick<State, 'healthy'>
  readonly traffic: Pick<Traffic, 'processes'>
  config(): Pick<GatewayConfig, 'data' | 'state'>
  providers(): Promise<readonly ProviderState[]>
  /** Providers of the operator's invoices, in order. */
  makers(): ReadonlyArray<{
    readonly slot: string
    readonly provider: string
    readonly use: string
    readonly reason: string | null
  }>
  /** Whether this process accepts requests. */
  serving(): boolean
  /** Free bytes of the folder's disk. */
  free?(folder: string): Promise<number>
}

const MiB = 1024 ** 2
/** Warning and error thresholds; the embedded database becomes read-only at 16 MiB. */
const DISK_LOW = 1024 * MiB
const DISK_FULL = 64 * MiB
/** Tolerated clock skew of the database in milliseconds. */
const CLOCK_OFF = 2_000
const CLOCK_BAD = 30_000
/** Missed intervals after which a periodic job is late. */
const LATE = 5
const LATE_AT_LEAST = 300_000

const good = (name: Check['name'], says: string): Check => ({ name, state: 'good', says, wayOut: null })
const nowRows = records({ at: moment() })

/** Runs all checks independently. Never rejects. */
export async function checkHealth(parts: HealthParts): Promise<AdminHealth> {
  const health = await parts.database.health()
  const isThere = health.status !== 'unhealthy'
  const checks = await Promise.all([
    databaseCheck(parts, health),
    stateCheck(parts),
    guarded('providers', () => providersCheck(parts)),
    makersCheck(parts),
    ...(isThere
      ? [
          guarded('jobs', () => jobsCheck(parts)),
          guarded('clock', () => clockCheck(parts)),
          guarded('processes', () => processesCheck(parts))
        ]
      : []),
    guarded('disk', () => diskCheck(parts))
  ])
  return {
    at: new Date(parts.clock.now()).toISOString(),
    ready: parts.serving() && isThere,
    checks
  }
}

async function guarded(name: Check['name'], check: () => Promise<Check>): Promise<Check> {
  try {
    return await check()
  } catch {
    // Its own check reports the outage; this one is unknown.
    return {
      name,
      state: 'warning',
      says: 'This check failed.',
      wayOut: 'Check the database first, then reload the page.'
    }
  }
}

async function databaseCheck(
  { database }: HealthParts,
  health: Awaited<ReturnType<Database['health']>>
): Promise<Check> {
  const name = 'database'
  const kind = database.kind === 'pglite' ? 'The embedded database' : 'PostgreSQL'
  if (health.status === 'healthy')
    return good(name, `${kind} responds in ${Math.ceil(health.ms)} ms and accepts writes.`)
  if (health.status === 'degraded')
    return {
      name,
      state: 'warning',
      says: `${kind} responds slowly: ${Math.round(health.ms)} ms.`,
      wayOut: 'Check its load and disk. Above 3 seconds the gateway responds 503 and sells nothing.'
    }
  return {
    name,
    state: 'bad',
    says: `${kind} is unavailable. ${health.error ?? ''}`.trim(),
    wayOut:
      database.kind === 'pglite'
        ? 'Free disk space for the data folder. If its process has exited, restart the gateway.'
        : 'Start PostgreSQL or correct database.url. Until then requests get 503 and no data is lost; the gateway reconnects automatically.'
  }
}

async function stateCheck({ config, state }: HealthParts): Promise<Check> {
  const name = 'state'
  const isMemory = config().state.url.startsWith('memory:')
  if (isMemory) return good(name, 'Counters and idempotency records are in the memory of this process.')
  const isHealthy = await state.healthy().catch(() => false)
  return isHealthy
    ? good(name, 'Redis responds.')
    : {
        name,
        state: 'bad',
        says: 'Redis does not respond.',
        wayOut:
          'Start Redis or correct state.url. Until then each process counts separately and idempotent requests are rejected.'
      }
}

async function providersCheck({ providers }: HealthParts): Promise<Check> {
  const name = 'providers'
  const all = await providers()
  const alone = all.flatMap(({ hosts }) => hosts.filter(({ isLeftAlone }) => isLeftAlone))
  const empty = all.filter(({ budgets }) => budgets.some(({ exhausted }) => exhausted))
  if (alone.length > 0)
    return {
      name,
      state: 'bad',
      says: `Not responding: ${alone.map(({ host }) => host ?? 'the configured host').join(', ')}.`,
      wayOut:
        "Check the provider's status page and your key. Calls are retried automatically; meanwhile the slot's next provider is used."
    }
  if (empty.length > 0)
    return {
      name,
      state: 'warning',
      says: `Call limit reached: ${empty.map(({ kind }) => kind).join(', ')}.`,
      wayOut: 'It resets within a minute. If it recurs, ask the provider for a higher limit and set callsPerMinute.'
    }
  const without = all.filter(({ hasKey, kind }) => !hasKey && kind !== 'sandbox')
  return without.length === all.length && all.length > 0
    ? {
        name,
        state: 'warning',
        says: 'No provider has your key: only merchants can sell.',
        wayOut: 'Set lightning.primary.key to sell the configured routes.'
      }
    : good(name, `${all.map(({ kind, slot }) => `${kind} (${slot})`).join(', ')}: no recent failures.`)
}

async function makersCheck({ makers }: HealthParts): Promise<Check> {
  const name = 'makers'
  const all = makers()
  const passed = all.filter(({ use }) => use === 'passed over')
  if (all.length === 0) return good(name, 'One provider creates your invoices.')
  const used = all.find(({ use }) => use === 'used')
  if (used === undefined)
    return {
      name,
      state: 'bad',
      says: 'No provider can create your invoices.',
      wayOut: 'Check the hosts, keys and inbound capacity of your providers.'
    }
  return passed.length === 0
    ? good(name, `${used.provider} creates your invoices.`)
    : {
        name,
        state: 'warning',
        says: `${used.provider} creates your invoices; skipped: ${passed.map(({ provider, reason }) => `${provider} (${reason ?? 'unknown'})`).join(', ')}.`,
        wayOut: 'Fix the skipped provider, since the next one may fail too. It is retried automatically.'
      }
}

async function jobsCheck({ clock, jobs }: HealthParts): Promise<Check> {
  const name = 'jobs'
  const queues = await jobs.queues()
  const now = clock.now()
  const late = queues.filter(
    ({ every, lastDone }) =>
      every !== null && lastDone !== null && now - lastDone > Math.max(LATE * every, LATE_AT_LEAST)
  )
  const failed = queues.reduce((sum, queue) => sum + queue.failed, 0)
  if (late.length > 0)
    return {
      name,
      state: 'bad',
      says: `Overdue: ${late.map(({ title }) => title).join('; ')}.`,
      wayOut: 'See the Jobs page and the log for the reason. If no process runs jobs, restart the gateway.'
    }
  return failed > 0
    ? {
        name,
        state: 'warning',
        says: `${failed} failed jobs, which are not retried.`,
        wayOut: 'The Jobs page shows the reason. Fix it, then retry them there.'
      }
    : good(name, `${queues.length} queues, no failed jobs.`)
}

async function clockCheck({ clock, database }: HealthParts): Promise<Check> {
  const name = 'clock'
  const before = clock.now()
  const found = await nowRows.one(database.sql`select clock_timestamp() as at`)
  // The query takes time: assume half of it before the reading.
  const off = Math.round((found?.at ?? before) - (before + clock.now()) / 2)
  const words = `${Math.abs(off)} ms ${off > 0 ? 'behind' : 'ahead of'} the database's`
  if (Math.abs(off) <= CLOCK_OFF) return good(name, `This machine's clock is ${words}.`)
  return {
    name,
    state: Math.abs(off) > CLOCK_BAD ? 'bad' : 'warning',
    says: `This machine's clock is ${words}.`,
    wayOut: 'Sync both clocks with NTP. Tokens, invoices and leases expire by them.'
  }
}

async function diskCheck({ config, free = freeBytes }: HealthParts): Promise<Check> {
  const name = 'disk'
  const bytes = await free(config().data)
  const words = `${bytes >= DISK_LOW ? `${Math.floor(bytes / (1024 * MiB))} GiB` : `${Math.floor(bytes / MiB)} MiB`} free on the disk of the data folder.`
  if (bytes >= DISK_LOW) return good(name, words)
  return {
    name,
    state: bytes < DISK_FULL ? 'bad' : 'warning',
    says: words,
    wayOut: 'Free disk space. Mail and the embedded database, if used, are written there.'
  }
}

async function processesCheck({ traffic }: HealthParts): Promise<Check> {
  const name = 'processes'
  const all = await traffic.processes()
  const lost = all.reduce((sum, one) => sum + one.lostMinutes, 0)
  const generations = new Set(all.filter(({ host }) => host === all[0]?.host).map(({ generation }) => generation))
  const list = all.map(({ host, pid }) => `${host} ${pid}`).join(', ')
  if (lost > 0)
    return {
      name,
      state: 'warning',
      says: `${lost} minutes of metrics were dropped since the start of ${list}.`,
      wayOut: 'The database was unavailable for more than an hour. Sales are not affected.'
    }
  if (generations.size > 1)
    return {
      name,
      state: 'warning',
      says: `Processes have loaded the configuration a different number of times: ${list}.`,
      wayOut: 'This is normal after one of them was restarted. If a change is not in effect everywhere, send SIGHUP.'
    }
  return good(
    name,
    all.length === 0
      ? 'No recent requests. Only processes with requests are listed.'
      : `${all.length} with recent requests: ${list}.`
  )
}

export function adminHealthOperations(parts: HealthParts): AnyOperation[] {
  return [
    defineOperation({
      id: 'adminGetHealth',
      method: 'GET',
      path: '/api/admin/health',
      mount: { use: 'operator-api', chain: 'admin' },
      summary: 'Health checks of the gateway and what it depends on, with fixes',
      description:
        'Extends /health and /ready for people: each check reports its result and, if that is not good, how to fix it. Makes no calls to providers.',
      tag: 'Admin',
      access: 'admin',
      responses: { 200: { description: 'As seen by the process that responds.', schema: HealthView } },
      handle: async () => ({ status: 200, body: await checkHealth(parts) })
    })
  ]
}
