import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { Test as T } from 'tap'
import { startReceiver, type Received, type Receiver, type ReceiverAnswer } from '../fakes/receiver.ts'
import { startFakeStrike, type FakeStrike } from '../fakes/strike.ts'
import type { StrikeAccount } from '../fakes/strike-account.ts'
import { countingUpstream, shopYaml, type CountingUpstream } from '../security/shop.ts'
import { temporaryFolder } from '../support/database.ts'
import { challengeOf, credentialOf, type Answer } from '../support/gateway.ts'
import { eventually, spawnGateway, type GatewayProcess } from '../support/gateway-process.ts'

/** What signs the webhooks. */
export const webhookSecret = 'a secret that the merchant chose'
/** Milliseconds of a lease. */
const LEASE_TIMEOUT = 3_000
/** A route for 7 satoshis, whose money goes to the operator. */
export const pricedRoute = '/paid/item'
const MERCHANT_KEY = 'strike-of-the-merchant'
const OPERATOR_KEY = 'strike-of-the-operator'

/** A payment that the gateway has acknowledged. */
export interface Acknowledged {
  readonly invoiceId: string
  readonly chargeId: string
}

/** A webhook as the deliveries of its merchant show it. */
interface Delivery {
  readonly id: string
  readonly event: string
  readonly invoiceId: string | null
  readonly paymentHash: string
  readonly status: string
}

/** A port outside of those that the system gives to connections, so that it is still free after a kill. */
async function lastingPort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000)
    const server = createServer()
    const isFree = await new Promise<boolean>(resolve => {
      server.once('error', () => {
        resolve(false)
      })
      server.listen(port, '127.0.0.1', () => {
        server.close(() => {
          resolve(true)
        })
      })
    })
    if (isFree) return port
  }
}

