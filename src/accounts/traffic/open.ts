import type { Database } from '../../platform/database/database.ts'
import { periodic } from '../../platform/jobs/jobs.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { merchantTrafficOperations } from './merchant-operations.ts'
import { trafficOperations } from './operations.ts'
import { ProxyTraffic } from './proxy-traffic.ts'
import { TrafficRecorder } from './recorder.ts'
import { TrafficStore } from './store.ts'
import { Traffic } from './traffic.ts'

/** What is opened to keep what went through the gateway. */
export interface OpenTrafficParts {
  readonly clock: Clock
  readonly database: Database
  readonly log: Log
  readonly metrics: Metrics
  /** Of the configuration. */
  generation(): number
}

const HOUR = 3_600_000

/** Opens what went through the gateway: written by each process once a minute, kept for a month. */
export function openTraffic(parts: OpenTrafficParts) {
  const store = new TrafficStore(parts.database)
  const recorder = new TrafficRecorder({ ...parts, store })
  const traffic = new Traffic(store, parts.clock)
  return {
    traffic,
    operations: [...trafficOperations(traffic), ...merchantTrafficOperations(new ProxyTraffic(store, parts.clock))],
    jobs: [
      periodic('traffic-purge', HOUR, 'Deletes measurements that are older than 30 days', () =>
        store.purge(parts.clock.now())
      )
    ],
    /** Begins to write; the database has its tables. */
    start: () => {
      recorder.start()
    },
    close: () => recorder.close()
  }
}
