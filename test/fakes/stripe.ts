import { randomBytes } from 'node:crypto'
import { Stripe } from 'stripe'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { startNodeServer, type NodeFault, type NodeRequest, type NodeServer } from './node-server.ts'

/** One request as it came; `form` by its flat names, such as `line_items[0][price]`. */
export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly form: ReadonlyMap<string, string>
  readonly idempotencyKey: string | undefined
}

/** A subscription as the fake keeps it; times in seconds. */
export interface HeldSubscription {
  readonly id: string
  readonly created: number
  readonly customer: string
  status: string
  price: string
  currentPeriodEnd: number
  readonly metadata: Readonly<Record<string, string>>
}

/** A price as the fake keeps it: `recurring` null for one that is charged once. */
export interface HeldPrice {
  active: boolean
  unit_amount: number | null
  currency: string
  recurring: { interval: string; interval_count: number; usage_type: 'licensed' | 'metered' } | null
}

interface Customer {
  readonly id: string
  readonly email: string
  readonly name: string | null
}
interface Session {
  readonly id: string
  readonly form: ReadonlyMap<string, string>
  subscription: string | null
}
interface Answered {
  readonly status: number
  readonly body: object
}

class Refusal extends Error {
  readonly answer: Answered
  constructor(status: number, code: string, message: string, param?: string) {
    super(message)
    const error = { type: 'invalid_request_error', code, message, ...(param === undefined ? {} : { param }) }
    this.answer = { status, body: { error } }
  }
}

/** What `POST` of each path may name; anything else is refused, as Stripe does. */
const PARAMETERS: Readonly<Record<string, RegExp>> = {
  '/v1/checkout/sessions':
    /^(mode|success_url|cancel_url|payment_method_collection|customer|customer_email|client_reference_id|line_items\[0\]\[(price|quantity)\]|metadata\[\w{1,40}\]|subscription_data\[(metadata\]\[\w{1,40}|trial_period_days|trial_settings\]\[end_behavior\]\[missing_payment_method)\])$/,
  '/v1/billing_portal/sessions': /^(customer|return_url)$/
}
const MONTH = 30 * 86_400

