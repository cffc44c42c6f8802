/**
 * Spark's lightning SDK for mppx, as its authors wrote it, opens, uses, tops up and closes a session. Its wallet is the
 * sandbox's; nothing else of it is changed. Only where it was built (see install.sh).
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { openShop, returnInvoice } from '../../sessions/fixture.ts'

const folder = process.env['BOLTGATE_SPARK']
const skip =
  folder === undefined
    ? 'the SDK is not at hand: run sh test/interop/spark/install.sh FOLDER, then set BOLTGATE_SPARK=FOLDER'
    : false

/** `WalletLike` of the SDK. */
interface Wallet {
  payLightningInvoice(asked: { readonly invoice: string }): Promise<{ readonly paymentPreimage: string }>
  getLightningSendRequest(id: string): Promise<null>
  createLightningInvoice(asked: {
    readonly expirySeconds: number
  }): Promise<{ readonly invoice: { readonly encodedInvoice: string } }>
  cleanupConnections(): Promise<void>
}

type Fetch = (input: string, init?: RequestInit) => Promise<Response>

interface Session {
  topUp(fetch: Fetch, url: string): Promise<Response>
  close(fetch: Fetch, url: string): Promise<Response>
  getSession(): { readonly sessionId: string } | null
}

/** What the SDK's client exports, as far as it is used here. */
interface Sdk {
  readonly Mppx: {
    create(options: { readonly methods: readonly object[]; readonly polyfill: false }): { fetch: Fetch }
  }
  readonly spark: {
    charge(options: { readonly wallet: Wallet; readonly network: string }): object
    session(options: {
      readonly wallet: Wallet
      readonly onProgress: (event: { readonly type: string }) => void
    }): Session
  }
}

t.test("Spark's SDK", { skip }, async t => {
  // A path that is computed gives an unknown module; the interface above says what is in it.
  const sdk = (await import(pathToFileURL(join(folder ?? '', 'sdk/dist/client/index.js')).href)) as Sdk
  const shop = await openShop(t, 'price: 2 sats\n    sessions: { deposit: 20 sats, idle: 5m }')
  const paid: string[] = []
  const wallet: Wallet = {
    payLightningInvoice: async ({ invoice }) => {
      paid.push(invoice)
      return { paymentPreimage: await shop.gateway.pay(invoice) }
    },
    getLightningSendRequest: () => Promise.resolve(null),
    createLightningInvoice: ({ expirySeconds }) =>
      Promise.resolve({ invoice: { encodedInvoice: returnInvoice({ expirySeconds }) } }),
    cleanupConnections: () => Promise.resolve()
  }
  const url = `${shop.gateway.url}/v1/a`

  await t.test('opens, uses, tops up and closes a session', async t => {
    const steps: string[] = []
    const session = sdk.spark.session({ wallet, onProgress: ({ type }) => steps.push(type) })
    const { fetch } = sdk.Mppx.create({ methods: [session], polyfill: false })
    for (let time = 0; time < 10; time++) t.equal((await fetch(url)).status, 200)
    t.equal(paid.length, 1, 'one deposit pays for ten requests')
    const { sessionId = '' } = session.getSession() ?? {}
    t.equal((await fetch(url)).status, 402, 'the balance is used up')
    const toppedUp = await session.topUp(fetch, url)
    t.equal(toppedUp.status, 200)
    t.same(await toppedUp.json(), { status: 'ok' })
    for (let time = 0; time < 3; time++) t.equal((await fetch(url)).status, 200)
    const closed = await session.close(fetch, url)
    t.equal(closed.status, 200)
    t.same(await closed.json(), { status: 'closed', refundSats: 14, refundStatus: 'succeeded' })
    t.equal(session.getSession(), null)
    t.equal(paid.length, 2)
    t.same(steps.slice(0, 2), ['opening', 'bearer'])
    t.equal(shop.upstream.requests.length, 13)
    t.match(await shop.store.find(sessionId), {
      depositedMsat: 40_000,
      spentMsat: 26_000,
      refundedMsat: 14_000,
      refundStatus: 'confirmed'
    })
  })

  await t.test('pays for single requests at the same route', async t => {
    const { fetch } = sdk.Mppx.create({ methods: [sdk.spark.charge({ wallet, network: 'regtest' })], polyfill: false })
    t.equal((await fetch(url)).status, 200)
    t.equal(paid.length, 3)
  })
})
