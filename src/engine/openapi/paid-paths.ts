import { type Json, type RefusalName } from './errors.ts'
import { commonHeaders, x402Headers } from './headers.ts'
import { paymentInfo, type PricedRoute, type RouteExample } from './paid.ts'
import { schemaOf } from './schemas.ts'
import type { Access } from '../operations/operation.ts'

const METHODS = new Set(['get', 'put', 'post', 'delete', 'options', 'head', 'patch'])
const ANY_METHOD = ['get', 'post', 'put', 'patch', 'delete']

export const shared = (name: RefusalName): Json => ({ $ref: `#/components/responses/${name}` })

export const SECURITY: Readonly<Record<Access, Json[]>> = {
  public: [],
  merchant: [{ merchantKey: [] }],
  admin: [{ adminKey: [] }],
  credential: [{ l402: [] }, { payment: [] }]
}

export function pathItemOf(paths: Record<string, Json>, path: string): Json {
  return (paths[path] ??= {})
}

export function addPaidRoutes(paths: Record<string, Json>, routes: readonly PricedRoute[], byX402: boolean): void {
  // Each method of a path is described once: by the route for all its requests, if there is one.
  const wideFirst = [...routes].sort((a, b) => Number(a.parameters !== undefined) - Number(b.parameters !== undefined))
  for (const route of wideFirst) {
    if (route.own === true) continue
    for (const example of route.examples) addExample(paths, route, example, byX402)
    const item = pathItemOf(paths, route.path)
    const methods = route.methods.length === 0 ? ANY_METHOD : route.methods.filter(name => METHODS.has(name))
    for (const method of methods) item[method] ??= paid(route, method, byX402)
    for (const [, name] of route.path.matchAll(/\{([^{}]+)\}/g)) {
      const list = (item['parameters'] ??= []) as Json[]
      if (!list.some(entry => entry['name'] === name))
        list.push({ name, in: 'path', required: true, schema: { type: 'string' } })
    }
  }
}

const DETAILS = 'The API behind says what it takes and gives; this gateway asks for the payment.'

/** An example is a path of its own: a wildcard says neither what to ask for nor what comes back. */
function addExample(
  paths: Record<string, Json>,
  route: PricedRoute,
  { method, target, body, response }: RouteExample,
  byX402: boolean
): void {
  const [path = '', query = ''] = target.split('?', 2)
  const verb = method.toLowerCase()
  const item = pathItemOf(paths, path)
  if (!METHODS.has(verb) || item[verb] !== undefined) return
  const operation = paid({ ...route, path }, verb, byX402)
  const parameters = [...new URLSearchParams(query)].map(([name, example]) => ({
    name,
    in: 'query',
    schema: { type: 'string' },
    example
  }))
  const responses = operation['responses'] as Record<string, Json> /* written by `paid` */
  item[verb] = {
    ...operation,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : {
          requestBody: { required: true, content: { 'application/json': { example: body, schema: schemaOf(body) } } }
        }),
    ...(response === undefined
      ? {}
      : {
          responses: {
            ...responses,
            200: {
              ...responses['200'],
              content: { 'application/json': { example: response, schema: schemaOf(response) } }
            }
          }
        })
  }
}

function paid(route: PricedRoute, method: string, byX402: boolean): Json {
  const name = `${method}${route.path.replaceAll(/[^A-Za-z0-9]+([A-Za-z0-9]?)/g, (_all, next: string) => next.toUpperCase())}`
  const body = ['post', 'put', 'patch'].includes(method)
    ? { requestBody: { description: 'What the API behind takes.', content: { '*/*': {} } } }
    : {}
  const { responses: theirs = {}, ...members } = route.api?.members ?? {}
  return {
    operationId: name,
    summary: route.description,
    description: DETAILS,
    tags: ['Paid'],
    security: SECURITY.credential,
    'x-payment-info': paymentInfo(route),
    ...(route.parameters === undefined ? {} : { parameters: route.parameters }),
    ...body,
    ...members,
    // The API may answer with any status, also one listed here.
    responses: {
      200: {
        description: 'What was paid for.',
        headers: {
          ...commonHeaders,
          'Payment-Receipt': { $ref: '#/components/headers/PaymentReceipt' },
          ...(byX402 && route.calls === undefined ? x402Headers.sold : {})
        },
        content: { '*/*': {} }
      },
      ...(theirs as Json) /* `readApi` takes objects only */,
      // Calls are asked for payment in a JSON-RPC error with 200.
      ...(route.calls === undefined ? { 402: shared('PaymentRequired') } : {}),
      default: { $ref: '#/components/responses/Upstream' }
    }
  }
}
