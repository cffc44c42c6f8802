import type { Database } from '../../platform/database/database.ts'
import { metricsOperation } from '../../engine/operations/metrics-operation.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { healthOperations, type Readiness } from './health.ts'
import { discoveryOperations, type DiscoveryFacts } from './operations.ts'

/** Opens health and discovery documents. */
export function openDiscovery(
  parts: DiscoveryFacts &
    Readiness & {
      readonly clock: Clock
      readonly database: Database
      readonly metrics: Metrics
      readonly production: boolean
    }
) {
  const { clock, database, metrics } = parts
  return {
    operations: [
      ...healthOperations(database, clock, parts),
      metricsOperation(metrics, parts.production),
      ...discoveryOperations(parts)
    ],
    jobs: [],
    close: () => {}
  }
}
