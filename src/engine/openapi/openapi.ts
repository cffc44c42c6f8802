import type { TSchema } from 'typebox'
import { errorSchemas, impliedStatuses, refusalOf, refusals, type Json, type RefusalName } from './errors.ts'
import { headerComponents, commonHeaders, refusalHeaders, successHeaders, x402Headers } from './headers.ts'
import { addPaidRoutes, pathItemOf, SECURITY, shared } from './paid-paths.ts'
import { openApiPath, paymentInfo, type PricedRoute } from './paid.ts'
import type { DocumentedPrice, AnyOperation, OperationResponse } from '../operations/operation.ts'
import { membersOf, NamedSchemas, referenced } from './schemas.ts'
import { API_VERSION } from '../operations/errors.ts'

interface OperationExample {
  readonly params?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly responses?: Readonly<Record<number, unknown>>
}

interface DocumentFacts {
  readonly title: string
  readonly description: string
  readonly publicUrl: string
  /** Routes with a price; those of operators' and merchants' APIs get their own paths. */
  readonly pricedRoutes: readonly PricedRoute[]
  readonly sellsByX402?: boolean
  readonly priceOf?: (operation: AnyOperation) => DocumentedPrice | null
  readonly examples?: Readonly<Record<string, OperationExample>>
  /** Requests that the gateway sends, by event name (OpenAPI `webhooks`). */
  readonly webhooks?: Readonly<Record<string, WebhookFacts>>
  /** Categories for registries, and links to documentation. */
  readonly service?: {
    readonly categories: readonly string[]
    readonly docs: Readonly<Record<string, string>>
    readonly contact?: string
    readonly icon?: string
  }
}

export interface WebhookFacts {
  readonly summary: string
  readonly description: string
  readonly schema: TSchema
}

const PROXY_ERROR: Json = {
  type: 'object',
  required: ['error', 'message'],
  properties: {
    error: { type: 'string' },
    message: { type: 'string' },
    proxy_id: { type: 'string' },
    details: { type: 'string' }
  }
}

const reference = (schema: string): Json => ({ $ref: `#/components/schemas/${schema}` })

/** OpenAPI `content` by media type; several schemas for one type are alternatives. */
function contentOf(forms: ReadonlyArray<readonly [mediaType: string, schema: Json]>, example?: unknown): Json {
  const content: Json = {}
  for (const [mediaType, schemas] of Map.groupBy(forms, form => form[0].split(';', 1)[0] ?? form[0])) {
    const [first, ...others] = schemas.map(form => form[1])
    const schema = others.length === 0 ? first : { anyOf: [first, ...others] }
    content[mediaType] = { schema, ...(example === undefined ? {} : { example }) }
  }
  return content
}

function refusal(name: RefusalName, description?: string, more: ReadonlyArray<readonly [string, Json]> = []): Json {
  const { forms, headers, ...known } = refusals[name]
  return {
    description: description ?? known.description,
    headers: { ...commonHeaders, ...headers },
    // Browsers that follow a link get a page; see `errorResponse`.
    content: contentOf([
      ...more,
      ...forms.map(form => [form.mediaType, reference(form.schema)] as const),
      readyForm('text/html')
    ])
  }
}

class Writer {
  readonly names = new NamedSchemas({ ...errorSchemas, ProxyError: PROXY_ERROR })
  readonly #examples: NonNullable<DocumentFacts['examples']>

  constructor(examples: NonNullable<DocumentFacts['examples']> = {}) {
    this.#examples = examples
  }

