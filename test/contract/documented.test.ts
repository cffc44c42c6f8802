import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import examples from '../../src/app/discovery/examples.json' with { type: 'json' }
import { guides } from '../support/documents.ts'
import { rootFolder, startGateway } from '../support/gateway.ts'

type Json = Record<string, unknown>
interface Body {
  readonly content?: Readonly<Record<string, { readonly schema?: Json; readonly example?: unknown }>>
}
interface Parameter {
  readonly in: string
  readonly name: string
  readonly schema: Json
  readonly example?: unknown
}
interface Operation {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary?: string
  readonly description?: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: Body
  readonly responses: Readonly<Record<string, Body & { readonly $ref?: string }>>
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: Json
  readonly webhooks: Readonly<Record<string, { readonly post: { readonly operationId: string } }>>
}

/** What a missing or outdated example calls for. */
const RECORD = 'run `npm run examples -- TEST_FILE`'

t.test('every operation says what it does and shows one request and its answer', async t => {
  const gateway = await startGateway(t)
  const document = (await gateway.send('GET', '/api/openapi.json')).json() as Document
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema({ $id: 'document', components: document.components })
  const fault = (schema: Json, value: unknown) => {
    const validate = ajv.compile(
      JSON.parse(JSON.stringify(schema).replaceAll('"#/components/', '"document#/components/')) as Json
    )
    return validate(value) ? null : ajv.errorsText(validate.errors)
  }
  const plain = (path: string) => path.replaceAll(/\{[^/]*/g, '*')
  const served = new Set(
    Object.entries(document.paths).flatMap(([path, item]) =>
      Object.keys(item).map(method => `${method.toUpperCase()} ${plain(path)}`)
    )
  )
  const unknown = guides.flatMap(page =>
    [...readFileSync(join(rootFolder, page), 'utf8').matchAll(/`(GET|POST|PUT|DELETE) (\/api\/[^\s`?]+)/g)]
      .map(([, method, path = '']) => `${method} ${plain(path)}`)
      .filter(operation => !served.has(operation))
      .map(operation => `${page}: ${operation}`)
  )
  t.same(unknown, [], 'every operation that a guide names exists')
  const operations = Object.values(document.paths)
    .flatMap(item => Object.values(item))
    .filter(({ operationId }) => operationId !== undefined)
  t.ok(operations.length > 100)
  const webhooks = Object.values(document.webhooks).map(({ post }) => post.operationId)
  const checked = new Set<string>()
  for (const { operationId: id, tags, description, parameters = [], requestBody, responses } of operations) {
    t.ok((description ?? '').length > 30, `${id} has a description`)
    // The upstream behind an operator's price has an API of its own.
    if (tags.includes('Paid')) continue
    for (const { name, schema, example } of parameters.filter(parameter => parameter.in === 'path')) {
      t.not(example, undefined, `${id} shows a ${name}; ${RECORD}`)
      t.equal(fault(schema, example), null, `${id}: the ${name} that it shows fits`)
    }
    const bodies: ReadonlyArray<readonly [what: string, body: Body]> = [
      ...(requestBody === undefined ? [] : ([['request', requestBody]] as const)),
      ...Object.entries(responses).filter(([status, answer]) => status.startsWith('2') && answer.$ref === undefined)
    ]
    for (const [what, { content = {} }] of bodies) {
      for (const [mediaType, { schema, example }] of Object.entries(content)) {
        if (
          schema === undefined ||
          (what !== 'request' &&
            (mediaType !== 'application/json' || schema['properties'] === undefined) &&
            schema['$ref'] === undefined &&
            schema['items'] === undefined)
        )
          continue
        t.not(example, undefined, `${id} shows its ${what}; ${RECORD}`)
        t.equal(fault(schema, example), null, `${id}: the ${what} that it shows fits`)
        checked.add(id)
      }
    }
  }
  t.ok(checked.size > 75)
  const known = new Set([...operations.map(({ operationId }) => operationId), ...webhooks])
  t.same(
    Object.keys(examples).filter(id => !known.has(id)),
    [],
    'each example is of an operation'
  )
})

t.test('resources have names, and the moments in them a format', async t => {
  const gateway = await startGateway(t)
  const {
    components: { schemas }
  } = (await gateway.send('GET', '/api/openapi.json')).json() as {
    components: { schemas: Record<string, { properties: Record<string, Json> }> }
  }
  for (const name of [
    'Payment',
    'Refund',
    'MerchantAccount',
    'Proxy',
    'ProducerChallenge',
    'Subscription',
    'Store',
    'StoreOrder',
    'Delivery',
    'PendingSubscription',
    'HealthReport',
    'Quickstart'
  ]) {
    t.ok(schemas[name], name)
    const { createdAt } = schemas[name]?.properties ?? {}
    if (createdAt !== undefined) t.equal(createdAt['format'], 'date-time', `${name}.createdAt`)
  }
})

t.test(
  'the document says what is taken as the reader takes it: null for what may be left out, an empty value in a query, rules looked at by hand',
  async t => {
    const gateway = await startGateway(t)
    interface Schema {
      readonly type?: unknown
      readonly enum?: readonly unknown[]
      readonly pattern?: string
      readonly anyOf?: readonly unknown[]
    }
    const {
      components: { schemas },
      paths,
      webhooks
    } = (await gateway.send('GET', '/api/openapi.json')).json() as {
      components: { schemas: Record<string, { properties: Record<string, Schema> }> }
      paths: Record<
        string,
        Record<
          string,
          { parameters: ReadonlyArray<{ name: string; in: string; allowEmptyValue?: boolean; schema: Schema }> }
        >
      >
      webhooks: Record<string, { post: { operationId: string } }>
    }
    const payment = schemas['PaymentInput']?.properties ?? {}
    t.same(payment['description']?.type, ['string', 'null'])
    t.same(payment['orderId']?.type, 'string', 'what is required is not null')
    t.equal(payment['successUrl']?.pattern, '^https?://')
    t.same(schemas['PlanCheckoutInput']?.properties['plan']?.enum, ['individual'])
    t.same(schemas['ProxyEndpointInput']?.properties['method']?.enum?.at(-1), null)
    t.same(schemas['Payment']?.properties['orderId']?.type, 'string', 'responses are unchanged')
    const since = paths['/api/l402/challenges']?.['get']?.parameters.find(({ name }) => name === 'since')
    t.match(since, {
      in: 'query',
      allowEmptyValue: true,
      schema: { anyOf: [{ format: 'date-time' }, { format: 'date' }] }
    })
    t.equal(webhooks['payment.status']?.post.operationId, 'onPaymentStatus')
  }
)
