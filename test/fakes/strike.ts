import { createHmac, randomUUID } from 'node:crypto'
import { AddressError } from '../../src/lightning/codecs/address.ts'
import { InvoiceError, type InvoiceNetwork } from '../../src/lightning/codecs/bolt11.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { startNodeServer, type NodeFault, type NodeReply, type NodeRequest, type NodeServer } from './node-server.ts'
import { StrikeAccount, type HeldReceive } from './strike-account.ts'
import { form, invalid, listQuery, StrikeRefusal, text, type Money } from './strike-forms.ts'

/** The scopes that the fake knows. */
export const STRIKE_SCOPES = [
  'partner.receive-request.create',
  'partner.receive-request.read',
  'partner.webhooks.manage',
  'partner.account.profile.read',
  'partner.payment-quote.lightning.create',
  'partner.payment-quote.onchain.create',
  'partner.payment-quote.execute',
  'partner.payment.read'
] as const
export type StrikeScope = (typeof STRIKE_SCOPES)[number]

/** How the fake is made. */
export interface FakeStrikeOptions {
  /** Key of the first account, with every scope. */
  readonly key?: string
  readonly network?: InvoiceNetwork
  readonly clock?: Clock
  /** 0 takes a free one. */
  readonly port?: number
}

/** One request as it came; the key is left out. */
export interface StrikeSeen {
  readonly method: string
  readonly path: string
  readonly body: unknown
  readonly idempotencyKey: string | undefined
}

interface Subscription {
  readonly id: string
  readonly account: StrikeAccount
  readonly webhookUrl: string
  readonly webhookVersion: string
  readonly secret: string
  readonly enabled: boolean
  readonly eventTypes: readonly string[]
  readonly created: number
}
interface Delivery {
  readonly subscription: Subscription
  readonly body: string
  attempts: number
  due: number
}
interface Key {
  readonly account: StrikeAccount
  readonly scopes: Set<string>
}
interface Call {
  readonly account: StrikeAccount
  readonly body: unknown
  readonly query: URLSearchParams
  readonly id: string
  readonly idempotencyKey: string | undefined
}
interface Route {
  /** `METHOD /path`. */
  readonly on: RegExp
  readonly needs: StrikeScope
  /** `others` unless said. */
  readonly limit?: string
  /** 200 unless said. */
  readonly status?: number
  readonly run: (call: Call) => object
}

const MAX_ATTEMPTS = 12
/** Calls from one address and milliseconds, as on the live service; above `others` an hour of lock-out. */
const LIMITS: Readonly<Record<string, readonly [calls: number, window: number, lockout: number]>> = {
  quotes: [250, 60_000, 60_000],
  executions: [250, 60_000, 60_000],
  others: [1000, 600_000, 3_600_000]
}

/** A server on loopback that speaks Strike's API as providers.md describes it. */
export class FakeStrike {
  /** Without a slash at the end. */
  url = ''
  /** The account of the first key. */
  readonly account: StrikeAccount
  readonly requests: StrikeSeen[] = []
  readonly subscriptions: Subscription[] = []
  /** Called when a request is left unanswered: a test moves its clock here. */
  onHang: () => void = () => {}
  /** Changes what is answered, by `METHOD /path`. */
  rewrite: ((on: string, body: unknown) => unknown) | null = null
  /** The list of the account's receives begins with the oldest. */
  isOldestFirst = false
  /** The real one wants https; tests have receivers on loopback. */
  takesPlainWebhooks = true
  readonly #key: string
  readonly #keys = new Map<string, Key>()
  readonly #clock: Clock
  readonly #network: InvoiceNetwork
  #server: NodeServer | null = null
  readonly #routes: readonly Route[]
  readonly #used = new Map<string, number[]>()
  readonly #lockedUntil = new Map<string, number>()
  #refusals: Array<{ readonly refusal: StrikeRefusal; readonly on: RegExp }> = []
  #deliveries: Delivery[] = []

  constructor(options: FakeStrikeOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#network = options.network ?? 'regtest'
    this.#key = options.key ?? 'strike-test-key'
    this.account = this.addKey(this.#key)
    this.#routes = this.#table()
  }

  /** The key of the first account. */
  key(): string {
    return this.#key
  }

  async listen(port: number): Promise<this> {
    this.#server = await startNodeServer(request => this.#answered(request), { port })
    this.#server.onHang = () => {
      this.onHang()
    }
    this.url = this.#server.url
    return this
  }

