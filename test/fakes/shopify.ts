import { createHmac, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { execute, GraphQLError, parse, validate, type DocumentNode } from 'graphql'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { fulfilmentNotice, orderNotice, topicName, type FakeNotice } from './shopify-notices.ts'
import { rootOf, type FakeSubscription } from './shopify-resolvers.ts'
import { adminSchema, MOST_POINTS, pointsOf, type AdminVersion } from './shopify-schema.ts'
import { FakeShop, type FakeFulfilment, type FakeOrder } from './shopify-shop.ts'

/**
 * What goes wrong with a call. Those that end with `after` have acted when the answer is lost or spoiled, the others
 * have not; `hang` never answers, `cut` breaks off in the middle of the answer.
 */
export type ShopifyFault =
  | 'hang'
  | 'hang after'
  | 'lost before'
  | 'lost after'
  | 'html'
  | 'html as 200'
  | 'html as 200 after'
  | 'server error'
  | 'server error after'
  | 'cut after'
  | 'empty'
  | 'null'
  | 'no data'
  | 'redirect'
  | 'huge'
  | 'throttled'
  | 'internal error'
  | 'internal error after'
  | 'access denied'
  | 'shop inactive'
  | 401
  | 402
  | 403
  | 404
  | 422
  | 429

/** How the fake is made. */
export interface FakeShopifyOptions {
  readonly clock?: Clock
  /** 0 takes a free one. */
  readonly port?: number
  readonly clientId?: string
  readonly clientSecret?: string
}

/** One call as it came; tokens are left out. */
export interface ShopifySeen {
  readonly path: string
  readonly operation: string
  readonly variables: Readonly<Record<string, unknown>>
  readonly headers: IncomingMessage['headers']
}

interface Reply {
  readonly status: number
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}
interface Delivery {
  readonly uri: string
  readonly notice: FakeNotice
  readonly id: string
}
interface GraphRequest {
  readonly query: string
  readonly variables: Readonly<Record<string, unknown>>
}

const HTML = '<!DOCTYPE html><html><head><title>Something went wrong</title></head><body>Try again</body></html>'
const GRAPH_PATH = /^\/admin\/api\/([^/]+)\/graphql\.json$/
const TOKEN_PATH = '/admin/oauth/access_token'
/** Seconds that a token lasts. */
const TOKEN_SECONDS = 86_399
const VERSIONS: readonly string[] = ['2026-04', '2026-10']

/** A server on loopback that speaks Shopify's Admin API for one shop: what the published schema refuses, it refuses. */
export class FakeShopify {
  /** Without a slash at the end. */
  url = ''
  readonly shop: FakeShop
  readonly clientId: string
  clientSecret: string
  /** A token that lasts, of an app of the old kind. */
  readonly legacyToken = 'shpat_fake_legacy_token'
  readonly seen: ShopifySeen[] = []
  readonly subscriptions: FakeSubscription[] = []
  takesPlainWebhooks = true
  /** What the merchant has allowed the app. */
  readonly scopes = new Set([
    'write_orders',
    'write_draft_orders',
    'read_products',
    'read_inventory',
    'read_fulfillments'
  ])
  /** Operations, by name, that get no answer but a server error until they are taken out. */
  readonly away = new Set<string>()
  /** The bucket of points; where it is `shared`, others of the shop take whatever is restored. */
  readonly bucket = { maximum: 2000, available: 2000, restoreRate: 100, shared: false }
  /** Called when a call is left unanswered: a test moves its clock here. */
  onHang: () => void = () => {}
  /** Awaited before an order is made. */
  beforeOrder: () => Promise<void> | void = () => {}
  /** Changes what is answered, by operation. */
  rewrite: ((operation: string, body: unknown) => unknown) | null = null
  readonly #clock: Clock
  readonly #server: Server
  readonly #tokens = new Map<string, number>()
  readonly #documents = new Map<string, { readonly document: DocumentNode; readonly errors: readonly GraphQLError[] }>()
  #filledAt: number
  #faults: Array<{ readonly fault: ShopifyFault; readonly on: RegExp }> = []
  #deliveries: Delivery[] = []

  constructor(options: FakeShopifyOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.shop = new FakeShop(this.#clock)
    this.clientId = options.clientId ?? 'shopify-test-client'
    this.clientSecret = options.clientSecret ?? 'shpss_test_client_secret'
    this.#filledAt = this.#clock.monotonic()
    this.#server = createServer((request, response) => {
      void this.#serve(request, response)
    })
  }

  async listen(port: number): Promise<this> {
    this.#server.listen(port, '127.0.0.1')
    await once(this.#server, 'listening')
    // A server that listens on TCP has an address object.
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    return this
  }

  /**
   * The next call of an operation whose name fits (`Token` for the fetching of one) goes wrong; several are used up in
   * order.
   */
  fail(fault: ShopifyFault, on = /./): void {
    this.#faults.push({ fault, on })
  }

  /** Every fault that waits is forgotten. */
  heal(): void {
    this.#faults = []
    this.away.clear()
  }

  /** Tokens that were given are no longer taken. */
  expireTokens(): void {
    this.#tokens.clear()
  }

  /** How often an operation was asked for. */
  count(operation: string): number {
    return this.seen.filter(call => call.operation === operation).length
  }

  /** Packs an order: all of it, or a part; with a tracking number it is on its way. Queues the webhooks. */
  fulfill(
    order: FakeOrder,
    how: { readonly isPart?: boolean; readonly company?: string; readonly number?: string; readonly url?: string } = {}
  ): FakeFulfilment {
    const { isPart = false, company = null, number = null, url = null } = how
    const given: FakeFulfilment = {
      id: this.shop.id(),
      status: 'SUCCESS',
      displayStatus: 'FULFILLED',
      createdAt: this.shop.now(),
      inTransitAt: null,
      company,
      number,
      url
    }
    order.fulfilments.push(given)
    order.fulfillmentStatus = isPart ? 'PARTIALLY_FULFILLED' : 'FULFILLED'
    this.#announce(fulfilmentNotice('fulfillments/create', order, given))
    this.#announce(orderNotice(isPart ? 'orders/partially_fulfilled' : 'orders/fulfilled', order))
    return given
  }

  /** Says where a parcel is. Queues the webhook. */
  move(order: FakeOrder, given: FakeFulfilment, displayStatus: string): void {
    given.displayStatus = displayStatus
    if (displayStatus === 'IN_TRANSIT') given.inTransitAt = this.shop.now()
    this.#announce(fulfilmentNotice('fulfillments/update', order, given))
  }

  /** Calls an order off. Queues the webhook. */
  cancel(order: FakeOrder): void {
    order.cancelledAt = this.shop.now()
    this.#announce(orderNotice('orders/cancelled', order))
  }

  /** Webhooks that were not taken with 2xx yet. */
  get waiting(): number {
    return this.#deliveries.length
  }

  /** Sends every webhook that waits, once; answers the statuses. */
  async deliver(): Promise<readonly (number | null)[]> {
    const statuses: Array<number | null> = []
    for (const delivery of this.#deliveries) {
      const status = await this.#post(delivery)
      statuses.push(status)
      if (status !== null && status >= 200 && status < 300)
        this.#deliveries = this.#deliveries.filter(other => other !== delivery)
    }
    return statuses
  }

  /** The headers that a webhook comes with, signed with the client secret. */
  signed(topic: string, body: string, secret = this.clientSecret): Record<string, string> {
    return {
      'content-type': 'application/json',
      'x-shopify-topic': topic,
      'x-shopify-hmac-sha256': createHmac('sha256', secret).update(body).digest('base64'),
      'x-shopify-shop-domain': this.shop.domain,
      'x-shopify-api-version': '2026-10',
      'x-shopify-webhook-id': randomUUID()
    }
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise<void>(resolve => {
      this.#server.close(() => {
        resolve()
      })
    })
  }

  #announce(notice: FakeNotice): void {
    for (const { topic, uri } of this.subscriptions)
      if (topic === topicName(notice.topic)) this.#deliveries.push({ uri, notice, id: randomUUID() })
  }

  async #post({ uri, notice: { topic, body } }: Delivery): Promise<number | null> {
    try {
      const answer = await fetch(uri, {
        method: 'POST',
        headers: this.signed(topic, body),
        body,
        redirect: 'manual',
        signal: AbortSignal.timeout(5000)
      })
      await answer.arrayBuffer()
      return answer.status
    } catch {
      // No response: one failed attempt, as the caller sees.
      return null
    }
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.on('error', () => {})
    response.on('error', () => {})
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const raw = Buffer.concat(pieces).toString('utf8')
    const path = new URL(request.url ?? '/', 'http://fake').pathname
    const asked = path === TOKEN_PATH ? null : readRequest(raw)
    const operation = asked === null ? 'Token' : (/^\s*(?:query|mutation)\s+(\w+)/.exec(asked.query)?.[1] ?? '')
    const { 'x-shopify-access-token': _, ...headers } = request.headers
    this.seen.push({ path, operation, variables: asked?.variables ?? {}, headers })
    const at = this.#faults.findIndex(({ on }) => on.test(operation))
    const fault =
      at >= 0 ? (this.#faults.splice(at, 1)[0]?.fault ?? null) : this.away.has(operation) ? 'server error' : null
    if (fault !== null && !String(fault).endsWith('after')) return this.#spoil(fault, '', request, response)
    if (operation === 'CreateOrder') await this.beforeOrder()
    const {
      status,
      body,
      headers: more = {}
    } = asked === null ? this.#token(raw) : await this.#graph(path, asked, request)
    const text = JSON.stringify(this.rewrite?.(operation, body) ?? body)
    if (fault !== null) return this.#spoil(fault, text, request, response)
    response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...more }).end(text)
  }

  #spoil(fault: ShopifyFault, text: string, request: IncomingMessage, response: ServerResponse): void {
    const json = (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): void => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
    }
    const graph = (code: string, message: string): void => {
      json(200, { errors: [{ message, extensions: { code } }], extensions: { cost: this.#cost(20, 0) } })
    }
    switch (fault) {
      case 'hang':
      case 'hang after':
        return this.onHang()
      case 'lost before':
      case 'lost after':
        return void request.socket.destroy()
      case 'html':
        return void response.writeHead(502, { 'content-type': 'text/html' }).end(HTML)
      case 'html as 200':
      case 'html as 200 after':
        return void response.writeHead(200, { 'content-type': 'text/html' }).end(HTML)
      case 'server error':
      case 'server error after':
        return json(500, { errors: 'Internal Server Error' })
      case 'cut after':
        response
          .writeHead(200, { 'content-type': 'application/json', 'content-length': text.length + 100 })
          .write(text.slice(0, -5), () => {
            request.socket.destroy()
          })
        return
      case 'empty':
        return void response.writeHead(200).end()
      case 'null':
        return json(200, null)
      case 'no data':
        return json(200, {})
      case 'redirect':
        return void response.writeHead(301, { location: `${this.url}/elsewhere` }).end()
      case 'huge':
        return void response.writeHead(200).end(`{"data":"${'x'.repeat(5 * 1024 * 1024)}"}`)
      case 'throttled':
        return graph('THROTTLED', 'Throttled')
      case 'internal error':
      case 'internal error after':
        return graph('INTERNAL_SERVER_ERROR', 'Internal error. Looks like something went wrong on our end.')
      case 'access denied':
        return graph(
          'ACCESS_DENIED',
          'Access denied for orderCreate field. Required access: `write_orders` access scope.'
        )
      case 'shop inactive':
        return graph('SHOP_INACTIVE', 'The shop is not active.')
      default:
        return json(fault, { errors: `status ${fault}` }, fault === 429 ? { 'retry-after': '2.0' } : {})
    }
  }

  #token(raw: string): Reply {
    const form = new URLSearchParams(raw)
    const isGood =
      form.get('grant_type') === 'client_credentials' &&
      form.get('client_id') === this.clientId &&
      form.get('client_secret') === this.clientSecret
    if (!isGood)
      return {
        status: 400,
        body: { error: 'invalid_client', error_description: 'The client id or secret is not good.' }
      }
    const token = `shpat_${randomUUID().replaceAll('-', '')}`
    this.#tokens.set(token, this.#clock.now() + TOKEN_SECONDS * 1000)
    return { status: 200, body: { access_token: token, scope: [...this.scopes].join(','), expires_in: TOKEN_SECONDS } }
  }

  async #graph(path: string, { query, variables }: GraphRequest, request: IncomingMessage): Promise<Reply> {
    const version = GRAPH_PATH.exec(path)?.[1] ?? ''
    if (request.method !== 'POST' || !VERSIONS.includes(version)) return { status: 404, body: { errors: 'Not Found' } }
    const token = String(request.headers['x-shopify-access-token'] ?? '')
    const isGood = token === this.legacyToken || (this.#tokens.get(token) ?? 0) > this.#clock.now()
    if (!isGood)
      return {
        status: 401,
        body: { errors: '[API] Invalid API key or access token (unrecognized login or wrong password)' }
      }
    const schema = adminSchema(version as AdminVersion /* one of VERSIONS */)
    const { document, errors } = this.#document(version, query)
    if (errors.length > 0)
      return {
        status: 200,
        body: {
          errors: errors.map(error => ({
            message: error.message,
            locations: error.locations,
            extensions: { code: 'undefinedField' }
          }))
        }
      }
    const points = pointsOf(schema, document, variables)
    if (points > MOST_POINTS)
      return {
        status: 200,
        body: {
          errors: [
            {
              message: `Query cost is ${points}, which exceeds the single query max cost limit (${MOST_POINTS}).`,
              extensions: { code: 'MAX_COST_EXCEEDED', cost: points, maxCost: MOST_POINTS }
            }
          ]
        }
      }
    this.#fill()
    if (this.bucket.available < points)
      return {
        status: 200,
        body: {
          errors: [{ message: 'Throttled', extensions: { code: 'THROTTLED' } }],
          extensions: { cost: this.#cost(points, null) }
        }
      }
    this.bucket.available -= points
    const result = await execute({ schema, document, rootValue: rootOf(this), variableValues: variables })
    if (result.data === undefined)
      return {
        status: 200,
        body: {
          errors: result.errors?.map(error => ({
            message: error.message,
            extensions: { value: null, problems: [{ path: [], explanation: error.message }] }
          }))
        }
      }
    return {
      status: 200,
      body: {
        data: result.data,
        ...(result.errors === undefined ? {} : { errors: result.errors }),
        extensions: { cost: this.#cost(points, points) }
      }
    }
  }

  #document(
    version: string,
    query: string
  ): { readonly document: DocumentNode; readonly errors: readonly GraphQLError[] } {
    const key = `${version} ${query}`
    const known = this.#documents.get(key)
    if (known !== undefined) return known
    const document = parse(query)
    const read = {
      document,
      errors: validate(adminSchema(version as AdminVersion /* checked by the caller */), document)
    }
    this.#documents.set(key, read)
    return read
  }

  #fill(): void {
    const now = this.#clock.monotonic()
    const restored = this.bucket.shared ? 0 : ((now - this.#filledAt) / 1000) * this.bucket.restoreRate
    this.bucket.available = Math.min(this.bucket.maximum, this.bucket.available + restored)
    this.#filledAt = now
  }

  #cost(requested: number, actual: number | null): object {
    return {
      requestedQueryCost: requested,
      actualQueryCost: actual,
      throttleStatus: {
        maximumAvailable: this.bucket.maximum,
        currentlyAvailable: Math.floor(this.bucket.available),
        restoreRate: this.bucket.restoreRate
      }
    }
  }
}

/** Starts one on a free port. */
export async function startFakeShopify(options: FakeShopifyOptions = {}): Promise<FakeShopify> {
  return await new FakeShopify(options).listen(options.port ?? 0)
}

function readRequest(raw: string): GraphRequest {
  const { query = '', variables = {} } = JSON.parse(raw) as {
    query?: string
    variables?: Readonly<Record<string, unknown>>
  } /* the client under test wrote it */
  return { query, variables }
}
