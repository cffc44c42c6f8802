import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { systemClock } from '../../../src/platform/system/clock.ts'
import {
  OutsideTransaction,
  isConnectionFault,
  isUniqueViolation,
  openDatabase
} from '../../../src/platform/database/database.ts'
import { FolderInUse } from '../../../src/platform/database/folder-lock.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openAt, eachDatabase, onEmbedded, startedServers, temporaryFolder, testImage } from '../../support/database.ts'

const empty = { migrations: [] }
const postgresUrl = process.env['TEST_DATABASE_URL'] ?? ''
const child = fileURLToPath(new URL('../../support/insert-until-killed.ts', import.meta.url))

function start(t: Test, ...args: string[]) {
  const started = spawn(process.execPath, [child, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'] }
  })
  t.teardown(() => {
    started.kill('SIGKILL')
  })
  return started
}

function recordingLog() {
  const lines: string[] = []
  const write = (first: object | string, message?: string) => {
    lines.push(message ?? String(first))
  }
  return { log: { debug: write, info: write, warn: write, error: write }, lines }
}

await eachDatabase(
  t,
  'values arrive in the types that the handle promises',
  async (t, { sql }) => {
    await sql`create table kinds (big bigint, small integer, money numeric, at timestamptz, doc jsonb, words text[], bytes bytea)`
    const at = new Date('2026-11-21T00:54:00.123Z')
    await sql`insert into kinds values (${9_007_199_254_740_993n}, ${7}, ${'0.00000001'}, ${at}, ${sql.json({ a: [1, { b: null }] })}, ${['x', 'y, "z"']}, ${Buffer.from([0, 255])})`
    const rows = await sql`select *, count(*) over () as total, count(*)  over ()::int as number from kinds`
    t.same(rows[0], {
      big: 9_007_199_254_740_993n,
      small: 7,
      money: '0.00000001',
      at,
      doc: { a: [1, { b: null }] },
      words: ['x', 'y, "z"'],
      bytes: Buffer.from([0, 255]),
      total: 1n,
      number: 1
    })
    t.type(rows[0]?.['at'], Date)
    const types = await sql`select jsonb_typeof(doc) as kind from kinds`
    t.equal(types[0]?.['kind'], 'object', 'JSON is stored as an object, not as a string')
  },
  empty
)

await eachDatabase(
  t,
  'a unique violation and a failing statement leave the connection usable, also when pipelined',
  async (t, { sql }) => {
    await sql`create table one (id integer primary key)`
    await sql`insert into one values (1)`
    const results = await Promise.allSettled(
      Array.from({ length: 60 }, (_, i) => {
        if (i % 3 === 0) return sql`insert into one values (${1})`
        if (i % 3 === 1) return sql`select no_such_column from one where id = ${i}`
        return sql`select ${i}::int as i`
      })
    )
    for (const [i, result] of results.entries()) {
      if (i % 3 === 2) t.match(result, { status: 'fulfilled', value: [{ i }] })
      else if (i % 3 === 1) t.match(result, { status: 'rejected', reason: { code: '42703' } })
      else {
        t.equal(result.status, 'rejected')
        const reason: unknown = result.status === 'rejected' ? result.reason : null
        t.ok(isUniqueViolation(reason))
        t.ok(isUniqueViolation(reason, 'one_pkey'))
        t.notOk(isUniqueViolation(reason, 'another_key'))
        t.notOk(isConnectionFault(reason))
      }
    }
  },
  empty
)

for (const [kind, url] of [
  ['embedded', 'pglite:memory'],
  ['PostgreSQL', postgresUrl]
] as const) {
  const skip = url === '' ? 'TEST_DATABASE_URL is not set' : false
  await t.test(
    `a statement of some kilobytes may be the first of a connection, which is kept after it (${kind})`,
    { skip },
    async t => {
      for (const values of [[], [1]]) {
        const database = await openAt(t, url, { connections: 1, image: await testImage() })
        await database.sql.unsafe(
          `select set_config('test.kept', 'yes', false), ${values.length === 0 ? '1' : '$1::int'} /* ${'x'.repeat(4_000)} */`,
          values
        )
        // Long enough for a connection that is idle to be ended.
        for (let turn = 0; turn < 5; turn++) await setImmediate()
        t.same(await database.sql`select current_setting('test.kept', true) as kept`, [{ kept: 'yes' }])
      }
    }
  )
}