  /** Makes a key with these scopes, of an account of its own unless one is named. */
  addKey(
    key: string,
    scopes: readonly StrikeScope[] = STRIKE_SCOPES,
    account = new StrikeAccount(this.#clock, this.#network)
  ): StrikeAccount {
    this.#keys.set(key, { account, scopes: new Set(scopes) })
    return account
  }

  /** The key is gone: expired, or deleted by its owner. */
  revokeKey(key: string): void {
    this.#keys.delete(key)
  }

  /** The next request whose `METHOD /path` fits goes wrong; several are used up in order. */
  fail(fault: NodeFault, on = /./): void {
    this.#server?.fail(fault, on)
  }

  /** The next request whose `METHOD /path` fits is refused with a code of Strike's. */
  refuse(on: RegExp, status: number, code: string): void {
    this.#refusals.push({ on, refusal: new StrikeRefusal(status, code, 'words') })
  }

  /** Locks a limit (`quotes`, `executions`, `others`) for so many milliseconds. */
  lock(limit: string, ms: number): void {
    this.#lockedUntil.set(limit, this.#clock.now() + ms)
  }

  /** Pays a request and makes its events; answers the preimage, as a payer over Lightning gets it. */
  pay(requestId: string, type: HeldReceive['type'] = 'LIGHTNING', received?: Money, account = this.account): string {
    account.receive(requestId, type, 'COMPLETED', received)
    this.announce('receive-request.receive-completed', requestId, account)
    return account.request(requestId).preimage
  }

  /** The same, not final yet. */
  begin(requestId: string, type: HeldReceive['type'] = 'ONCHAIN', received?: Money, account = this.account): void {
    account.receive(requestId, type, 'PENDING', received)
    this.announce('receive-request.receive-pending', requestId, account)
  }

  /** What was begun for a request is final. */
  complete(requestId: string, account = this.account): void {
    for (const receive of account.receives.filter(held => held.requestId === requestId)) {
      receive.state = 'COMPLETED'
      receive.completed ??= this.#clock.now()
    }
    this.announce('receive-request.receive-completed', requestId, account)
  }

  /** Queues an event for every subscription of the account that wants its type. */
  announce(eventType: string, entityId: string, account = this.account): void {
    const event = {
      id: randomUUID(),
      eventType,
      webhookVersion: 'v1',
      data: { entityId, changes: [] },
      created: new Date(this.#clock.now()).toISOString(),
      deliverySuccess: null
    }
    for (const subscription of this.subscriptions) {
      if (subscription.account !== account || !subscription.enabled || !subscription.eventTypes.includes(eventType))
        continue
      this.#deliveries.push({ subscription, body: JSON.stringify(event), attempts: 0, due: this.#clock.now() })
    }
  }

  /** Deliveries that still wait for a 2xx. */
  get waiting(): number {
    return this.#deliveries.length
  }

  /**
   * Tries every delivery that is due by the clock, once: after a failure again in 3 s, 9 s, 27 s …; answers the
   * statuses.
   */
  async deliver(): Promise<readonly (number | null)[]> {
    const due = this.#deliveries.filter(delivery => delivery.due <= this.#clock.now())
    const statuses: Array<number | null> = []
    for (const delivery of due) {
      const status = await this.#post(delivery)
      statuses.push(status)
      delivery.attempts++
      delivery.due = this.#clock.now() + 3000 * 3 ** (delivery.attempts - 1)
      const isOver =
        (status !== null && ((status >= 200 && status < 300) || status === 410 || status === 501)) ||
        delivery.attempts >= MAX_ATTEMPTS
      if (isOver) this.#deliveries = this.#deliveries.filter(other => other !== delivery)
    }
    return statuses
  }

  async close(): Promise<void> {
    await this.#server?.close()
  }

  async #post({ subscription, body }: Delivery): Promise<number | null> {
    const signature = createHmac('sha256', subscription.secret).update(body).digest('hex').toUpperCase()
    try {
      const answer = await fetch(subscription.webhookUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-webhook-signature': signature },
        body,
        signal: AbortSignal.timeout(5000),
        redirect: 'manual'
      })
      await answer.arrayBuffer()
      return answer.status
    } catch {
      // No response: one failed attempt, as the caller sees.
      return null
    }
  }

