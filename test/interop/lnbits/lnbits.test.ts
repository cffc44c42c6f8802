/** The gateway before a real LNbits, whose FakeWallet pays between the wallets of one instance. */
import { hash } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { openKind } from '../../lightning/open-kind.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { lnbits as lnbitsKind } from '../../../src/lightning/kinds/lnbits/lnbits.ts'
import type { PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { listed } from '../../lightning/providers/listed.ts'
import { freePort } from '../../support/free-port.ts'
import { challengeOf, credentialOf, defaultYaml, startGateway } from '../../support/gateway.ts'
import { findLnbits, startLnbits } from './instance.ts'

const folder = findLnbits()
const skip =
  folder === null
    ? 'LNbits is not at hand: run sh test/interop/lnbits/install.sh FOLDER, then set BOLTGATE_LNBITS=FOLDER'
    : false
const request = { amountSats: 210, description: 'a quote about money', expirySeconds: 600 }

t.test('a real LNbits', { skip }, async t => {
  if (folder === null) return
  const instance = await startLnbits(t, folder)
  const [seller, payer] = [await instance.wallet('seller'), await instance.wallet('payer')]
  await instance.credit(payer, 100_000)
  const receiver = { url: null as string | null }
  const lnbits = openKind(t, lnbitsKind, { timeout: 20_000, clock: systemClock, receiver: () => receiver.url })
  const key = new Secret(seller.adminKey)
  const pay = async (bolt11: string) =>
    ((await payer.api('POST', '/api/v1/payments', { out: true, bolt11 })) as { readonly preimage: string }).preimage
  const invoiceOf = async (amount: number) =>
    ((await payer.api('POST', '/api/v1/payments', { out: false, amount, unit: 'sat' })) as { readonly bolt11: string })
      .bolt11
  const refund = (reference: string, invoice: string, amountSats: number): PayoutRequest => ({
    reference,
    chargeId: 'ab'.repeat(32),
    destination: { type: 'ln', invoice },
    amountSats,
    description: null
  })

  await t.test('keys: both valid, one of them receive-only; another is invalid', async t => {
    t.match(await lnbits.validateKey(key), { isValid: true, message: /pays with it/ })
    t.match(await lnbits.validateKey(new Secret(seller.invoiceKey)), {
      isValid: true,
      message: /only receives.*Admin key/
    })
    const foreign = new Secret(seller.adminKey.replace(/[0-9a-f]{32}$/, 'c'.repeat(32)))
    t.match(await lnbits.validateKey(foreign), { isValid: false, message: /knows no wallet/ })
  })

  await t.test('an invoice is made with the invoice key, paid, looked up and listed', async t => {
    const receiving = new Secret(seller.invoiceKey)
    const since = Date.now() - 1_000
    const charge = await lnbits.createCharge(receiving, request)
    t.match(decodeInvoice(charge.invoice), { amountSats: 210, description: 'a quote about money', expirySeconds: 600 })
    t.match(await lnbits.lookUp(receiving, charge.chargeId), { status: 'unpaid' })
    t.equal(hash('sha256', Buffer.from(await pay(charge.invoice), 'hex'), 'hex'), charge.paymentHash)
    const state = await lnbits.lookUp(receiving, charge.chargeId)
    t.match(state, { status: /^paid$/, receivedSats: 210 })
    t.ok(Math.abs((state?.settledAt ?? 0) - Date.now()) < 60_000, `settled at ${String(state?.settledAt)}`)
    t.match(await listed(lnbits, receiving, since), [{ chargeId: charge.chargeId, state: { status: /^paid$/ } }])
    t.equal(await lnbits.lookUp(receiving, 'ab'.repeat(32)), null)
    t.equal(
      await lnbits.lookUp(new Secret(payer.invoiceKey), (await lnbits.createCharge(receiving, request)).chargeId),
      null
    )
  })

  await t.test('an invoice commits to the hash of a long description', async t => {
    const text = JSON.stringify({ url: `https://api.example.com/${'é"'.repeat(600)}` })
    const hashed = { text, hash: hash('sha256', text) }
    const charge = await lnbits.createCharge(new Secret(seller.invoiceKey), { ...request, hashed })
    t.equal(decodeInvoice(charge.invoice).descriptionHash, hashed.hash)
    await pay(charge.invoice)
    t.match(await lnbits.lookUp(key, charge.chargeId), { status: 'paid' })
  })

  await t.test('an instance that may not call our receiver makes the invoice without it', async t => {
    receiver.url = 'http://127.0.0.1:1/api/webhooks/primary'
    t.match(await lnbits.createCharge(key, request), { chargeId: /^[0-9a-f]{64}$/ })
    receiver.url = null
  })

  await t.test('an invoice whose time is over becomes expired', async t => {
    const { chargeId } = await lnbits.createCharge(key, { ...request, expirySeconds: 2 })
    let status: string | undefined
    for (let tries = 0; tries < 60 && status !== 'expired'; tries++) {
      await setTimeout(1_000)
      status = (await lnbits.lookUp(key, chargeId))?.status
    }
    t.equal(status, 'expired')
  })

  await t.test('a refund is paid once, and found', async t => {
    const wanted = refund('1001', await invoiceOf(50), 50)
    t.equal(await lnbits.lookUpPayout(key, wanted), null)
    const payout = await lnbits.createPayout(key, wanted)
    t.match(payout, { status: 'confirmed', feeSats: 0 })
    t.match(await lnbits.createPayout(key, wanted), { payoutId: payout.payoutId, status: 'confirmed' })
    t.match(await lnbits.lookUpPayout(key, wanted), { payoutId: payout.payoutId, status: 'confirmed' })
    const moment = refund('1002', await invoiceOf(10), 10)
    const both = await Promise.allSettled([lnbits.createPayout(key, moment), lnbits.createPayout(key, moment)])
    t.ok(both.some(one => one.status === 'fulfilled' && one.value.status === 'confirmed'))
    t.notOk(
      both.some(one => one.status === 'rejected' && (one.reason as Error).name === 'ProviderRefused'),
      'the merchant is not told that nothing was sent'
    )
    const large = refund('1003', await invoiceOf(90_000), 90_000)
    await t.rejects(lnbits.createPayout(key, large), { name: 'ProviderRefused', reason: 'request' })
    await t.rejects(lnbits.createPayout(new Secret(seller.invoiceKey), refund('1004', await invoiceOf(1), 1)), {
      name: 'ProviderRefused',
      reason: 'scope',
      scope: 'Admin key'
    })
    const { balance } = (await seller.api('GET', '/api/v1/wallet')) as { readonly balance: number }
    t.equal(balance, (210 + 210 - 50 - 10) * 1000)
  })

  await t.test('an amount above what its operator allows is a refusal', async t => {
    await t.rejects(lnbits.createCharge(key, { ...request, amountSats: 10_000_001 }), {
      name: 'ProviderRefused',
      reason: 'request'
    })
  })

  await t.test('through the gateway: a 402, a payment, the page, in both schemes', async t => {
    const gateway = await startGateway(t, {
      yaml: defaultYaml({ replace: [['primary:   { kind: sandbox }', 'primary: { kind: lnbits, key: "${KEY}" }']] }),
      env: { KEY: seller.invoiceKey }
    })
    for (const scheme of ['l402', 'payment'] as const) {
      const response = await gateway.send('GET', '/demo/quote')
      t.equal(response.status, 402)
      const invoice = challengeOf(response, 'l402').parameters.get('invoice') ?? ''
      const authorization = credentialOf(challengeOf(response, scheme), await pay(invoice))
      t.equal((await gateway.send('GET', '/demo/quote', { headers: { authorization } })).status, 200, scheme)
    }
  })

  await t.test('through the gateway by x402, whose payment LNbits must confirm', async t => {
    const port = await freePort()
    const url = `http://127.0.0.1:${port}`
    const gateway = await startGateway(t, {
      yaml: defaultYaml({
        replace: [
          ['primary:   { kind: sandbox }', 'primary: { kind: lnbits, key: "${KEY}" }'],
          ['chains:\n', 'payment: { schemes: [ l402, payment, x402 ] }\nchains:\n']
        ]
      }),
      env: { KEY: seller.invoiceKey, PORT: String(port), PUBLIC_URL: url }
    })
    const response = await gateway.send('GET', '/demo/quote')
    const { accepts } = JSON.parse(Buffer.from(String(response.headers['payment-required']), 'base64').toString()) as {
      readonly accepts: readonly [{ readonly extra: { readonly invoice: string } }]
    }
    const [accepted] = accepts
    const payload = { preimage: await pay(accepted.extra.invoice) }
    const credential = Buffer.from(JSON.stringify({ x402Version: 2, accepted, payload })).toString('base64')
    const headers = { 'payment-signature': credential }
    t.equal((await gateway.send('GET', '/demo/quote', { headers })).status, 200)
    t.equal((await gateway.send('GET', '/demo/quote', { headers })).status, 402)
  })

  await t.test('300 invoices, 16 concurrent', async t => {
    const took: number[] = []
    const began = performance.now()
    let left = 300
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        while (left-- > 0) {
          const from = performance.now()
          await lnbits.createCharge(key, request)
          took.push(performance.now() - from)
        }
      })
    )
    const [middle] = took.toSorted((one, other) => one - other).slice(150)
    const rate = 300_000 / (performance.now() - began)
    t.comment(`${rate.toFixed(0)} a second, p50 ${(middle ?? 0).toFixed(0)} ms`)
    t.equal(took.length, 300)
  })
})
