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
    description: 'bad: something does not work; warning: it may soon not.'
  }),
  says: Type.String({ description: 'What is found.' }),
  wayOut: Type.Unsafe<string | null>({ type: ['string', 'null'], description: 'What to do; null where it is good.' })
})
type Check = Static<typeof Check>

const HealthView = Type.Object(
  {
    at: isoTime(),
    ready: Type.Boolean({ description: 'Whether this process takes traffic, as /ready says.' }),
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
      says: 'This could not be looked at.',
      wayOut: 'Look at the database first, then load the page again.'
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
    return good(name, `${kind} answers in ${Math.ceil(health.ms)} ms and can be written.`)
  if (health.status === 'degraded')
    return {
      name,
      state: 'warning',
      says: `${kind} answers slowly: ${Math.round(health.ms)} ms.`,
      wayOut: 'Look at its load and its disk. Above 3 seconds the gateway answers 503 and sells nothing.'
    }
  return {
    name,
    state: 'bad',
    says: `${kind} cannot be used. ${health.error ?? ''}`.trim(),
    wayOut:
      database.kind === 'pglite'
        ? 'Make room on the disk of the data folder; where its process has ended, start the gateway again.'
        : 'Start it, or set database.url right. Until then requests are answered with 503 and nothing is lost; the gateway comes back by itself.'
  }
}

async function stateCheck({ config, state }: HealthParts): Promise<Check> {
  const name = 'state'
  const isMemory = config().state.url.startsWith('memory:')
  if (isMemory) return good(name, 'Counters and replays are in the memory of this process.')
  const isHealthy = await state.healthy().catch(() => false)
  return isHealthy
    ? good(name, 'Redis answers.')
    : {
        name,
        state: 'bad',
        says: 'Redis does not answer.',
        wayOut:
          'Start it, or set state.url right. Until then each process counts by itself, and idempotent requests are refused.'
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
      says: `Does not answer: ${alone.map(({ host }) => host ?? 'the provider that the file names').join(', ')}.`,
      wayOut:
        "Look at the provider's own status and its key. It is tried again by itself; a second provider in the slot is asked meanwhile."
    }
  if (empty.length > 0)
    return {
      name,
      state: 'warning',
      says: `Calls are used up: ${empty.map(({ kind }) => kind).join(', ')}.`,
      wayOut: 'It passes within a minute. Where it comes back, ask the provider for more calls and set callsPerMinute.'
    }
  const without = all.filter(({ hasKey, kind }) => !hasKey && kind !== 'sandbox')
  return without.length === all.length && all.length > 0
    ? {
        name,
        state: 'warning',
        says: 'No provider has a key of yours: only merchants can sell.',
        wayOut: 'Set lightning.primary.key to sell routes of the file.'
      }
    : good(name, `${all.map(({ kind, slot }) => `${kind} (${slot})`).join(', ')}: no call failed lately.`)
}

async function makersCheck({ makers }: HealthParts): Promise<Check> {
  const name = 'makers'
  const all = makers()
  const passed = all.filter(({ use }) => use === 'passed over')
  if (all.length === 0) return good(name, 'One provider makes your invoices.')
  const used = all.find(({ use }) => use === 'used')
  if (used === undefined)
    return {
      name,
      state: 'bad',
      says: 'Nobody makes your invoices.',
      wayOut: 'Look at the providers: their hosts, their keys, and what they can receive.'
    }
  return passed.length === 0
    ? good(name, `${used.provider} makes your invoices.`)
    : {
        name,
        state: 'warning',
        says: `${used.provider} makes your invoices; passed over: ${passed.map(({ provider, reason }) => `${provider} (${reason ?? 'unknown'})`).join(', ')}.`,
        wayOut: 'Mend the one that is passed over: the next may fail too. It is asked again by itself.'
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
      says: `Late: ${late.map(({ title }) => title).join('; ')}.`,
      wayOut:
        'Look at the page of jobs for why it fails, and in the log. Where no process runs jobs at all, start the gateway again.'
    }
  return failed > 0
    ? {
        name,
        state: 'warning',
        says: `${failed} jobs have failed for good.`,
        wayOut: 'The page of jobs says why; have them run again there once the reason is gone.'
      }
    : good(name, `${queues.length} queues, and nothing has failed.`)
}

async function clockCheck({ clock, database }: HealthParts): Promise<Check> {
  const name = 'clock'
  const before = clock.now()
  const found = await nowRows.one(database.sql`select clock_timestamp() as at`)
  // The query takes time: assume half of it before the reading.
  const off = Math.round((found?.at ?? before) - (before + clock.now()) / 2)
  const words = `${Math.abs(off)} ms ${off > 0 ? 'behind' : 'before'} that of the database`
  if (Math.abs(off) <= CLOCK_OFF) return good(name, `The clock of this machine is ${words}.`)
  return {
    name,
    state: Math.abs(off) > CLOCK_BAD ? 'bad' : 'warning',
    says: `The clock of this machine is ${words}.`,
    wayOut: 'Let NTP set both clocks. Tokens, invoices and leases end by them.'
  }
}

async function diskCheck({ config, free = freeBytes }: HealthParts): Promise<Check> {
  const name = 'disk'
  const bytes = await free(config().data)
  const words = `${bytes >= DISK_LOW ? `${Math.floor(bytes / (1024 * MiB))} GiB` : `${Math.floor(bytes / MiB)} MiB`} are free where the data folder lies.`
  if (bytes >= DISK_LOW) return good(name, words)
  return {
    name,
    state: bytes < DISK_FULL ? 'bad' : 'warning',
    says: words,
    wayOut: 'Make room. Mails, and the embedded database where it is used, are written there.'
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
      says: `${lost} minutes of measurements were dropped since the start of ${list}.`,
      wayOut: 'The database was away for more than an hour. What was sold is not touched by it.'
    }
  if (generations.size > 1)
    return {
      name,
      state: 'warning',
      says: `Processes have read the file a different number of times: ${list}.`,
      wayOut:
        'It is so after one of them was started anew. Where a change of the file is not in effect everywhere, send SIGHUP.'
    }
  return good(
    name,
    all.length === 0
      ? 'Nobody asked for anything in the last minutes: processes tell of minutes with requests.'
      : `${all.length} had requests in the last minutes: ${list}.`
  )
}

export function adminHealthOperations(parts: HealthParts): AnyOperation[] {
  return [
    defineOperation({
      id: 'adminGetHealth',
      method: 'GET',
      path: '/api/admin/health',
      mount: { use: 'operator-api', chain: 'admin' },
      summary: 'How everything stands that the gateway needs, in words, with the way out',
      description:
        'What /health and /ready know and more, for people: each check says what it found and, where that is not good, what to do. It asks no provider anything.',
      tag: 'Admin',
      access: 'admin',
      responses: { 200: { description: 'As the process sees it that answers.', schema: HealthView } },
      handle: async () => ({ status: 200, body: await checkHealth(parts) })
    })
  ]
}
