import t from 'tap'
import { Type, type TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { ValidationError } from '../../../src/engine/operations/errors.ts'
import { bodyReader } from '../../../src/engine/operations/validation.ts'
import { fieldName } from '../../../src/engine/operations/field-errors.ts'
import { startGateway } from '../../support/gateway.ts'

const read = (schema: TSchema, body: unknown) => bodyReader(schema)(Buffer.from(JSON.stringify(body)))

/** Members of a schema with the path to each, through objects, lists and unions. */
function membersOf(schema: TSchema, path: readonly string[] = []): Array<{ path: readonly string[]; schema: TSchema }> {
  const {
    properties = {},
    items,
    anyOf = [],
    required = []
  } = schema as { properties?: Record<string, TSchema>; items?: TSchema; anyOf?: TSchema[]; required?: string[] }
  return [
    ...Object.entries(properties).flatMap(([name, member]) => [
      ...(required.includes(name) ? [] : [{ path: [...path, name], schema: member }]),
      ...membersOf(member, [...path, name])
    ]),
    ...(items === undefined ? [] : membersOf(items, [...path, '0'])),
    ...anyOf.flatMap(branch => membersOf(branch, path))
  ]
}

/** A body with nothing but one member, within its lists and objects. */
function bodyOf([step, ...rest]: readonly string[], value: unknown): unknown {
  if (step === undefined) return value
  return step === '0' ? [bodyOf(rest, value)] : { [step]: bodyOf(rest, value) }
}

/** Whether the value of this one member is refused; the body may lack whatever else it needs. */
function isRefused(schema: TSchema, path: readonly string[], value: unknown) {
  try {
    read(schema, bodyOf(path, value))
    return false
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error
    return Object.hasOwn(error.errors, fieldName(`/${path.join('/')}`))
  }
}

function takesText(schema: TSchema) {
  const {
    type,
    enum: values,
    anyOf
  } = schema as { type?: unknown; enum?: readonly unknown[]; anyOf?: readonly TSchema[] }
  return (
    [type].flat().includes('string') ||
    (values?.some(value => typeof value === 'string') ?? false) ||
    (anyOf?.some(takesText) ?? false)
  )
}

t.test('bodies: no operation refuses "" in an optional text member by its schema', async t => {
  const { operations } = await startGateway(t)
  let refusedBySchema = 0
  for (const { id, body } of operations) {
    if (body === undefined) continue
    for (const { path, schema } of membersOf(body)) {
      if (!takesText(schema)) continue
      if (!Compile(schema).Check('')) refusedBySchema++
      t.notOk(isRefused(body, path, ''), `${id}: ${path.join('.')}`)
    }
  }
  t.ok(refusedBySchema >= 20, `${refusedBySchema} members whose schema refuses ""`)
})

t.test('bodies: "" reads as null where the schema refuses it, and is kept where it has a meaning', async t => {
  const inner = Type.Object({
    required: Type.String({ minLength: 1 }),
    optional: Type.Optional(Type.String({ minLength: 1 }))
  })
  const schema = Type.Object({
    email: Type.Optional(Type.String({ format: 'email' })),
    kind: Type.Optional(Type.Enum(['a', 'b'])),
    form: Type.Optional(Type.String({ pattern: '^[a-z]+$' })),
    color: Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], pattern: '^#[0-9a-f]{6}$' })),
    note: Type.Optional(Type.String({ pattern: '^[^<]*$' })),
    webhookUrl: Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'] })),
    count: Type.Optional(Type.Integer()),
    list: Type.Optional(Type.Array(inner)),
    either: Type.Optional(Type.Union([Type.String({ pattern: '^[0-9]+$' }), inner]))
  })
  const required = 'a'
  t.same(
    read(schema, {
      email: '',
      kind: '',
      form: '',
      color: '',
      note: '',
      webhookUrl: '',
      list: [{ required, optional: '' }],
      either: { required, optional: '' }
    }),
    { color: null, note: '', webhookUrl: '', list: [{ required }], either: { required } }
  )
  t.same(read(schema, { either: '' }), {})
  for (const body of [{ list: [{ required: '' }] }, { email: ' ' }, { form: ' ' }, { count: '' }])
    t.throws(() => read(schema, body), ValidationError, JSON.stringify(body))
})

t.test('bodies: the domain of an email address is converted to ASCII', async t => {
  const schema = Type.Object({ email: Type.String({ format: 'email' }) })
  for (const [given, expected] of [
    ['name@bücher.example', 'name@xn--bcher-kva.example'],
    ['name@BÜCHER.example', 'name@xn--bcher-kva.example'],
    ['name@例え.テスト', 'name@xn--r8jz45g.xn--zckzah'],
    ['name@例え。テスト', 'name@xn--r8jz45g.xn--zckzah'],
    ['Name@Shop.example', 'Name@Shop.example']
  ])
    t.same(read(schema, { email: given }), { email: expected })
  for (const email of ['name@bü cher.example', 'name@bücher.example/x', 'name@bücher.example:25', 'bücher.example'])
    t.throws(() => read(schema, { email }), ValidationError, email)
})

t.test('payments: empty optional members and international domains do not stop a sale', async t => {
  const { merchantSend } = await startGateway(t)
  for (const [index, extra] of [
    { customerEmail: '', successUrl: '', customerName: '', description: '' },
    { customerEmail: 'name@bücher.example', successUrl: 'https://bücher.example/thanks' }
  ].entries()) {
    const answer = await merchantSend('POST', '/api/payments', {
      orderId: `order-${index}`,
      amount: '0.001',
      currency: 'BTC',
      ...extra
    })
    t.equal(answer.status, 201, answer.text)
  }
  const refused = await merchantSend('POST', '/api/payments', { orderId: '', amount: '0.001', currency: 'BTC' })
  t.equal(refused.status, 400)
})
