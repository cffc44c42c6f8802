/*
 * A process of its own for the tests of the embedded database: opens the folder in argv[2] and inserts rows until it is killed,
 * printing each number once its insert was acknowledged. With `hold` in argv[3] it only opens the folder and waits; with `busy`
 * it prints the id of the database's process and keeps that one busy for a second or more.
 */
import { readFileSync } from 'node:fs'
import { systemClock } from '../../src/platform/system/clock.ts'
import { openDatabase } from '../../src/platform/database/database.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { testImage } from './database.ts'

const [, , dataDir, mode] = process.argv
if (dataDir === undefined) throw new Error('Give the data folder')
const database = await openDatabase({
  url: 'pglite:',
  dataDir,
  log: silentLog,
  clock: systemClock,
  image: await testImage()
})
if (mode === 'hold') {
  process.stdout.write('open\n')
  setInterval(() => {}, 60_000)
} else if (mode === 'busy') {
  void database.sql`select count(*) from generate_series(1, 3000000)`.catch(() => {})
  // The only child that this process has.
  process.stdout.write(readFileSync(`/proc/self/task/${process.pid}/children`, 'latin1'))
} else {
  await database.sql`create table if not exists acknowledged (n integer primary key)`
  for (let n = 1; ; n++) {
    await database.sql`insert into acknowledged (n) values (${n})`
    process.stdout.write(`${n}\n`)
  }
}
