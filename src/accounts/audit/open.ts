import type { Database } from '../../platform/database/database.ts'
import { periodic } from '../../platform/jobs/jobs.ts'
import { auditOperations } from './operations.ts'
import { SqlAuditStore } from './store.ts'
import { AuditTrail, type AuditTrailDependencies } from './trail.ts'

const DAY = 24 * 3_600_000
const KEPT = 366 * DAY

export function openAudit(dependencies: Omit<AuditTrailDependencies, 'store'> & { readonly database: Database }) {
  const store = new SqlAuditStore(dependencies.database)
  return {
    trail: new AuditTrail({ ...dependencies, store }),
    operations: auditOperations(store),
    jobs: [
      periodic('audit-purge', DAY, 'Deletes what the audit trail has kept for a year', () =>
        store.purge(dependencies.clock.now() - KEPT)
      )
    ],
    close: () => {}
  }
}
