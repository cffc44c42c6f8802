import { PGlite } from '@electric-sql/pglite'
import t from 'tap'
import { answerTo, isIdle, Upkeep, type ProtocolExecutor } from '../../../../src/platform/database/pglite/upkeep.ts'

const ready = (status: string) => Buffer.from(`Z\0\0\0\x05${status}`, 'latin1')

/** A database that notes what it is asked, and answers in two pieces of the same memory, as PGlite does. */
function recording(): { readonly database: ProtocolExecutor; readonly asked: string[] } {
  const requests: string[] = []
  const memory = Buffer.alloc(6)
  return {
    asked: requests,
    database: {
      execProtocolRaw: async message => {
        requests.push(`kept ${Buffer.from(message).toString('latin1')}`)
        return ready('I')
      },
      execProtocolRawStream: async (message, { onRawData }) => {
        requests.push(Buffer.from(message).toString('latin1'))
        for (const piece of ['one', 'twotwo']) onRawData(memory.subarray(0, memory.write(piece)))
      }
    }
  }
}

t.test(
  'an answer is whole, and taken where PGlite keeps nothing of it; only a start-up message has another way',
  async t => {
    const { database, asked: requests } = recording()
    t.equal(Buffer.from(await answerTo(database, Buffer.from('Qabc'))).toString(), 'onetwotwo')
    t.same(await answerTo(database, Buffer.from('\0\0\0\x08', 'latin1')), ready('I'))
    t.same(requests, ['Qabc', 'kept \0\0\0\x08'])
  }
)

t.test('a session is idle after "ready for query" outside a transaction alone', async t => {
  t.ok(isIdle(ready('I')))
  t.ok(isIdle(Buffer.concat([Buffer.from('C…'), ready('I')])))
  for (const other of [
    ready('T'),
    ready('E'),
    Buffer.alloc(0),
    Buffer.from('1\0\0\0\x04', 'latin1'),
    Buffer.concat([ready('I'), Buffer.from('x')])
  ])
    t.notOk(isIdle(other))
})

t.test(
  'the log is cut each 20,000 messages and tables are cleaned each 200,000, when no transaction is open',
  async t => {
    const { database, asked: requests } = recording()
    const upkeep = new Upkeep()
    let turns = 0
    const messages = async (count: number, idle = true) => {
      for (let n = 0; n < count; n++) {
        if (!upkeep.due(10) || !idle) continue
        turns++
        await upkeep.run(database)
      }
    }
    const cleaned = () => requests.filter(text => !text.includes('relpages'))
    await messages(199)
    t.equal(turns, 0)
    await messages(1)
    t.match(
      requests,
      [/default_statistics_target = 1;[^]*relpages/],
      'tables that grew are looked at, with a short sample'
    )
    await messages(19_799)
    t.same(cleaned(), [])
    const polls = requests.length
    t.ok(polls > 15 && polls < 25, `${polls} looks at tables`)
    await messages(5_000, false)
    t.same([cleaned(), requests.length], [[], polls], 'a transaction is not disturbed')
    await messages(1)
    t.same(cleaned(), ['Q\0\0\0\x0fcheckpoint\0'])
    await messages(180_000)
    t.equal(requests.filter(text => text.includes('checkpoint')).length, 10)
    t.equal(requests.filter(text => text.includes('vacuum analyze')).length, 1)
  }
)

t.test('tables are looked at after a megabyte of messages, however few they were', async t => {
  const { database, asked: requests } = recording()
  const upkeep = new Upkeep()
  const messages = async (count: number, bytes: number) => {
    const before = requests.length
    for (let n = 0; n < count; n++) if (upkeep.due(bytes)) await upkeep.run(database)
    return requests.length - before
  }
  t.equal(await messages(31, 32_768), 0)
  t.equal(await messages(1, 32_768), 1)
  t.equal(await messages(31, 32_768), 0, 'it counts from the last look')
  t.equal(await messages(65, 32_768), 3)
})

t.test(
  'a plan that was made for an empty table is made again once the table has grown, and not for each row',
  async t => {
    const database = await PGlite.create()
    t.teardown(() => database.close())
    await database.exec(`
    create table apples (id integer primary key, peel text);
    create table pears (id integer primary key);
    insert into apples values (0, '');
    insert into pears values (0);
    analyze apples, pears;
    set plan_cache_mode = force_generic_plan;
    prepare find (integer) as select * from apples where id = $1;`)
    const plan = async () =>
      (await database.query<Record<string, string>>('explain execute find (1)')).rows
        .map(row => row['QUERY PLAN'])
        .join()
    const upkeep = new Upkeep()
    const look = async () => {
      while (!upkeep.due(10));
      await upkeep.run(database)
    }
    const sizes = async () =>
      (
        await database.query(
          "select relname, reltuples::int from pg_class where relname in ('apples', 'pears') order by relname"
        )
      ).rows.map(row => Object.values(row as object))
    t.match(await plan(), /Seq Scan/)
    await database.exec(`insert into apples select n, repeat('x', 1000) from generate_series(1, 100) as n`)
    await look()
    t.match(
      [await plan(), await sizes()],
      [
        /Seq Scan/,
        [
          ['apples', 1],
          ['pears', 1]
        ]
      ],
      'some pages are close to none'
    )
    await database.exec(`insert into apples select n, repeat('x', 1000) from generate_series(101, 1000) as n`)
    await look()
    t.match(await plan(), /Index/)
    t.same(await sizes(), [
      ['apples', 1001],
      ['pears', 1]
    ])
    await database.exec(`insert into apples select n, repeat('x', 1000) from generate_series(1001, 1900) as n`)
    await look()
    t.same(
      await sizes(),
      [
        ['apples', 1001],
        ['pears', 1]
      ],
      'less than twice as large'
    )
  }
)
