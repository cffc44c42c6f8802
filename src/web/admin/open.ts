import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Jobs } from '../../platform/jobs/jobs.ts'
import { accountView } from '../../accounts/merchants/account.ts'
import { countProxies } from '../../accounts/merchants/holdings.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Traffic } from '../../accounts/traffic/traffic.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { openWork, type OpenWork, type OpenWorkName, adminHealthOperations, type HealthDependencies } from './health.ts'
import { configurationOperations } from './live.ts'
import type { RunningConfiguration, OnApproved } from './schema.ts'
import { jobsOperations } from './jobs-operations.ts'
import { adminOperations } from './operations.ts'
import { overviewOperations, type OverviewDependencies } from './overview.ts'
import { SqlAdminStore } from './store.ts'

export interface OpenAdminDependencies
  extends
    Pick<OverviewDependencies, 'earnedSince' | 'providers'>,
    Pick<HealthDependencies, 'serving' | 'state' | 'upstreams'> {
  /** Called in this order in the transaction of each approval. */
  readonly approved: readonly OnApproved[]
  readonly clock: Clock
  readonly database: Database
  readonly jobs: Jobs
  readonly merchants: Merchants
  readonly metrics: Metrics
  readonly production: boolean
  readonly traffic: Traffic
  config(): GatewayConfig
  running(): RunningConfiguration
  generation(): number
}

export function openAdmin(dependencies: OpenAdminDependencies) {
  const { approved, clock, config, database, jobs, metrics } = dependencies
  const byKind = (valueOf: (work: OpenWork[OpenWorkName]) => number) => async () =>
    Object.entries(await openWork(database.sql, clock.now())).map(([kind, one]) => ({
      labels: { kind },
      value: valueOf(one)
    }))
  metrics.sampled(
    'boltgate_open_work',
    'What people must see to, by kind: lost, stuck or open refunds, rejected orders, pending or failed webhooks, ….',
    ['kind'],
    byKind(({ count }) => count)
  )
  metrics.sampled(
    'boltgate_open_work_oldest_seconds',
    'Age of the oldest of each kind; 0 without any.',
    ['kind'],
    byKind(({ since }) => (since === null ? 0 : Math.max(0, (clock.now() - since) / 1000)))
  )
  return {
    operations: [
      ...jobsOperations(jobs),
      ...adminHealthOperations(dependencies),
      ...overviewOperations(dependencies),
      ...configurationOperations(dependencies),
      ...adminOperations({
        ...dependencies,
        store: new SqlAdminStore(database),
        approved: async (sql, approval) => {
          for (const tell of approved) await tell(sql, approval)
        },
        account: async merchant => accountView(merchant, config().plans, await countProxies(database.sql, merchant.id))
      })
    ]
  }
}
