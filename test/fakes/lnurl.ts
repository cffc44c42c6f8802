import { createHash, randomBytes } from 'node:crypto'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { startNodeServer, type NodeReply, type NodeRequest, type NodeServer } from './node-server.ts'
import { NodeWallet } from './node-wallet.ts'

/** A fake server of one Lightning address. */
export interface FakeLnurl extends NodeServer {
  readonly wallet: NodeWallet
  /** The address, as the LNURL of its pay request. */
  key(): string
  /** Seconds for which its invoices are good. */
  expirySeconds: number
  /** The pay request, as members put over the usual ones. */
  terms: Readonly<Record<string, unknown>>
  /** Members put over those of an answer with an invoice; `verify: undefined` leaves the member out. */
  answer: Readonly<Record<string, unknown>>
  /** Members put over those of an answer to a verify. */
  verified: Readonly<Record<string, unknown>>
  /** Where it says whether the invoice was paid. */
  verifyOf(paymentHash: string): string
}

const METADATA = JSON.stringify([
  ['text/plain', 'Payments of a shop'],
  ['text/identifier', 'shop@127.0.0.1']
])
const COMMENT = 40

/** What it answers by throwing: with status 200, as LUD-06 has it. */
class Refusal extends Error {}

/** Starts a server of `shop@…` on loopback: LUD-06, -12, -16 and -21. */
export async function startFakeLnurl(options: { clock?: Clock; port?: number } = {}): Promise<FakeLnurl> {
  const clock = options.clock ?? systemClock
  const wallet = new NodeWallet(clock, 'mainnet')
  /** Verify addresses are no payment hashes: they must be kept. */
  const verifies = new Map<string, string>()

  function handle(request: NodeRequest): NodeReply {
    try {
      return { status: 200, body: act(request) }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return { status: 200, body: { status: 'ERROR', reason: error.message } }
    }
  }

  function act({ method, url, headers }: NodeRequest): object {
    if (method !== 'GET') throw new Error(`LNURL is asked with GET, not ${method}`)
    if (headers.authorization !== undefined) throw new Error('the request has credentials')
    if (url.pathname === '/.well-known/lnurlp/shop') return payRequest(url)
    if (url.pathname === '/lnurl/callback') return invoice(url.searchParams)
    const [, token = ''] = /^\/lnurl\/verify\/([0-9a-f]+)$/.exec(url.pathname) ?? []
    const held = wallet.invoices.get(verifies.get(token) ?? '')
    if (held === undefined) throw new Refusal('Not found')
    const settled = held.settledAt !== null
    return { status: 'OK', settled, preimage: settled ? held.preimage : null, pr: held.invoice, ...fake.verified }
  }

  function payRequest(url: URL): object {
    if (url.search !== '') throw new Error('the first request has no query')
    return {
      tag: 'payRequest',
      // It may hold a query of its own.
      callback: `${fake.url}/lnurl/callback?shop=1`,
      minSendable: 1_000,
      maxSendable: wallet.largest * 1000,
      metadata: METADATA,
      commentAllowed: COMMENT,
      ...fake.terms
    }
  }

  function invoice(query: URLSearchParams): object {
    for (const name of query.keys())
      if (!['shop', 'amount', 'comment'].includes(name)) throw new Error(`there is no parameter ${name}`)
    const text = query.get('amount') ?? ''
    if (!/^[1-9][0-9]*$/.test(text)) throw new Refusal('Amount is required.')
    const msat = Number(text)
    if (msat > wallet.largest * 1000) throw new Refusal('Amount is too large.')
    if ((query.get('comment') ?? '').length > COMMENT) throw new Refusal('Comment is too long.')
    // A false hash is that of other metadata: there is nothing else beside the invoice.
    const isOther = wallet.lie === 'hash'
    if (isOther) wallet.lie = null
    const { paymentHash, invoice: pr } = wallet.addInvoice({
      amountSats: Math.floor(msat / 1000),
      description: query.get('comment') ?? '',
      descriptionHash: createHash('sha256')
        .update(isOther ? '[]' : METADATA)
        .digest('hex'),
      expirySeconds: fake.expirySeconds
    })
    const token = randomBytes(16).toString('hex')
    verifies.set(token, paymentHash)
    return { pr, routes: [], verify: `${fake.url}/lnurl/verify/${token}`, ...fake.answer }
  }

  const server = await startNodeServer(handle, options)
  const fake: FakeLnurl = Object.assign(server, {
    wallet,
    expirySeconds: 3600,
    terms: {},
    answer: {},
    verified: {},
    key: () => `lnurlp+http://${server.url.slice('http://'.length)}/.well-known/lnurlp/shop`,
    verifyOf: (paymentHash: string) => {
      const [token = ''] = [...verifies].find(([, held]) => held === paymentHash) ?? []
      return `${server.url}/lnurl/verify/${token}`
    }
  })
  return fake
}
