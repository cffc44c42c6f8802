import { hash } from 'node:crypto'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { startNodeServer, type NodeReply, type NodeRequest, type NodeServer } from './node-server.ts'
import { NodeWallet, type WalletInvoice, type WalletPayment } from './node-wallet.ts'

/** A fake LNbits with one wallet. */
export interface FakeLnbits extends NodeServer {
  readonly wallet: NodeWallet
  /** It calls no receiver: every webhook is refused. */
  refusesWebhooks: boolean
  /** The key was deleted: look-ups answer as without a key. */
  isDeleted: boolean
  /** Calls of this minute that it takes before it answers 429. */
  allowed: number
  /** A key: the address with the wallet's admin or invoice key. */
  key(access?: 'admin' | 'invoice', path?: string): string
  /** What its webhook sends of a paid invoice: JSON within JSON, unsigned. */
  notification(paymentHash: string): Buffer
}

const ADMIN = 'a'.repeat(31) + '1'
const INVOICE = 'b'.repeat(31) + '2'
const NO_AMOUNT = 'Amountless invoices not supported.'

/** What it answers by throwing. */
class Refusal extends Error {
  readonly status: number
  /** Sent beside the detail of a 520. */
  readonly kind: string | null

  constructor(status: number, detail: string, kind: string | null = null) {
    super(detail)
    this.status = status
    this.kind = kind
  }
}

