import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Type, type Static } from 'typebox'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import { integer, moment, optional, records, text } from '../../platform/database/rows.ts'
import { freeBytes } from '../../platform/database/write-probe.ts'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { allAddressesOf } from '../../engine/sections/upstream.ts'
import type { UpstreamTrouble } from '../../engine/upstream/breakers.ts'
import type { Jobs } from '../../platform/jobs/jobs.ts'
import type { State } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Traffic } from '../../accounts/traffic/traffic.ts'
import type { RunningConfiguration } from './schema.ts'
import type { ProviderState } from './overview.ts'
import type { PlatformFacts } from './platform-checks.ts'
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

interface PlatformDependencies {
  readonly clock: Clock
  readonly database: Database
  readonly state: Pick<State, 'healthy' | 'inspect'>
  free?(folder: string): Promise<number>
  /** Most open files of this process; undefined where that is unknown. */
  openFiles?(): Promise<number | undefined>
}

export interface HealthDependencies extends PlatformDependencies {
  readonly jobs: Pick<Jobs, 'queues'>
  readonly traffic: Pick<Traffic, 'processes' | 'recent'>
  running(): Pick<RunningConfiguration, 'config' | 'reload'>
  providers(): Promise<readonly ProviderState[]>
  upstreams(): readonly UpstreamTrouble[]
  /** Whether this process accepts requests. */
  serving(): boolean
}

/** Milliseconds for which failures of merchants' upstreams are reported. */
const RECENT = 600_000

const serverRows = records({ at: moment(), version: integer(), off: optional(text()), allowed: integer() })

/** What can be known without a running gateway. Never rejects. */
export async function platformFacts(
  { clock, database, free = freeBytes, openFiles = fileLimit, state }: PlatformDependencies,
  config: GatewayConfig
): Promise<PlatformFacts> {
  const health = await database.health()
  const [server, redis, bytes, certificateUntil, files] = await Promise.all([
    health.status === 'unhealthy' ? null : known(() => inspectDatabase(clock, database)),
    config.state.url.startsWith('memory:') ? null : inspectState(clock, state).catch(() => false as const),
    known(() => free(config.data)),
    config.server.tls.length === 0 ? undefined : known(() => firstExpiry(config.server.tls)),
    openFiles()
  ])
  const isEmbedded = database.kind === 'pglite'
  return {
    now: clock.now(),
    database: health,
    isEmbedded,
    version: server?.version ?? null,
    flaws: server === null || isEmbedded || config.mode !== 'production' ? [] : flawsOf(server, config),
    redis,
    free: bytes,
    certificateUntil,
    clockOff: server?.ahead ?? null,
    openFiles: files
  }
}

/** Runs all checks independently. Never rejects. */
export async function checkHealth(
  dependencies: HealthDependencies,
  firstSeen: Parameters<typeof judge>[1]
): Promise<AdminHealth> {
  const { clock, database, jobs, providers, running, serving, traffic } = dependencies
  const { config, reload } = running()
  const facts = await platformFacts(dependencies, config)
  const isThere = facts.database.status !== 'unhealthy'
  // Its own check reports the outage; what could not be read is unknown.
  const read = async <T>(part: () => Promise<T>): Promise<T | null> => (isThere ? await known(part) : null)
  const [shown, recent, lastMinute, work, queues, processes] = await Promise.all([
    known(providers),
    read(() => traffic.recent(5)),
    read(() => traffic.recent(1)),
    read(() => openWork(database.sql, clock.now())),
    read(() => jobs.queues()),
    read(() => traffic.processes())
  ])
  const { now } = facts
  const upstreams = dependencies.upstreams().filter(one => isLive(config, one, now))
  const checks = judge(
    { ...facts, upstreams, providers: shown, reload, traffic: recent, lastMinute, work, queues, processes },
    firstSeen
  )
  return { at: iso(now), ready: serving() && isThere, checks }
}

async function known<T>(part: () => Promise<T>): Promise<T | null> {
  return await part().catch(() => null)
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
      allAddressesOf(upstream).some(address => new URL(address).origin === origin)
  )
}

async function firstExpiry(files: GatewayConfig['server']['tls']): Promise<Date> {
  const ends = await Promise.all(
    files.map(async ({ cert }) => new X509Certificate(await readFile(cert)).validToDate.getTime())
  )
  return new Date(Math.min(...ends))
}

/** Reads another clock with its server's answer. */
async function skewed<T extends { readonly at: number }>(
  clock: Clock,
  read: () => Promise<T | null>
): Promise<T & { readonly ahead: number }> {
  const before = clock.now()
  const found = await read()
  if (found === null) throw new Error('no row')
  // The call takes time: assume half of it before the reading.
  return { ...found, ahead: Math.round(found.at - (before + clock.now()) / 2) }
}

async function inspectState(clock: Clock, state: PlatformDependencies['state']): Promise<PlatformFacts['redis']> {
  return (await state.healthy()) && (await skewed(clock, () => state.inspect()))
}

function inspectDatabase(clock: Clock, { sql }: Database) {
  return skewed(clock, () =>
    serverRows.one(sql`
      select clock_timestamp() as at, current_setting('server_version_num')::int / 10000 as version,
        (select string_agg(name, ', ') from pg_settings
          where setting = 'off' and name in ('fsync', 'full_page_writes', 'synchronous_commit')) as off,
        current_setting('max_connections')::int as allowed`)
  )
}

/** Why the settings of a server are not fit for production. */
function flawsOf(
  { allowed, off, version }: { allowed: number; off: string | null; version: number },
  { database: { connections, listenUrl }, server: { workers } }: GatewayConfig
): string[] {
  // Each process has one more, for notifications. A pooler in between has limits of its own.
  const used = listenUrl === '' ? workers * (connections + 1) : 0
  return [
    ...(version < 15 ? ['it is older than version 15'] : []),
    ...(off === null ? [] : [`a power failure can lose sales, since it has these off: ${off}`]),
    ...(used > allowed ? [`max_connections is ${allowed}, and these ${workers} processes may use ${used}`] : [])
  ]
}

/** Node raises the soft limit to the hard one when it starts. */
async function fileLimit(): Promise<number | undefined> {
  const text = await readFile('/proc/self/limits', 'utf8').catch(() => '')
  const [, limit] = /^Max open files +(\d+)/m.exec(text) ?? []
  return limit === undefined ? undefined : Number(limit)
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

/** What people must see to. `since`: the oldest; null without any. */
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
