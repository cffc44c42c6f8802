import t from 'tap'
import { Type } from 'typebox'
import { formatProblem } from '../../../src/engine/config/diagnose.ts'
import { noOrigin } from '../../../src/engine/config/document.ts'
import { List, SecretText } from '../../../src/engine/config/fields.ts'
import { readConfig } from '../../../src/engine/config/read.ts'
import { Duration, formatDuration, formatSize, parseUnit, Price, Size } from '../../../src/engine/config/units.ts'

t.test('durations are milliseconds', async t => {
  for (const [text, ms] of [
    ['500ms', 500],
    ['30s', 30_000],
    ['10m', 600_000],
    ['1h', 3_600_000],
    ['24h', 86_400_000],
    ['2d', 172_800_000],
    ['0s', 0]
  ] as const) {
    t.equal(parseUnit('duration', text), ms, text)
  }
})

t.test('sizes are bytes, and KB is not KiB', async t => {
  for (const [text, bytes] of [
    ['7B', 7],
    ['64KiB', 65_536],
    ['1MiB', 1_048_576],
    ['10MB', 10_000_000],
    ['1KB', 1000],
    ['2GiB', 2_147_483_648]
  ] as const) {
    t.equal(parseUnit('size', text), bytes, text)
  }
})

t.test('prices are satoshis', async t => {
  t.equal(parseUnit('price', '10 sats'), 10)
  t.equal(parseUnit('price', '1 sat'), 1)
})

t.test('an inexact value or an unknown unit is refused', async t => {
  for (const text of [
    '',
    '10',
    's',
    '-1s',
    '1.5h',
    '1 w',
    '1S',
    ' 1s',
    '1s ',
    '1  s',
    '1e3s',
    '99999999999999999s',
    '1constructor',
    '1toString'
  ]) {
    t.equal(parseUnit('duration', text), undefined, text)
  }
  t.equal(parseUnit('size', '1kib'), undefined)
  t.equal(parseUnit('price', '1 btc'), undefined)
})

t.test('formatting gives back what was parsed', async t => {
  for (const text of ['500ms', '90s', '10m', '1h', '2d'])
    t.equal(formatDuration(parseUnit('duration', text) ?? -1), text)
  for (const text of ['7B', '64KiB', '1MiB', '3GiB']) t.equal(formatSize(parseUnit('size', text) ?? -1), text)
})

t.test('a schema with a default or bound that is no value of its unit is refused when it is made', async t => {
  t.throws(() => Duration({ default: 'soon' }), TypeError)
  t.throws(() => Size({ minimum: -1 }), TypeError)
})

const settings = Type.Object({
  wait: Duration({ default: '10s', maximum: '1m' }),
  most: Size({ default: '1MiB' }),
  cost: Type.Optional(Price()),
  names: List(Type.String(), { default: ['a'] }),
  nested: Type.Object({ count: Type.Integer({ default: 3 }) }),
  token: Type.Optional(SecretText({ minLength: 8 }))
})
const lines = (value: unknown) => readConfig(settings, value, noOrigin('x.yaml')).problems.map(formatProblem)

t.test('any schema is read: defaults are filled in and units become numbers', async t => {
  t.same(readConfig(settings, {}).value, { wait: 10_000, most: 1_048_576, names: ['a'], nested: { count: 3 } })
  const { value, problems } = readConfig(settings, { wait: '1s', most: 5, cost: '1 sat', names: 'b' })
  t.same(problems, [])
  t.same(value, { wait: 1000, most: 5, cost: 1, names: ['b'], nested: { count: 3 } })
})

t.test('a list may be empty only where its default is', async t => {
  const schema = Type.Object({
    some: List(Type.String(), { default: ['a'] }),
    any: List(Type.String(), { default: [] })
  })
  t.same(readConfig(schema, {}), { value: { some: ['a'], any: [] }, problems: [], references: [] })
  t.same(readConfig(schema, { any: [] }).problems, [])
  t.same(readConfig(schema, { some: [] }, noOrigin('x.yaml')).problems.map(formatProblem), [
    'x.yaml:1:1: some: found an empty list; allowed: a text, or a list of such [BG_CONFIG_VALUE]'
  ])
})

t.test('a default is not shared between two readings', async t => {
  readConfig(settings, {}).value.names.push('b')
  t.same(readConfig(settings, {}).value.names, ['a'])
})

t.test('a schema that says nothing about other keys is strict about them', async t => {
  t.same(lines({ weit: '1s' }), [
    'x.yaml:1:1: weit: found the unknown key "weit"; allowed: wait, most, cost, names, nested, token. Did you mean "wait"? [BG_CONFIG_UNKNOWN_KEY]'
  ])
})

t.test('bounds are reported in the unit of the value', async t => {
  t.same(lines({ wait: '2m' }), [
    'x.yaml:1:1: wait: found "2m"; allowed: a duration such as "500ms", "30s", "10m", "1h" or "2d", from 0ms to 1m [BG_CONFIG_VALUE]'
  ])
})

t.test('a keyword that the reader does not know is still kept to', async t => {
  const schema = Type.Object({ nested: Type.Array(Type.Unsafe<number>({ not: { const: 1 } })) })
  t.same(
    readConfig(schema, { nested: [2, 1] }).problems.map(({ path }) => path),
    ['nested[1]']
  )
  t.same(readConfig(schema, { nested: [2] }).problems, [])
})

t.test('the entries of a mapping are counted with those that were filled in', async t => {
  const schema = Type.Object(
    { a: Type.Optional(Type.Integer()), b: Type.Optional(Type.Integer()), c: Type.Optional(Type.Integer()) },
    { minProperties: 1, maxProperties: 2 }
  )
  const message = (value: unknown) => readConfig(schema, value).problems[0]?.message
  t.equal(message({}), 'found an empty mapping; allowed: a mapping with the keys a, b, c, of 1 to 2 entries')
  t.equal(message({ b: 1 }), undefined)
  t.equal(message({ b: '1' }), 'found "1"; allowed: a whole number. Did you mean 1, without quotes?')
  t.match(message({ a: 1, b: 1, c: 1 }), /^found a mapping of 3;/)
  t.same(readConfig(Type.Object({ a: Type.Integer({ default: 1 }) }, { minProperties: 1 }), {}).problems, [])
})

t.test('a secret is never shown', async t => {
  t.same(lines({ token: 'hunter2' }), [
    'x.yaml:1:1: token: found a secret of 7 characters; allowed: a text of at least 8 characters [BG_CONFIG_VALUE]'
  ])
  t.same(lines({ token: 1234567 }), [
    'x.yaml:1:1: token: found a number; allowed: a text of at least 8 characters [BG_CONFIG_VALUE]'
  ])
})
