/**
 * Each fault of postgres.js that is fixed (src/platform/database/postgres/client.ts): how the bare package fails, and how the
 * fixed client does not. When an upgrade makes a bare half fail, its fix can go; a fixed half, and it must be made
 * again. The faults need a server that fails at one moment, so it is a stand-in; test/faults has the same clients over a
 * real one.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import t, { type Test as T } from 'tap'
import { isConnectionFault, type Sql, type TransactionSql } from '../../../../src/platform/database/database.ts'
import { openServer, type PostgresClient } from '../../../../src/platform/database/postgres/client.ts'
import { PostgresListener } from '../../../../src/platform/database/postgres/listener.ts'
import { Silence } from '../../../../src/platform/database/postgres/silence.ts'
import { postgresSocket } from '../../../../src/platform/database/postgres/socket.ts'
import { beginOn } from '../../../../src/platform/database/postgres/transaction.ts'
import { silentLog } from '../../../../src/platform/telemetry/log.ts'
import { startPostgres, type FakePostgres } from '../../../fakes/postgres.ts'
import { openAt, openAnyDatabase } from '../../../support/database.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { until } from '../../../support/until.ts'

/** The version whose source was read for the fixes. */
const FIXED = '3.4.9'

const root = new URL('../../../../', import.meta.url)
const json = (path: string) => JSON.parse(readFileSync(new URL(path, root), 'utf8'))
const { version: installed } = json('node_modules/postgres/package.json') as { version: string }
const { dependencies } = json('package.json') as { dependencies: Record<string, string> }
if (installed !== FIXED)
  t.bailout(
    `postgres ${installed} is installed, and src/platform/database/postgres fixes ${FIXED}. Read in its source what of inside.ts still holds, run this file with the new version in FIXED, and drop the fixes whose bare half fails.`
  )
t.equal(dependencies['postgres'], FIXED, 'package.json has that one version, and no range')

type Options = Parameters<typeof openServer>[2]

/** The package alone; what it is given beyond `max: 1` is in each test. */
function bareClient(t: T, { url }: FakePostgres, options: Options = {}) {
  // Through a name, since the package's types do not know all of its options.
  const all = {
    types: { bigint: postgres.BigInt },
    max: 1,
    fetch_types: false,
    onnotice: () => {},
    backoff: () => 0,
    ...options
  }
  const sql = postgres(url, all)
  t.teardown(() => sql.end({ timeout: 0 }))
  return sql
}

/** The fixed client with the fixed socket, without what `openDatabase` puts around it. */
function fixedClient(t: T, { url }: FakePostgres, silence = new Silence(60_000), options: Options = {}) {
  const sql = openServer(url, { silence, settings: {} }, { max: 1, ...options })
  t.teardown(() => sql.end({ timeout: 0 }))
  return sql
}

async function fixedDatabase(t: T, { url }: FakePostgres, silence = 60_000, connections = 1) {
  const database = await openAt(t, url, { connections, silence })
  return database
}

/** Its state by now; read when the fixed half, begun at the same time, has come to its end. */
function outcomeOf(work: PromiseLike<unknown>) {
  let outcome: 'pending' | 'resolved' | Error = 'pending'
  void faultOf(work).then(fault => {
    outcome = fault === null ? 'resolved' : fault instanceof Error ? fault : new Error(String(fault))
    return outcome
  })
  return () => outcome
}

async function faultOf(work: PromiseLike<unknown>) {
  try {
    await work
  } catch (error) {
    return error
  }
  return null
}

const turns = async () => {
  for (let count = 0; count < 10; count++) await turn()
}

/** What a process of its own says that runs this against the server at `url`, and how it ends. */
function inProcess(code: string, url: string): Promise<{ readonly code: number; readonly stderr: string }> {
  return new Promise(resolve => {
    execFile(
      process.execPath,
      ['--input-type=module', '--eval', `import postgres from 'postgres'; const url = ${JSON.stringify(url)}; ${code}`],
      { cwd: fileURLToPath(root) },
      (error, _stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stderr })
      }
    )
  })
}

