/**
 * Amboss' lightning SDK for mppx, as its authors wrote it, opens, uses, tops up and closes a session, pays for single
 * requests, and its refund goes to an invoice of zero satoshis as its adapters make one. Its provider pays from the
 * sandbox, which is what its interface is for. Only where it was built (see install.sh).
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { openShop } from '../../selling/sessions/fixture.ts'
import { SDK_ROUTE, sdkWallet, sessionLife, type SdkMppx, type SdkSession } from '../session-sdk.ts'

const folder = process.env['BOLTGATE_AMBOSS']
const skip =
  folder === undefined
    ? 'the SDK is not at hand: run sh test/interop/amboss/install.sh FOLDER, then set BOLTGATE_AMBOSS=FOLDER'
    : false

/** `LightningProvider` of the SDK, as far as its clients use it. */
interface Provider {
  payInvoice(asked: { readonly bolt11: string }): Promise<{ readonly preimage: string }>
  createInvoice(asked: {
    readonly expirySecs: number
  }): Promise<{ readonly bolt11: string; readonly paymentHash: string }>
}

/** What the SDK exports, as far as it is used here. */
interface Sdk {
  lightningChargeClient(provider: Provider): object
  lightningSessionClient(
    provider: Provider,
    options: { readonly onProgress: (event: { readonly type: string }) => void }
  ): SdkSession
}

t.test("Amboss' SDK", { skip }, async t => {
  const home = join(folder ?? '', 'packages/sdk')
  // Paths that are computed give unknown modules; the interfaces say what is in them.
  const sdk = (await import(pathToFileURL(join(home, 'dist/index.js')).href)) as Sdk
  const entry = createRequire(join(home, 'package.json')).resolve('mppx/client')
  const { Mppx } = (await import(pathToFileURL(entry).href)) as { Mppx: SdkMppx }
  const shop = await openShop(t, SDK_ROUTE)
  const { paid, pay, receive } = sdkWallet(shop)
  const provider: Provider = {
    payInvoice: async ({ bolt11 }) => ({ preimage: await pay(bolt11) }),
    createInvoice: ({ expirySecs }) => Promise.resolve({ bolt11: receive(expirySecs), paymentHash: '' })
  }

  await t.test('opens, uses, tops up and closes a session', async t => {
    const steps: string[] = []
    const session = sdk.lightningSessionClient(provider, { onProgress: ({ type }) => steps.push(type) })
    const { fetch } = Mppx.create({ methods: [session], polyfill: false })
    await sessionLife(t, shop, { session, fetch, paid, steps })
  })

  await t.test('pays for single requests at the same route', async t => {
    const { fetch } = Mppx.create({ methods: [sdk.lightningChargeClient(provider)], polyfill: false })
    t.equal((await fetch(`${shop.gateway.url}/v1/a`)).status, 200)
    t.equal(paid.length, 3)
  })
})
