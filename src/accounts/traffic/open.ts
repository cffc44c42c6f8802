import type { Database } from '../../platform/database/database.ts'
import { periodic } from '../../platform/jobs/jobs.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { merchantTrafficOperations, trafficOperations } from './operations.ts'
import { TrafficRecorder } from './recorder.ts'
import { RequestLogStore, RequestLogWriter } from './request-log.ts'
import { KEPT, TrafficStore } from './store.ts'
import { Traffic } from './traffic.ts'

const HOUR = 3_600_000

/** Opens the traffic history, written by each process once a minute and kept for a month. */
export function openTraffic(dependencies: {
  readonly clock: Clock
  readonly database: Database
  readonly log: Log
  readonly metrics: Metrics
  generation(): number
}) {
  const store = new TrafficStore(dependencies.database)
  const recorder = new TrafficRecorder({ ...dependencies, store })
  const traffic = new Traffic(store, dependencies.clock)
  const requestLog = new RequestLogStore(dependencies.database)
  const writer = new RequestLogWriter({
    ...dependencies,
    requests: dependencies.metrics.tallies.recent,
    store: requestLog
  })
  return {
    traffic,
    operations: [...trafficOperations(traffic), ...merchantTrafficOperations(traffic, requestLog)],
    jobs: [
      periodic('traffic-purge', HOUR, 'Deletes measurements that are older than 30 days', async () => {
        await store.purge(dependencies.clock.now())
        await requestLog.purge(dependencies.clock.now() - KEPT)
      })
    ],
    start: () => {
      recorder.start()
      writer.start()
    },
    close: async () => {
      await Promise.all([recorder.close(), writer.close()])
    }
  }
}
