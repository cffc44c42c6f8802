import t from 'tap'
import {
  amount,
  bytes,
  column,
  flag,
  group,
  integer,
  json,
  optional,
  records,
  sealed,
  text,
  texts,
  moment,
  together
} from '../../../src/platform/database/rows.ts'
import { openAnyDatabase } from '../../support/database.ts'

const things = records({
  id: integer(),
  shortName: text<'one' | 'two'>(),
  note: optional(text('remark')),
  priceSats: amount(),
  madeAt: moment(),
  soldAt: optional(moment()),
  digest: bytes(),
  tags: texts(),
  parts: json(
    (
      stored: ReadonlyArray<{ readonly n: number; readonly m?: number }>
    ): ReadonlyArray<{ readonly n: number; readonly m: number }> => stored.map(({ n, m = 0 }) => ({ n, m }))
  ),
  isOpen: flag(),
  place: group({ country: text(), zip: optional(text()) }),
  failure: together({ reason: text('failure_code'), at: moment('failed_at') }),
  secret: sealed('things', 'secret'),
  renewal: column(null, (stored: string) => (stored === '402' ? 402 : stored), String)
})

const one = {
  id: 7,
  shortName: 'one',
  note: null,
  priceSats: 2_100_000_000_000_000,
  madeAt: 1_766_000_000_123,
  soldAt: null,
  digest: Buffer.from([0, 255]),
  tags: ['a,b', ''],
  parts: [{ n: 1, m: 0 }],
  isOpen: true,
  place: { country: 'SV', zip: null },
  failure: null,
  secret: null,
  renewal: 402
} as const

t.test('values round-trip, on every kind of column', async t => {
  const { sql } = await openAnyDatabase(t, { migrations: [] })
  await sql`
    create table things (id integer primary key, short_name text, remark text, price_sats bigint, made_at timestamptz, sold_at timestamptz, digest bytea,
      tags text[], parts jsonb, is_open boolean, country text, zip text, failure_code text, failed_at timestamptz, secret text, renewal text)`
  const two = {
    ...one,
    id: 8,
    note: 'sold',
    soldAt: 0,
    failure: { reason: 'away', at: 5 },
    secret: { ciphertext: 'sealed', place: { table: 'things', column: 'secret', row: '8' } },
    renewal: 'default'
  } as const
  for (const thing of [one, two]) await sql`insert into things ${sql(things.write(sql, thing))}`
  t.same(await things.all(sql`select * from things order by id`), [one, two])
  t.same(
    await things.one(sql`select ${sql(things.names)} from things where id = 8`),
    two,
    'its names are the columns that it reads'
  )
  t.equal(await things.one(sql`select * from things where id = 9`), null)
  await sql`update things set ${sql(things.write(sql, { note: null, failure: null, soldAt: undefined }))} where id = 8`
  t.same(
    await things.one(sql`select * from things where id = 8`),
    { ...two, note: null, failure: null },
    'a change writes what it names, and nothing that is undefined'
  )
})