  parameters(operation: AnyOperation): Json[] {
    const list: Json[] = []
    const params = operation.params === undefined ? {} : membersOf(this.names.write(operation.params)).properties
    for (const [, name] of operation.path.matchAll(/:([A-Za-z_][A-Za-z0-9_]*)/g)) {
      if (name === undefined) continue
      const { description, ...schema } = params[name] ?? { type: 'string' }
      const example = this.#examples[operation.id]?.params?.[name]
      list.push({
        name,
        in: 'path',
        required: true,
        ...described(description),
        schema,
        ...(example === undefined ? {} : { example })
      })
    }
    if (operation.query !== undefined) {
      const { properties, required } = membersOf(this.names.write(operation.query))
      for (const [name, { description, ...schema }] of Object.entries(properties)) {
        list.push({
          name,
          in: 'query',
          required: required.includes(name),
          allowEmptyValue: true,
          ...described(description),
          schema
        })
      }
    }
    for (const [name, facts] of Object.entries(operation.headers ?? {})) {
      const {
        description,
        required = false,
        pattern,
        example
      } = typeof facts === 'string' ? { description: facts } : facts
      const schema = { type: 'string', ...(pattern === undefined ? {} : { pattern }) }
      list.push({ name, in: 'header', required, description, schema, ...(example === undefined ? {} : { example }) })
    }
    return list
  }

