import { join } from 'node:path'
import t from 'tap'
import { healthOperations } from '../../../src/app/discovery/health.ts'
import { folderProbe, freeBytes } from '../../../src/platform/database/write-probe.ts'
import { openAnyDatabase, temporaryFolder } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const MIB = 1024 * 1024

t.test('an embedded database with less than 16 MiB left is read-only; free space is checked periodically', async t => {
  const clock = new ManualClock()
  let bytes = 16 * MIB
  let polls = 0
  const probe = folderProbe('a folder', clock, async () => {
    polls++
    return bytes
  })
  t.equal(await probe.fault(), null)
  bytes = 3 * MIB
  t.equal(await probe.fault(), null, 'a success is cached for half a minute')
  clock.advance(30_000)
  t.equal(await probe.fault(), 'The database cannot be written: 3 MiB are left on its disk')
  bytes = 900 * MIB
  clock.advance(5_000)
  t.equal(await probe.fault(), null, 'and it recovers automatically')
  t.equal(polls, 3)
})

t.test('a disk that cannot be looked at says nothing', async t => {
  t.equal(
    await folderProbe('/nowhere', new ManualClock(), async () => {
      throw new Error('ENOENT')
    }).fault(),
    null
  )
})

const url = process.env['TEST_DATABASE_URL'] ?? ''
t.test(
  'PostgreSQL on a full disk answers, but is unhealthy and not ready',
  { skip: url === '' && 'TEST_DATABASE_URL is not set' },
  async t => {
    const clock = new ManualClock()
    const database = await openAnyDatabase(t, { clock, migrations: [] })
    t.match(await database.health(), { status: 'healthy' })
    const tables = async () =>
      (await database.sql`select count(*)::int as count from pg_class where relname like 'boltgate_write_probe%'`)[0]?.[
        'count'
      ]
    t.equal(await tables(), 0, 'the probe leaves nothing')
    await database.sql.unsafe(`
    create function full_disk() returns event_trigger language plpgsql as $$ begin raise exception 'No space left on device' using errcode = '53100'; end $$;
    create event trigger full_disk on ddl_command_start when tag in ('CREATE TABLE') execute function full_disk()`)
    clock.advance(30_000)
    t.match(await database.health(), {
      status: 'unhealthy',
      error: 'The database cannot be written: its disk is full (53100)'
    })
    const [health, ready] = healthOperations(database, clock, { ready: () => true })
    t.match(await health?.handle({} as never), { status: 503, body: { status: 'Unhealthy' } })
    t.match(await ready?.handle({} as never), { status: 503, body: { ready: false } })
    await database.sql`drop event trigger full_disk`
    clock.advance(5_000)
    t.match(await database.health(), { status: 'healthy' })
  }
)

t.test('freeBytes: before the first start, the disk of the parent counts', async t => {
  const folder = temporaryFolder(t)
  t.ok((await freeBytes(join(folder, 'data'))) > 0)
})