/** Both halves on one server each. */
function fix(
  name: string,
  { bare, fixed }: Record<'bare' | 'fixed', (t: T, server: FakePostgres) => Promise<void>>
): void {
  void t.test(name, async t => {
    await t.test('in the bare package', async t => bare(t, await startPostgres(t)))
    await t.test('fixed', async t => fixed(t, await startPostgres(t)))
  })
}

/** Both halves beside each other: the bare one has failed when it has come to nothing after the fixed one ended. */
function outlasts(
  name: string,
  half: { bare(t: T, server: FakePostgres): Promise<() => unknown>; fixed(t: T, server: FakePostgres): Promise<void> }
): void {
  void t.test(name, async t => {
    const seen = await half.bare(t, await startPostgres(t))
    await half.fixed(t, await startPostgres(t))
    t.equal(seen(), 'pending', 'the bare package: nothing comes of it')
  })
}

fix('a server that drops while array types are fetched fails a statement, and not the process', {
  bare: async (t, server) => {
    server.resetsAt = 'pg_type'
    const { code, stderr } = await inProcess(
      `const sql = postgres(url, { max: 1 }); await sql\`select 1\`.catch(() => {}); await sql.end()`,
      server.url
    )
    t.not(code, 0, 'the process has ended')
    t.match(stderr, /ECONNRESET|CONNECTION_CLOSED/, 'of an unhandled failure')
  },
  fixed: async (t, server) => {
    const { sql } = await fixedDatabase(t, server)
    await sql`select 1`
    t.same(
      server.ran.filter(({ text }) => text.includes('pg_type')),
      [],
      'they are not fetched'
    )
  }
})

fix('sql.array sends a list as the array type of its elements', {
  bare: async (t, server) => {
    const sql = bareClient(t, server)
    await sql`select ${sql.array([true])}`.catch(() => null)
    t.same(server.ran.at(-1)?.types, [16], 'boolean, which a list is not')
  },
  fixed: async (t, server) => {
    const sql = fixedClient(t, server)
    await sql`select ${sql.array([true])}`
    t.same(server.ran.at(-1)?.types, [1000], 'boolean[]')
  }
})

outlasts('a statement that is not answered fails after the silence that is borne', {
  bare: async (t, server) => {
    const hung = outcomeOf(bareClient(t, server)`select 'hang'`)
    await server.heard('hang')
    return hung
  },
  fixed: async (t, server) => {
    const database = await fixedDatabase(t, server, 100)
    t.match(await faultOf(database.sql`select 'hang'`), { code: 'ETIMEDOUT' })
    t.same((await database.sql`select 1`).count, null, 'it reconnects')
    t.equal(server.connections, 2)
  }
})

void t.test('a statement that waited too long for a connection fails, and is never run', async t => {
  const run = async (database: {
    begin(run: () => Promise<void>): Promise<unknown>
    write(): PromiseLike<unknown>
  }) => {
    const release = Promise.withResolvers<void>()
    const holds = Promise.withResolvers<void>()
    const holding = database.begin(async () => {
      holds.resolve()
      await release.promise
    })
    await holds.promise
    const waiting = outcomeOf(database.write())
    return async () => {
      const before = waiting()
      release.resolve()
      await holding
      return before
    }
  }
  const bareServer = await startPostgres(t)
  const sql = bareClient(t, bareServer)
  const bareEnds = await run({ begin: hold => sql.begin(hold), write: () => sql`insert 1` })
  const server = await startPostgres(t)
  const database = await fixedDatabase(t, server, 100)
  const gaveUp = Promise.withResolvers<unknown>()
  const fixedEnds = await run({
    begin: hold => database.transaction(hold),
    write: async () => {
      gaveUp.resolve(await Promise.all([faultOf(database.sql`insert 1`), faultOf(database.sql.unsafe('insert 2'))]))
    }
  })
  t.match(await gaveUp.promise, [{ code: 'ETIMEDOUT' }, { code: 'ETIMEDOUT' }])
  await fixedEnds()
  await database.sql`select 1`
  t.same(
    server.ran.filter(({ text }) => text.startsWith('insert')),
    []
  )
  t.equal(await bareEnds(), 'pending', 'the bare package: it waits as long as it takes')
  await bareServer.heard('insert')
})