await eachDatabase(
  t,
  'a transaction commits what it did, rolls back when it throws, and nests by savepoints',
  async (t, database) => {
    const { sql } = database
    await sql`create table one (id integer primary key)`
    const answer = await database.transaction(async tx => {
      await tx`insert into one values (1)`
      await t.rejects(
        tx.savepoint(async inner => {
          await inner`insert into one values (2)`
          await inner`insert into one values (1)`
        }),
        { code: '23505' }
      )
      await tx`insert into one values (3)`
      return 'done'
    })
    t.equal(answer, 'done')
    await t.rejects(
      database.transaction(async tx => {
        await tx`insert into one values (4)`
        throw new Error('changed my mind')
      }),
      { message: 'changed my mind' }
    )
    t.same(
      (await sql`select id from one order by id`).map(row => row['id']),
      [1, 3]
    )
  },
  empty
)

await eachDatabase(
  t,
  'the outer handle is refused inside a transaction, instead of deadlocking',
  async (t, database) => {
    const { sql } = database
    let later: Promise<unknown> | null = null
    const ended = Promise.withResolvers<void>()
    await database.transaction(async tx => {
      t.throws(() => {
        void sql`select 1`
      }, OutsideTransaction)
      t.throws(() => {
        void sql.unsafe('select 1')
      }, OutsideTransaction)
      await t.rejects(
        database.transaction(async () => {}),
        OutsideTransaction
      )
      await t.rejects(database.notify('channel', 'x'), OutsideTransaction)
      // A part of a statement runs nothing on its own.
      await tx`select ${sql('a')} from (select 1 as a) as one`
      later = ended.promise.then(() => sql`select 2 as n`)
    })
    ended.resolve()
    t.same(await later, [{ n: 2 }], 'what the transaction left running may use it once it has ended')
    t.same(await sql`select 3 as n`, [{ n: 3 }])
  },
  empty
)

await eachDatabase(
  t,
  'listeners hear notifications when their transaction commits, and no more once stopped',
  async (t, database) => {
    const received: string[] = []
    let wake = Promise.withResolvers<void>()
    const stop = await database.listen('proxies', payload => {
      received.push(payload)
      wake.resolve()
    })
    const until = async (count: number) => {
      while (received.length < count) {
        await wake.promise
        wake = Promise.withResolvers()
      }
    }
    await database.notify('proxies', 'one')
    await database.transaction(async tx => {
      await database.notify('proxies', 'two', tx)
    })
    await t.rejects(
      database.transaction(async tx => {
        await database.notify('proxies', 'never', tx)
        throw new Error('no')
      })
    )
    await database.notify('others', 'not for us')
    await database.notify('proxies', 'three')
    await until(3)
    t.same(received, ['one', 'two', 'three'])
    await stop()
    await database.notify('proxies', 'four')
    t.same(received, ['one', 'two', 'three'])
  },
  empty
)

await eachDatabase(
  t,
  'health says healthy',
  async (t, database) => {
    t.match(await database.health(), { status: 'healthy', error: null })
  },
  empty
)

await onEmbedded(t, 'health distinguishes slow from late by the clock (decision 22)', async t => {
  const clock = new ManualClock()
  const database = await openAt(t, 'pglite:memory', { clock, image: await testImage() })
  for (const [ms, status] of [
    [1_000, 'healthy'],
    [1_001, 'degraded'],
    [2_999, 'degraded'],
    [3_000, 'unhealthy']
  ] as const) {
    const checking = database.health()
    t.equal(database.health(), checking, 'probes share one check')
    clock.advance(ms)
    t.match(await checking, { status, ms })
  }
})

