import { createHmac, hash, randomBytes } from 'node:crypto'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { startNodeServer, type NodeReply, type NodeRequest, type NodeServer } from './node-server.ts'
import { NodeWallet, type WalletInvoice, type WalletPayment } from './node-wallet.ts'

/** A fake BTCPay Server with one store. */
export interface FakeBtcpay extends NodeServer {
  readonly wallet: NodeWallet
  /** What was registered, by id. */
  readonly webhooks: Map<string, { readonly url: string; readonly secret: string }>
  /** Members put over those of the next answers with an invoice. */
  invoice: Readonly<Record<string, unknown>>
  /** The node behind the store: without one, no invoice can be paid over Lightning. */
  hasNode: boolean
  /** A key of the store: all permissions, or those that are named. */
  key(permissions?: readonly string[]): string
  /** What its webhooks send of an invoice that was settled. */
  notification(
    paymentHash: string,
    secret: string,
    type?: string
  ): { readonly body: Buffer; readonly headers: Record<string, string> }
}

const STORE = 'CPTcEqjCK9TQJ1jPTgKuArTXz8pbqzb7Zi'
const SCOPES = {
  create: 'btcpay.store.cancreateinvoice',
  view: 'btcpay.store.canviewinvoices',
  webhooks: 'btcpay.store.webhooks.canmodifywebhooks',
  pay: 'btcpay.store.canuselightningnode',
  createAtNode: 'btcpay.store.cancreatelightninginvoice',
  viewAtNode: 'btcpay.store.canviewlightninginvoice'
} as const
const NODE_FIELDS = ['amount', 'description', 'descriptionHashOnly', 'expiry', 'privateRouteHints']
const FIELDS = ['amount', 'currency', 'metadata', 'checkout']
const CHECKOUT = ['paymentMethods', 'lazyPaymentMethods', 'paymentTolerance', 'expirationMinutes', 'redirectURL']

/** What it answers by throwing. */
class Refusal extends Error {
  readonly reply: NodeReply

  constructor(status: number, body: object) {
    super()
    this.reply = { status, body }
  }
}

const refusal = (status: number, code: string | null, message: string): Refusal =>
  new Refusal(status, { code, message })

