import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Type, type Static } from 'typebox'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import { moment, records, integer, optional, text } from '../../platform/database/rows.ts'
import { freeBytes } from '../../platform/database/write-probe.ts'
import { isoTime } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { addressesOf } from '../../engine/sections/upstream.ts'
import type { UpstreamTrouble } from '../../engine/upstream/breakers.ts'
import type { Jobs } from '../../platform/jobs/jobs.ts'
import type { State } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Traffic } from '../../accounts/traffic/traffic.ts'
import type { RunningConfiguration } from './schema.ts'
import type { ProviderState } from './overview.ts'
import { Check, judge } from './problems.ts'
import { stuck } from '../../selling/sessions/store.ts'

const HealthView = Type.Object(
  {
    at: isoTime(),
    ready: Type.Boolean({ description: 'Whether this process accepts traffic, as /ready reports.' }),
    checks: Type.Array(Check, { description: 'Worst first.' })
  },
  { title: 'AdminHealth' }
)

export type AdminHealth = Static<typeof HealthView>

export interface HealthDependencies {
  readonly clock: Clock
  readonly database: Database
  readonly jobs: Pick<Jobs, 'queues'>
  readonly state: Pick<State, 'healthy'>
  readonly traffic: Pick<Traffic, 'processes' | 'recent'>
  running(): Pick<RunningConfiguration, 'config' | 'reload'>
  providers(): Promise<readonly ProviderState[]>
  /** Upstreams whose last requests failed. */
  upstreams(): readonly UpstreamTrouble[]
  /** Whether this process accepts requests. */
  serving(): boolean
  /** Free bytes of the folder's disk. */
  free?(folder: string): Promise<number>
}

/** Milliseconds for which failures of merchants' upstreams are reported. */
const RECENT = 600_000

const nowRows = records({ at: moment() })

/** Runs all checks independently. Never rejects. */
export async function checkHealth(
  dependencies: HealthDependencies,
  firstSeen: Parameters<typeof judge>[1]
): Promise<AdminHealth> {
  const { clock, database, free = freeBytes, jobs, providers, running, serving, state, traffic } = dependencies
  const { config, reload } = running()
  const health = await database.health()
  const isThere = health.status !== 'unhealthy'
  const read = async <T>(part: () => Promise<T>, needsDatabase = true): Promise<T | null> =>
    // Its own check reports the outage; what could not be read is unknown.
    needsDatabase && !isThere ? null : await part().catch(() => null)
  const [certificateUntil, redis, known, recent, work, queues, bytes, clockOff, processes] = await Promise.all([
    config.server.tls.length === 0 ? undefined : read(() => firstExpiry(config.server.tls), false),
    config.state.url.startsWith('memory:') ? null : state.healthy().catch(() => false),
    read(providers, false),
    read(() => traffic.recent(5)),
    read(() => openWork(database.sql, clock.now())),
    read(() => jobs.queues()),
    read(() => free(config.data), false),
    read(() => clockSkew(dependencies)),
    read(() => traffic.processes())
  ])
  const now = clock.now()
  const checks = judge(
    {
      now,
      database: health,
      isEmbedded: database.kind === 'pglite',
      redis,
      upstreams: dependencies.upstreams().filter(one => isLive(config, one, now)),
      providers: known,
      reload,
      traffic: recent,
      work,
      queues,
      free: bytes,
      certificateUntil,
      clockOff,
      processes
    },
    firstSeen
  )
  return { at: new Date(now).toISOString(), ready: serving() && isThere, checks }
}

/** Whether the configuration still has an operator's upstream, or a merchant's failed recently. */
function isLive(
  { routes }: Pick<GatewayConfig, 'routes'>,
  { lastAt, origin, route, tenant }: UpstreamTrouble,
  now: number
): boolean {
  if (tenant !== '') return now - lastAt < RECENT
  return routes.some(
    ({ name, upstream }) =>
      name === route &&
      upstream.kind === 'url' &&
      addressesOf(upstream).some(address => new URL(address).origin === origin)
  )
}