  #answered(request: NodeRequest): NodeReply {
    const { method, url, path } = request
    const idempotencyKey = one(request.headers['idempotency-key'])
    this.requests.push({ method, path, body: peek(request.text), idempotencyKey })
    const { body, ...head } = this.#answer(request, idempotencyKey)
    // JSON of an object or a list.
    return { ...head, body: (this.rewrite?.(`${method} ${url.pathname}`, body) ?? body) as object }
  }

  #answer(
    { method, url, text: raw, headers }: NodeRequest,
    idempotencyKey: string | undefined
  ): { status: number; headers: Record<string, string>; body: unknown } {
    try {
      const key = this.#keys.get(/^Bearer (\S+)$/.exec(one(headers.authorization) ?? '')?.[1] ?? '')
      const name = `${method} ${url.pathname}`
      const route = this.#routes.find(({ on }) => on.test(name))
      this.#count(route?.limit ?? 'others')
      if (key === undefined) throw new StrikeRefusal(401, 'UNAUTHORIZED', 'Invalid or unspecified identity.')
      if (route === undefined) throw new StrikeRefusal(404, 'NOT_FOUND', 'There is nothing here.')
      if (!key.scopes.has(route.needs)) throw new StrikeRefusal(403, 'FORBIDDEN', 'Insufficient permissions.')
      const refused = this.#refusals.findIndex(({ on }) => on.test(name))
      if (refused >= 0) throw this.#refusals.splice(refused, 1)[0]?.refusal ?? new TypeError('found a moment ago')
      if (raw !== '' && !/^application\/json\b/.test(one(headers['content-type']) ?? ''))
        throw new StrikeRefusal(415, 'UNSUPPORTED_MEDIA_TYPE', 'JSON is expected.')
      const body = raw === '' ? null : safe(raw)
      const answer = route.run({
        account: key.account,
        body,
        query: url.searchParams,
        id: route.on.exec(name)?.[1] ?? '',
        idempotencyKey
      })
      // Payments in flight are accepted.
      const isPending = route.limit === 'executions' && Reflect.get(answer, 'state') === 'PENDING'
      return { status: isPending ? 202 : (route.status ?? 200), headers: {}, body: answer }
    } catch (error) {
      const refusal =
        error instanceof InvoiceError
          ? new StrikeRefusal(422, 'INVALID_LN_INVOICE', error.message)
          : error instanceof AddressError
            ? invalid('btcAddress', error.message)
            : error
      if (!(refusal instanceof StrikeRefusal)) throw error
      const wait = refusal.values?.retryAfter
      return {
        status: refusal.status,
        headers: typeof wait === 'number' ? { 'retry-after': String(wait) } : {},
        body: refusal.body(randomUUID())
      }
    }
  }

  #count(limit: string): void {
    const [calls, window, lockout] = LIMITS[limit] ?? [Infinity, 0, 0]
    const now = this.#clock.now()
    const used = (this.#used.get(limit) ?? []).filter(time => time > now - window)
    used.push(now)
    this.#used.set(limit, used)
    if (used.length > calls) this.lock(limit, lockout)
    const left = (this.#lockedUntil.get(limit) ?? 0) - now
    if (left > 0)
      throw new StrikeRefusal(429, 'RATE_LIMIT_EXCEEDED', 'Too many requests.', {
        values: { retryAfter: Math.ceil(left / 1000) }
      })
  }

  #table(): readonly Route[] {
    const read = 'partner.receive-request.read'
    return [
      {
        on: /^GET \/v1\/accounts\/profile$/,
        needs: 'partner.account.profile.read',
        run: () => ({ id: randomUUID(), handle: 'fake', canReceive: true, currencies: [] })
      },
      {
        on: /^POST \/v1\/receive-requests$/,
        needs: 'partner.receive-request.create',
        status: 201,
        run: ({ account, body }) => account.requestView(account.createRequest(body))
      },
      {
        on: /^GET \/v1\/receive-requests$/,
        needs: read,
        run: ({ account, query }) =>
          page(query, [...account.requests.values()].toReversed(), held => account.requestView(held))
      },
      { on: /^GET \/v1\/receive-requests\/receives$/, needs: read, run: call => this.#receives(call, null) },
      {
        on: /^GET \/v1\/receive-requests\/([^/]+)\/receives$/,
        needs: read,
        run: call => this.#receives(call, call.account.request(call.id).id)
      },
      {
        on: /^GET \/v1\/receive-requests\/([^/]+)$/,
        needs: read,
        run: ({ account, id }) => account.requestView(account.request(id))
      },
      {
        on: /^POST \/v1\/subscriptions$/,
        needs: 'partner.webhooks.manage',
        status: 201,
        run: call => this.#subscribe(call)
      },
      {
        on: /^POST \/v1\/payment-quotes\/lightning$/,
        needs: 'partner.payment-quote.lightning.create',
        limit: 'quotes',
        status: 201,
        run: ({ account, body, idempotencyKey }) => account.quoteView(account.quoteLightning(body, idempotencyKey))
      },
      {
        on: /^POST \/v1\/payment-quotes\/onchain\/tiers$/,
        needs: 'partner.payment-quote.onchain.create',
        run: ({ account, body }) => account.tiers(body)
      },
      {
        on: /^POST \/v1\/payment-quotes\/onchain$/,
        needs: 'partner.payment-quote.onchain.create',
        limit: 'quotes',
        status: 201,
        run: ({ account, body, idempotencyKey }) => account.quoteView(account.quoteChain(body, idempotencyKey))
      },
      {
        on: /^PATCH \/v1\/payment-quotes\/([^/]+)\/execute$/,
        needs: 'partner.payment-quote.execute',
        limit: 'executions',
        run: ({ account, id }) => account.paymentView(account.execute(id))
      },
      {
        on: /^GET \/v1\/payments\/([^/]+)$/,
        needs: 'partner.payment.read',
        run: ({ account, id }) => account.paymentView(account.payment(id))
      }
    ]
  }

  #receives({ account, query }: Call, requestId: string | null): object {
    const all = account.receives.filter(held => requestId === null || held.requestId === requestId)
    return page(query, this.isOldestFirst ? all : all.toReversed(), held => account.receiveView(held), [
      '$receiveId',
      '$receiveRequestId',
      '$onchainAddress',
      '$bolt11Invoice',
      '$paymentHash'
    ])
  }

  #subscribe({ account, body }: Call): object {
    const given = form(body, ['webhookUrl', 'webhookVersion', 'secret', 'enabled', 'eventTypes'])
    const webhookUrl = text(given.webhookUrl, 'webhookUrl', 1, 2000)
    if (!URL.canParse(webhookUrl) || !(webhookUrl.startsWith('https:') || this.takesPlainWebhooks))
      throw invalid('webhookUrl', 'An https address is expected.')
    if (given.webhookVersion !== 'v1' && given.webhookVersion !== 'v2')
      throw invalid('webhookVersion', 'v1 or v2 is expected.')
    const secret = text(given.secret, 'secret', 10, 50)
    const { enabled, eventTypes } = given
    if (typeof enabled !== 'boolean') throw invalid('enabled', 'true or false is expected.')
    if (!Array.isArray(eventTypes) || eventTypes.length === 0 || !eventTypes.every(type => typeof type === 'string'))
      throw invalid('eventTypes', 'A list of event types is expected.')
    if (this.subscriptions.filter(held => held.account === account).length >= 50)
      throw new StrikeRefusal(422, 'QUOTA_EXCEEDED', 'There are 50 subscriptions already.')
    const held: Subscription = {
      id: randomUUID(),
      account,
      webhookUrl,
      webhookVersion: given.webhookVersion,
      secret,
      enabled,
      eventTypes,
      created: this.#clock.now()
    }
    this.subscriptions.push(held)
    return {
      id: held.id,
      webhookUrl,
      webhookVersion: held.webhookVersion,
      enabled,
      created: new Date(held.created).toISOString(),
      eventTypes
    }
  }
}

/** Starts a fake Strike on a free port of the loopback address. */
export async function startFakeStrike(options: FakeStrikeOptions = {}): Promise<FakeStrike> {
  return await new FakeStrike(options).listen(options.port ?? 0)
}

function page<Held>(
  query: URLSearchParams,
  all: readonly Held[],
  view: (held: Held) => object,
  filters: readonly string[] = []
): object {
  const { top, skip } = listQuery(query, filters)
  return { items: all.slice(skip, skip + top).map(view), count: all.length, isCountUnknown: false }
}

function one(header: string | readonly string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : header?.[0]
}

/** For the list of requests: what is no JSON is kept as text. */
function peek(raw: string): unknown {
  try {
    return raw === '' ? null : safe(raw)
  } catch {
    return raw
  }
}

function safe(raw: string): unknown {
  try {
    return JSON.parse(raw)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new StrikeRefusal(400, 'INVALID_DATA', 'The body is not JSON.')
  }
}
