/** Clients that keep their tokens, as published, against a running gateway: what `renewal` is for (decision 177). */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t, { type Test as T } from 'tap'
import { paymentHashOf } from '../../../src/lightning/codecs/hmac.ts'
import type { TestGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openShop } from '../../security/shop.ts'
import { serve } from '../../support/serve.ts'

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const python = here('python/bin/python')
const skip =
  existsSync(python) && existsSync(here('node_modules/l402'))
    ? false
    : 'the clients are not installed: run test/interop/keepers/install.sh'

interface Keeper {
  readonly name: string
  readonly program: string
  readonly file: string
  /**
   * What the contract's 403 does to it on a second path, and once its token has expired: the status that its user is
   * left with.
   */
  readonly stuck: { readonly path: number; readonly expired: number }
}

const keepers: readonly Keeper[] = [
  { name: 'l402-requests', program: python, file: here('l402-requests.py'), stuck: { path: 403, expired: 403 } },
  // These two keep tokens by address, so a second path is a first visit.
  { name: 'L402sdk', program: python, file: here('l402sdk.py'), stuck: { path: 200, expired: 403 } },
  { name: 'sulu l402', program: process.execPath, file: here('sulu.mjs'), stuck: { path: 200, expired: 403 } }
]

/** The two calls of LND's REST interface that pay, over the sandbox; answers its address and what it has paid. */
async function restWallet(t: T, gateway: TestGateway) {
  const wallet = { url: '', paid: 0 }
  const server = createServer((request, response) => {
    const pay = async () => {
      let text = ''
      for await (const piece of request.setEncoding('utf8')) text += String(piece)
      const { payment_request: invoice } = JSON.parse(text) as { payment_request: string } // the clients' own format
      const preimage = await gateway.pay(invoice)
      wallet.paid++
      response.setHeader('content-type', 'application/json')
      const paid = { payment_hash: paymentHashOf(preimage), fee_sat: '0', fee_msat: '0', value_sat: '1' }
      response.end(
        JSON.stringify(
          request.url === '/v2/router/send'
            ? { result: { ...paid, status: 'SUCCEEDED', payment_preimage: preimage } }
            : { ...paid, payment_error: '', payment_preimage: Buffer.from(preimage, 'hex').toString('base64') }
        )
      )
    }
    pay().catch((error: unknown) => {
      response.writeHead(500).end(String(error))
    })
  })
  wallet.url = `http://127.0.0.1:${await serve(t, server)}`
  return wallet
}

/** Runs a client over a wallet; `get` answers the status that a path came to for it. */
async function run(t: T, keeper: Keeper, gateway: TestGateway) {
  const wallet = await restWallet(t, gateway)
  const child = spawn(keeper.program, [keeper.file, wallet.url], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => {
    child.kill()
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const get = async (path: string) => {
    child.stdin.write(`${gateway.url}${path}\n`)
    return String((await lines.next()).value)
  }
  return { wallet, get }
}

for (const keeper of keepers) {
  for (const renews of [false, true]) {
    t.test(`${keeper.name}, ${renews ? 'renewal: 402' : "the contract's answers"}`, { skip }, async t => {
      const clock = new ManualClock()
      const shop = await openShop(t, { clock })
      const { gateway } = shop
      const proxy = await shop.proxy({ renewal: renews ? 402 : 'contract' })
      const { wallet, get: at } = await run(t, keeper, gateway)
      const get = async (path: string) => await at(proxy.path + path)
      t.equal(await get('/a'), '200')
      t.equal(await get('/a'), '200')
      t.equal(wallet.paid, 1, 'it keeps its token')
      t.equal(await get('/b'), renews ? '200' : String(keeper.stuck.path), 'a second path')
      clock.advance(3_601_000)
      // Until its idle connections are closed.
      await shop.alone('GET', '/health')
      const before = wallet.paid
      t.equal(await get('/a'), renews ? '200' : String(keeper.stuck.expired), 'its token has expired')
      t.equal(wallet.paid, before + (renews ? 1 : 0), renews ? 'it pays again' : 'and it does not pay')
    })
  }
}

for (const keeper of keepers) {
  t.test(`${keeper.name} keeps a balance until it is used up, and buys another`, { skip }, async t => {
    const shop = await openShop(t)
    const { gateway } = shop
    const meter = { unit: 'request', outputMsat: 4000, usage: 'requests' }
    const proxy = await shop.proxy({ endpoints: [{ pathPattern: '/a', priceSats: 10, meter }] })
    const { wallet, get } = await run(t, keeper, gateway)
    const statuses: string[] = []
    for (let time = 0; time < 5; time++) statuses.push(await get(`${proxy.path}/a`))
    t.strictSame([statuses, wallet.paid], [['200', '200', '200', '200', '200'], 3])
  })
}