  #form({ schema, mediaType = 'application/json' }: OperationResponse): SchemaForm {
    if (schema !== undefined) return [mediaType, this.names.write(schema)]
    return readyForm(mediaType)
  }

  responses(operation: AnyOperation): Json {
    const out: Json = {}
    const implied = new Set(impliedStatuses(operation))
    for (const [key, declared] of Object.entries(operation.responses)) {
      const status = Number(key)
      const response = typeof declared === 'string' ? { description: declared } : declared
      const bodiless = response.schema === undefined && response.mediaType === undefined
      const name = status < 400 ? null : refusalOf(operation, status)
      const own = bodiless ? null : this.#form(response)
      const headers = status < 400 ? successHeaders(operation, response) : refusalHeaders(operation, status)
      if (own === null)
        out[status] =
          name === null ? { description: response.description, headers } : refusal(name, response.description)
      else if (name !== null && implied.has(status)) out[status] = refusal(name, response.description, [own])
      else
        out[status] = {
          description: response.description,
          headers,
          content: {
            ...contentOf([own], this.#examples[operation.id]?.responses?.[status]),
            ...(response.also === undefined ? {} : contentOf([readyForm(response.also)]))
          }
        }
    }
    for (const status of implied) {
      const name = refusalOf(operation, status)
      if (name !== null) out[status] ??= shared(name)
    }
    return out
  }

  describe(operation: AnyOperation, price: DocumentedPrice | null): Json {
    const { id, summary, description, tag, body, bodyOptional, access, form } = operation
    const example = this.#examples[id]
    const out: Json = {
      operationId: id,
      summary,
      ...described(description),
      tags: [tag],
      responses: this.responses(operation)
    }
    const list = this.parameters(operation)
    if (list.length > 0) out['parameters'] = list
    if (body !== undefined) {
      out['requestBody'] = {
        required: bodyOptional !== true,
        content: contentOf([['application/json', this.names.writeBody(body)]], example?.body)
      }
    } else if (form !== undefined) {
      out['requestBody'] = {
        required: true,
        content: contentOf([[form.mediaType, this.names.write(form.schema)]], example?.body)
      }
    }
    const security = SECURITY[access]
    if (security.length > 0) out['security'] = security
    if (price !== null) out['x-payment-info'] = paymentInfo(price)
    return out
  }

  webhook(event: string, { summary, description, schema }: WebhookFacts): Json {
    const operationId = `on${event.replaceAll(/(?:^|[^A-Za-z0-9])([a-z0-9])/g, (_all, first: string) => first.toUpperCase())}`
    const signature = {
      name: 'X-Service-Signature',
      in: 'header',
      required: true,
      description: 't=<unix seconds>,v1=<hex HMAC-SHA256 of "<t>.<raw body>" with the webhook secret>',
      schema: { type: 'string', pattern: '^t=[0-9]+,v1=[0-9a-f]{64}$' }
    }
    return {
      post: {
        operationId,
        summary,
        description,
        tags: ['Webhooks'],
        parameters: [signature],
        requestBody: {
          required: true,
          content: contentOf([['application/json', this.names.write(schema)]], this.#examples[operationId]?.body)
        },
        responses: {
          '2XX': {
            description:
              'Taken. Anything else, or nothing in 10 seconds, is tried again after 30, 60, 120, 240 and 480 seconds.'
          }
        }
      }
    }
  }
}

function readyForm(mediaType: string): SchemaForm {
  return [mediaType, mediaType.startsWith('application/json') ? { type: 'object' } : { type: 'string' }]
}

type SchemaForm = readonly [mediaType: string, schema: Json]

function described(description: unknown): Json {
  return description === undefined ? {} : { description }
}

const UPSTREAM: Json = {
  description: 'What the API behind answers, or an error of this gateway.',
  headers: commonHeaders,
  content: contentOf([
    // The second accepts JSON of the API itself; the first documents the gateway's.
    ['application/json', { anyOf: [reference('ProxyError'), {}] }],
    ['*/*', {}]
  ])
}

export function openApiDocument(operations: readonly AnyOperation[], facts: DocumentFacts): Json {
  const paths: Record<string, Json> = {}
  const writer = new Writer(facts.examples)
  const priceOf = (operation: AnyOperation): DocumentedPrice | null =>
    operation.sells ?? (operation.access === 'credential' ? (facts.priceOf?.(operation) ?? null) : null)
  for (const operation of operations) {
    pathItemOf(paths, openApiPath(operation.path))[operation.method.toLowerCase()] = writer.describe(
      operation,
      priceOf(operation)
    )
  }
  addPaidRoutes(paths, facts.pricedRoutes, facts.sellsByX402 === true)
  const webhooks = Object.fromEntries(
    Object.entries(facts.webhooks ?? {}).map(([event, webhook]) => [event, writer.webhook(event, webhook)])
  )
  const { title, description, publicUrl, service: { contact, ...service } = { categories: [], docs: {} } } = facts
  const body: Json = { paths, ...(facts.webhooks === undefined ? {} : { webhooks }) }
  const components: Record<string, Record<string, Json>> = {
    schemas: writer.names.components as Record<string, Json> /* each is a schema */,
    headers: { ...headerComponents },
    responses: {
      ...Object.fromEntries(
        (Object.keys(refusals) as RefusalName[]) /* its own keys */
          .map(name => [name, refusal(name)])
      ),
      Upstream: UPSTREAM
    }
  }
  if (facts.sellsByX402 === true) {
    const { PaymentRequired } = components['responses'] ?? {}
    if (PaymentRequired !== undefined)
      PaymentRequired['headers'] = { ...(PaymentRequired['headers'] as Json), ...x402Headers.required } // set above
  }
  for (const { api } of facts.pricedRoutes)
    for (const [kind, named] of Object.entries(api?.components ?? {}))
      components[kind] = { ...named, ...components[kind] }
  return {
    openapi: '3.1.0',
    info: {
      title,
      version: API_VERSION,
      description,
      ...(contact === undefined ? {} : { contact: { email: contact } })
    },
    servers: [{ url: publicUrl }],
    'x-service-info': {
      name: title,
      description,
      payment: { schemes: ['L402', 'Payment'], currency: 'sat' },
      ...service
    },
    // Default: open to anyone.
    security: [],
    tags: [...new Set(operations.map(operation => operation.tag))].map(name => ({ name })),
    ...body,
    components: {
      schemas: {},
      headers: {},
      responses: {},
      ...referenced(body, components),
      securitySchemes: {
        merchantKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: "A merchant's key." },
        adminKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: "The operator's key." },
        l402: { type: 'http', scheme: 'L402', description: 'L402 <macaroon>:<preimage>, from a 402.' },
        payment: {
          type: 'http',
          scheme: 'Payment',
          description: 'Payment <base64url of {challenge, payload}>, from a 402.'
        }
      }
    }
  }
}
