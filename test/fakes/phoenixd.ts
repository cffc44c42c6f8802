import { createHmac } from 'node:crypto'
import { WebSocketServer, type WebSocket } from 'ws'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { startNodeServer, type NodeReply, type NodeRequest, type NodeServer } from './node-server.ts'
import { NodeWallet, type WalletInvoice, type WalletPayment } from './node-wallet.ts'

/** A fake phoenixd. */
export interface FakePhoenixd extends NodeServer {
  readonly wallet: NodeWallet
  readonly webhookSecret: string
  /** Channels that it shows. */
  channels: number
  /** Open WebSockets. */
  readonly followers: ReadonlySet<WebSocket>
  /** A key with the full password, or the limited one. */
  key(access?: 'full' | 'limited', webhook?: boolean): string
  /** What its webhook says of a paid invoice. */
  notification(paymentHash: string): { readonly headers: Readonly<Record<string, string>>; readonly body: Buffer }
}

const FULL = 'phoenixd-full-password'
const LIMITED = 'phoenixd-limited-password'
const NETWORK = 'testnet'
const WEBHOOK_SECRET = 'phoenixd-webhook-secret'

/** What it answers by throwing: a text. */
class Refusal extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Starts a phoenixd without Lightning on loopback: its API as its source at 0.8 has it. */
export async function startFakePhoenixd(options: { clock?: Clock; port?: number } = {}): Promise<FakePhoenixd> {
  const clock = options.clock ?? systemClock
  const wallet = new NodeWallet(clock, NETWORK)

  function handle(request: NodeRequest): NodeReply {
    try {
      return act(request)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return { status: error.status, body: error.message }
    }
  }

  function act({ method, url, headers, text }: NodeRequest): NodeReply {
    const given = passwordOf(headers.authorization)
    if (given === null)
      throw new Refusal(401, 'Invalid authentication (use basic auth with the http password set in phoenix.conf)')
    const form = new URLSearchParams(method === 'POST' ? text : '')
    if (method === 'POST' && headers['content-type']?.startsWith('application/x-www-form-urlencoded') !== true) {
      // Ktor reads no parameters of another type.
      if (text !== '') throw new Refusal(415, 'Unsupported Media Type')
    }
    const [, incoming] = /^\/payments\/incoming\/([0-9a-f]+)$/.exec(url.pathname) ?? []
    const [, outgoing] = /^\/payments\/outgoingbyhash\/([0-9a-f]+)$/.exec(url.pathname) ?? []
    if (method === 'GET' && url.pathname === '/getinfo') return { status: 200, body: info() }
    if (method === 'POST' && url.pathname === '/createinvoice') return { status: 200, body: create(form) }
    if (method === 'GET' && url.pathname === '/payments/incoming') return { status: 200, body: list(url.searchParams) }
    if (method === 'GET' && incoming !== undefined) {
      const held = wallet.invoices.get(incoming)
      if (held === undefined) throw new Refusal(404, 'Not found')
      return { status: 200, body: incomingView(held) }
    }
    if (method === 'GET' && outgoing !== undefined) {
      const held = wallet.payments.get(outgoing)
      if (held === undefined) throw new Refusal(404, 'Not found')
      return { status: 200, body: outgoingView(held) }
    }
    if (method === 'POST' && url.pathname === '/payinvoice') {
      if (given !== FULL)
        throw new Refusal(401, 'Invalid authentication (use basic auth with the http password set in phoenix.conf)')
      const paid = pay(form)
      return paid === null ? 'nothing' : { status: 200, body: paid }
    }
    throw new Refusal(404, `Unknown endpoint ${url.pathname}`)
  }

  function info(): object {
    return {
      nodeId: '03'.padEnd(66, 'a'),
      channels: Array.from({ length: fake.channels }, () => ({
        state: 'Normal',
        channelId: 'ab'.repeat(32),
        balanceSat: 100_000,
        inboundLiquiditySat: 900_000,
        capacitySat: 1_000_000
      })),
      chain: 'testnet3',
      blockHeight: 4_000_000,
      version: '0.8.0'
    }
  }

  function create(form: URLSearchParams): object {
    const known = ['description', 'descriptionHash', 'amountSat', 'expirySeconds', 'externalId', 'webhookUrl']
    for (const name of form.keys()) if (!known.includes(name)) throw new Error(`phoenixd knows no ${name}`)
    const description = form.get('description')
    const descriptionHash = form.get('descriptionHash')
    if ((description === null) === (descriptionHash === null))
      throw new Refusal(400, 'Must provide either a description or descriptionHash')
    if (descriptionHash !== null && !/^[0-9a-f]{64}$/.test(descriptionHash))
      throw new Refusal(400, 'Request parameter descriptionHash is invalid')
    if ((description ?? '').length > 128) throw new Refusal(400, 'Request parameter description is too long')
    const amountSats = whole(form, 'amountSat')
    if (amountSats < 1) throw new Refusal(400, 'Request parameter amountSat must be strictly positive')
    if (amountSats > wallet.largest) throw new Refusal(400, 'Request parameter amountSat is too large')
    const webhook = form.get('webhookUrl')
    const held = wallet.addInvoice({
      amountSats,
      description: description ?? '',
      ...(descriptionHash === null ? {} : { descriptionHash }),
      expirySeconds: form.has('expirySeconds') ? whole(form, 'expirySeconds') : 86_400,
      ...(webhook === null ? {} : { webhook })
    })
    return { amountSat: amountSats, paymentHash: held.paymentHash, serialized: held.invoice }
  }

  function list(query: URLSearchParams): object {
    const known = ['from', 'to', 'limit', 'offset', 'all', 'externalId']
    for (const name of query.keys()) if (!known.includes(name)) throw new Error(`phoenixd knows no ${name}`)
    const from = query.has('from') ? whole(query, 'from') : 0
    const to = query.has('to') ? whole(query, 'to') : Number.MAX_SAFE_INTEGER
    const offset = query.has('offset') ? whole(query, 'offset') : 0
    return [...wallet.invoices.values()]
      .filter(({ settledAt }) => settledAt !== null && settledAt >= from && settledAt <= to)
      .sort((one, other) => (other.settledAt ?? 0) - (one.settledAt ?? 0) || other.payIndex - one.payIndex)
      .slice(offset, offset + (query.has('limit') ? whole(query, 'limit') : 20))
      .map(incomingView)
  }

  function incomingView(held: WalletInvoice): object {
    return {
      type: 'incoming_payment',
      subType: 'lightning',
      paymentHash: held.paymentHash,
      preimage: held.preimage,
      description: held.description,
      invoice: held.invoice,
      isPaid: held.settledAt !== null,
      isExpired: held.createdAt + held.expirySeconds * 1000 <= clock.now(),
      requestedSat: held.amountSats,
      receivedSat: held.receivedSats,
      fees: 0,
      expiresAt: held.createdAt + held.expirySeconds * 1000,
      ...(held.settledAt === null ? {} : { completedAt: held.settledAt }),
      createdAt: held.createdAt
    }
  }

  function outgoingView(held: WalletPayment): object {
    return {
      type: 'outgoing_payment',
      subType: 'lightning',
      paymentId: held.id,
      paymentHash: held.paymentHash,
      ...(held.status === 'paid' ? { preimage: 'ef'.repeat(32) } : {}),
      isPaid: held.status === 'paid',
      sent: held.amountSats + Math.ceil(held.feeMsat / 1000),
      fees: held.feeMsat,
      invoice: held.invoice,
      ...(held.completedAt === null ? {} : { completedAt: held.completedAt }),
      createdAt: held.createdAt
    }
  }

  /** Null for what is held on its way: the request stays open as long. */
  function pay(form: URLSearchParams): object | null {
    const invoice = form.get('invoice')
    if (invoice === null) throw new Refusal(400, 'Request parameter invoice is missing')
    const decoded = decodeInvoice(invoice, { zeroAmount: true })
    const amount = form.has('amountSat') ? whole(form, 'amountSat') : null
    // The real one takes it instead of the invoice's own amount, and overpays.
    if (amount !== null && decoded.amountSats !== null) throw new Error('an amount beside the amount of an invoice')
    if (amount === null && decoded.amountSats === null) throw new Refusal(400, 'Request parameter amountSat is missing')
    const { paymentHash } = decoded
    const failed = (reason: string): object => ({ type: 'payment_failed', paymentHash, reason })
    const before = wallet.payments.get(paymentHash)
    if (before?.status === 'paid') return failed('this invoice has already been paid')
    if (before?.status === 'pending') return failed('another payment is in progress for that invoice')
    const payment = wallet.pay(invoice, amount)
    if (payment.status === 'pending') return null
    if (payment.status === 'failed') return failed('the recipient was not reachable')
    return {
      type: 'payment_sent',
      recipientAmountSat: payment.amountSats,
      routingFeeSat: Math.ceil(payment.feeMsat / 1000),
      paymentId: payment.id,
      paymentHash,
      paymentPreimage: 'ef'.repeat(32)
    }
  }

  function passwordOf(authorization: string | undefined): string | null {
    const [, password = ''] = /^Basic (.+)$/.exec(authorization ?? '') ?? []
    const given = Buffer.from(password, 'base64').toString('utf8').split(':').slice(1).join(':')
    return given === FULL || given === LIMITED ? given : null
  }

  /** What its webhook and its WebSocket say of a payment; `amountSat` is what is left after its fees. */
  function event({ paymentHash, receivedSats }: WalletInvoice): string {
    return JSON.stringify({
      type: 'payment_received',
      timestamp: clock.now(),
      amountSat: receivedSats,
      paymentHash,
      externalId: null,
      payerNote: null,
      payerKey: null
    })
  }

  const followers = new Set<WebSocket>()
  wallet.onSettled = held => {
    for (const follower of followers) follower.send(event(held))
  }
  const sockets = new WebSocketServer({ noServer: true })
  const server = await startNodeServer(handle, {
    ...options,
    upgrade(request, socket, head) {
      if (request.url !== '/websocket' || passwordOf(request.headers.authorization) === null) {
        socket.end('HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n')
        return
      }
      sockets.handleUpgrade(request, socket, head, opened => {
        followers.add(opened)
        opened.once('close', () => followers.delete(opened))
      })
    }
  })
  const fake: FakePhoenixd = Object.assign(server, {
    wallet,
    webhookSecret: WEBHOOK_SECRET,
    channels: 1,
    followers,
    key: (access: 'full' | 'limited' = 'full', webhook = false) =>
      `phoenixd://${server.url.slice('http://'.length)}?password=${access === 'full' ? FULL : LIMITED}${webhook ? `&webhook=${WEBHOOK_SECRET}` : ''}`,
    notification: (paymentHash: string) => {
      const held = wallet.invoices.get(paymentHash)
      if (held === undefined) throw new Error('no such invoice')
      const body = Buffer.from(event(held))
      return {
        headers: {
          'content-type': 'application/json',
          'x-phoenix-signature': createHmac('sha256', WEBHOOK_SECRET).update(body).digest('hex')
        },
        body
      }
    }
  })
  return fake
}

function whole(form: URLSearchParams, name: string): number {
  const text = form.get(name) ?? ''
  if (!/^\d+$/.test(text)) throw new Refusal(400, `Request parameter ${name} is invalid`)
  return Number(text)
}
