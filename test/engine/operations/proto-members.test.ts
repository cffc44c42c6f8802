/** A member `__proto__`, which JSON.parse makes an ordinary one and every copy of it loses. */
import t from 'tap'
import { Type } from 'typebox'
import { ValidationError } from '../../../src/engine/operations/errors.ts'
import { bodyReader } from '../../../src/engine/operations/validation.ts'
import { startGateway } from '../../support/gateway.ts'

const texts = Type.Unsafe<Readonly<Record<string, string>>>({
  type: 'object',
  patternProperties: { '^': { type: 'string' } }
})
const read = bodyReader(
  Type.Object({
    record: Type.Optional(texts),
    united: Type.Optional(Type.Union([Type.String(), Type.Object({ of: texts })])),
    list: Type.Optional(Type.Array(texts)),
    named: Type.Optional(Type.Object({ a: Type.Optional(Type.String()) }))
  })
)
const given = (text: string) => read(Buffer.from(text))
const fields = (text: string) => {
  try {
    given(text)
    return null
  } catch (error) {
    return error instanceof ValidationError ? Object.keys(error.errors) : error
  }
}

t.test('in a record it is refused by its name, at any depth and with any value', async t => {
  t.same(fields('{"record": {"__proto__": "p", "a": "b"}}'), ['Record.__proto__'])
  t.same(fields('{"record": {"__proto__": {"a": 1}}}'), ['Record.__proto__'])
  t.same(fields('{"record": {"\\u005f_proto__": "p"}}'), ['Record.__proto__'])
  t.same(fields('{"united": {"of": {"__proto__": "p"}}}'), ['United.Of.__proto__'])
  t.same(fields('{"list": [{}, {"__proto__": "p"}]}'), ['List[1].__proto__'])
})

t.test('where members have names it is an unknown one, and ignored; null is absent (decision 4)', async t => {
  t.same(given('{"__proto__": {"record": {}}, "named": {"__proto__": {"a": 1}}}'), { named: {} })
  t.same(given('{"record": {"__proto__": null, "constructor": "c"}}'), { record: { constructor: 'c' } })
})

t.test('a payment with such a key of its metadata is not made', async t => {
  const gateway = await startGateway(t)
  const answer = await gateway.send('POST', '/api/payments', {
    headers: { 'x-api-key': gateway.merchant.apiKey, 'content-type': 'application/json' },
    body: '{"orderId": "a", "amount": "1", "currency": "USD", "metadata": {"__proto__": "p", "a": "b"}}'
  })
  t.equal(answer.status, 400)
  t.match(answer.json(), { errors: { 'Metadata.__proto__': ['Must have another name.'] } })
})