/** A server on loopback that speaks as much of Stripe's API as providers.md describes and billing uses. */
export class FakeStripe {
  /** Without a slash at the end. */
  url = ''
  readonly key = 'sk_test_the_secret_key_of_the_account'
  readonly webhookSecret = 'whsec_the_secret_of_the_endpoint'
  readonly price = 'price_individual'
  /** By id; `price` is one of $49 each month. */
  readonly prices = new Map<string, HeldPrice>([
    [
      this.price,
      {
        active: true,
        unit_amount: 4900,
        currency: 'usd',
        recurring: { interval: 'month', interval_count: 1, usage_type: 'licensed' }
      }
    ]
  ])
  readonly subscriptions = new Map<string, HeldSubscription>()
  readonly customers = new Map<string, Customer>()
  readonly sessions = new Map<string, Session>()
  /** Waited for after an answer was made up and before it is sent. */
  beforeAnswer: (path: string) => Promise<void> = async () => {}
  readonly #clock: Clock
  #server: NodeServer | null = null
  readonly #replays = new Map<string, Answered>()

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  async listen(port = 0): Promise<this> {
    this.#server = await startNodeServer(
      async request => {
        const answer = this.#answer(request)
        await this.beforeAnswer(request.url.pathname)
        return { ...answer, headers: { 'request-id': 'req_fake' } }
      },
      {
        port,
        faults: {
          'rate limit': new Refusal(429, 'rate_limit', 'Request rate limit exceeded.').answer,
          'server error': {
            status: 500,
            body: { error: { type: 'api_error', message: 'An unknown error occurred.' } }
          }
        }
      }
    )
    this.url = this.#server.url
    return this
  }

  get requests(): readonly SeenRequest[] {
    return (this.#server?.requests ?? []).map(({ method, url, text, headers }) => ({
      method,
      path: url.pathname,
      form: new Map(new URLSearchParams(text)),
      // A header that comes once.
      idempotencyKey: headers['idempotency-key'] as string | undefined
    }))
  }

  async close(): Promise<void> {
    await this.#server?.close()
  }

  /** The next request whose `METHOD /path` fits goes wrong; several are used up in order. */
  fail(fault: NodeFault, on = /./, times = 1): void {
    for (let time = 0; time < times; time++) this.#server?.fail(fault, on)
  }

  /** The buyer enters a card that works: makes the customer, unless the session names one, and the subscription. */
  complete(sessionId: string, name: string | null = null): HeldSubscription {
    const session = this.sessions.get(sessionId)
    if (session === undefined) throw new Error(`there is no session ${sessionId}`)
    const { form } = session
    const customer = form.get('customer') ?? this.customer(form.get('customer_email') ?? '', name)
    const trial = Number(form.get('subscription_data[trial_period_days]') ?? 0)
    const metadata = Object.fromEntries(
      [...form].flatMap(([key, value]) => {
        const named = /^subscription_data\[metadata\]\[(\w+)\]$/.exec(key)
        return named?.[1] === undefined ? [] : [[named[1], value]]
      })
    )
    const made = this.subscribe({
      customer,
      metadata,
      status: trial === 0 ? 'active' : 'trialing',
      price: form.get('line_items[0][price]') ?? ''
    })
    made.currentPeriodEnd = made.created + (trial === 0 ? MONTH : trial * 86_400)
    session.subscription = made.id
    return made
  }

  /** A customer. */
  customer(email: string, name: string | null = null): string {
    const id = `cus_${randomBytes(7).toString('hex')}`
    this.customers.set(id, { id, email, name })
    return id
  }

  /** A subscription that came about in another way. */
  subscribe(
    wanted: Pick<HeldSubscription, 'customer' | 'status' | 'price'> & {
      readonly metadata?: Readonly<Record<string, string>>
    }
  ): HeldSubscription {
    const created = Math.floor(this.#clock.now() / 1000)
    const made: HeldSubscription = {
      id: `sub_${randomBytes(12).toString('hex')}`,
      created,
      currentPeriodEnd: created + MONTH,
      metadata: {},
      ...wanted
    }
    this.subscriptions.set(made.id, made)
    return made
  }

  /** A notification, with the header that signs it, by Stripe's own helper. */
  event(
    type: string,
    object: object,
    options: { readonly secret?: string; readonly at?: number } = {}
  ): { readonly body: string; readonly headers: Readonly<Record<string, string>> } {
    const body = JSON.stringify({
      id: `evt_${randomBytes(12).toString('hex')}`,
      object: 'event',
      api_version: '2026-10-28.endive',
      type,
      data: { object }
    })
    return { body, headers: this.signed(body, options) }
  }

  /** The header for a body; `at` in milliseconds. */
  signed(
    payload: string,
    options: { readonly secret?: string; readonly at?: number } = {}
  ): Readonly<Record<string, string>> {
    const timestamp = Math.floor((options.at ?? this.#clock.now()) / 1000)
    const signature = new Stripe(this.key).webhooks.generateTestHeaderString({
      payload,
      secret: options.secret ?? this.webhookSecret,
      timestamp
    })
    return { 'content-type': 'application/json', 'stripe-signature': signature }
  }

  #answer({ method, url: { pathname: path }, headers, text }: NodeRequest): Answered {
    const { authorization, 'idempotency-key': idempotencyKey } = headers
    try {
      if (authorization !== `Bearer ${this.key}`)
        throw new Refusal(401, 'api_key_invalid', `Invalid API Key provided: ${authorization?.slice(-4) ?? 'none'}`)
      const replayed = idempotencyKey === undefined ? undefined : this.#replays.get(`${idempotencyKey} ${path} ${text}`)
      const answer = replayed ?? this.#act(method, path, new Map(new URLSearchParams(text)))
      if (idempotencyKey !== undefined) this.#replays.set(`${idempotencyKey} ${path} ${text}`, answer)
      return answer
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return error.answer
    }
  }

  #act(method: string, path: string, form: ReadonlyMap<string, string>): Answered {
    const subscriptionId = /^\/v1\/subscriptions\/(sub_\w+)$/.exec(path)?.[1]
    if (method === 'GET' && subscriptionId !== undefined) return this.#subscription(subscriptionId)
    const priceId = /^\/v1\/prices\/(\w+)$/.exec(path)?.[1]
    if (method === 'GET' && priceId !== undefined) return this.#price(priceId)
    const allowed = method === 'POST' ? PARAMETERS[path] : undefined
    if (allowed === undefined)
      throw new Refusal(404, 'resource_missing', `Unrecognized request URL (${method}: ${path}).`)
    for (const name of form.keys())
      if (!allowed.test(name)) throw new Refusal(400, 'parameter_unknown', `Received unknown parameter: ${name}`, name)
    const customer = form.get('customer')
    if (customer !== undefined && !this.customers.has(customer))
      throw new Refusal(400, 'resource_missing', `No such customer: '${customer}'`, 'customer')
    return path === '/v1/checkout/sessions' ? this.#session(form) : this.#portal(form)
  }

  #session(form: ReadonlyMap<string, string>): Answered {
    if (form.get('mode') !== 'subscription' || form.get('line_items[0][quantity]') !== '1')
      throw new Refusal(400, 'parameter_missing', 'Missing required param: line_items.', 'line_items')
    const price = this.prices.get(form.get('line_items[0][price]') ?? '')
    if (price === undefined) throw new Refusal(400, 'resource_missing', 'No such price', 'line_items[0][price]')
    if (!price.active)
      throw new Refusal(400, 'price_inactive', 'The price specified is inactive.', 'line_items[0][price]')
    if (!URL.canParse(form.get('success_url') ?? ''))
      throw new Refusal(400, 'url_invalid', 'Not a valid URL', 'success_url')
    if (form.has('customer') && form.has('customer_email'))
      throw new Refusal(
        400,
        'parameter_invalid',
        'You may only specify one of these parameters: customer, customer_email.',
        'customer'
      )
    const email = form.get('customer_email')
    if (email !== undefined && !/^[^@\s.][^@\s]*@[^@\s]+\.[a-z]{2,}$/i.test(email))
      throw new Refusal(400, 'email_invalid', `Invalid email address: ${email}`, 'customer_email')
    const id = `cs_test_${randomBytes(24).toString('hex')}`
    this.sessions.set(id, { id, form, subscription: null })
    return {
      status: 200,
      body: {
        id,
        object: 'checkout.session',
        mode: 'subscription',
        status: 'open',
        url: `${this.url}/c/pay/${id}`,
        subscription: null
      }
    }
  }

  #price(id: string): Answered {
    const held = this.prices.get(id)
    if (held === undefined) throw new Refusal(404, 'resource_missing', `No such price: '${id}'`, 'price')
    return {
      status: 200,
      body: {
        id,
        object: 'price',
        billing_scheme: 'per_unit',
        type: held.recurring === null ? 'one_time' : 'recurring',
        ...held
      }
    }
  }

  #portal(form: ReadonlyMap<string, string>): Answered {
    if (!form.has('customer'))
      throw new Refusal(400, 'parameter_missing', 'Missing required param: customer.', 'customer')
    return {
      status: 200,
      body: {
        id: 'bps_1',
        object: 'billing_portal.session',
        url: `${this.url}/p/session/${form.get('customer') ?? ''}`,
        return_url: form.get('return_url')
      }
    }
  }

  /**
   * In the form of the pinned version: the period is the item's. The customer is always expanded, as billing asks for.
   */
  #subscription(id: string): Answered {
    const held = this.subscriptions.get(id)
    if (held === undefined) throw new Refusal(404, 'resource_missing', `No such subscription: '${id}'`, 'id')
    const { created, customer, status, price, currentPeriodEnd, metadata } = held
    const known = this.customers.get(customer)
    return {
      status: 200,
      body: {
        id,
        object: 'subscription',
        created,
        status,
        metadata,
        customer:
          known === undefined ? { id: customer, object: 'customer', deleted: true } : { ...known, object: 'customer' },
        items: {
          object: 'list',
          has_more: false,
          data: [
            {
              id: 'si_1',
              object: 'subscription_item',
              current_period_start: created,
              current_period_end: currentPeriodEnd,
              price: { id: price, object: 'price' }
            }
          ]
        }
      }
    }
  }
}

/** Starts the fake. */
export async function startFakeStripe(clock: Clock = systemClock): Promise<FakeStripe> {
  return await new FakeStripe(clock).listen()
}