/** Starts an LNbits without Lightning on loopback: its API as 1.6 has it. */
export async function startFakeLnbits(options: { clock?: Clock; port?: number } = {}): Promise<FakeLnbits> {
  const clock = options.clock ?? systemClock
  const wallet = new NodeWallet(clock, 'mainnet')

  function handle(request: NodeRequest): NodeReply {
    if (fake.allowed-- <= 0) return { status: 429, body: { error: 'Rate limit exceeded: 200 per 1 minute' } }
    try {
      return act(request)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      const { status, message, kind } = error
      return { status, body: { detail: message, ...(kind === null ? {} : { status: kind }) } }
    }
  }

  function act({ method, url, headers, text }: NodeRequest): NodeReply {
    const path = url.pathname.replace(/^\/ln(?=\/)/, '')
    const key = headers['x-api-key']
    const [, looked] = /^\/api\/v1\/payments\/([0-9a-f]+)$/.exec(path) ?? []
    if (method === 'GET' && looked !== undefined && (key === undefined || fake.isDeleted)) {
      const held = wallet.invoices.get(looked)
      if (held === undefined) throw new Refusal(404, 'Payment does not exist.')
      return { status: 200, body: { paid: held.settledAt !== null, preimage: held.preimage } }
    }
    if (typeof key !== 'string') throw new Refusal(401, 'No Api Key provided.')
    if (key !== ADMIN && key !== INVOICE) throw new Refusal(404, 'Wallet not found.')
    if (method === 'GET' && path === '/api/v1/wallet')
      return { status: 200, body: { ...(key === ADMIN ? { id: 'cd'.repeat(16) } : {}), name: 'Shop', balance: 0 } }
    if (method === 'GET' && path === '/api/v1/payments/paginated') return { status: 200, body: list(url.searchParams) }
    if (method === 'GET' && looked !== undefined) return { status: 200, body: lookUp(looked) }
    if (method === 'POST' && path === '/api/v1/payments') {
      if (headers['content-type'] !== 'application/json') throw new Refusal(400, 'Invalid body')
      // A test hands over objects alone.
      const body = JSON.parse(text) as Readonly<Record<string, unknown>>
      if (body['out'] === false) return { status: 201, body: create(body) }
      if (key !== ADMIN) throw new Refusal(403, 'Invoice (or Admin) key required.')
      return { status: 201, body: pay(body) }
    }
    throw new Refusal(404, 'Not Found')
  }

  function create(body: Readonly<Record<string, unknown>>): object {
    const { amount, memo, expiry, webhook, description_hash: ready, unhashed_description: text } = body
    if (typeof amount !== 'number') throw new Refusal(500, 'Unexpected error! ID: 1')
    if (!Number.isSafeInteger(amount) || amount < 1)
      throw new Refusal(520, 'Amountless invoices not supported.', 'failed')
    if (amount > wallet.largest)
      throw new Refusal(
        520,
        `Invoice amount ${amount} sats is too high. Max allowed: ${wallet.largest} sats.`,
        'failed'
      )
    if (memo !== undefined && (typeof memo !== 'string' || memo.length > 640))
      throw new Refusal(400, 'ensure this value has at most 640 characters')
    for (const [name, value] of Object.entries({ description_hash: ready, unhashed_description: text }))
      if (value !== undefined && !(typeof value === 'string' && /^(?:[0-9a-f]{2})*$/.test(value)))
        throw new Refusal(400, `'${name}' must be a valid hex string`)
    // As over a Core Lightning node, which must see the text.
    if (ready !== undefined) throw new Refusal(520, "'description_hash' unsupported by CoreLightning", 'failed')
    const unhashed = typeof text === 'string' && text !== '' ? Buffer.from(text, 'hex') : null
    if (unhashed !== null && wallet.hashes === 'refused') throw new Refusal(520, 'unhashed_description', 'failed')
    if (webhook !== undefined && fake.refusesWebhooks)
      throw new Refusal(400, 'Callback URL origin http://127.0.0.1 is not allowed.')
    return incoming(
      wallet.addInvoice({
        amountSats: amount,
        description: unhashed !== null ? '' : (memo ?? '') === '' ? 'LNbits' : String(memo),
        ...(unhashed === null ? {} : { descriptionHash: hash('sha256', unhashed) }),
        expirySeconds: typeof expiry === 'number' && expiry > 0 ? expiry : 3600,
        ...(typeof webhook === 'string' ? { webhook } : {})
      })
    )
  }

  function lookUp(paymentHash: string): object {
    const payment = wallet.payments.get(paymentHash)
    const held = wallet.invoices.get(paymentHash)
    const details = payment === undefined ? (held === undefined ? null : incoming(held)) : outgoing(payment)
    if (details === null) throw new Refusal(404, 'Payment does not exist.')
    const isPaid = details.status === 'success'
    return { paid: isPaid, status: isPaid ? null : details.status, preimage: details.preimage, details }
  }

  function list(query: URLSearchParams): object {
    const all = [...[...wallet.invoices.values()].map(incoming), ...[...wallet.payments.values()].map(outgoing)]
      // Only what it knows is filtered by; the rest is left out without a word.
      .filter(({ status }) => !query.has('status') || status === query.get('status'))
      .filter(({ amount }) => !query.has('amount[gt]') || amount > Number(query.get('amount[gt]')))
      .filter(one => !query.has('payment_hash') || one.payment_hash === query.get('payment_hash'))
      .sort((one, other) => (one.updated_at < other.updated_at ? 1 : one.updated_at > other.updated_at ? -1 : 0))
    const offset = Number(query.get('offset') ?? 0)
    return { data: all.slice(offset, offset + Number(query.get('limit') ?? 10)), total: all.length }
  }

  function incoming(held: WalletInvoice) {
    return {
      ...common(held.paymentHash, held.invoice, held.createdAt, held.settledAt ?? held.createdAt),
      amount: held.amountSats * 1000,
      fee: 0,
      status: held.settledAt !== null ? 'success' : wallet.isExpired(held) ? 'failed' : 'pending',
      memo: held.description,
      preimage: held.preimage,
      webhook: held.webhook,
      labels: wallet.isExpired(held) ? ['expired'] : []
    }
  }

  function outgoing(held: WalletPayment) {
    const isPaid = held.status === 'paid'
    return {
      ...common(held.paymentHash, held.invoice, held.createdAt, held.completedAt ?? held.createdAt),
      amount: -held.amountSats * 1000,
      fee: isPaid ? -held.feeMsat : -2000,
      status: isPaid ? 'success' : held.status,
      memo: 'refund',
      preimage: isPaid ? 'ef'.repeat(32) : '0'.repeat(64),
      webhook: null,
      labels: []
    }
  }

  function pay({ bolt11, amount }: Readonly<Record<string, unknown>>): object {
    if (typeof bolt11 !== 'string') throw new Refusal(400, 'Missing bolt11 invoice')
    if (amount !== undefined) throw new Error('an amount beside an invoice')
    const decoded = decodeInvoice(bolt11, { zeroAmount: true })
    if (decoded.amountSats === null) throw new Refusal(520, NO_AMOUNT, 'failed')
    const before = wallet.payments.get(decoded.paymentHash)
    if (before?.status === 'paid') throw new Refusal(520, 'Payment already paid.', 'success')
    if (before?.status === 'pending') throw new Refusal(520, 'Payment is pending.', 'pending')
    if (before?.status === 'failed')
      throw new Refusal(520, 'Payment is failed node, retrying is not possible.', 'failed')
    const payment = wallet.pay(bolt11, null)
    if (payment.status === 'failed') throw new Refusal(520, 'Payment failed: no route', 'failed')
    return outgoing(payment)
  }

  const server = await startNodeServer(handle, options)
  const fake: FakeLnbits = Object.assign(server, {
    wallet,
    refusesWebhooks: false,
    isDeleted: false,
    allowed: Number.MAX_SAFE_INTEGER,
    key: (access: 'admin' | 'invoice' = 'admin', path = '') =>
      `lnbits+http://${server.url.slice('http://'.length)}${path}?key=${access === 'admin' ? ADMIN : INVOICE}`,
    notification: (paymentHash: string) => {
      const held = wallet.invoices.get(paymentHash)
      return Buffer.from(
        JSON.stringify(JSON.stringify(held === undefined ? { payment_hash: paymentHash } : incoming(held)))
      )
    }
  })
  return fake
}

/** ISO, without a zone. */
function isoTime(at: number): string {
  return new Date(at).toISOString().replace('Z', '')
}

function common(paymentHash: string, invoice: string, createdAt: number, updatedAt: number) {
  return {
    checking_id: paymentHash,
    payment_hash: paymentHash,
    wallet_id: 'cd'.repeat(16),
    bolt11: invoice,
    payment_request: invoice,
    time: isoTime(createdAt),
    created_at: isoTime(createdAt),
    updated_at: isoTime(updatedAt),
    extra: {},
    external_id: null
  }
}
