import { syncBuiltinESMExports } from 'node:module'
import querystring from 'node:querystring'
import t from 'tap'
import { Money } from '../../../src/engine/config/units.ts'
import { TableBy } from '../../../src/engine/checks/price.ts'
import { readConfig } from '../../../src/engine/config/read.ts'
import type { Context } from '../../../src/engine/message/context.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { headerValue, queryParameter } from '../../../src/engine/message/request-values.ts'
import { readField } from '../../../src/selling/prices/request-field.ts'

t.test('a parameter of the query is read once decoded', async t => {
  for (const [query, value] of [
    ['size=small', 'small'],
    ['a=1&size=small&b=2', 'small'],
    ['size=sm%61ll', 'small'],
    ['s%69ze=a+b', 'a b'],
    ['size=', ''],
    ['size', '']
  ] as const)
    t.strictSame(queryParameter(query, 'size'), { kind: 'value', value }, query)
  for (const query of ['', 'a=size', 'sizes=1', 'a;b=1'])
    t.strictSame(queryParameter(query, 'size'), { kind: 'missing' })
})

t.test('a query: more parameters than servers commonly read are a fault', async t => {
  for (const other of ['&', ';', '%&', '%ff;', 'a=1&'])
    for (const [count, kind] of [
      [998, 'value'],
      [1000, 'fault'],
      [35_000, 'fault']
    ] as const)
      t.equal(queryParameter(`${other.repeat(count)}&size=small`, 'size').kind, kind, `${count} times ${other}`)
})

t.test('a query: all parameters of a request are decoded once, however many of them are compared', async t => {
  let decoded = 0
  const { unescape } = querystring
  querystring.unescape = text => {
    decoded++
    return unescape(text)
  }
  syncBuiltinESMExports()
  t.teardown(() => {
    querystring.unescape = unescape
    syncBuiltinESMExports()
  })
  const query = `${'a=1&'.repeat(900)}size=small`
  for (let at = 0; at < 20; at++) t.equal(queryParameter(query, `other-${at}`).kind, 'missing')
  t.strictSame(queryParameter(query, 'size'), { kind: 'value', value: 'small' })
  t.equal(decoded, 901)
})

t.test('a parameter that another parser may read differently is a fault', async t => {
  for (const query of [
    'size=small&size=large',
    'size=small&s%69ze=large',
    'size=small&size[]=large',
    'size[]=large',
    'size=small&SIZE=large',
    'SIZE=large',
    'a=1;size=large',
    'size=small;size=large',
    'size=small&size%00x=large',
    'size=small&size%00%zz=large',
    'size=small&size%00%ff=large',
    'size=small&size[%ff]=large',
    'size=small;size%00%=large',
    'size=%ff',
    'size=%zz'
  ])
    t.equal(queryParameter(query, 'size').kind, 'fault', query)
  // PHP's spellings of one name.
  for (const query of ['my_size=small&my.size=large', 'my_size=small&my+size=large', 'my_size=small&%20my_size=large'])
    t.equal(queryParameter(query, 'my_size').kind, 'fault', query)
  t.equal(queryParameter('my_size=small&my-size=large', 'my_size').kind, 'value')
})

t.test('a parameter with brackets in its name is read like another', async t => {
  const read = (query: string) => queryParameter(query, 'filter[size]')
  t.strictSame(read('filter[size]=large&filter[page]=2'), { kind: 'value', value: 'large' })
  t.strictSame(read('filter%5Bsize%5D=large'), { kind: 'value', value: 'large' })
  t.strictSame(read('filter[page]=2'), { kind: 'missing' })
  for (const query of ['filter[size]=small&filter%5Bsize%5D=large', 'filter[size]=small&filter[Size]=large'])
    t.equal(read(query).kind, 'fault', query)
})

t.test('a header is read where it occurs once and is forwarded to the upstream', async t => {
  const read = (...pairs: string[]) => headerValue(new HeaderList(pairs), 'X-Tier')
  t.strictSame(read('x-tier', ' gold '), { kind: 'value', value: 'gold' })
  t.strictSame(read('x-tier', '\t gold \t'), { kind: 'value', value: 'gold' })
  for (const value of ['gold\u00a0', '\u00a0gold', 'gold\u000b', 'go ld'])
    t.strictSame(read('x-tier', value), { kind: 'value', value }, 'HTTP knows space and tab alone')
  t.strictSame(read('Connection', 'close'), { kind: 'missing' })
  for (const pairs of [
    ['X-Tier', 'gold', 'x-tier', 'gold'],
    ['X-Tier', 'gold', 'X_Tier', 'iron'],
    ['X_Tier', 'gold'],
    ['X-Tier', 'gold', 'Connection', 'close, X-Tier']
  ])
    t.match(read(...pairs), { kind: 'fault' }, pairs.join(' '))
})

t.test('a member is refused beside members that may override it, unless it is in one of them', async t => {
  const read = async (body: string, json = 'size') => {
    const bytes = Buffer.from(body)
    // No more of it is asked for.
    const ctx = {
      headers: new HeaderList(['Content-Type', 'application/json']),
      body: { length: bytes.byteLength, collected: bytes },
      bodyUnits: 0
    } as unknown as Context
    return await readField({ json }, ctx)
  }
  t.equal(await read('{"size":"small","extra_body":{},"additional_drop_params":[]}'), 'small')
  for (const other of ['"extra_body":{"size":"large"}', '"Extra_Body":{"n":1}', '"additional_drop_params":["size"]'])
    await t.rejects(async () => read(`{"size":"small",${other}}`), { status: 400 }, other)
  t.equal(await read('{"extra_body":{"size":"large"}}', 'extra_body.size'), 'large')
})

t.test('a table of the file says where it is nonsense', async t => {
  const schema = TableBy(Money())
  const good = readConfig(schema, { by: { json: 'model' }, of: { small: '5 sats', large: '$0.04' } })
  t.strictSame(good.problems, [])
  t.strictSame(good.value, { by: { json: 'model' }, of: { small: 5, large: 'USD 0.04' }, else: 'refuse' })
  const wrong = (value: unknown) =>
    readConfig(schema, value)
      .problems.map(({ message, path }) => `${path}: ${message}`)
      .join('\n')
  t.match(wrong({ by: { json: 'model', header: 'x' }, of: { a: 1 } }), /unknown key/)
  t.match(wrong({ by: {}, of: { a: 1 } }), /by/)
  t.match(wrong({ by: { json: 'model' }, of: { a: '-1 sats' } }), /of\.a: .*"10 sats", "1500 msat", "\$0\.002"/)
  t.match(wrong({ by: { json: 'model' }, of: { a: '$0' } }), /of\.a/)
  t.match(wrong({ by: { json: 'model' }, of: { a: 1 }, else: 'refused' }), /else/)
  t.match(wrong({ by: { json: 'model' }, of: {} }), /of/)
  t.match(wrong({ by: { json: 'model' } }), /of/)
})
