/** @x402/fetch as published, with a Lightning scheme of its own, against a running gateway. */
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { fetch402, fetchWithL402, fetchWithMpp, fetchWithX402 } from '@getalby/lightning-tools/402'
import t, { type Test as T } from 'tap'
import { defaultYaml, startGateway } from '../support/gateway.ts'
import { freePort } from '../support/free-port.ts'
import { RawClient } from '../support/raw-client.ts'
import { lightningMethod, loadMppx, mppxProgram } from './mppx-client.ts'
import { sandboxWallet } from './setting.ts'
import { countingUpstream } from '../security/shop.ts'

/** What the test uses of the package, which has a folder of its own. */
interface X402Fetch {
  wrapFetchWithPaymentFromConfig(
    fetch: typeof globalThis.fetch,
    config: {
      readonly schemes: ReadonlyArray<{ readonly network: string; readonly client: LightningScheme }>
      readonly spendControls: false
    }
  ): typeof globalThis.fetch
  decodePaymentResponseHeader(value: string): { readonly success: boolean; readonly transaction: string }
}
interface LightningScheme {
  readonly scheme: 'exact'
  createPaymentPayload(
    version: number,
    wanted: { readonly extra: { readonly invoice: string } }
  ): Promise<{ readonly x402Version: number; readonly payload: { readonly preimage: string } }>
}

const own = createRequire(new URL('x402/package.json', import.meta.url))

function entry() {
  try {
    return pathToFileURL(own.resolve('@x402/fetch')).href
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') return null
    throw error
  }
}

const program = entry()
const skip = program === null ? '@x402/fetch is not installed: run npm ci --prefix test/interop/x402' : false

async function openShop(t: T) {
  const upstream = await countingUpstream(t)
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const gateway = await startGateway(t, {
    env: { PORT: String(port), PUBLIC_URL: url },
    yaml: defaultYaml({
      replace: [
        [
          'chains:\n',
          'payment: { schemes: [ l402, payment, x402 ] }\nchains:\n  bounded: [ correlation, access-log, metrics, cors, body-limit, credential, challenge ]\n'
        ],
        [
          'routes:\n',
          `routes:\n  - { match: { path: /paid/* }, price: 7 sats, chain: bounded, upstream: { url: "${upstream.origin}" } }\n`
        ]
      ]
    })
  })
  return { gateway, upstream, url, port }
}

t.test('@x402/fetch pays by the third challenge of a 402', { skip }, async t => {
  // A computed path gives an unknown module; the interfaces above say what is in it.
  const x402 = (await import(program ?? '')) as X402Fetch
  const { gateway, upstream, url } = await openShop(t)
  const invoices: string[] = []
  const lightning: LightningScheme = {
    scheme: 'exact',
    async createPaymentPayload(x402Version, { extra }) {
      invoices.push(extra.invoice)
      return { x402Version, payload: { preimage: await gateway.pay(extra.invoice) } }
    }
  }
  const sent: Request[] = []
  const paying = x402.wrapFetchWithPaymentFromConfig(
    async (...request) => {
      if (request[0] instanceof Request) sent.push(request[0].clone())
      return await fetch(...request)
    },
    // The package knows the dollar price of stablecoins only.
    { schemes: [{ network: 'lnbtc:*', client: lightning }], spendControls: false }
  )
  const body = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"city":"Berlin"}' }

  for (const [path, init] of [
    ['/paid/item?q=1', undefined],
    ['/paid/item', body]
  ] as const) {
    const response = await paying(url + path, init)
    t.equal(response.status, 200, path)
    t.equal(await response.text(), 'sold')
    const settled = x402.decodePaymentResponseHeader(response.headers.get('payment-response') ?? '')
    t.match(settled, { success: true, transaction: /^[0-9a-f]{64}$/ })
  }
  t.equal(invoices.length, 2, 'one payment for each')
  t.same(upstream.hits, ['GET /paid/item?q=1', 'POST /paid/item'])
  t.notOk(
    upstream.requests.some(({ headers }) => 'payment-signature' in headers),
    'the upstream sees no credential'
  )
  const last = sent.at(-1)
  if (last === undefined) throw new Error('the client sent requests')
  const again = await fetch(last)
  t.equal(again.status, 402)
  t.match(x402.decodePaymentResponseHeader(again.headers.get('payment-response') ?? ''), {
    success: false,
    errorReason: 'duplicate_settlement'
  })
})

t.test(
  'other clients as published pay as before beside the third challenge, and Alby by its older dialect',
  async t => {
    const { gateway, upstream, url } = await openShop(t)
    const wallet = sandboxWallet(gateway)
    const clients: ReadonlyArray<readonly [string, (url: string) => Promise<Response>]> = [
      ['fetchWithX402', async to => await fetchWithX402(to, {}, { wallet })],
      ['fetch402', async to => await fetch402(to, {}, { wallet })],
      ['fetchWithL402', async to => await fetchWithL402(to, {}, { wallet })],
      [
        'fetchWithMpp',
        async to => await fetchWithMpp(to, { headers: { 'accept-payment': 'lightning/charge' } }, { wallet })
      ]
    ]
    const mppx = mppxProgram() === null ? null : await loadMppx()
    const method = mppx && lightningMethod(mppx, async invoice => (await wallet.payInvoice({ invoice })).preimage)
    const all =
      mppx && method
        ? [...clients, ['mppx', mppx.Mppx.create({ methods: [method], polyfill: false }).fetch] as const]
        : clients
    for (const [name, pay] of all) {
      const response = await pay(`${url}/paid/item?by=${name}`)
      t.equal(response.status, 200, name)
      t.equal(await response.text(), 'sold')
      t.equal(response.headers.has('payment-response'), name === 'fetchWithX402', name)
      t.equal(response.headers.has('payment-receipt'), name === 'fetchWithMpp' || name === 'mppx', name)
    }
    t.equal(wallet.paid.length, all.length, 'each pays once')
    t.equal(upstream.hits.length, all.length)
  }
)

t.test('with two routing hints, the head of a 402 with three schemes stays below 5,000 bytes', async t => {
  const { port } = await openShop(t)
  const raw = await RawClient.connect(port)
  raw.send(
    `POST /paid/my-api-1a2b3c4d/v1/forecasts?q=1 HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`
  )
  const unpaid = await raw.response('POST')
  t.equal(unpaid.status, 402)
  t.type(unpaid.header('payment-required'), 'string')
  raw.socket.destroy()
  // The sandbox's invoice has no hints. One takes 85 characters, which are sent four times, twice in base64.
  const hints = Math.ceil(2 * 85 * (2 + (2 * 4) / 3))
  const head = raw.received.indexOf('\r\n\r\n') + 4 + hints
  t.ok(head < 5_000, `${head} bytes`)
})