outlasts('an unanswered Terminate message does not keep the place in the pool', {
  bare: async (t, server) => {
    server.ignoresGoodbye = true
    const sql = bareClient(t, server, { max_lifetime: 0.01 })
    await sql`select 1`
    await server.terminated
    return outcomeOf(sql`select 2`)
  },
  fixed: async (t, server) => {
    server.ignoresGoodbye = true
    const sql = fixedClient(t, server, new Silence(100), { max_lifetime: 0.01 })
    await sql`select 1`
    await server.terminated
    await sql`select 2`
    t.equal(server.connections, 2)
  }
})

/** Outcome of a statement that follows one which was canceled while its connection was made. */
async function afterCancelled(sql: PostgresClient, server: FakePostgres) {
  server.atStart = 'say nothing'
  const first = sql`select 1`
  const refused = faultOf(first)
  await server.connected(1)
  first.cancel()
  await refused
  const outcome = outcomeOf(sql`select 2`)
  await turns()
  server.greet()
  return outcome
}

outlasts('a connection whose first statement was canceled while it was made goes back to the pool', {
  bare: async (t, server) => afterCancelled(bareClient(t, server), server),
  fixed: async (t, server) => {
    const outcome = await afterCancelled(fixedClient(t, server), server)
    await server.heard('select 2')
    await turns()
    t.equal(outcome(), 'resolved')
  }
})

/** What comes of a statement that is given to an idle connection when it has failed, and has not yet closed. */
async function afterFault(sql: PostgresClient, server: FakePostgres, made: readonly Duplex[]): Promise<() => unknown> {
  await sql`select 1`
  const failed = Promise.withResolvers<() => unknown>()
  made[0]?.once('error', () => {
    failed.resolve(outcomeOf(sql`insert 1`))
  })
  server.reset()
  const outcome = await failed.promise
  await turns()
  // A later caller has it reconnect.
  await sql`select 3`
  return outcome
}

/** Keeps the sockets that were made. */
function keeping<A>(make: (address: A) => Duplex | Promise<Duplex>): {
  readonly socket: (address: A) => Promise<Duplex>
  readonly made: readonly Duplex[]
} {
  const made: Duplex[] = []
  return {
    socket: async address => {
      const socket = await make(address)
      made.push(socket)
      return socket
    },
    made
  }
}

const plainSocket = ({ port }: FakePostgres): Duplex => new Socket().connect(port, '127.0.0.1')

fix('a statement between the fault of a connection and its close is run, or fails', {
  bare: async (t, server) => {
    const { socket, made } = keeping(() => plainSocket(server))
    const outcome = await afterFault(bareClient(t, server, { socket }), server, made)
    t.equal(outcome(), 'resolved', 'it is resolved')
    t.notOk(
      server.ran.some(({ text }) => text.startsWith('insert')),
      'and was never run'
    )
  },
  fixed: async (t, server) => {
    const { socket, made } = keeping(postgresSocket(null, 5_000, new Silence(60_000)))
    const outcome = await afterFault(fixedClient(t, server, undefined, { socket }), server, made)
    t.equal(outcome(), 'resolved')
    await server.heard('insert')
  }
})

/**
 * What comes of two statements after both connections of the pool were closed in one moment, the first to close being
 * one whose statement is repeated immediately.
 */
