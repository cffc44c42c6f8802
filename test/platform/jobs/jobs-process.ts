/**
 * A process of its own that begins a job and never ends it, so that a test can kill it: `jobs-process.ts <url> <data
 * folder>`.
 */
import { systemClock } from '../../../src/platform/system/clock.ts'
import { openDatabase } from '../../../src/platform/database/database.ts'
import { migrate } from '../../../src/platform/database/migrations.ts'
import { migrations } from '../../../src/platform/database/migrations/list.ts'
import { DatabaseJobs } from '../../../src/platform/jobs/queue.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { testImage } from '../../support/database.ts'
import { declareQueue } from './jobs.ts'

const [url = '', dataDir = ''] = process.argv.slice(2)
const database = await openDatabase({
  url,
  dataDir,
  log: silentLog,
  clock: systemClock,
  image: await testImage(migrations)
})
await migrate(database, migrations, { clock: systemClock, log: silentLog })
const jobs = new DatabaseJobs({ database, clock: systemClock, log: silentLog, metrics: new Metrics() })
declareQueue(jobs, 'kills', { title: 'Test', concurrency: 1, expiry: 120_000 }, () => {
  process.stdout.write('running\n')
  return new Promise<void>(() => {})
})
await jobs.start()
await jobs.enqueue(database.sql, 'kills', { n: 1 })