await t.test(
  'a listener whose connection PostgreSQL cut is notified again',
  { skip: postgresUrl === '' ? 'TEST_DATABASE_URL is not set' : false },
  async t => {
    const clock = new ManualClock()
    const database = await openAt(t, postgresUrl, { clock })
    const heard = Promise.withResolvers<string>()
    await database.listen('cut', heard.resolve)
    const cut =
      await database.sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'boltgate-listener' and query like 'listen "cut"%'`
    t.ok(cut.length > 0)
    const stepping = setInterval(() => {
      clock.advance(1_000)
      void database.notify('cut', 'again')
    }, 20)
    t.teardown(() => {
      clearInterval(stepping)
    })
    t.equal(await heard.promise, 'again')
    clearInterval(stepping)
  }
)

await t.test('an unreachable PostgreSQL is a connection fault, and unhealthy without its address', async t => {
  // A port of the loopback address on which nothing may listen without privileges: refused immediately.
  const database = await openDatabase({
    url: 'postgres://user:password@127.0.0.1:1/db',
    dataDir: '.',
    log: silentLog,
    clock: systemClock
  })
  t.teardown(() => database.close())
  const error: unknown = await database.sql`select 1`.catch((error: unknown) => error)
  t.ok(isConnectionFault(error))
  const stop = await database.listen('channel', () => {})
  await stop()
  const health = await database.health()
  t.equal(health.status, 'unhealthy')
  t.notMatch(health.error ?? '', /127\.0\.0\.1|password|user/)
})

/** Whether a process runs. One that has ended but was not yet collected by its new parent does not. */
function isRunning(pid: number) {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'))
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH')) return false
    throw error
  }
}

await onEmbedded(t, 'the death of the database process fails pending and later queries instead of hanging', async t => {
  const servers = startedServers(t)
  const database = await openDatabase({
    url: 'pglite:memory',
    dataDir: '.',
    log: silentLog,
    clock: systemClock,
    image: await testImage()
  })
  await database.sql`select 1`
  const pending = Promise.allSettled([
    database.sql`select count(*) from generate_series(1, 100000000)`,
    database.sql`select 2`,
    database.transaction(async tx => {
      await tx`select 3`
    })
  ])
  await servers[0]?.kill()
  for (const result of await pending) {
    t.equal(result.status, 'rejected')
    if (result.status === 'rejected') t.ok(isConnectionFault(result.reason), String(result.reason))
  }
  for (let i = 0; i < 3; i++) t.ok(isConnectionFault(await database.sql`select 4`.catch((error: unknown) => error)))
  t.match(await database.health(), { status: 'unhealthy' })
  await database.close()
})

await onEmbedded(t, 'a database process that does not end when it is closed is ended after ten seconds', async t => {
  const servers = startedServers(t)
  const clock = new ManualClock()
  const database = await openDatabase({
    url: 'pglite:memory',
    dataDir: '.',
    log: silentLog,
    clock,
    image: await testImage()
  })
  t.same(await database.sql`select 1 as n`, [{ n: 1 }])
  const [server] = servers
  const pid = server?.pid
  if (server === undefined || pid === undefined) throw new Error('no process')
  process.kill(pid, 'SIGSTOP')
  const closed = server.close()
  clock.advance(9_999)
  t.ok(isRunning(pid), 'not before')
  clock.advance(1)
  await closed
  t.notOk(isRunning(pid))
  await database.close()
})

await onEmbedded(
  t,
  'signals that reach the whole group do not end the database before the gateway closes it',
  async t => {
    const servers = startedServers(t)
    const database = await openDatabase({
      url: 'pglite:memory',
      dataDir: '.',
      log: silentLog,
      clock: systemClock,
      image: await testImage(),
      // Far from what the busy statement takes on a slow machine.
      silence: 120_000
    })
    t.teardown(() => database.close())
    const pid = servers[0]?.pid
    if (pid === undefined) throw new Error('no process')
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)
      process.kill(pid, signal)
    t.same(await database.sql`select 1 as n`, [{ n: 1 }])
    // Once more while it is busy, where a signal interrupts nothing.
    const busy = database.sql`select count(*)::int as n from generate_series(1, 1000000)`
    process.kill(pid, 'SIGTERM')
    t.same(await busy, [{ n: 1_000_000 }])
    await database.close()
    t.notOk(isRunning(pid), 'it has ended when close() returns')
  }
)

await onEmbedded(t, 'megabytes cross whole in both directions', async t => {
  const database = await openAt(t, 'pglite:memory', { image: await testImage() })
  const text = Array.from({ length: 300_000 }, (_, i) => i.toString(36)).join(' ')
  const rows = await database.sql`select n, ${text}::text as text from generate_series(1, 3) n`
  t.same(
    rows.map(row => row['text'] === text),
    [true, true, true]
  )
})

await onEmbedded(
  t,
  'a folder keeps its rows, says once that it does not fsync, and reports when it is created',
  async t => {
    const dataDir = join(temporaryFolder(t), 'data')
    const first = recordingLog()
    const made = await openDatabase({
      url: 'pglite:',
      dataDir,
      log: first.log,
      clock: systemClock,
      image: await testImage()
    })
    await made.sql`create table kept (n integer)`
    await made.sql`insert into kept values (1)`
    await made.close()
    t.match(first.lines, [/Making the embedded database/, /does not fsync/])
    const second = recordingLog()
    const opened = await openDatabase({ url: 'pglite:', dataDir, log: second.log, clock: systemClock })
    t.same(await opened.sql`select n from kept`, [{ n: 1 }])
    await opened.close()
    t.equal(second.lines.length, 1)
    t.match(second.lines, [/does not fsync/])
  }
)

await onEmbedded(t, 'a database that a crash left incomplete is created again', async t => {
  const dataDir = temporaryFolder(t)
  mkdirSync(join(dataDir, 'database.making'))
  writeFileSync(join(dataDir, 'database.making', 'PG_VERSION'), '18\n')
  const database = await openDatabase({
    url: 'pglite:',
    dataDir,
    log: silentLog,
    clock: systemClock,
    image: await testImage()
  })
  t.same(await database.sql`select 1 as n`, [{ n: 1 }])
  await database.close()
  t.notOk(existsSync(join(dataDir, 'database.making')))
})

await onEmbedded(t, 'a second process, and a second opening in this one, are refused with folder and pid', async t => {
  const dataDir = temporaryFolder(t)
  const holder = start(t, dataDir, 'hold')
  // The child was started with a pipe for its output.
  if (holder.stdout === null) throw new Error('no output')
  await once(holder.stdout, 'data')
  const open = () => openDatabase({ url: 'pglite:', dataDir, log: silentLog, clock: systemClock })
  const refusal: unknown = await open().catch((error: unknown) => error)
  t.ok(refusal instanceof FolderInUse)
  t.match(refusal, {
    pid: holder.pid,
    folder: join(dataDir, 'database'),
    message: new RegExp(`database is in use by process ${holder.pid}`)
  })
  holder.kill('SIGKILL')
  await once(holder, 'exit')
  const database = await open()
  t.pass('the lock died with its process')
  await t.rejects(open(), { name: 'FolderInUse', pid: process.pid })
  await database.close()
  await (await open()).close()
})

await onEmbedded(t, 'SIGKILL during inserts loses no acknowledged row', async t => {
  const dataDir = temporaryFolder(t)
  const writer = start(t, dataDir)
  // The child was started with a pipe for its output.
  if (writer.stdout === null) throw new Error('no output')
  let acknowledged = 0
  const lines = createInterface({ input: writer.stdout })
  for await (const line of lines) {
    acknowledged = Number(line)
    if (acknowledged >= 1_000 && !writer.killed) writer.kill('SIGKILL')
  }
  const database = await openDatabase({ url: 'pglite:', dataDir, log: silentLog, clock: systemClock })
  const rows = await database.sql<
    { count: number; last: number }[]
  >`select count(*)::int as count, max(n) as last from acknowledged`
  await database.close()
  const row = rows[0]
  t.ok(acknowledged >= 1_000)
  t.equal(row?.count, row?.last, 'no row is missing between')
  t.ok((row?.last ?? 0) >= acknowledged, `${acknowledged} acknowledged, ${row?.last} found`)
})

await onEmbedded(
  t,
  'a gateway killed in the middle of a long query leaves no process, and its folder opens again immediately',
  async t => {
    const dataDir = temporaryFolder(t)
    const holder = start(t, dataDir, 'busy')
    // The child was started with a pipe for its output.
    if (holder.stdout === null) throw new Error('no output')
    const [line] = await once(holder.stdout, 'data')
    const orphan = Number(String(line))
    t.ok(orphan > 0)
    holder.kill('SIGKILL')
    await once(holder, 'exit')
    // The old process may still be in its query here; whether it is depends on the machine.
    const database = await openDatabase({ url: 'pglite:', dataDir, log: silentLog, clock: systemClock })
    t.notOk(isRunning(orphan), 'the old process went first')
    t.same(await database.sql`select 1 as n`, [{ n: 1 }])
    await database.close()
  }
)

await onEmbedded(
  t,
  'a folder that is no embedded database is reported with the fix, and is left unchanged',
  async t => {
    const dataDir = temporaryFolder(t)
    const folder = join(dataDir, 'database')
    const open = () => openDatabase({ url: 'pglite:', dataDir, log: silentLog, clock: systemClock })
    const refusal = (reason: RegExp) => ({
      code: 'BG_DATABASE_OPEN',
      message: new RegExp(`^The embedded database in ${folder} cannot be opened: ${reason.source}`)
    })
    writeFileSync(folder, 'hello')
    await t.rejects(open(), refusal(/what is there is no database; move it away, or name another folder with `data`$/))
    t.equal(readFileSync(folder, 'utf8'), 'hello')
    rmSync(folder)
    mkdirSync(folder)
    await t.rejects(open(), refusal(/what is there is no database; move it away/))
    writeFileSync(join(folder, 'PG_VERSION'), '18\n')
    await t.rejects(open(), refusal(/.*; .*its files are damaged or of another version: restore them from a copy/))
    rmSync(folder, { recursive: true })
    rmSync(`${folder}.lock`)
    mkdirSync(`${folder}.lock`)
    await t.rejects(open(), refusal(/.*database\.lock cannot be locked \(.*\); give the folder around it to the user/))
  }
)

await t.test('urls that name no database are refused with what would be right', async t => {
  const open = (url: string) => openDatabase({ url, dataDir: 'data', log: silentLog, clock: systemClock })
  await t.rejects(open('mysql://user:password@host/db'), {
    code: 'BG_DATABASE_URL',
    message: 'database.url has mysql: but must begin with postgres:// or pglite:'
  })
  for (const url of ['pglite:..', 'pglite:../other', 'pglite:/etc', 'pglite:.'])
    await t.rejects(open(url), { code: 'BG_DATABASE_URL' })
})