async function afterShut(sql: PostgresClient, server: FakePostgres, made: readonly Duplex[]): Promise<() => unknown> {
  const idle = sql`select 1`.execute()
  const hung = faultOf(sql`select 'hang'`)
  await idle
  await server.heard('hang')
  // What a socket does that hears the end. Sockets close in the reverse order.
  for (const socket of made) socket.push(null)
  await hung
  await faultOf(sql`select 'again'`)
  return outcomeOf(Promise.all([sql`select 2`, sql`select 3`]))
}

outlasts('a statement that was not yet written at the close leaves the connection able to write', {
  bare: async (t, server) => {
    const { socket, made } = keeping(() => plainSocket(server))
    return afterShut(bareClient(t, server, { max: 2, socket }), server, made)
  },
  fixed: async (t, server) => {
    const { socket, made } = keeping(postgresSocket(null, 5_000, new Silence(60_000)))
    const outcome = await afterShut(fixedClient(t, server, undefined, { max: 2, socket }), server, made)
    await server.heard('select 2')
    await server.heard('select 3')
    await turns()
    t.equal(outcome(), 'resolved')
  }
})

fix('a server that accepts and closes without a word fails the statement', {
  bare: async (t, server) => {
    server.atStart = 'close'
    const outcome = outcomeOf(bareClient(t, server)`select 1`)
    await server.connected(10)
    t.equal(outcome(), 'pending', 'it is tried again, and again')
  },
  fixed: async (t, server) => {
    server.atStart = 'close'
    t.match(await faultOf(fixedClient(t, server)`select 1`), { code: 'CONNECTION_CLOSED' })
  }
})

outlasts('a connection that could not be made keeps its place in the pool', {
  bare: async (t, server) => {
    let isDown = true
    const sql = bareClient(t, server, {
      socket: async () => {
        if (isDown) throw new Error('away')
        return plainSocket(server)
      }
    })
    t.match(await faultOf(sql`select 1`), { message: 'away' })
    isDown = false
    return outcomeOf(sql`select 2`)
  },
  fixed: async (t, server) => {
    const { port } = server
    const socket = postgresSocket(null, 5_000, new Silence(60_000))
    let isDown = true
    const sql = fixedClient(t, server, undefined, {
      // Port 1 of loopback refuses.
      socket: () => socket({ host: ['127.0.0.1'], port: [isDown ? 1 : port] })
    })
    t.match(await faultOf(sql`select 1`), { code: 'ECONNREFUSED' })
    isDown = false
    await sql`select 2`
  }
})

/** What is sent before a `begin`, and the options of the bare client as source. */
const BEGINS = {
  // Messages below a kibibyte are kept for the next turn; the `begin` reaches it and is written immediately, to a socket
  // that is full.
  'whose write fills the socket': {
    ahead: [`select /* ${'x'.repeat(998)} */ 2`],
    options: `{
      socket: () => {
        const socket = new Socket().connect(Number(new URL(url).port), '127.0.0.1')
        const write = socket.write.bind(socket)
        socket.write = (...given) => { write(...given); return false }
        return socket
      }
    }`
  },
  'that is the last one that fits the pipeline': {
    ahead: Array.from({ length: 100 }, (_, n) => `select ${n}`),
    options: '{}'
  }
}
for (const [name, { ahead, options }] of Object.entries(BEGINS))
  fix(`a begin ${name} gets its connection`, {
    bare: async (t, server) => {
      const { code, stderr } = await inProcess(
        `
        import { Socket } from 'node:net'
        const sql = postgres(url, { max: 1, fetch_types: false, ...${options} })
        // It would end the process, before anyone sees what comes then.
        process.on('unhandledRejection', error => { console.error(error) })
        await sql\`select 1\`
        for (const text of ${JSON.stringify(ahead)}) sql.unsafe(text).execute()
        sql.begin(async tx => tx\`insert 1\`).catch(() => {})
        await sql\`select 'other'\`
        process.exit(0)`,
        server.url
      )
      t.equal(code, 0)
      t.match(stderr, /TypeError.*queue/, 'it fails with an error that cannot be caught')
      t.same(
        server.ran.filter(({ inTransaction }) => inTransaction).map(({ text }) => text),
        [`select 'other'`],
        "and others' statements run in its transaction"
      )
    },
    fixed: async (t, server) => {
      const sql = fixedClient(t, server)
      await sql`select 1`
      const before = ahead.map(text => sql.unsafe(text).execute())
      await sql.begin(async tx => tx`insert 1`)
      await Promise.all(before)
      await sql`select 'other'`
      t.same(
        server.ran.filter(({ inTransaction }) => inTransaction).map(({ text }) => text),
        ['insert 1', 'commit']
      )
    }
  })

