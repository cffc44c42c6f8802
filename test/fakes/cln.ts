import { hash } from 'node:crypto'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { selfSigned } from './certificate.ts'
import { startNodeServer, type NodeReply, type NodeRequest, type NodeServer } from './node-server.ts'
import { NodeWallet, type WalletInvoice, type WalletPayment } from './node-wallet.ts'

/** A fake Core Lightning node. */
export interface FakeCln extends NodeServer {
  readonly wallet: NodeWallet
  /** PEM, as in ca.pem. */
  readonly certificate: string
  /** What `invoice` warns of. */
  warnings: Readonly<Record<string, string>>
  /** A version before 24.11, which has no xpay. */
  isOlder: boolean
  /** Runes over their rate get an error that says so. */
  isRateUsedUp: boolean
  /** Calls that wait for a payment are answered without a wait. */
  isImpatient: boolean
  /** Calls that wait for a payment. */
  readonly followers: ReadonlySet<unknown>
  /** A key with a rune of these methods, all unless said. */
  key(methods?: readonly string[]): string
}

const METHODS = ['invoice', 'listinvoices', 'waitanyinvoice', 'getinfo', 'listpays', 'xpay', 'pay']

/** An error of the RPC, or of clnrest. */
class RpcError extends Error {
  readonly code: number
  readonly status: number

  constructor(code: number, message: string, status = 500) {
    super(message)
    this.code = code
    this.status = status
  }
}

type Parameters = Readonly<Record<string, unknown>>

