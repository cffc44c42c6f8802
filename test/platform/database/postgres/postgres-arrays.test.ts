import fc from 'fast-check'
import t from 'tap'
import { readArray, writeArray } from '../../../../src/platform/database/postgres/client.ts'
import { eachDatabase } from '../../../support/database.ts'

const text = (value: unknown) => String(value)

t.test('an array is read as PostgreSQL writes it (PostgreSQL, Array Input and Output Syntax)', async t => {
  const cases: [string, unknown[]][] = [
    ['{}', []],
    ['{a}', ['a']],
    ['{a,b c}', ['a', 'b c']],
    ['{""}', ['']],
    ['{"a,b","c\\"d","e\\\\f","{}"}', ['a,b', 'c"d', 'e\\f', '{}']],
    ['{NULL,"NULL",null2}', [null, 'NULL', 'null2']],
    [
      '{{1,2},{3,4}}',
      [
        ['1', '2'],
        ['3', '4']
      ]
    ],
    ['[0:1]={a,b}', ['a', 'b']]
  ]
  for (const [written, values] of cases) t.same(readArray(written, text), values, written)
})

t.test('values round-trip, whatever they hold', async t => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.string(), fc.constant(null))), values => {
      t.same(readArray(writeArray(values, text), text), values)
    }),
    { numRuns: 50 }
  )
  // Like items are adjacent in the columns of rows.
  const few = fc.constantFrom('"', '\\', 'a', '', null, '\\"', ['a', null], ['a', null], 7, -0, Number.NaN)
  const inner = (value: unknown) => (Array.isArray(value) ? value : value === null ? null : String(value))
  fc.assert(
    fc.property(fc.array(few, { minLength: 3 }), values => {
      t.same(readArray(writeArray(values, text), text), values.map(inner))
    }),
    { numRuns: 50 }
  )
  t.throws(() => writeArray(['a', undefined], text), TypeError)
  t.throws(() => writeArray([undefined], text), TypeError)
})

await eachDatabase(
  t,
  'arrays go both ways in the types of their elements, whichever way they are sent',
  async (t, { sql }) => {
    const at = new Date('2026-11-21T00:54:00.123Z')
    const doc = { type: 'kept', a: ['"', '\\'] }
    const words = ['x', 'y, "z"', 'back\\slash', '{}', '', 'NULL']
    const [row] = await sql`
    select ${words}::text[] as words, ${sql.array(words)} as typed, ${sql.array([1n, 2n ** 60n])} as big, ${[1, -2]}::integer[] as small,
      ${sql.array([true, false])} as flags, ${sql.array([at])} as times, ${sql.array([Buffer.from([0, 255])])} as bytes,
      ${sql.array([sql.json(doc), sql.json({ b: null })], 3802)} as docs, ${['0.00000001']}::numeric[] as money, array['a', null] as holes, ${[]}::text[] as none,
      array(select 1 where false) as nothing, ${'x'} = any(${words}) as found, ${'q'} = any(${words}) as missed`
    t.same(row, {
      words,
      typed: words,
      big: [1n, 2n ** 60n],
      small: [1, -2],
      flags: [true, false],
      times: [at],
      bytes: [Buffer.from([0, 255])],
      docs: [doc, { b: null }],
      money: ['0.00000001'],
      holes: ['a', null],
      none: [],
      nothing: [],
      found: true,
      missed: false
    })
  },
  { migrations: [] }
)
