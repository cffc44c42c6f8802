import * as fc from 'fast-check'
import t from 'tap'
import { Type } from 'typebox'
import { ValidationError } from '../../../src/engine/operations/errors.ts'
import { bodyReader } from '../../../src/engine/operations/validation.ts'
import { startGateway } from '../../support/gateway.ts'

const read = bodyReader(
  Type.Object({
    amount: Type.Union([Type.Number(), Type.String()]),
    fee: Type.Optional(Type.Unsafe<number | null>({ type: ['number', 'null'] })),
    name: Type.Optional(Type.String())
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

t.test('a number that a double would round is refused, and named (decision 46)', async t => {
  for (const number of [
    '99999999.9999999999999',
    '0.00999999999999999999999',
    '1.00000000000000000001',
    '1e-400',
    '-1e-400',
    '9007199254740993',
    '0.0000000000000000000012345678901234567e3',
    '1e999'
  ]) {
    t.same(fields(`{"amount": ${number}}`), ['Amount'], number)
    if (number !== '1e999') t.same(fields(`{"amount": 1, "fee": ${number}}`), ['Fee'], number)
  }
  t.same(fields('{"amount": 1, "amount": 0.00999999999999999999999 }'), ['Amount'], 'the last of a name counts')
})

t.test('a number that a double keeps is taken, however it is written', async t => {
  for (const number of [
    '20999999.97690001',
    '12345678.12345678',
    '1.50000000000000000000000',
    '0.000000000000000000000e100',
    '0e-400',
    '-0.00000000000000000',
    '1e-008',
    '100000000000000000000000e-15',
    '5e-324'
  ])
    t.same(given(`{"amount": ${number}}`), { amount: Number(number) }, number)
  t.same(given('{"amount": 0.00999999999999999999999, "amount": 2}'), { amount: 2 })
  t.same(given('{"amount": "0.00999999999999999999999"}'), { amount: '0.00999999999999999999999' })
  t.same(given('{"amount": 1, "name": "1234567890123456789", "other": 0.00999999999999999999999}'), {
    amount: 1,
    name: '1234567890123456789'
  })
})

t.test('every number that JavaScript writes is taken', async t => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), amount => {
      t.same(given(JSON.stringify({ amount })), { amount: Object.is(amount, -0) ? 0 : amount })
    })
  )
})

t.test('a payment is not made of an amount that was rounded on its way', async t => {
  const gateway = await startGateway(t)
  const create = (amount: string) =>
    gateway.send('POST', '/api/payments', {
      headers: { 'x-api-key': gateway.merchant.apiKey, 'content-type': 'application/json' },
      body: `{"orderId": ${JSON.stringify(amount)}, "amount": ${amount}, "currency": "USD"}`
    })
  for (const amount of ['99999999.9999999999999', '0.00999999999999999999999', '1e-400']) {
    const answer = await create(amount)
    t.equal(answer.status, 400, amount)
    t.match(answer.json(), { errors: { Amount: ['Must not have more digits than a JSON number keeps, which is 15.'] } })
  }
  t.equal((await create('0.0100000000000000000000')).status, 201)
})
