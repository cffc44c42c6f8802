import type { TSchema } from 'typebox'
import type { RouteConfig } from '../config/schema.ts'
import { errorSchemas, impliedStatuses, refusalOf, refusals, type Form, type Json, type RefusalName } from './openapi-errors.ts'
import { answerHeaders, commonHeaders, refusalHeaders, successHeaders } from './openapi-headers.ts'
import type { Access, Answer, AnyOperation } from './operation.ts'
import { API_VERSION } from './version.ts'

/** What the document says of the service as a whole. */
export interface DocumentFacts {
  readonly title: string
  readonly description: string
  readonly publicUrl: string
  /** Paid routes of the operator, for `x-payment-info`. */
  readonly pricedRoutes: readonly PricedRoute[]
}

/** A route that costs something, as agents look for it (Payment discovery draft). */
export interface PricedRoute {
  /** OpenAPI path: parameters in braces. */
  readonly path: string
  /** Lower-case methods; empty means that GET stands for all. */
  readonly methods: readonly string[]
  /** Null when it depends on the path. */
  readonly amountSats: number | null
  readonly description: string
}

const METHODS = new Set(['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'])

const PROXY_ERROR: Json = {
  type: 'object',
  required: ['error', 'message'],
  properties: { error: { type: 'string' }, message: { type: 'string' }, proxy_id: { type: 'string' }, details: { type: 'string' } }
}

const reference = (schema: string): Json => ({ $ref: `#/components/schemas/${schema}` })
const shared = (name: RefusalName): Json => ({ $ref: `#/components/responses/${name}` })

/** Schemas by media type as OpenAPI's `content`; several for one type are alternatives. */
function contentOf (forms: ReadonlyArray<readonly [mediaType: string, schema: Json]>): Json {
  const content: Json = {}
  for (const [mediaType, schemas] of Map.groupBy(forms, form => form[0].split(';', 1)[0] ?? form[0])) {
    const [first, ...others] = schemas.map(form => form[1])
    content[mediaType] = { schema: others.length === 0 ? first : { anyOf: [first, ...others] } }
  }
  return content
}

/** What a refusal says, under a description of the operation's own where it has one. */
function refusal (name: RefusalName, description?: string, more: ReadonlyArray<readonly [string, Json]> = []): Json {
  const { forms, headers, ...known }: { description: string, forms: readonly Form[], headers?: Json } = refusals[name]
  return {
    description: description ?? known.description,
    headers: { ...commonHeaders, ...headers },
    content: contentOf([...more, ...forms.map(form => [form.mediaType, reference(form.schema)] as const)])
  }
}

const SECURITY: Readonly<Record<Access, Json[]>> = {
  public: [],
  merchant: [{ merchantKey: [] }],
  admin: [{ adminKey: [] }],
  credential: [{ l402: [] }, { payment: [] }]
}

/** find-my-way's `/a/:id/*` as OpenAPI's `/a/{id}/{path}`. */
export function openApiPath (path: string): string {
  return path.replaceAll(/:([A-Za-z_][A-Za-z0-9_]*)/g, '{$1}').replace(/\*$/, '{path}')
}

function schemaJson (schema: TSchema): Json {
  // A typebox schema is JSON Schema once its symbols are dropped.
  return JSON.parse(JSON.stringify(schema)) as Json
}

function parameters (operation: AnyOperation): Json[] {
  const list: Json[] = []
  for (const [, name] of operation.path.matchAll(/:([A-Za-z_][A-Za-z0-9_]*)/g)) {
    if (name !== undefined) list.push({ name, in: 'path', required: true, schema: { type: 'string' } })
  }
  if (operation.query !== undefined) {
    // Query schemas are objects; their members are the parameters.
    const { properties = {}, required = [] } = schemaJson(operation.query) as { properties?: Record<string, Json>, required?: string[] }
    for (const [name, schema] of Object.entries(properties)) list.push({ name, in: 'query', required: required.includes(name), schema })
  }
  for (const [name, description] of Object.entries(operation.headers ?? {})) {
    list.push({ name, in: 'header', required: false, description, schema: { type: 'string' } })
  }
  return list
}

/** The body of an answer that an operation declares; null when it has none. */
function ownForm ({ schema, mediaType = 'application/json' }: Answer): readonly [string, Json] | null {
  if (schema !== undefined) return [mediaType, schemaJson(schema)]
  // Ready bytes of a media type: text, unless they are JSON of which no more is said.
  return [mediaType, mediaType.startsWith('application/json') ? { type: 'object' } : { type: 'string' }]
}

