import type { GatewayConfig } from '../config/schema.ts'
import type { Database } from '../database/database.ts'
import type { Jobs } from '../jobs/jobs.ts'
import { accountView, type ProxyCounts } from '../merchants/account.ts'
import type { Merchants } from '../merchants/service.ts'
import type { Clock } from '../system/clock.ts'
import { dashboardOperations } from './jobs-dashboard.ts'
import { adminOperations } from './operations.ts'
import { overviewOperations, type OverviewParts } from './overview.ts'
import type { OnApproved } from './schema.ts'
import { SqlAdminStore } from './store.ts'

/** What administration is opened with. */
export interface OpenAdminParts extends Pick<OverviewParts, 'earnedSince' | 'providers' | 'traffic'> {
  /** Called in this order for each approval, in its transaction. */
  readonly approved: readonly OnApproved[]
  readonly clock: Clock
  readonly database: Database
  readonly jobs: Jobs
  readonly merchants: Merchants
  readonly production: boolean
  config(): Pick<GatewayConfig, 'plans'>
  countProxies(merchantId: number): Promise<ProxyCounts>
}

/** Opens what the administrator does, and the page of the jobs. */
export function openAdmin({
  approved,
  clock,
  config,
  countProxies,
  database,
  earnedSince,
  jobs,
  merchants,
  production,
  providers,
  traffic
}: OpenAdminParts) {
  return {
    operations: [
      ...dashboardOperations({ jobs, clock }),
      ...overviewOperations({ clock, database, earnedSince, providers, traffic }),
      ...adminOperations({
        database,
        store: new SqlAdminStore(database),
        merchants,
        clock,
        production,
        approved: async (sql, approval) => {
          for (const tell of approved) await tell(sql, approval)
        },
        account: async merchant => accountView(merchant, config().plans, await countProxies(merchant.id))
      })
    ],
    jobs: [],
    close: () => {}
  }
}