outlasts('the first statement after many connections were lost together waits no longer than after one', {
  bare: async (t, server) => {
    const sql = bareClient(t, server, { max: 10, backoff: true })
    const lost = Array.from({ length: 10 }, async () => faultOf(sql`select 'hang'`))
    await server.connected(10)
    await until(() => server.ran.length >= 10)
    server.reset()
    await Promise.all(lost)
    await turns()
    return outcomeOf(sql`select 1`)
  },
  fixed: async (t, server) => {
    const sql = fixedClient(t, server, undefined, { max: 10 })
    const lost = Array.from({ length: 10 }, async () => faultOf(sql`select 'hang'`))
    await server.connected(10)
    await until(() => server.ran.length >= 10)
    server.reset()
    await Promise.all(lost)
    await turns()
    await sql`select 1`
  }
})

/** Values that cannot be sent, each beside one that can. */
const unsendables = (sql: PostgresClient): ReadonlyArray<readonly [name: string, good: Value, bad: Value]> => [
  ['undefined', null, undefined as unknown as null],
  ['an invalid date', new Date(0), new Date(NaN)],
  ['JSON with a BigInt', sql.json({}), sql.json({ n: 1n as unknown as number })]
]
type Value = postgres.ParameterOrFragment<bigint>

/** What comes of statements of which the middle one has a value that cannot be sent, sent together. */
function together(sql: Sql, bad: Value): Record<'before' | 'refused' | 'after', Promise<unknown>> {
  const outcome = async (statement: PromiseLike<readonly postgres.Row[]>): Promise<unknown> => {
    try {
      return await statement
    } catch (error) {
      return error
    }
  }
  return {
    before: outcome(sql`select 1 as n`),
    refused: outcome(sql`select ${bad} as value`),
    after: outcome(sql`select 2 as n`)
  }
}

fix('a value that cannot be sent fails its own statement and no other', {
  bare: async (t, server) => {
    for (const [name, good, bad] of unsendables(bareClient(t, server))) {
      const sql = bareClient(t, server)
      await sql`select ${good} as value`
      const { before, after } = together(sql, bad)
      t.type(await before, Error, `${name}: fails the statement before it`)
      const seen = outcomeOf(after)
      await turns()
      t.equal(seen(), 'pending', `${name}: the one after it gets no answer`)
    }
  },
  fixed: async t => {
    const database = await openAnyDatabase(t, { migrations: [] })
    const sql = database.sql as PostgresClient /* for what it makes of values */
    const list = ['a list with undefined', sql.array(['a']), sql.array([undefined as unknown as string])] as const
    for (const [name, good, bad] of [...unsendables(sql), list]) {
      await database.sql`select ${good} as value`
      const { before, refused, after } = together(database.sql, bad)
      t.match(await before, [{ n: 1 }], name)
      t.match(await refused, { name: 'TypeError', message: /^A value for the database cannot be sent: ./ }, name)
      t.match(await after, [{ n: 2 }], name)
      await t.rejects(
        database.transaction(tx => tx`select ${bad} as value`),
        { name: 'TypeError' },
        name
      )
    }
  }
})