function answers (operation: AnyOperation): Json {
  const out: Json = {}
  const implied = new Set(impliedStatuses(operation))
  for (const [key, answer] of Object.entries(operation.answers)) {
    const status = Number(key)
    const bodiless = answer.schema === undefined && answer.mediaType === undefined
    const name = status < 400 ? null : refusalOf(operation, status)
    const own = bodiless ? null : ownForm(answer)
    const headers = status < 400 ? successHeaders(operation, answer) : refusalHeaders(operation, status)
    if (own === null) out[status] = name === null ? { description: answer.description, headers } : refusal(name, answer.description)
    else if (name !== null && implied.has(status)) out[status] = refusal(name, answer.description, [own])
    else out[status] = { description: answer.description, headers, content: contentOf([own]) }
  }
  for (const status of implied) {
    const name = refusalOf(operation, status)
    if (name !== null) out[status] ??= shared(name)
  }
  return out
}

function describe (operation: AnyOperation): Json {
  const out: Json = { operationId: operation.id, summary: operation.summary, tags: [operation.tag], responses: answers(operation) }
  const list = parameters(operation)
  if (list.length > 0) out['parameters'] = list
  if (operation.body !== undefined) out['requestBody'] = { required: operation.bodyOptional !== true, content: { 'application/json': { schema: schemaJson(operation.body) } } }
  const security = SECURITY[operation.access]
  if (security.length > 0) out['security'] = security
  return out
}

function paid (route: PricedRoute): Json {
  const { amountSats, description } = route
  // Where the price depends on the path there is nothing to offer: an agent would try the template itself.
  const offers = amountSats === null ? {} : { 'x-payment-info': { offers: [{ intent: 'charge', method: 'lightning', amount: String(amountSats), currency: 'sat', description }] } }
  return {
    summary: description,
    tags: ['paid'],
    security: SECURITY.credential,
    ...offers,
    // The API behind answers as it likes, with a status of this list too.
    responses: {
      200: { description: 'What was paid for.', headers: { ...commonHeaders, 'Payment-Receipt': { $ref: '#/components/headers/PaymentReceipt' } } },
      402: shared('PaymentRequired'),
      default: { description: 'What the API behind answers, or an error of this gateway.', headers: commonHeaders, content: contentOf([['application/json', reference('ProxyError')], ['*/*', {}]]) }
    }
  }
}

/** The priced routes of a configuration, in the form of the document. */
export function pricedRoutes (routes: readonly RouteConfig[]): PricedRoute[] {
  const out: PricedRoute[] = []
  for (const route of routes) {
    if (route.upstream.kind !== 'proxy' && (route.price ?? 0) === 0) continue
    const amountSats = route.upstream.kind === 'proxy' ? null : route.price ?? null
    for (const path of route.match.path) {
      out.push({ path: openApiPath(path), methods: (route.match.method ?? []).map(name => name.toLowerCase()), amountSats, description: route.description ?? route.name })
    }
  }
  return out
}

/** The OpenAPI 3.1 document of operations and priced routes; `operations` come as they are mounted. */
export function openApiDocument (operations: readonly AnyOperation[], facts: DocumentFacts): Json {
  const paths: Record<string, Json> = {}
  for (const operation of operations) {
    const item = paths[openApiPath(operation.path)] ??= {}
    item[operation.method.toLowerCase()] = describe(operation)
  }
  for (const route of facts.pricedRoutes) {
    const item = paths[route.path] ??= {}
    for (const method of route.methods.length === 0 ? ['get'] : route.methods.filter(name => METHODS.has(name))) item[method] ??= paid(route)
    for (const [, name] of route.path.matchAll(/\{([^}]+)\}/g)) {
      const list = (item['parameters'] ??= []) as Json[]
      if (!list.some(entry => entry['name'] === name)) list.push({ name, in: 'path', required: true, schema: { type: 'string' } })
    }
  }
  return {
    openapi: '3.1.0',
    info: { title: facts.title, version: API_VERSION, description: facts.description },
    servers: [{ url: facts.publicUrl }],
    'x-service-info': { name: facts.title, description: facts.description, payment: { schemes: ['L402', 'Payment'], currency: 'sat' } },
    paths,
    components: {
      schemas: { ...errorSchemas, ProxyError: PROXY_ERROR },
      headers: answerHeaders,
      responses: Object.fromEntries((Object.keys(refusals) as RefusalName[] /* its own keys */).map(name => [name, refusal(name)])),
      securitySchemes: {
        merchantKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        adminKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        l402: { type: 'http', scheme: 'L402' },
        payment: { type: 'http', scheme: 'Payment' }
      }
    }
  }
}
