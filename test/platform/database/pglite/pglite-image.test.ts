import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { makeImage } from '../../../../src/app/image-making.ts'
import { systemClock } from '../../../../src/platform/system/clock.ts'
import { silentLog } from '../../../../src/platform/telemetry/log.ts'
import { migrate } from '../../../../src/platform/database/migrations.ts'
import { migrations } from '../../../../src/platform/database/migrations/list.ts'
import { imageName, packFolder, unpackInto } from '../../../../src/platform/database/pglite/image.ts'
import { openAt, temporaryFolder } from '../../../support/database.ts'

function recordingLog() {
  const warnings: string[] = []
  return {
    log: {
      ...silentLog,
      warn: (first: object | string, message?: string) => {
        warnings.push(message ?? String(first))
      }
    },
    warnings
  }
}

/** The files and folders below `folder` with their permissions, in octal. */
function modes(folder: string) {
  return new Map(
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map(name => [
      name,
      (statSync(join(folder, name)).mode & 0o777).toString(8)
    ])
  )
}

t.test('a folder comes out of its tar as it went in, for its owner alone', async t => {
  const from = temporaryFolder(t)
  mkdirSync(join(from, 'a/empty'), { recursive: true })
  writeFileSync(join(from, 'a/nothing'), '')
  writeFileSync(join(from, 'a/exactly'), Buffer.alloc(512, 1))
  writeFileSync(join(from, 'odd'), Buffer.alloc(777, 2))
  const to = join(temporaryFolder(t), 'to')
  const tar = packFolder(from)
  t.equal(tar.length % 512, 0)
  unpackInto(to, tar)
  t.equal(statSync(to).mode & 0o777, 0o700)
  t.same([...modes(to)].sort(), [
    ['a', '700'],
    ['a/empty', '700'],
    ['a/exactly', '600'],
    ['a/nothing', '600'],
    ['odd', '600']
  ])
  for (const name of ['a/nothing', 'a/exactly', 'odd'])
    t.same(readFileSync(join(to, name)), readFileSync(join(from, name)), name)
})

t.test('a tar that is damaged, cut or leads out of the folder is refused', async t => {
  const from = temporaryFolder(t)
  writeFileSync(join(from, 'file'), 'text')
  const tar = packFolder(from)
  const changed = Buffer.from(tar)
  changed.write('1', 130)
  t.throws(
    () => {
      unpackInto(join(temporaryFolder(t), 'to'), changed)
    },
    { message: 'The image is damaged at byte 0' }
  )
  const long = temporaryFolder(t)
  writeFileSync(join(long, 'file'), Buffer.alloc(5000))
  t.throws(
    () => {
      unpackInto(join(temporaryFolder(t), 'to'), packFolder(long).subarray(0, 1024))
    },
    { message: 'The image is damaged at byte 0' }
  )
  const out = Buffer.from(tar)
  out.write('../x', 0)
  t.throws(
    () => {
      unpackInto(join(temporaryFolder(t), 'to'), out)
    },
    { message: 'The image is damaged at byte 0' }
  )
})

t.test('the image is another one for other migrations', async t => {
  t.not(imageName('one'), imageName('two'))
  t.equal(imageName('one'), imageName('one'))
})

t.test(
  'a database that begins with the image has all tables, no rows of users, and is open to its owner alone',
  async t => {
    const dataDir = temporaryFolder(t)
    chmodSync(dataDir, 0o755)
    const { log, warnings } = recordingLog()
    const database = await openAt(t, 'pglite:', { dataDir, log, image: await makeImage() })
    t.same(await migrate(database, migrations, { clock: systemClock, log: silentLog }), [], 'nothing is left to do')
    t.same(await database.sql`select count(*)::int as n from merchants`, [{ n: 0 }])
    t.same(
      await database.sql`select datname as name from pg_database`,
      [{ name: 'postgres' }],
      'nor what other databases would be copied from'
    )
    await database.sql`create table later (n integer)`
    t.equal(statSync(join(dataDir, 'database')).mode & 0o777, 0o700)
    // PostgreSQL itself gives a few caches 0644; the folder's mode protects them.
    const open = [...modes(join(dataDir, 'database'))].filter(
      ([name, mode]) => /[2367]$|[2367].$/.test(mode) || (!name.endsWith('.init') && !mode.endsWith('00'))
    )
    t.same(open, [], 'what the database made itself as well')
    t.same(warnings, [])
  }
)

t.test('an image that cannot be read costs the time of making a database, and is reported', async t => {
  const dataDir = temporaryFolder(t)
  const image = join(dataDir, 'broken.tar.br')
  writeFileSync(image, 'no image')
  const { log, warnings } = recordingLog()
  const database = await openAt(t, 'pglite:', { dataDir, log, image })
  t.same(await database.sql`select 1 as n`, [{ n: 1 }])
  t.match(warnings, [/^The image of a new database cannot be used, so one is made from nothing: /])
  t.equal(statSync(join(dataDir, 'database')).mode & 0o777, 0o700)
  await database.close()
  chmodSync(join(dataDir, 'database'), 0o755)
  const again = recordingLog()
  await openAt(t, 'pglite:', { dataDir, log: again.log })
  t.match(again.warnings, [/could be read by other users of this machine/], 'a folder of an older version is closed')
  t.equal(statSync(join(dataDir, 'database')).mode & 0o777, 0o700)
})
