/**
 * Spark's lightning SDK for mppx, as its authors wrote it, opens, uses, tops up and closes a session. Its wallet is the
 * sandbox's; nothing else of it is changed. Only where it was built (see install.sh).
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { openShop } from '../../selling/sessions/fixture.ts'
import { SDK_ROUTE, sdkWallet, sessionLife, type SdkMppx, type SdkSession } from '../session-sdk.ts'

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

/** What the SDK's client exports, as far as it is used here. */
interface Sdk {
  readonly Mppx: SdkMppx
  readonly spark: {
    charge(options: { readonly wallet: Wallet; readonly network: string }): object
    session(options: {
      readonly wallet: Wallet
      readonly onProgress: (event: { readonly type: string }) => void
    }): SdkSession
  }
}

t.test("Spark's SDK", { skip }, async t => {
  // A path that is computed gives an unknown module; the interface above says what is in it.
  const sdk = (await import(pathToFileURL(join(folder ?? '', 'sdk/dist/client/index.js')).href)) as Sdk
  const shop = await openShop(t, SDK_ROUTE)
  const { paid, pay, receive } = sdkWallet(shop)
  const wallet: Wallet = {
    payLightningInvoice: async ({ invoice }) => ({ paymentPreimage: await pay(invoice) }),
    getLightningSendRequest: () => Promise.resolve(null),
    createLightningInvoice: ({ expirySeconds }) =>
      Promise.resolve({ invoice: { encodedInvoice: receive(expirySeconds) } }),
    cleanupConnections: () => Promise.resolve()
  }

  await t.test('opens, uses, tops up and closes a session', async t => {
    const steps: string[] = []
    const session = sdk.spark.session({ wallet, onProgress: ({ type }) => steps.push(type) })
    const { fetch } = sdk.Mppx.create({ methods: [session], polyfill: false })
    await sessionLife(t, shop, { session, fetch, paid, steps })
  })

  await t.test('pays for single requests at the same route', async t => {
    const { fetch } = sdk.Mppx.create({ methods: [sdk.spark.charge({ wallet, network: 'regtest' })], polyfill: false })
    t.equal((await fetch(`${shop.gateway.url}/v1/a`)).status, 200)
    t.equal(paid.length, 3)
  })
})