fix('a transaction that has lost its connection writes to none', {
  bare: async (t, server) => {
    const { code, stderr } = await inProcess(
      `
      const sql = postgres(url, { max: 1, fetch_types: false })
      await sql.begin(async tx => {
        await tx\`select 'reset'\`.catch(() => {})
        await new Promise(resolve => setTimeout(resolve, 50))
        await tx\`insert 1\`
      }).catch(() => {})
      setTimeout(() => process.exit(0), 300)`,
      server.url
    )
    t.not(code, 0, 'the process has ended')
    t.match(stderr, /TypeError.*null/, 'of an error that cannot be caught')
  },
  fixed: async (t, server) => {
    const fault = await faultOf(
      beginOn(fixedClient(t, server), async tx => {
        await faultOf(tx`select 'reset'`)
        await turns()
        await tx`insert 1`
      })
    )
    t.ok(isConnectionFault(fault), String(fault))
    t.notOk(server.ran.some(({ text }) => text.startsWith('insert')))
  }
})

/** The inserts of a transaction that goes on after its connection was lost and was reopened by another caller. */
async function goesOn(
  sql: PostgresClient,
  begin: (run: (tx: TransactionSql) => Promise<void>) => PromiseLike<unknown>,
  server: FakePostgres
) {
  const gone = Promise.withResolvers<void>()
  await faultOf(
    begin(async tx => {
      await faultOf(tx`select 'reset'`)
      await turns()
      await sql`select 'other'`
      await faultOf(tx`insert 1`)
      gone.resolve()
    })
  )
  await gone.promise
  return server.ran.filter(({ text }) => text.startsWith('insert')).map(({ inTransaction }) => inTransaction)
}

fix('nor to the one that was reopened instead', {
  bare: async (t, server) => {
    const sql = bareClient(t, server)
    t.same(await goesOn(sql, run => sql.begin(run), server), [false], 'its statement is run outside of any transaction')
  },
  fixed: async (t, server) => {
    const sql = fixedClient(t, server)
    t.same(await goesOn(sql, run => beginOn(sql, run), server), [])
  }
})

void t.test(
  'a listener that the server refused, as a standby does before it is promoted, is registered later',
  async t => {
    const clock = new ManualClock()
    const server = await startPostgres(t)
    const listener = new PostgresListener(server.url, { clock, log: silentLog, silence: new Silence(10_000) })
    t.teardown(() => listener.close())
    const bareServer = await startPostgres(t)
    const sql = bareClient(t, bareServer)
    const listens = ({ ran }: FakePostgres) => ran.filter(({ text }) => text.startsWith('listen')).length
    await listener.listen('channel', () => {})
    await sql.listen('channel', () => {})
    for (const each of [server, bareServer]) {
      each.refuses = 'listen'
      each.reset()
    }
    const both = async (count: number, among: readonly FakePostgres[]) => {
      while (among.some(each => listens(each) < count)) {
        clock.advance(1_000)
        await turn()
      }
    }
    await both(2, [server, bareServer])
    await turns()
    for (const each of [server, bareServer]) each.refuses = null
    const before = listens(server)
    await both(before + 1, [server])
    t.equal(listens(bareServer), 2, 'the bare package is deaf from then on')
  }
)

void t.test(
  'a listener that the server does not answer blocks no caller, neither at its begin nor at its end',
  async t => {
    const server = await startPostgres(t)
    const listener = new PostgresListener(server.url, {
      clock: new ManualClock(),
      log: silentLog,
      silence: new Silence(100)
    })
    t.teardown(() => listener.close())
    await listener.listen('hang_at_begin', () => {})
    const unlisten = await listener.listen('channel', () => {})
    server.atStart = 'say nothing'
    server.reset()
    await unlisten()
    t.pass('all came to an end')
  }
)