async function firstExpiry(files: GatewayConfig['server']['tls']): Promise<Date> {
  const ends = await Promise.all(
    files.map(async ({ cert }) => new X509Certificate(await readFile(cert)).validToDate.getTime())
  )
  return new Date(Math.min(...ends))
}

/** Milliseconds that the database's clock is ahead. */
async function clockSkew({ clock, database }: Pick<HealthDependencies, 'clock' | 'database'>): Promise<number> {
  const before = clock.now()
  const found = await nowRows.one(database.sql`select clock_timestamp() as at`)
  // The query takes time: assume half of it before the reading.
  return Math.round((found?.at ?? before) - (before + clock.now()) / 2)
}

export function adminHealthOperations(dependencies: HealthDependencies): AnyOperation[] {
  const firstSeen: Parameters<typeof judge>[1] = new Map()
  return [
    defineOperation({
      id: 'adminGetHealth',
      method: 'GET',
      path: '/api/admin/health',
      mount: { use: 'operator-api', chain: 'admin' },
      summary: 'Health checks of the gateway and what it depends on, with fixes',
      description:
        'Extends /health and /ready for people: each check reports its result and, if that is not good, since when, the effect on sales, and how to fix it. Makes no calls to providers, and works without the database.',
      tag: 'Admin',
      access: 'admin',
      responses: { 200: { description: 'As seen by the process that responds.', schema: HealthView } },
      handle: async () => ({ status: 200, body: await checkHealth(dependencies, firstSeen) })
    })
  ]
}

/** Milliseconds after which an unacknowledged refund counts as lost. */
const LOST_AFTER = 600_000
const DAY = 86_400_000

export type OpenWorkName =
  | 'pendingSubscriptions'
  | 'lostRefunds'
  | 'openRefunds'
  | 'stuckSessions'
  | 'refusedOrders'
  | 'failedWebhooks'
  | 'pendingWebhooks'
  | 'ambiguousLeases'

/** What people must see to. `since`: the oldest, in milliseconds since the epoch; null without any. */
export type OpenWork = Readonly<Record<OpenWorkName, { readonly count: number; readonly since: number | null }>>

const rows = records({ name: text<OpenWorkName>(), count: integer(), since: optional(moment()) })

export async function openWork(sql: Sql, now: number): Promise<OpenWork> {
  const [dayAgo, lostBefore] = [new Date(now - DAY), new Date(now - LOST_AFTER)]
  const found = await rows.all(sql`
    select 'pendingSubscriptions' as name, count(*)::int as count, min(created_at) as since
      from pending_subscriptions where state = 'pending'
    union all select 'lostRefunds', count(*)::int, min(created_at) from refunds
      where merchant_id > 0 and status = 'pending' and provider_refund_id is null and created_at <= ${lostBefore}
    union all select 'openRefunds', count(*)::int, min(created_at) from refunds where merchant_id > 0 and status in ('pending', 'processing')
    union all select 'stuckSessions', count(*)::int, min(closed_at) from sessions where ${stuck(sql, lostBefore.getTime())}
    union all select 'refusedOrders', count(*)::int, min(failed_at) from storefront_orders
      where failed_at is not null and claimed_at is null
    union all select 'failedWebhooks', count(*)::int, min(created_at) from webhook_deliveries
      where merchant_id > 0 and created_at >= ${dayAgo} and status = 'failed'
    union all select 'pendingWebhooks', count(*)::int, min(created_at) from webhook_deliveries where merchant_id > 0 and status = 'pending'
    union all select 'ambiguousLeases', count(*)::int, min(lapsed_at) from ambiguous_leases where lapsed_at >= ${dayAgo}`)
  // Each part of the union returns its row.
  return Object.fromEntries(found.map(({ name, ...one }) => [name, one])) as OpenWork
}
