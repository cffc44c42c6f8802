import t from 'tap'
import { JsonText } from '../../../src/selling/prices/json-text.ts'

function member(text: string, name: string) {
  const read = JsonText.of(Buffer.from(text))
  return typeof read === 'string' ? read : read.member(name.split('.'))
}

function fault(text: string, name: string) {
  const read = member(text, name)
  return typeof read === 'string' ? read : read.kind === 'fault' ? read.message : `no fault: ${JSON.stringify(read)}`
}

t.test('a member is read at any depth, and its value is no part of another', async t => {
  for (const [text, value] of [
    ['{"model":"small"}', 'small'],
    [' { "a" : [ { "model" : "large" } ] , "model" : "small" } ', 'small'],
    ['{"note":"\\"model\\":\\"large\\"","model":"small"}', 'small'],
    ['{"note":"}{][\\\\","model":"small","z":{"model":"large"}}', 'small'],
    ['{"mod\\u0065l":"small"}', 'small'],
    ['{"model":"sm\\u0061ll"}', 'small'],
    ['{"model":7}', 7],
    ['{"a":1,"model":-20\n}', -20],
    ['{"model":0}', 0],
    ['{"model":true}', true],
    ['{"model":""}', '']
  ] as const) {
    t.strictSame(member(text, 'model'), { kind: 'value', value }, text)
  }
  t.strictSame(member('{"meta":{"x":{},"tier":"gold"}}', 'meta.tier'), { kind: 'value', value: 'gold' })
})

t.test('an absent member, and null, is missing', async t => {
  for (const [text, name] of [
    ['{}', 'model'],
    ['{"model":null}', 'model'],
    ['{"a":{"model":"small"}}', 'model'],
    ['{"meta":{}}', 'meta.tier'],
    ['{"meta":null}', 'meta.tier']
  ] as const) {
    t.strictSame(member(text, name), { kind: 'missing' }, text)
  }
})

t.test('a duplicate key is a fault at every step, also in escapes and in other letters', async t => {
  t.match(fault('{"model":"small","model":"large"}', 'model'), /has "model" twice/)
  t.match(fault('{"model":"small","model":"small"}', 'model'), / twice$/)
  t.match(fault('{"model":"small","mod\\u0065l":"large"}', 'model'), / twice$/)
  t.match(fault('{"\\u006dodel":"small","model":"large"}', 'model'), / twice$/)
  t.match(fault('{"meta":{"tier":"a"},"meta":{"tier":"b"}}', 'meta.tier'), /has "meta" twice/)
  t.match(fault('{"meta":{"tier":"a","tier":"b"}}', 'meta.tier'), /has "meta.tier" twice/)
  // encoding/json of Go and others take any spelling for the same member.
  t.match(fault('{"model":"small","Model":"large"}', 'model'), /has "Model"/)
  t.match(fault('{"MODEL":"large"}', 'model'), /exactly as here/)
  t.match(fault('{"model\\u0000x":"large","model":"small"}', 'model'), /exactly as here/)
  t.match(fault('{"speed":"a","\\u017fpeed":"b"}', 'speed'), /exactly as here/)
  t.match(fault('{"key":"a","\\u212aey":"b"}', 'key'), /exactly as here/)
})

t.test('a body that the upstream might read differently is a fault', async t => {
  for (const text of ['{"model":1.0}', '{"model":1e3}', '{"model":-0}', '{"model":{}}', '{"model":["small"]}'])
    t.match(fault(text, 'model'), /"model" must be a text, a whole number, or true or false/, text)
  t.match(fault('[{"model":"small"}]', 'model'), /the body must be a JSON object/)
  t.match(fault('{"meta":"gold"}', 'meta.tier'), /"meta" must be a JSON object/)
  for (const text of [
    '{"model":"small"',
    '{model:"small"}',
    "{'model':'small'}",
    '{"model":"small",}',
    '{/*"model":"large",*/"model":"small"}',
    '{"model":"small"}{"model":"large"}',
    '{"model":NaN}',
    '\ufeff{"model":"small"}',
    ''
  ])
    t.equal(member(text, 'model'), 'is not valid JSON', text)
  t.equal(JsonText.of(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), 'is not UTF-8')
  t.match(member(`{"a":${'['.repeat(200)}${']'.repeat(200)},"model":"small"}`, 'model'), /nested deeper than 128/)
})

t.test('a body of 2 MiB is read once, and the last of many keys is found', async t => {
  const filler = Array.from({ length: 20_000 }, (_, n) => `"k${n}":"${'x'.repeat(90)}"`).join(',')
  const bytes = Buffer.from(`{${filler},"model":"large"}`)
  t.ok(bytes.byteLength > 2_000_000)
  const first = JsonText.of(bytes)
  t.equal(JsonText.of(bytes), first, 'the next caller gets the same text')
  t.strictSame(typeof first === 'string' ? first : first.member(['model']), { kind: 'value', value: 'large' })
})

t.test('json text: the items of a member are counted as JSON.parse would build them', async t => {
  const values: unknown[] = [
    'text',
    null,
    7,
    [],
    ['a', 'b'],
    [1, 2, 3],
    [[1, 2], [3]],
    [['a'], [-1]],
    [[], {}],
    [{ content: ['x', '],[', 'y\\"'] }, 'z,[', [[1, 'w']]],
    { a: [1, 'b'] },
    [true, null, 'x'],
    ['\\', '\\"', ',', '[']
  ]
  for (const value of values) {
    for (const space of [0, 2]) {
      const text = JsonText.of(Buffer.from(JSON.stringify({ other: ['x'], prompt: value }, null, space)))
      if (typeof text === 'string') throw new TypeError(text)
      const list = Array.isArray(value) ? (value as unknown[]) : []
      const first = list.map(each => (Array.isArray(each) ? (each as unknown[])[0] : each))
      t.same(
        text.items('prompt'),
        value === null
          ? { kind: 'missing' }
          : {
              kind: 'items',
              inputs: list.filter(each => typeof each === 'string' || Array.isArray(each)).length,
              objects: list.filter(each => typeof each === 'object' && each !== null && !Array.isArray(each)).length,
              hasIds: first.some(each => typeof each === 'number')
            },
        JSON.stringify(value)
      )
    }
  }
})
