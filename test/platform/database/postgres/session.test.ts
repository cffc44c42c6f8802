import { globSync, readFileSync } from 'node:fs'
import net from 'node:net'
import { resolve } from 'node:path'
import t, { type Test } from 'tap'
import { openDatabase, type DatabaseOptions } from '../../../../src/platform/database/database.ts'
import { systemClock } from '../../../../src/platform/system/clock.ts'
import { silentLog } from '../../../../src/platform/telemetry/log.ts'
import { testServerDatabase, wayTo } from '../../../support/database-places.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { serve } from '../../../support/serve.ts'

// A pooler that lends sessions for a transaction keeps nothing of what is set in one. The other suites run over such a
// pooler where TEST_POOLER_URL names one (support/database-places.ts).
const server = process.env['TEST_DATABASE_URL'] ?? ''
const skip = server === '' ? 'TEST_DATABASE_URL is not set' : false

const noPooler = (process.env['TEST_POOLER_URL'] ?? '') === '' && 'TEST_POOLER_URL is not set'

const root = resolve(import.meta.dirname, '../../../..')

/** What outlives the transaction in which it is said, or needs the session in which it was. */
const OF_A_SESSION = [
  /pg_(try_)?advisory_(lock|unlock)\w*/gi,
  /\bset (session|statement_timeout|lock_timeout|idle_|search_path|role)\b(?! *=)/gi,
  /set_config\([^)]*, *false\)/gi,
  /\bcreate temp\w*|\bwith hold\b|\b(sql|client|database)\.reserve\(/gi,
  /`(un)?listen [^`]+`/gi
]

await t.test('a session is used only for notifications beyond its transaction', async t => {
  const found = globSync(['src/**/*.ts', 'plugins/**/*.ts'], { cwd: root })
    .flatMap(file => {
      const text = readFileSync(resolve(root, file), 'utf8')
      return OF_A_SESSION.flatMap(kind => [...text.matchAll(kind)].map(([said]) => `${file}: ${said}`))
    })
    .sort()
  t.same(found, [
    'src/platform/database/database.ts: `listen ${client(channel)}`',
    'src/platform/database/database.ts: `unlisten ${client(channel)}`',
    'src/platform/database/postgres/listener.ts: `listen ${this.#client(channel)}`',
    'src/platform/database/postgres/listener.ts: `unlisten ${this.#client(channel)}`'
  ])
})

async function open(t: Test, options: Partial<DatabaseOptions> & { readonly url: string }) {
  const database = await openDatabase({ dataDir: '.', log: silentLog, clock: systemClock, ...options })
  t.teardown(() => database.close())
  return database
}

/** A database whose sessions have these limits from the server, in milliseconds. */
async function limited(t: Test, statement: number, idle: number) {
  const url = await testServerDatabase(t, server)
  const database = await open(t, { url })
  const name = database.sql(new URL(url).pathname.slice(1))
  await database.sql`alter database ${name} set statement_timeout = ${database.sql.unsafe(String(statement))}`
  await database.sql`alter database ${name} set idle_in_transaction_session_timeout = ${database.sql.unsafe(String(idle))}`
  return url
}

await t.test('lent sessions of a pooler have what is needed', { skip: skip || noPooler }, async t => {
  const database = await open(t, wayTo(server, 'postgres'))
  await database.verify()
  // A second one shares its sessions.
  const other = await open(t, wayTo(server, 'postgres'))
  await other.verify()
  for (const handle of [database.sql, other.sql, database.sql])
    t.same(await handle`select ${1}::integer as one`, [{ one: 1 }])
})

await t.test('sessions of our own have what is needed', { skip }, async t => {
  const database = await open(t, { url: server })
  await database.verify()
})

await t.test('lent sessions without limits are refused, with what to set', { skip }, async t => {
  for (const [statement, idle] of [
    [0, 60_000],
    [8_000, 0],
    [8_001, 60_000]
  ] as const) {
    const url = await limited(t, statement, idle)
    const database = await open(t, { url, listenUrl: url })
    await t.rejects(database.verify(), {
      code: 'BG_DATABASE_SESSION',
      message:
        /connect_query='set statement_timeout = 8000; set idle_in_transaction_session_timeout = 60000' on the line/
    })
  }
})

await t.test('a pooler that does not know prepared statements is refused', { skip }, async t => {
  // A server without a pooler has them under the client's names, as it has behind a pooler that passes them by.
  const url = await limited(t, 8_000, 60_000)
  const database = await open(t, { url, listenUrl: url })
  await t.rejects(database.verify(), { code: 'BG_DATABASE_SESSION', message: /max_prepared_statements = 200/ })
})

await t.test('an address at which no notification comes is refused', { skip }, async t => {
  const [url, other] = [await limited(t, 8_000, 60_000), await testServerDatabase(t, server)]
  const clock = new ManualClock()
  const database = await open(t, { url, listenUrl: other, clock })
  const verified = t.rejects(database.verify(), { code: 'BG_DATABASE_SESSION', message: /database\.listenUrl/ })
  const stepping = setInterval(() => {
    clock.advance(1_000)
  }, 20)
  t.teardown(() => {
    clearInterval(stepping)
  })
  await verified
})

await t.test('an unconfigured pooler is refused, and not mistaken for an unavailable database', async t => {
  const words = 'unsupported startup parameter: statement_timeout'
  const refusing = net.createServer(socket => {
    socket.on('error', () => {})
    socket.once('data', () => {
      const fields = Buffer.from(`SFATAL\0C08P01\0M${words}\0\0`)
      const head = Buffer.alloc(5)
      head.write('E')
      head.writeUInt32BE(fields.length + 4, 1)
      socket.end(Buffer.concat([head, fields]))
    })
  })
  const port = await serve(t, refusing)
  const database = await open(t, { url: `postgres://user@127.0.0.1:${port}/db` })
  await t.rejects(database.verify(), {
    code: 'BG_DATABASE_SESSION',
    message:
      'A pooler before the database does not pass statement_timeout and idle_in_transaction_session_timeout on. Set database.listenUrl to an address past it'
  })
})
