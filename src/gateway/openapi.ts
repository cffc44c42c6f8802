import type { TSchema } from 'typebox'
import type { RouteConfig } from '../config/schema.ts'
import type { Access, AnyOperation } from './operation.ts'
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

type Json = Record<string, unknown>

const METHODS = new Set(['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'])

const ERROR: Json = { type: 'object', required: ['error'], properties: { error: { type: 'string' }, message: { type: 'string' } } }
const PROBLEM: Json = {
  type: 'object',
  required: ['type', 'title', 'status'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    errors: { type: 'object', additionalProperties: { type: 'array', items: { type: 'string' } } },
    traceId: { type: 'string' }
  }
}
const CHALLENGE: Json = {
  type: 'object',
  required: ['error', 'message'],
  properties: {
    error: { type: 'string' },
    message: { type: 'string' },
    l402: {
      type: 'object',
      required: ['macaroon', 'invoice', 'amount_sats', 'payment_hash', 'expires_at'],
      properties: {
        macaroon: { type: 'string' },
        invoice: { type: 'string' },
        amount_sats: { type: 'integer' },
        payment_hash: { type: 'string' },
        expires_at: { type: 'string' }
      }
    }
  }
}

function refusal (description: string): Json {
  return {
    description,
    content: {
      'application/json': { schema: { $ref: '#/components/schemas/Error' } },
      'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } }
    }
  }
}

const paymentRequired: Json = {
  description: 'Payment is needed: one Lightning invoice, offered as L402 and as Payment.',
  headers: { 'WWW-Authenticate': { description: 'One line for each scheme.', schema: { type: 'string' } } },
  content: {
    'application/json': { schema: { $ref: '#/components/schemas/Challenge' } },
    'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } }
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

function answers (operation: AnyOperation): Json {
  const out: Json = {}
  for (const [status, answer] of Object.entries(operation.answers)) {
    const mediaType = answer.mediaType ?? 'application/json'
    out[status] = answer.schema === undefined && answer.mediaType === undefined
      ? { description: answer.description }
      : { description: answer.description, content: { [mediaType.split(';', 1)[0] ?? mediaType]: { schema: answer.schema === undefined ? { type: 'string' } : schemaJson(answer.schema) } } }
  }
  if (operation.access === 'merchant' || operation.access === 'admin') {
    out['401'] ??= refusal('The API key is missing or invalid.')
    if (operation.access === 'merchant') out['403'] ??= refusal('The account, its subscription or a feature does not allow it.')
  }
  if (operation.body !== undefined) out['415'] ??= refusal('The body is not JSON.')
  if (operation.body !== undefined || operation.query !== undefined) out['400'] ??= refusal('Something in the request is not valid; the answer says what.')
  out['429'] ??= refusal('Too many requests; Retry-After says when to come back.')
  out['500'] ??= refusal('An error that nobody foresaw.')
  out['503'] ??= refusal('A part that is needed is away; nothing was done.')
  return out
}

function describe (operation: AnyOperation): Json {
  const out: Json = { operationId: operation.id, summary: operation.summary, tags: [operation.tag], responses: answers(operation) }
  const list = parameters(operation)
  if (list.length > 0) out['parameters'] = list
  if (operation.body !== undefined) out['requestBody'] = { required: operation.bodyOptional !== true, content: { 'application/json': { schema: schemaJson(operation.body) } } }
  const security = SECURITY[operation.access]
  if (security.length > 0) out['security'] = security
  if (operation.access === 'credential') (out['responses'] as Json)['402'] ??= paymentRequired
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
    responses: { 200: { description: 'What was paid for.' }, 402: paymentRequired, 429: refusal('Too many requests.'), 503: refusal('No challenge can be made now; nothing was charged.') }
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
      schemas: { Error: ERROR, Problem: PROBLEM, Challenge: CHALLENGE },
      securitySchemes: {
        merchantKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        adminKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        l402: { type: 'http', scheme: 'L402' },
        payment: { type: 'http', scheme: 'Payment' }
      }
    }
  }
}
