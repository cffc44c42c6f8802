/** LNbits' own clients, which others wrote against the real services, before our fakes: so that these are not our opinion alone. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import t, { type Test as T } from 'tap'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { startFakeBlink } from '../../fakes/blink.ts'
import { startFakeCln } from '../../fakes/cln.ts'
import type { NodeWallet } from '../../fakes/node-wallet.ts'
import { startFakeNwc } from '../../fakes/nwc.ts'
import { startFakePhoenixd } from '../../fakes/phoenixd.ts'
import { refundOf } from '../../lightning/providers/contract/subject.ts'
import { temporaryFolder } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { findLnbits } from './instance.ts'

const folder = findLnbits()
const skip = folder === null ? 'LNbits is not at hand: see test/interop/lnbits/install.sh' : false

type Outcome = Readonly<Record<string, unknown>>
type Ask = (method: string, given?: object) => Promise<Outcome>

/** A wallet class of LNbits in a process of its own. */
function walletOf(t: T, python: string, module: string, name: string, settings: object): Ask {
  const data = temporaryFolder(t)
  const script = fileURLToPath(new URL('wallets.py', import.meta.url))
  const child = spawn(python, [script, module, name, JSON.stringify(settings)], {
    cwd: data,
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { PATH: process.env['PATH'] ?? '', LNBITS_DATA_FOLDER: data }
  })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return async (method, given = {}) => {
    child.stdin.write(`${JSON.stringify([method, given])}\n`)
    for (;;) {
      const { value, done } = await lines.next()
      if (done === true) throw new Error(`${name} ended before the result of ${method}`)
      // LNbits may write lines of its own.
      if (value.startsWith('{')) return JSON.parse(value) as Outcome
    }
  }
}

/** Receives and pays through a client that is not ours. */
async function receiveAndPay(
  t: T,
  ask: Ask,
  fake: { readonly wallet: NodeWallet },
  tell: (paymentHash: string) => void = () => {},
  look = 'get_invoice_status'
) {
  const made = await ask('create_invoice', { amount: 21, memo: 'Tea', expiry: 600 })
  t.match(made, { ok: true, error_message: null })
  const { paymentHash, amountSats } = decodeInvoice(String(made['payment_request']))
  t.equal(made['checking_id'], paymentHash)
  t.equal(amountSats, 21)
  t.match(await ask(look, { checking_id: paymentHash }), { paid: null })
  fake.wallet.settle(paymentHash)
  tell(paymentHash)
  let status = await ask(look, { checking_id: paymentHash })
  // Its response arrives on another channel than its request.
  for (let tries = 0; tries < 100 && status['paid'] === null; tries++)
    status = await ask(look, { checking_id: paymentHash })
  t.match(status, { paid: true })
  const { destination } = refundOf(new ManualClock(Date.now()), 40)
  const bolt11 = destination.type === 'ln' ? destination.invoice : ''
  const paid = await ask('pay_invoice', { bolt11, fee_limit_msat: 10_000 })
  t.match(paid, { ok: true, checking_id: decodeInvoice(bolt11).paymentHash })
  t.match(await ask('get_payment_status', { checking_id: paid['checking_id'] }), { paid: true })
  t.equal(fake.wallet.sendings, 1)
}

t.test("LNbits' client for phoenixd takes our fake for one", { skip }, async t => {
  const fake = await startFakePhoenixd()
  t.teardown(() => fake.close())
  const ask = walletOf(t, join(folder ?? '', 'bin/python'), 'phoenixd', 'PhoenixdWallet', {
    phoenixd_api_endpoint: fake.url,
    phoenixd_api_password: new URL(fake.key()).searchParams.get('password')
  })
  t.match(await ask('status'), { error_message: null })
  await receiveAndPay(t, ask, fake)
})

t.test("LNbits' client for clnrest takes our fake for one", { skip }, async t => {
  const fake = await startFakeCln()
  t.teardown(() => fake.close())
  const rune = new URL(fake.key()).searchParams.get('rune')
  const ask = walletOf(t, join(folder ?? '', 'bin/python'), 'clnrest', 'CLNRestWallet', {
    clnrest_url: fake.url.replace('127.0.0.1', 'localhost'),
    clnrest_ca: fake.certificate,
    clnrest_readonly_rune: rune,
    clnrest_invoice_rune: rune,
    clnrest_pay_rune: rune
  })
  await receiveAndPay(t, ask, fake)
})

t.test("LNbits' client for Nostr Wallet Connect takes our fake for a wallet", { skip }, async t => {
  const fake = await startFakeNwc()
  t.teardown(() => fake.close())
  // It asks the relay for answers that name it.
  fake.tagsClients = true
  const ask = walletOf(t, join(folder ?? '', 'bin/python'), 'nwc', 'NWCWallet', { nwc_pairing_url: fake.key() })
  t.match(await ask('status'), { error_message: null, balance_msat: 21_000 })
  await receiveAndPay(t, ask, fake, paymentHash => {
    fake.notify(paymentHash)
  })
})

t.test("LNbits' client for Blink takes our fake for it", { skip }, async t => {
  const fake = await startFakeBlink()
  t.teardown(() => fake.close())
  const ask = walletOf(t, join(folder ?? '', 'bin/python'), 'blink', 'BlinkWallet', {
    blink_api_endpoint: `${fake.url}/graphql`,
    blink_ws_endpoint: `${fake.url.replace('http', 'ws')}/graphql`,
    blink_token: fake.key()
  })
  t.match(await ask('status'), { error_message: null, balance_msat: 50_000_000 })
  // The public method caches an unpaid one for a while.
  await receiveAndPay(t, ask, fake, undefined, '_fetch_invoice_status')
})
