import { adminOperation } from '../../accounts/merchants/principal.ts'
import { nullableInteger, nullableText } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import type { Database } from '../../platform/database/database.ts'
import { integer, records } from '../../platform/database/rows.ts'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { TrafficView, trafficView } from '../../accounts/traffic/operations.ts'
import type { Traffic } from '../../accounts/traffic/traffic.ts'
import { openWork, type OpenWorkName } from './health.ts'

const count = (description: string) => Type.Integer({ description })

const Sums = Type.Object({ sales: Type.Integer(), sats: Type.Integer() })

const OverviewView = Type.Object(
  {
    at: isoTime(),
    merchants: Type.Object({ total: Type.Integer(), active: Type.Integer() }),
    earned: Type.Object(
      { today: Sums, thirtyDays: Sums },
      { description: "Of all merchants and the gateway's own routes; days in UTC, today among the thirty." }
    ),
    traffic: Type.Object(
      { now: TrafficView, day: TrafficView },
      { description: 'Of the last five whole minutes, and of a day in steps of 15 minutes; see /api/admin/metrics.' }
    ),
    waiting: Type.Object(
      {
        pendingSubscriptions: count('Bought without an account: /api/admin/pending-subscriptions.'),
        lostRefunds: count('It is unknown whether they were sent: see /api/admin/refunds.'),
        openRefunds: count('Pending or processing, the lost ones among them.'),
        refusedOrders: count('Paid, and refused by the shop: /api/admin/storefront/orders.')
      },
      { description: 'Items that need attention.' }
    ),
    lastDay: Type.Object({
      failedWebhooks: count('Given up on: /jobs.'),
      ambiguousLeases: count('Payments whose gateway died with their request in flight: /api/admin/leases/ambiguous.')
    })
  },
  { title: 'AdminOverview' }
)
export type OverviewView = Static<typeof OverviewView>

const ProviderView = Type.Object(
  {
    slot: Type.Enum(['primary', 'alternate']),
    kind: Type.String(),
    hasKey: Type.Boolean({ description: "Whether the operator's own key is there." }),
    budgets: Type.Array(
      Type.Object({
        limit: Type.String(),
        exhausted: Type.Boolean(),
        retryAfter: nullableInteger('Seconds.')
      }),
      { description: 'Calls that are left, shared by all processes.' }
    ),
    hosts: Type.Array(
      Type.Object({
        host: nullableText("Null for the one that the file names; a merchant's own node else."),
        failures: Type.Integer({ description: 'Calls in a row that failed.' }),
        isLeftAlone: Type.Boolean({ description: 'The circuit breaker is open: only one trial call goes through.' }),
        retryAfter: nullableInteger('Seconds to the next try.')
      }),
      { description: 'Hosts that do not answer, as the process knows it that answers this.' }
    ),
    failure: Type.Unsafe<{ reason: string; since: string } | null>({
      anyOf: [{ type: 'null' }, Type.Object({ reason: Type.String(), since: isoTime() })],
      description: "Why the operator's last invoice failed there; null after a success."
    })
  },
  { title: 'ProviderState' }
)

export type ProviderState = Static<typeof ProviderView>

export type EarnedSums = Static<typeof Sums>

export interface OverviewDependencies {
  readonly database: Database
  readonly clock: Clock
  /** Sums over all owners since a time in milliseconds since the epoch. */
  earnedSince(from: number): Promise<EarnedSums>
  providers(): Promise<readonly ProviderState[]>
  readonly traffic: Pick<Traffic, 'recent' | 'sums'>
}

const DAY = 86_400_000

const countRows = records({ total: integer(), active: integer() })

/**
 * State of the gateway and pending work.
 * @throws Unavailable when the database is down
 */
export async function overview({
  clock,
  database: { sql },
  earnedSince,
  traffic
}: Omit<OverviewDependencies, 'providers'>): Promise<Static<typeof OverviewView>> {
  const now = clock.now()
  const today = Math.floor(now / DAY) * DAY
  const [counts, work, ofToday, thirtyDays, recent, ofDay] = await Promise.all([
    countRows.one(
      sql`select count(*)::int as total, (count(*) filter (where is_active))::int as active from merchants where id > 0`
    ),
    openWork(sql, now),
    earnedSince(today),
    earnedSince(today - 29 * DAY),
    traffic.recent(5),
    traffic.sums({ from: now - DAY, to: now }, '15m')
  ])
  const many = (name: OpenWorkName): number => work[name].count
  return {
    at: iso(now),
    // A select of aggregates returns one row.
    merchants: counts!,
    earned: { today: ofToday, thirtyDays },
    traffic: { now: trafficView(recent), day: trafficView(ofDay.total) },
    waiting: {
      pendingSubscriptions: many('pendingSubscriptions'),
      lostRefunds: many('lostRefunds'),
      openRefunds: many('openRefunds'),
      refusedOrders: many('refusedOrders')
    },
    lastDay: { failedWebhooks: many('failedWebhooks'), ambiguousLeases: many('ambiguousLeases') }
  }
}

export function overviewOperations(dependencies: OverviewDependencies): AnyOperation[] {
  return [
    defineOperation({
      ...adminOperation,
      id: 'adminGetOverview',
      method: 'GET',
      path: '/api/admin/overview',
      summary: 'Overview: accounts, earnings, and items that need attention',
      description: 'A count above 0 under `waiting` needs attention. Each member names the list that shows the items.',
      responses: { 200: { description: 'As of now.', schema: OverviewView } },
      handle: async () => ({ status: 200, body: await overview(dependencies) })
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminGetProviders',
      method: 'GET',
      path: '/api/admin/providers',
      summary: 'Providers of both slots: remaining calls, and hosts that do not answer',
      description:
        'Budgets are shared by all processes; hosts that do not answer are what the one process has seen that answers this.',
      responses: { 200: { description: 'A bare array, the primary slot first.', schema: Type.Array(ProviderView) } },
      handle: async () => ({ status: 200, body: await dependencies.providers() })
    })
  ]
}
