import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { comparablePath } from '../../src/engine/message/path.ts'

type Json = Record<string, unknown>

/** An answer of a gateway together with what was asked. */
export interface Answered {
  readonly method: string
  /** Path and query as they were sent. */
  readonly path: string
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  /** The JSON that was sent. */
  readonly sent?: unknown
}

interface Response {
  readonly headers?: Readonly<Record<string, Json>>
  readonly content?: Readonly<Record<string, { readonly schema?: Json }>>
}

/** What shared caches may keep: it is the same for everybody. All else that the gateway itself answers is `no-store`. */
const PUBLIC =
  /^\/(?:llms\.txt|(?:api\/)?openapi(?:\.json|\/[^/]+)|robots\.txt|favicon\.ico|\.well-known\/[^/]+|assets\/.+|api\/storefront\/[^/]+\/(?:catalog|llms\.txt))$/

interface Described {
  /** Null for a priced route of the operator, which has an API of its own behind it. */
  readonly id: string | null
  readonly responses: Readonly<Record<string, Response>>
}

interface Path {
  readonly matches: RegExp
  readonly parameters: number
  readonly methods: ReadonlyMap<string, Described>
}

// `strict` would refuse OpenAPI's own words inside schemas, such as `example`.
const ajv = new Ajv2020({ strict: false, allErrors: true })
addFormats.default(ajv)
const compiled = new Map<string, ValidateFunction>()

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function mapped(map: unknown, change: (schema: unknown) => unknown): Json {
  return Object.fromEntries(
    Object.entries(map as Json /* a map of schemas, by the keyword it is under */).map(([name, schema]) => [
      name,
      change(schema)
    ])
  )
}

/**
 * The schema with its references put in, and with every object closed: what a schema does not name may not be in an
 * answer.
 */
function closed(schema: unknown, schemas: Json): unknown {
  if (!isObject(schema)) return schema
  const inside = (inner: unknown): unknown => closed(inner, schemas)
  const { $ref } = schema
  if (typeof $ref === 'string') return inside(schemas[$ref.replace('#/components/schemas/', '')])
  const out: Json = { ...schema }
  for (const name of ['properties', 'patternProperties']) if (isObject(out[name])) out[name] = mapped(out[name], inside)
  for (const name of ['items', 'additionalProperties', 'not']) if (isObject(out[name])) out[name] = inside(out[name])
  for (const name of ['anyOf', 'oneOf']) {
    const list = out[name]
    if (Array.isArray(list)) out[name] = list.map(inside)
  }
  if (Array.isArray(out['allOf'])) out['unevaluatedProperties'] = false
  else if (isObject(out['properties']) && out['additionalProperties'] === undefined) out['additionalProperties'] = false
  return out
}

function validator(schema: unknown): ValidateFunction {
  const key = JSON.stringify(schema)
  let validate = compiled.get(key)
  if (validate === undefined)
    compiled.set(key, (validate = ajv.compile(schema as Json /* compile says what is wrong with it */)))
  return validate
}

function pathOf(template: string, item: Json, shared: Json): Path {
  const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
  const parts = template.split(/(\{[^}]+\})/)
  // A last {path} means find-my-way's `*`, which takes slashes along.
  const pattern = parts
    .map(part =>
      part.startsWith('{') ? `(?<${part.slice(1, -1)}>${part === '{path}' ? '.*' : '[^/]+'})` : literal(part)
    )
    .join('')
  const methods = new Map<string, Described>()
  for (const [method, operation] of Object.entries(item)) {
    if (!isObject(operation)) continue
    const responses = mapped(operation['responses'], response => {
      const name = isObject(response) ? response['$ref'] : undefined
      return typeof name === 'string' ? shared[name.replace('#/components/responses/', '')] : response
    })
    const isRoute = Array.isArray(operation['tags']) && operation['tags'].includes('Paid')
    const id = isRoute ? undefined : operation['operationId']
    methods.set(method.toUpperCase(), {
      id: typeof id === 'string' ? id : null,
      responses: responses as Described['responses'] /* by OpenAPI's own schema */
    })
  }
  return { matches: new RegExp(`^${pattern}$`), parameters: parts.filter(part => part.startsWith('{')).length, methods }
}

function first(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}

/**
 * Holds answers of a gateway against its own OpenAPI document: the status is declared, the media type is one of that
 * answer's, the body fits its schema and has no member that the schema does not name, and the headers that every answer
 * carries are there. What an operator's API answers behind a priced route is not described, and only looked at when it
 * is a 402 of ours.
 */
export class OpenApiCheck {
  readonly #paths: readonly Path[]
  readonly #schemas: Json
  readonly #headers: Readonly<Record<string, Json>>
  readonly #validators = new WeakMap<Json, ValidateFunction>()

  constructor(document: Json) {
    const components = document['components'] as {
      schemas: Json
      responses: Json
      headers: Record<string, Json>
    } /* the document is made by us */
    this.#schemas = components.schemas
    this.#headers = components.headers
    this.#paths = Object.entries(document['paths'] as Json)
      .map(([template, item]) => pathOf(template, item as Json, components.responses))
      .sort((a, b) => a.parameters - b.parameters)
  }