/** Process ids of a process' children; none where the system does not tell. */
function childrenOf(pid: number) {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

function isAlive(pid: number) {
  try {
    // What ended and was not collected by its parent is dead too.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/**
 * A gateway as a process of its own, with Strike in the primary slot, a merchant's receiver and an upstream in this
 * process: the awaited fake has acted and holds its answer, so the gateway is killed exactly there, without a hook
 * in it.
 */
export class KillableGateway {
  readonly strike: FakeStrike
  readonly receiver: Receiver
  readonly upstream: CountingUpstream
  readonly operator: StrikeAccount
  /** Whether the upstream answers. */
  sells = true
  /** Every payment that was acknowledged, with the status that it must have, or null while that is open. */
  readonly acknowledged = new Map<string, string | null>()
  readonly #t: T
  readonly #spawn: () => Promise<GatewayProcess>
  #gateway: GatewayProcess | null = null
  #orders = 0

  constructor(
    t: T,
    parts: {
      strike: FakeStrike
      receiver: Receiver
      upstream: CountingUpstream
      operator: StrikeAccount
      spawn: () => Promise<GatewayProcess>
    }
  ) {
    this.#t = t
    this.strike = parts.strike
    this.receiver = parts.receiver
    this.upstream = parts.upstream
    this.operator = parts.operator
    this.#spawn = parts.spawn
  }

  get gateway(): GatewayProcess {
    if (this.#gateway === null) throw new TypeError('it was killed')
    return this.#gateway
  }

  /** Starts it over what is there, and looks whether everything that was acknowledged is. */
  async start(): Promise<void> {
    this.#gateway = await this.#spawn()
    for (const [invoiceId, status] of this.acknowledged) {
      const found = await this.status(invoiceId)
      if (status === null ? found === null : found !== status)
        this.#t.fail(`an acknowledged payment was lost: ${invoiceId} is ${found}, not ${status}`)
    }
  }

  /** Ends it with SIGKILL, and with it the process of its embedded database. */
  async kill(): Promise<void> {
    const { gateway } = this
    const children = childrenOf(gateway.pid)
    this.#gateway = null
    gateway.kill('SIGKILL')
    const end = await gateway.ended
    if (end.signal !== 'SIGKILL') this.#t.fail(`it exited: ${JSON.stringify(end)}`)
    await eventually(`its processes ${children.join()} end with it`, async () => (children.some(isAlive) ? null : true))
  }

  /**
   * The next requests of the provider that fit act, one for each, and are never answered; resolves when all have acted.
   */
  async hold(...requests: readonly RegExp[]): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let left = requests.length
    this.strike.onHang = () => {
      if (--left === 0) resolve()
    }
    for (const on of requests) this.strike.fail('hang after', on)
    const late = setTimeout(() => {
      reject(new Error(`${left} of ${requests.join()} did not come`))
    }, 240_000)
    await promise.finally(() => {
      clearTimeout(late)
    })
  }

  /** What a request is answered, or null where the gateway is killed before it answers. */
  ask(method: string, path: string, body?: object, key?: string): Promise<Answer | null> {
    const { gateway } = this
    const pending =
      key === undefined
        ? gateway.merchantSend(method, path, body)
        : gateway.send(method, path, { headers: { 'x-api-key': key } })
    return pending.catch(() => null)
  }

  /** Makes a payment over 100,000 satoshis. */
  async payment(orderId = this.order()): Promise<Acknowledged> {
    const answer = await this.gateway.merchantSend('POST', '/api/payments', {
      orderId,
      amount: '0.001',
      currency: 'BTC'
    })
    if (answer.status !== 201) throw new Error(`no payment: ${answer.status} ${answer.text}`)
    const { invoiceId = '', providerChargeId = '' } = answer.json() as Record<string, string>
    this.acknowledged.set(invoiceId, null)
    return { invoiceId, chargeId: providerChargeId }
  }

  /** A new order id. */
  order(): string {
    return `order-${++this.#orders}`
  }

  /** A payment that was paid, and is known to be. */
  async paidPayment(): Promise<Acknowledged> {
    const made = await this.payment()
    this.strike.pay(made.chargeId)
    await this.notified()
    await this.becomes(made, 'paid')
    return made
  }

  /** Status of a payment; null when there is none. */
  async status(invoiceId: string): Promise<string | null> {
    const answer = await this.gateway.send('GET', `/api/payments/${invoiceId}/status`)
    return answer.status === 404 ? null : (answer.json() as { status: string }).status
  }

  /** Resolves once a payment has a status; from then on it must keep it. */
  async becomes({ invoiceId }: Acknowledged, status: string, ms?: number): Promise<void> {
    await eventually(`payment ${invoiceId} is ${status}`, async () => (await this.status(invoiceId)) === status, ms)
    this.acknowledged.set(invoiceId, status)
  }

  /** The provider delivers its notifications, those that failed again in 3 s, until all are taken. */
  async notified(): Promise<void> {
    await eventually('the notifications are taken', async () => {
      await this.strike.deliver()
      return this.strike.waiting === 0
    })
  }

  /** Pays what a 402 asks for; answers the single-use credential. */
  pay(answer: Answer, account: StrikeAccount): string {
    const challenge = challengeOf(answer, 'payment')
    const request = [...account.requests.values()].find(held => held.invoice === challenge.parameters.get('invoice'))
    if (request === undefined) throw new Error('the provider has not made this invoice')
    return credentialOf(challenge, this.strike.pay(request.id, 'LIGHTNING', undefined, account))
  }

  /** Every attempt for a payment, by its invoice id or payment hash, in order. */
  attempts(id: string): Received[] {
    return this.receiver.received.filter(({ text }) => {
      const { invoiceId, paymentHash } = JSON.parse(text) as { invoiceId?: string; paymentHash?: string }
      return invoiceId === id || paymentHash === id
    })
  }

  /** The deliveries of a payment, by its invoice id or payment hash. */
  async deliveries(id: string): Promise<Delivery[]> {
    const answer = await this.gateway.merchantSend('GET', '/api/merchant/webhooks/deliveries?limit=200')
    return (answer.json() as { deliveries: Delivery[] }).deliveries.filter(
      ({ invoiceId, paymentHash }) => invoiceId === id || paymentHash === id
    )
  }

  /** Resolves once the one event of a payment was delivered. */
  async delivered(id: string): Promise<void> {
    await eventually(`the webhook of ${id} is delivered`, async () => {
      const found = await this.deliveries(id)
      if (found.length > 1) this.#t.fail(`${found.length} events of ${id}`)
      return found[0]?.status === 'delivered'
    })
  }
}

/** How it is started. */
export interface KillableOptions {
  /** What the merchant's receiver answers; 200 unless said. */
  readonly answer?: (received: Received) => ReceiverAnswer
  /** Where the rows are; the embedded database unless said. */
  readonly env?: Readonly<Record<string, string>>
  /** How many invoices of one price may be made ahead; the default of the kind unless said. */
  readonly invoicesAhead?: number
}

/** Starts one, with its merchant's key and webhook set, and the receivers of both accounts registered. */
export async function killableGateway(t: T, options: KillableOptions): Promise<KillableGateway> {
  const strike = await startFakeStrike({ key: MERCHANT_KEY })
  const operator = strike.addKey(OPERATOR_KEY)
  const receiver = await startReceiver(options)
  t.teardown(() => Promise.all([strike.close(), receiver.close()]))
  const upstream = await countingUpstream(t, (_req, res) => {
    if (made.sells) res.end('sold')
  })
  const ahead = options.invoicesAhead === undefined ? '' : `, invoicesAhead: ${options.invoicesAhead}`
  const yaml = shopYaml(upstream.origin, {
    replace: [
      [
        'primary:   { kind: sandbox }',
        `primary:   { kind: strike, url: "${strike.url}", key: ${OPERATOR_KEY}${ahead} }`
      ],
      ['mode: development', `payment: { leaseTimeout: ${LEASE_TIMEOUT / 1000}s }\nmode: development`]
    ]
  })
  const data = temporaryFolder(t)
  const env = { PORT: String(await lastingPort()), ...options.env }
  const made: KillableGateway = new KillableGateway(t, {
    strike,
    receiver,
    upstream,
    operator,
    spawn: () => spawnGateway(t, { yaml, data, env, documented: false })
  })
  await made.start()
  for (const [path, body] of [
    ['primary-key', { primaryApiKey: MERCHANT_KEY }],
    ['webhook-url', { webhookUrl: receiver.url, webhookSecret }]
  ] as const) {
    const answer = await made.gateway.merchantSend('PUT', `/api/merchant/${path}`, body)
    if (answer.status !== 200) throw new Error(`not set: ${answer.status} ${answer.text}`)
  }
  await made.payment()
  const answer = await made.gateway.send('GET', pricedRoute)
  if (answer.status !== 402) throw new Error(`no challenge: ${answer.status} ${answer.text}`)
  await eventually('both are registered', async () =>
    made.gateway.log.filter(line => line['msg'] === 'the receiver of notifications was registered').length === 2
      ? true
      : null
  )
  return made
}
