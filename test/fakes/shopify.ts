import { createHmac, randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { execute, GraphQLError, parse, validate, type DocumentNode } from 'graphql'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { startNodeServer, type NodeFault, type NodeReply, type NodeRequest, type NodeServer } from './node-server.ts'
import { fulfilmentNotice, orderNotice, topicName, type FakeNotice } from './shopify-notices.ts'
import { rootOf, type FakeSubscription } from './shopify-resolvers.ts'
import { adminSchema, MOST_POINTS, pointsOf, type AdminVersion } from './shopify-schema.ts'
import { FakeShop, type FakeFulfilment, type FakeOrder } from './shopify-shop.ts'

const STATUSES = [401, 402, 403, 404, 422, 429] as const
type Status = (typeof STATUSES)[number]
type OwnFault =
  | 'server error'
  | 'server error after'
  | 'empty'
  | 'redirect'
  | 'null'
  | 'no data'
  | 'huge'
  | 'throttled'
  | 'internal error'
  | 'internal error after'
  | 'access denied'
  | 'shop inactive'

/** What goes wrong with a call; those that end with `after` have acted before it does. */
export type ShopifyFault = NodeFault | OwnFault | Status

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
  readonly headers: IncomingHttpHeaders
}

interface Reply {
  readonly status: number
  readonly body: object
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
  #server: NodeServer<NodeFault | OwnFault | `${Status}`> | null = null
  readonly #tokens = new Map<string, number>()
  readonly #documents = new Map<string, { readonly document: DocumentNode; readonly errors: readonly GraphQLError[] }>()
  #filledAt: number
  #deliveries: Delivery[] = []

  constructor(options: FakeShopifyOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.shop = new FakeShop(this.#clock)
    this.clientId = options.clientId ?? 'shopify-test-client'
    this.clientSecret = options.clientSecret ?? 'shpss_test_client_secret'
    this.#filledAt = this.#clock.monotonic()
  }

  async listen(port: number): Promise<this> {
    const failed = { status: 500, body: { errors: 'Internal Server Error' } }
    const refused = (code: string, message: string) => (response: ServerResponse) => {
      const body = { errors: [{ message, extensions: { code } }], extensions: { cost: this.#cost(20, 0) } }
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    const internal = refused('INTERNAL_SERVER_ERROR', 'Internal error. Looks like something went wrong on our end.')
    this.#server = await startNodeServer(request => this.#answer(request), {
      port,
      nameOf: request => operationOf(request),
      faults: {
        'server error': failed,
        'server error after': failed,
        empty: { status: 200, body: '' },
        redirect: { status: 301, body: '', headers: { location: '/elsewhere' } },
        null: { status: 200, body: 'null', headers: { 'content-type': 'application/json' } },
        'no data': { status: 200, body: {} },
        huge: { status: 200, body: `{"data":"${'x'.repeat(5 * 1024 * 1024)}"}` },
        throttled: refused('THROTTLED', 'Throttled'),
        'internal error': internal,
        'internal error after': internal,
        'access denied': refused(
          'ACCESS_DENIED',
          'Access denied for orderCreate field. Required access: `write_orders` access scope.'
        ),
        'shop inactive': refused('SHOP_INACTIVE', 'The shop is not active.'),
        ...statusFaults()
      }
    })
    this.#server.onHang = () => {
      this.onHang()
    }
    this.url = this.#server.url
    return this
  }

  get seen(): readonly ShopifySeen[] {
    return (this.#server?.requests ?? []).map(request => {
      const { 'x-shopify-access-token': _, ...headers } = request.headers
      const { variables } = requestOf(request)
      return { path: request.url.pathname, operation: operationOf(request), variables, headers }
    })
  }

  /**
   * The next call of an operation whose name fits (`Token` for the fetching of one) goes wrong; several are used up in
   * order.
   */
  fail(fault: ShopifyFault, on = /./): void {
    this.#server?.fail(typeof fault === 'number' ? `${fault}` : fault, on)
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
    await this.#server?.close()
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

  async #answer(request: NodeRequest): Promise<NodeReply> {
    const operation = operationOf(request)
    if (this.away.has(operation)) return { status: 500, body: { errors: 'Internal Server Error' } }
    if (operation === 'CreateOrder') await this.beforeOrder()
    const reply = operation === 'Token' ? this.#token(request.text) : await this.#graph(request)
    // `rewrite` may make anything of it.
    const body = (this.rewrite?.(operation, reply.body) ?? reply.body) as object
    return { ...reply, body }
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

  async #graph(request: NodeRequest): Promise<Reply> {
    const { query, variables } = requestOf(request)
    const version = GRAPH_PATH.exec(request.url.pathname)?.[1] ?? ''
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

function statusFaults() {
  return Object.fromEntries(
    STATUSES.map(status => [
      status,
      { status, body: { errors: `status ${status}` }, headers: status === 429 ? { 'retry-after': '2.0' } : {} }
    ])
    // Their keys are the statuses.
  ) as unknown as Record<`${Status}`, Extract<NodeReply, { readonly status: number }>>
}

function operationOf(request: NodeRequest): string {
  if (request.url.pathname === TOKEN_PATH) return 'Token'
  return /^\s*(?:query|mutation)\s+(\w+)/.exec(requestOf(request).query)?.[1] ?? ''
}

function requestOf({ body }: NodeRequest): GraphRequest {
  // The client under test wrote it, or a form for a token.
  const { query = '', variables = {} } = (body ?? {}) as Partial<GraphRequest>
  return { query, variables }
}