  /**
   * The operation that a request asks for; null where the document has none, or where the path is not the document's.
   */
  find(method: string, path: string): Described | null {
    const plain = comparablePath(path.split('?', 1)[0] ?? path)
    const found = this.#paths.find(({ matches }) => matches.test(plain))
    return found?.methods.get(method === 'HEAD' ? 'GET' : method) ?? null
  }

  /** A successful exchange in the form of examples.json; null for errors and for what the document does not describe. */
  example({ method, path, status, text, sent }: Answered): object | null {
    const id = this.find(method, path)?.id ?? null
    if (id === null || status >= 300) return null
    const plain = comparablePath(path.split('?', 1)[0] ?? path)
    const params = this.#paths.map(({ matches }) => matches.exec(plain)?.groups).find(groups => groups !== undefined)
    return {
      id,
      ...(params === undefined ? {} : { params }),
      ...(sent === undefined ? {} : { body: sent }),
      ...(/^[[{]/.test(text) ? { responses: { [status]: JSON.parse(text) as unknown } } : {})
    }
  }

  /**
   * Throws an Error that names operation, status, and what is wrong. `own` is false where an upstream may have
   * answered.
   */
  check(answered: Answered, own = true): void {
    const operation = this.find(answered.method, answered.path)
    const fail = (what: string): never => {
      throw new Error(
        `${operation?.id ?? 'no operation'}, ${answered.method} ${answered.path}, answered ${answered.status}, but ${what}: ${answered.text.slice(0, 1000)}`
      )
    }
    const { headers, status } = answered
    if (!/^\d+\.\d+\.\d+$/.test(first(headers['x-api-version']) ?? '') && own)
      fail(`X-API-Version is ${String(headers['x-api-version'])}`)
    if (headers['x-api-version'] === undefined) fail('there is no X-API-Version')
    if (headers['x-correlation-id'] === undefined) fail('there is no X-Correlation-Id')
    if (!own || operation === null) return
    if (operation.id === null) {
      if (status === 402 && /^(?:L402|LSAT|Payment) /.test(first(headers['www-authenticate']) ?? ''))
        this.#body(answered, operation, fail)
      return
    }
    const caching = first(headers['cache-control']) ?? ''
    const isShared = status === 200 && PUBLIC.test(comparablePath(answered.path.split('?', 1)[0] ?? ''))
    // A response of an upstream, which a route for one host may lead to, carries Via.
    if (headers['via'] === undefined && !(isShared ? /^public, max-age=\d+/ : /no-store|^private$/).test(caching))
      fail(`Cache-Control is "${caching}"`)
    if (Object.keys(headers).some(name => /^(?:x-)?ratelimit/.test(name))) fail('it has rate-limit headers')
    if ((status === 429 || status === 503) && !/^[1-9]\d*$/.test(first(headers['retry-after']) ?? ''))
      fail('there is no Retry-After')
    this.#told(answered, operation, fail)
    this.#body(answered, operation, fail)
  }

  /** The headers that the document promises are there, and those of the contract appear only where it names them. */
  #told({ status, headers }: Answered, { responses }: Described, fail: (what: string) => never): void {
    const named = responses[status]?.headers ?? {}
    for (const [name, header] of Object.entries(named)) {
      const declared = this.#headers[String(header['$ref']).replace('#/components/headers/', '')] ?? header
      const value = first(headers[name.toLowerCase()])
      if (value === undefined) {
        if (declared['required'] === true) fail(`there is no ${name}`)
        continue
      }
      const { type } = declared['schema'] as { type: string } // every header of ours has a schema
      const validate = validator(declared['schema'])
      if (!validate(type === 'integer' ? Number(value) : value))
        fail(`${name} is ${value}: ${ajv.errorsText(validate.errors)}`)
    }
    const known = new Set(Object.keys(named).map(name => name.toLowerCase()))
    for (const name of ['x-total-count', 'x-idempotency-replayed', 'payment-receipt'])
      if (headers[name] !== undefined && !known.has(name)) fail(`${name} is not declared`)
  }

  #body({ method, status, headers, text }: Answered, { responses }: Described, fail: (what: string) => never): void {
    const response = responses[status] ?? fail(`only ${Object.keys(responses).join(', ')} are declared`)
    const essence = first(headers['content-type'])?.split(';', 1)[0]?.toLowerCase()
    const { content } = response
    if (content === undefined) {
      if (text !== '') fail('no body is declared')
      return
    }
    if (essence === undefined) return fail('it has no Content-Type')
    const declared = content[essence] ?? fail(`${essence} is not declared, only ${Object.keys(content).join(', ')}`)
    if (method === 'HEAD') return
    if (declared.schema === undefined || !essence.endsWith('json')) return
    let validate = this.#validators.get(declared.schema)
    if (validate === undefined)
      this.#validators.set(declared.schema, (validate = validator(closed(declared.schema, this.#schemas))))
    if (!validate(JSON.parse(text))) fail(`the body does not fit: ${ajv.errorsText(validate.errors, { dataVar: '' })}`)
  }
}
