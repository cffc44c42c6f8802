import { createServer, type AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { Silence } from '../../../src/platform/database/postgres/silence.ts'
import { postgresSocket } from '../../../src/platform/database/postgres/socket.ts'
import { eachDatabase } from '../../support/database.ts'

/** More than any limit of statements on their way over one connection, and not a multiple of one. */
const MANY = 457

void eachDatabase(t, 'a transaction holds its connection', async (t: T, database) => {
  await database.sql`create table held (id integer primary key, part text not null)`
  t.beforeEach(async () => {
    await database.sql`truncate held`
  })

  // `execute` sends it now; waited for alone it would be sent after the transaction that follows.
  const plain = () => database.sql`select 1`.execute()
  const transaction = (id: number, part: string) =>
    database.transaction(async tx => {
      await tx`insert into held values (${id}, ${part})`
      await turn()
      // Of a transaction that is not alone on its connection this would see what others have not committed.
      const seen = await tx<Array<{ id: number }>>`select id from held where part = 'rolled back'`
      if (seen.some(row => row.id !== id)) throw new Error('another transaction is on this connection')
      if (part === 'rolled back') throw new RangeError('on purpose')
    })

  await t.test('also when it begins behind so many statements that no more are sent', async t => {
    for (const ahead of [0, 1, 97, 98, 99, 100, 101, 102, 199, 200, 201]) {
      const statements = Array.from({ length: ahead }, plain)
      await t.resolves(Promise.all([...statements, transaction(ahead, 'kept')]), `${ahead} statements ahead`)
    }
    t.same(await database.sql`select count(*)::int as count from held`, [{ count: 11 }])
  })

  await t.test('and of concurrent ones each is committed or rolled back on its own', async t => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: MANY }, (_, id) =>
        id % 3 === 0 ? plain() : transaction(id, id % 3 === 1 ? 'kept' : 'rolled back')
      )
    )
    t.same(
      outcomes
        .filter(({ status }) => status === 'rejected')
        .map(outcome => (outcome as PromiseRejectedResult).reason.name),
      Array.from({ length: Math.floor(MANY / 3) }, () => 'RangeError')
    )
    t.same(await database.sql`select part, count(*)::int as count from held group by part`, [
      { part: 'kept', count: Math.floor((MANY + 1) / 3) }
    ])
  })
})

void t.test('a socket never makes postgres.js wait, which would cost a transaction its connection', async t => {
  const server = createServer(socket => {
    socket.pause()
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  const socket = await postgresSocket(null, 5_000, new Silence(60_000))({ host: ['127.0.0.1'], port: [port] })
  t.teardown(() => {
    socket.destroy()
    server.close()
  })
  const piece = Buffer.alloc(1_000_000)
  for (let count = 0; count < 20; count++) t.equal(socket.write(piece), true)
  t.ok(socket.writableNeedDrain, 'it had reason to')
})