/** Starts a node without Lightning on loopback: clnrest as its source at 26.06 has it. */
export async function startFakeCln(options: { clock?: Clock; port?: number } = {}): Promise<FakeCln> {
  const clock = options.clock ?? systemClock
  const wallet = new NodeWallet(clock, 'regtest')
  const runes = new Map<string, readonly string[]>()
  const tls = selfSigned({ names: ['cln', 'localhost'] })

  const followers = new Set<PromiseWithResolvers<object>>()
  wallet.onSettled = invoice => {
    for (const held of followers) held.resolve(view(invoice))
    followers.clear()
  }

  const methods: Readonly<
    Record<
      string,
      { readonly takes: readonly string[]; run(given: Parameters, over: AbortSignal): object | null | Promise<object> }
    >
  > = {
    getinfo: {
      takes: [],
      run: () => ({ id: '02'.padEnd(66, 'b'), network: 'regtest', version: fake.isOlder ? 'v24.08' : 'v26.06' })
    },
    invoice: {
      takes: ['amount_msat', 'label', 'description', 'expiry', 'preimage', 'cltv', 'deschashonly'],
      run: invoice
    },
    listinvoices: { takes: ['label', 'invstring', 'payment_hash', 'offer_id'], run: listInvoices },
    waitanyinvoice: { takes: ['lastpay_index', 'timeout'], run: waitAnyInvoice },
    listpays: { takes: ['bolt11', 'payment_hash', 'status'], run: listPays },
    xpay: { takes: ['invstring', 'amount_msat', 'maxfee', 'retry_for'], run: given => pay('invstring', given) },
    pay: {
      takes: ['bolt11', 'amount_msat', 'maxfee', 'retry_for', 'label', 'description'],
      run: given => pay('bolt11', given)
    }
  }

  async function handle(request: NodeRequest): Promise<NodeReply> {
    try {
      const body = await act(request)
      return body === null ? 'nothing' : { status: 201, body }
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      return { status: error.status, body: { code: error.code, message: error.message } }
    }
  }

  function act({ method, url, headers, text, over }: NodeRequest): object | null | Promise<object> {
    if (method !== 'POST') throw new RpcError(-32_600, 'Method Not Allowed', 405)
    const [, name = ''] = /^\/v1\/([a-z]+)$/.exec(url.pathname) ?? []
    const rune = headers['rune']
    if (typeof rune !== 'string') throw new RpcError(1501, 'Not authorized: Missing rune', 403)
    const may = runes.get(rune)
    if (may === undefined) throw new RpcError(1501, 'Not authorized: Not derived from master', 401)
    if (fake.isRateUsedUp) throw new RpcError(1502, 'Not permitted: Rate of 60 per minute exceeded', 401)
    if (!may.includes(name)) throw new RpcError(1502, 'Not permitted: method is not equal to any', 401)
    const known = fake.isOlder && name === 'xpay' ? undefined : methods[name]
    if (known === undefined) throw new RpcError(-32_601, `Unknown command '${name}'`, 404)
    if (headers['content-type'] !== 'application/json') throw new RpcError(-32_600, 'Not Acceptable', 406)
    if (/\\u[0-9a-f]{4}/i.test(text)) throw new RpcError(-32_602, 'JSON escape: invalid token')
    // A test hands over objects alone.
    const given = JSON.parse(text) as Parameters
    for (const member of Object.keys(given))
      if (!known.takes.includes(member)) throw new RpcError(-32_602, `unknown parameter: ${member}`)
    return known.run(given, over)
  }

  function invoice(given: Parameters): object {
    const amountMsat = whole(given, 'amount_msat')
    const label = text(given, 'label')
    const description = text(given, 'description')
    const isHashed = given['deschashonly'] === true
    if (!isHashed && Buffer.byteLength(description) > 639)
      throw new RpcError(-32_602, 'description must be <= 639 bytes')
    if (amountMsat > wallet.largest * 1000) throw new RpcError(-32_602, 'amount_msat: above what this node allows')
    if ([...wallet.invoices.values()].some(held => held.label === label))
      throw new RpcError(900, `Duplicate label '${label}'`)
    const held = wallet.addInvoice({
      amountSats: amountMsat / 1000,
      label,
      description: isHashed ? '' : description,
      ...(isHashed ? { descriptionHash: hash('sha256', description) } : {}),
      expirySeconds: given['expiry'] === undefined ? 604_800 : whole(given, 'expiry')
    })
    return {
      bolt11: held.invoice,
      payment_hash: held.paymentHash,
      payment_secret: '11'.repeat(32),
      expires_at: held.createdAt / 1000 + held.expirySeconds,
      created_index: wallet.invoices.size,
      ...fake.warnings
    }
  }

  function listInvoices(given: Parameters): object {
    if (Object.keys(given).length !== 1) throw new Error('everything is asked for, or by two things')
    return {
      invoices: [...wallet.invoices.values()]
        .filter(held => held.label === given['label'] || held.paymentHash === given['payment_hash'])
        .map(view)
    }
  }

  /** As lightningd waits: whatever is paid next ends a wait, below the count too. */
  function waitAnyInvoice(given: Parameters, over: AbortSignal): object | Promise<object> {
    if (given['timeout'] === undefined) throw new Error('the wait has no timeout')
    const seconds = whole(given, 'timeout')
    const after = whole(given, 'lastpay_index')
    const [next] = [...wallet.invoices.values()]
      .filter(({ payIndex }) => payIndex > after)
      .sort((one, other) => one.payIndex - other.payIndex)
    if (next !== undefined) return view(next)
    const timedOut = new RpcError(904, 'Timed out while waiting for invoice to be paid')
    if (seconds === 0 || fake.isImpatient) throw timedOut
    const held = Promise.withResolvers<object>()
    const timer = clock.after(seconds * 1000, () => {
      followers.delete(held)
      held.reject(timedOut)
    })
    followers.add(held)
    over.addEventListener('abort', () => {
      followers.delete(held)
      timer.cancel()
    })
    return held.promise
  }

  function view(held: WalletInvoice): object {
    const isPaid = held.settledAt !== null
    return {
      label: held.label,
      bolt11: held.invoice,
      payment_hash: held.paymentHash,
      status: isPaid ? 'paid' : wallet.isExpired(held) ? 'expired' : 'unpaid',
      amount_msat: held.amountSats * 1000,
      description: held.description,
      expires_at: held.createdAt / 1000 + held.expirySeconds,
      created_index: 1,
      ...(isPaid
        ? {
            pay_index: held.payIndex,
            amount_received_msat: held.receivedSats * 1000,
            paid_at: Math.floor((held.settledAt ?? 0) / 1000),
            payment_preimage: held.preimage
          }
        : {})
    }
  }

  function listPays(given: Parameters): object {
    const held = wallet.payments.get(text(given, 'payment_hash'))
    if (held === undefined) return { pays: [] }
    const isPaid = held.status === 'paid'
    return {
      pays: [
        {
          payment_hash: held.paymentHash,
          status: isPaid ? 'complete' : held.status,
          created_at: Math.floor(held.createdAt / 1000),
          bolt11: held.invoice,
          amount_sent_msat: isPaid ? held.amountSats * 1000 + held.feeMsat : 0,
          ...(isPaid ? { amount_msat: held.amountSats * 1000, preimage: 'ef'.repeat(32) } : {}),
          ...(held.completedAt === null ? {} : { completed_at: Math.floor(held.completedAt / 1000) })
        }
      ]
    }
  }

  function pay(name: 'invstring' | 'bolt11', given: Parameters): object | null {
    const invoice = text(given, name)
    const decoded = decodeInvoice(invoice, { zeroAmount: true })
    const amount = given['amount_msat'] === undefined ? null : whole(given, 'amount_msat')
    if (amount !== null && decoded.amountSats !== null)
      throw new RpcError(-32_602, 'amount_msat not allowed for invoices with an amount')
    if (amount === null && decoded.amountSats === null)
      throw new RpcError(-32_602, 'amount_msat required for an invoice without amount')
    const before = wallet.payments.get(decoded.paymentHash)
    if (before?.status === 'paid') {
      if (name === 'invstring') throw new RpcError(219, 'Already paid')
      return paid(name, before)
    }
    if (before?.status === 'pending') throw new RpcError(-3, 'Payment still in progress')
    const payment = wallet.pay(invoice, amount === null ? null : amount / 1000)
    if (payment.status === 'pending') return null
    if (payment.status === 'failed') throw new RpcError(203, 'Destination said it does not know the payment')
    return paid(name, payment)
  }

  function paid(name: 'invstring' | 'bolt11', { paymentHash, amountSats, feeMsat, createdAt }: WalletPayment): object {
    const ofPay = {
      status: 'complete',
      payment_hash: paymentHash,
      created_at: Math.floor(createdAt / 1000),
      parts: 1
    }
    return {
      ...(name === 'bolt11' ? ofPay : {}),
      payment_preimage: 'ef'.repeat(32),
      amount_msat: amountSats * 1000,
      amount_sent_msat: amountSats * 1000 + feeMsat,
      failed_parts: 0,
      successful_parts: 1
    }
  }

  const server = await startNodeServer(handle, { ...options, tls: { cert: tls.certificate, key: tls.key } })
  const fake: FakeCln = Object.assign(server, {
    wallet,
    certificate: tls.certificate,
    warnings: {},
    isOlder: false,
    isRateUsedUp: false,
    isImpatient: false,
    followers,
    key: (may: readonly string[] = METHODS) => {
      const rune = Buffer.from(`rune ${runes.size + 1} for ${may.join('|')}`).toString('base64url')
      runes.set(rune, may)
      const ca = Buffer.from(tls.certificate).toString('base64url')
      return `clnrest://${server.url.slice('https://'.length)}?ca=${ca}&rune=${rune}`
    }
  })
  return fake
}

function whole(given: Parameters, name: string): number {
  const value = given[name]
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw new RpcError(-32_602, value === undefined ? `missing required parameter: ${name}` : `${name}: not an integer`)
}

function text(given: Parameters, name: string): string {
  const value = given[name]
  if (typeof value === 'string') return value
  throw new RpcError(-32_602, value === undefined ? `missing required parameter: ${name}` : `${name}: not a string`)
}
