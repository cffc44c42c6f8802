import t from 'tap'
import { Type, type TSchema } from 'typebox'
import { ValidationError } from '../../../src/engine/operations/errors.ts'
import { bodyReader } from '../../../src/engine/operations/validation.ts'
import { ProxyInput } from '../../../src/payments/proxies/schema.ts'

function errorsOf(schema: TSchema, body: unknown) {
  try {
    bodyReader(schema)(Buffer.from(JSON.stringify(body)))
    return {}
  } catch (error) {
    if (error instanceof ValidationError) return error.errors
    throw error
  }
}

const proxy = (members: object) => ({
  name: 'x',
  targetBaseUrl: 'https://api.example.com',
  defaultPriceSats: 10,
  ...members
})
const metered = (meter: object) => proxy({ endpoints: [{ pathPattern: '/a', priceSats: 9, meter }] })

t.test('a member that the meter of a proxy does not have is named, beside those that it has', async t => {
  t.same(errorsOf(ProxyInput, metered({ outputMsat: 1, ouputMsat: 1, usage: 'bytes' })), {
    'Endpoints[0].Meter.OuputMsat': [
      'There is no member "ouputMsat". Must be one of: unit, inputMsat, outputMsat, models, per, usage, usageMember, estimateMember, estimate. Did you mean "outputMsat"?'
    ]
  })
  t.same(errorsOf(ProxyInput, metered({ outputMsat: 1, usage: 'bytes', models: { a: { outputMsat: 1, 'x/y': 1 } } })), {
    'Endpoints[0].Meter.Models.A.X/y': ['There is no member "x/y". Must be one of: inputMsat, outputMsat.']
  })
})

t.test('a table of prices says what it lacks or has too much of, and not what each of its forms does', async t => {
  const table = { by: { json: 'model' }, of: { small: '5 sats' } }
  t.same(errorsOf(ProxyInput, proxy({ defaultPrice: { ...table, els: 'refuse' } })), {
    'DefaultPrice.Els': ['There is no member "els". Must be one of: by, of, else. Did you mean "else"?']
  })
  for (const by of [{}, { cookie: 'a' }, { json: 'a', header: 'b' }, { json: 5 }])
    t.same(
      errorsOf(ProxyInput, proxy({ defaultPrice: { ...table, by } })),
      {
        'DefaultPrice.By': ['Must have exactly one of the members json, header and query, such as { "json": "model" }.']
      },
      JSON.stringify(by)
    )
  t.same(errorsOf(ProxyInput, proxy({ defaultPrice: { ...table, of: {} } })), {
    'DefaultPrice.Of': ['Must have at least 1 member.']
  })
})

t.test('a name that a record does not take is no way around the schema of its members', async t => {
  const names = Type.Record(Type.String({ pattern: '^[a-z]+$' }), Type.Integer(), {
    additionalProperties: false,
    maxProperties: 2
  })
  t.same(errorsOf(names, { B: 'x' }), { B: ['Must have a name that matches the pattern ^[a-z]+$.'] })
  t.same(errorsOf(names, { a: 1, b: 1, c: 1 }), { $: ['Must have at most 2 members.'] })
})