/** Starts a BTCPay Server without Lightning on loopback: its Greenfield API as 2.4 has it. */
export async function startFakeBtcpay(options: { clock?: Clock; port?: number } = {}): Promise<FakeBtcpay> {
  const clock = options.clock ?? systemClock
  const wallet = new NodeWallet(clock, 'mainnet')
  const keys = new Map<string, ReadonlySet<string>>()
  const ids = new Map<string, { readonly paymentHash: string; readonly body: Readonly<Record<string, unknown>> }>()
  const webhooks: FakeBtcpay['webhooks'] = new Map()

  function handle(request: NodeRequest): NodeReply {
    try {
      return act(request)
    } catch (error) {
      if (error instanceof Refusal) return error.reply
      throw error
    }
  }

  function act({ method, url, headers, text }: NodeRequest): NodeReply {
    const [, token = ''] = /^token (\S+)$/.exec(headers.authorization ?? '') ?? []
    const permissions = keys.get(token)
    if (permissions === undefined)
      throw refusal(401, 'unauthenticated', 'Authentication is required for accessing this endpoint')
    const may = (scope: string): void => {
      if (permissions.has(scope)) return
      throw new Refusal(403, {
        code: 'missing-permission',
        message: `Insufficient API Permissions. Please use an API key with permission "${scope}".`,
        missingPermission: scope
      })
    }
    const [, rest = ''] = new RegExp(`^(?:/pay)?/api/v1/stores/${STORE}(/.*)$`).exec(url.pathname) ?? []
    // A test hands over objects alone.
    const body = (): Readonly<Record<string, unknown>> => {
      if (headers['content-type'] !== 'application/json') throw refusal(415, null, 'Unsupported Media Type')
      return JSON.parse(text) as Readonly<Record<string, unknown>>
    }
    const [, id] = /^\/invoices\/([A-Za-z0-9]+)(?:\/payment-methods)?$/.exec(rest) ?? []
    if (method === 'POST' && rest === '/invoices') {
      may(SCOPES.create)
      return { status: 200, body: create(body()) }
    }
    if (method === 'GET' && rest === '/invoices') {
      may(SCOPES.view)
      return { status: 200, body: list(url.searchParams) }
    }
    if (method === 'GET' && id !== undefined) {
      may(SCOPES.view)
      const held = wallet.invoices.get(ids.get(id)?.paymentHash ?? '')
      if (held === undefined) throw refusal(404, 'invoice-not-found', 'The invoice was not found')
      return { status: 200, body: rest.endsWith('/payment-methods') ? methods(held) : view(id, held) }
    }
    if (rest === '/webhooks') {
      may(SCOPES.webhooks)
      return { status: 200, body: method === 'POST' ? register(body()) : [] }
    }
    if (method === 'POST' && rest === '/lightning/BTC/invoices') {
      may(SCOPES.createAtNode)
      return { status: 200, body: createAtNode(body()) }
    }
    const [, atNode] = /^\/lightning\/BTC\/invoices\/([0-9a-f]{64})$/.exec(rest) ?? []
    if (method === 'GET' && atNode !== undefined) {
      may(SCOPES.viewAtNode)
      const held = wallet.invoices.get(atNode)
      if (held === undefined)
        throw refusal(404, 'invoice-not-found', 'Impossible to find a lightning invoice with this id')
      return { status: 200, body: nodeView(held) }
    }
    if (method === 'POST' && rest === '/lightning/BTC/invoices/pay') {
      may(SCOPES.pay)
      return pay(body())
    }
    const [, hash] = /^\/lightning\/BTC\/payments\/([0-9a-f]{64})$/.exec(rest) ?? []
    if (method === 'GET' && hash !== undefined) {
      may(SCOPES.pay)
      const payment = wallet.payments.get(hash)
      if (payment === undefined)
        throw refusal(404, 'payment-not-found', 'Impossible to find a lightning payment with this payment hash')
      return { status: 200, body: sent(payment) }
    }
    throw refusal(404, null, 'Not Found')
  }

  function create(body: Readonly<Record<string, unknown>>): object {
    for (const name of Object.keys(body)) if (!FIELDS.includes(name)) throw new Error(`there is no ${name}`)
    const checkout = body['checkout'] as Readonly<Record<string, unknown>>
    for (const name of Object.keys(checkout)) if (!CHECKOUT.includes(name)) throw new Error(`there is no ${name}`)
    const { amount, currency, metadata } = body
    const minutes = checkout['expirationMinutes']
    if (typeof amount !== 'string' || !/^\d+\.\d{8}$/.test(amount) || currency !== 'BTC')
      throw new Refusal(422, [{ path: 'amount', message: 'The amount is invalid.' }])
    if (typeof minutes !== 'number' || !Number.isInteger(minutes) || minutes < 1)
      throw new Refusal(422, [
        { path: 'checkout.expirationMinutes', message: 'Expiration time must be at least 30 seconds' }
      ])
    if (JSON.stringify(checkout['paymentMethods']) !== '["BTC-LN"]') throw new Error('another way of paying')
    const amountSats = Math.round(Number(amount) * 1e8)
    if (amountSats > wallet.largest) throw refusal(400, null, 'No payment method available: the amount is too high.')
    const description = (metadata as { itemDesc?: unknown }).itemDesc
    const held = wallet.addInvoice({
      amountSats,
      description: typeof description === 'string' ? description.toWellFormed() : '',
      expirySeconds: minutes * 60
    })
    // Base58 of 22 characters, which reveals nothing of the hash.
    const id = randomBytes(11).toString('hex')
    ids.set(id, { paymentHash: held.paymentHash, body })
    return view(id, held)
  }

  function createAtNode(given: Readonly<Record<string, unknown>>): object {
    for (const name of Object.keys(given)) if (!NODE_FIELDS.includes(name)) throw new Error(`there is no ${name}`)
    const { amount, description = '', descriptionHashOnly = false, expiry } = given
    if (typeof amount !== 'string' || !/^[1-9]\d*$/.test(amount))
      throw new Refusal(422, [{ path: 'amount', message: 'Amount should be more or equals to 0' }])
    if (typeof description !== 'string' || typeof descriptionHashOnly !== 'boolean' || typeof expiry !== 'number')
      throw new Refusal(422, [{ path: '', message: 'Error converting value' }])
    if (!fake.hasNode) throw refusal(503, 'lightning-node-unavailable', 'The lightning node is unavailable')
    return nodeView(
      wallet.addInvoice({
        amountSats: Number(amount) / 1000,
        description: descriptionHashOnly ? '' : description,
        ...(descriptionHashOnly ? { descriptionHash: hash('sha256', description) } : {}),
        expirySeconds: expiry
      })
    )
  }

  function nodeView(held: WalletInvoice): object {
    const isPaid = held.settledAt !== null
    return {
      id: held.paymentHash,
      status: isPaid ? 'Paid' : wallet.isExpired(held) ? 'Expired' : 'Unpaid',
      BOLT11: held.invoice,
      paymentHash: held.paymentHash,
      amount: String(held.amountSats * 1000),
      expiresAt: held.createdAt / 1000 + held.expirySeconds,
      ...(isPaid
        ? { amountReceived: String(held.receivedSats * 1000), paidAt: Math.floor((held.settledAt ?? 0) / 1000) }
        : {})
    }
  }

  function view(id: string, held: WalletInvoice): object {
    const isPaid = held.settledAt !== null
    return {
      id,
      storeId: STORE,
      amount: btc(held.amountSats),
      paidAmount: btc(held.receivedSats),
      currency: 'BTC',
      type: 'Standard',
      checkoutLink: `${fake.url}/i/${id}`,
      createdTime: held.createdAt / 1000,
      expirationTime: held.createdAt / 1000 + held.expirySeconds,
      status: isPaid ? 'Settled' : wallet.isExpired(held) ? 'Expired' : 'New',
      additionalStatus: 'None',
      archived: false,
      metadata: ids.get(id)?.body['metadata'],
      ...fake.invoice
    }
  }

  function methods(held: WalletInvoice): object {
    return [
      {
        paymentMethodId: 'BTC-LN',
        activated: fake.hasNode,
        currency: 'BTC',
        destination: fake.hasNode ? held.invoice : null,
        paymentLink: fake.hasNode ? `lightning:${held.invoice}` : '',
        rate: '1',
        amount: btc(held.amountSats),
        due: btc(held.amountSats - held.receivedSats),
        totalPaid: btc(held.receivedSats),
        paymentMethodPaid: btc(held.receivedSats),
        payments:
          held.settledAt === null
            ? []
            : [
                {
                  id: held.paymentHash,
                  receivedDate: Math.floor(held.settledAt / 1000),
                  value: btc(held.receivedSats),
                  fee: '0.0',
                  status: 'Settled',
                  destination: held.invoice
                }
              ],
        additionalData: { paymentHash: held.paymentHash, preimage: null }
      }
    ]
  }

  function list(query: URLSearchParams): object {
    for (const name of query.keys())
      if (!['status', 'startDate', 'endDate', 'skip', 'take'].includes(name)) throw new Error(`there is no ${name}`)
    const skip = Number(query.get('skip') ?? 0)
    return [...ids]
      .map(([id, { paymentHash }]) => ({ id, held: wallet.invoices.get(paymentHash) }))
      .filter((one): one is { id: string; held: WalletInvoice } => one.held !== undefined)
      .filter(({ held }) => held.createdAt / 1000 >= Number(query.get('startDate') ?? 0))
      .filter(({ held }) => held.createdAt / 1000 <= Number(query.get('endDate') ?? Infinity))
      .toReversed()
      .map(({ id, held }) => view(id, held) as { status: string })
      .filter(({ status }) => !query.has('status') || status === query.get('status'))
      .slice(skip, skip + Number(query.get('take') ?? 50))
  }

  function register(body: Readonly<Record<string, unknown>>): object {
    const { url, secret } = body
    if (typeof url !== 'string' || typeof secret !== 'string')
      throw new Refusal(422, [{ path: 'url', message: 'Url is required' }])
    const id = randomBytes(11).toString('hex')
    webhooks.set(id, { url, secret })
    return { id, ...body }
  }

  function pay(body: Readonly<Record<string, unknown>>): NodeReply {
    const { BOLT11, amount, maxFeeFlat, sendTimeout } = body
    if (typeof BOLT11 !== 'string')
      throw new Refusal(422, [{ path: 'BOLT11', message: 'The BOLT11 invoice was invalid.' }])
    if (typeof maxFeeFlat !== 'string' || typeof sendTimeout !== 'number') throw new Error('no limits')
    const decoded = decodeInvoice(BOLT11, { zeroAmount: true })
    if ((amount === undefined) !== (decoded.amountSats !== null))
      throw new Error('an amount beside an invoice with one')
    const before = wallet.payments.get(decoded.paymentHash)
    if (before?.status === 'paid') throw refusal(400, 'generic-error', 'invoice is already paid')
    if (before?.status === 'pending') throw refusal(400, 'generic-error', 'payment is in transition')
    const payment = wallet.pay(BOLT11, typeof amount === 'string' ? Number(amount) / 1000 : null)
    if (payment.status === 'failed')
      throw refusal(400, 'could-not-find-route', 'Impossible to find a route to the peer')
    return { status: payment.status === 'paid' ? 200 : 202, body: sent(payment) }
  }

  const server = await startNodeServer(handle, options)
  const fake: FakeBtcpay = Object.assign(server, {
    wallet,
    webhooks,
    invoice: {},
    hasNode: true,
    key: (permissions: readonly string[] = Object.values(SCOPES)) => {
      const token = randomBytes(20).toString('hex')
      keys.set(token, new Set(permissions))
      return `btcpay+http://${server.url.slice('http://'.length)}?store=${STORE}&key=${token}`
    },
    notification: (paymentHash: string, secret: string, type = 'InvoiceSettled') => {
      const [invoiceId] = [...ids].find(([, held]) => held.paymentHash === paymentHash) ?? []
      const body = Buffer.from(
        JSON.stringify({ deliveryId: 'd1', webhookId: 'w1', isRedelivery: false, type, storeId: STORE, invoiceId })
      )
      const signature = createHmac('sha256', secret).update(body).digest('hex')
      return { body, headers: { 'btcpay-sig': `sha256=${signature}` } }
    }
  })
  return fake
}

function btc(sats: number): string {
  return (sats / 1e8).toFixed(8)
}

function sent(payment: WalletPayment): object {
  const isPaid = payment.status === 'paid'
  return {
    id: payment.id,
    paymentHash: payment.paymentHash,
    status: isPaid ? 'Complete' : payment.status === 'pending' ? 'Pending' : 'Failed',
    BOLT11: payment.invoice,
    preimage: isPaid ? 'ef'.repeat(32) : null,
    createdAt: Math.floor(payment.createdAt / 1000),
    totalAmount: isPaid ? String(payment.amountSats * 1000 + payment.feeMsat) : null,
    feeAmount: isPaid ? String(payment.feeMsat) : null
  }
}
