/** The gateway before real lnd nodes: one that the gateway asks for invoices, one that pays them. */
import { createHash } from 'node:crypto'
import t from 'tap'
import { openKind } from '../../lightning/open-kind.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { lnd as lndKind } from '../../../src/lightning/kinds/lnd/lnd.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import type { PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import { challengeOf, credentialOf, defaultYaml, startGateway, type Answer } from '../../support/gateway.ts'
import { listed } from '../../lightning/providers/listed.ts'
import { findPrograms, openChannel, startChain, startNode, until, type Json } from './nodes.ts'

const programs = findPrograms()
const skip =
  programs === null
    ? 'lnd and btcd are not at hand: run sh test/interop/lnd/install.sh FOLDER, then set BOLTGATE_LND_BIN=FOLDER'
    : false

const RECEIVE = ['invoices:read', 'invoices:write']
const REFUND = [...RECEIVE, 'offchain:read', 'offchain:write', 'onchain:read', 'onchain:write']

function json(answer: Answer, status: number) {
  if (answer.status !== status) throw new Error(`${answer.status} instead of ${status}: ${answer.text}`)
  return answer.json() as Json
}

t.test('real lnd nodes', { skip }, async t => {
  if (programs === null) return
  const chain = await startChain(t, programs.btcd)
  const [seller, payer] = await Promise.all([startNode(t, programs.lnd, chain), startNode(t, programs.lnd, chain)])
  await openChannel(chain, payer, seller)

  await t.test('through the gateway', async t => {
    const gateway = await startGateway(t, {
      yaml: defaultYaml({ replace: [['primary:   { kind: sandbox }', 'primary: { kind: lnd, key: "${LND_KEY}" }']] }),
      env: { LND_KEY: await seller.key(RECEIVE) }
    })
    json(
      await gateway.merchantSend('PUT', '/api/merchant/primary-key', { primaryApiKey: await seller.key(REFUND) }),
      200
    )

    await t.test('a 402 holds an invoice of the node, and its preimage opens the route, in both schemes', async t => {
      for (const scheme of ['l402', 'payment'] as const) {
        const response = await gateway.send('GET', '/demo/quote')
        t.equal(response.status, 402)
        const challenge = challengeOf(response, scheme)
        const { invoice } =
          scheme === 'l402'
            ? { invoice: challenge.parameters.get('invoice') ?? '' }
            : ((JSON.parse(Buffer.from(challenge.parameters.get('request') ?? '', 'base64url').toString()) as Json)[
                'methodDetails'
              ] as { invoice: string })
        t.match(decodeInvoice(invoice), { network: 'regtest', amountSats: 10, payee: seller.id })
        const opened = await gateway.send('GET', '/demo/quote', {
          headers: { authorization: credentialOf(challenge, await payer.pay(invoice)) }
        })
        t.equal(opened.status, 200, scheme)
      }
    })

    const create = async (amount: string) =>
      json(
        await gateway.merchantSend('POST', '/api/payments', { orderId: `order-${amount}`, amount, currency: 'BTC' }),
        201
      )
    const paid = async (amount: string) => {
      const payment = await create(amount)
      await payer.pay(String(payment['lightningInvoice']))
      return json(await gateway.merchantSend('POST', `/api/payments/${String(payment['invoiceId'])}/sync`), 200)
    }

    await t.test('a payment that the other node pays is paid after a sync', async t => {
      const payment = await paid('0.00005')
      t.match(payment, { status: /^paid$/, providerChargeId: payment['paymentHash'], paidAt: /^\d{4}-/ })
      t.match(json(await gateway.send('GET', `/api/payments/${String(payment['invoiceId'])}/status`), 200), {
        status: /^paid$/
      })
    })

    await t.test('a refund over Lightning arrives at the payer', async t => {
      const payment = await paid('0.00006')
      const { payment_request: refundAddress, r_hash: hash } = await payer.api('POST', '/v1/invoices', {
        value: '6000',
        memo: 'refund'
      })
      const refund = json(
        await gateway.merchantSend('POST', '/api/refunds', {
          invoiceId: payment['invoiceId'],
          refundAddress,
          refundType: 'ln',
          amountSatoshis: 6000
        }),
        201
      )
      t.match(refund, {
        status: 'confirmed',
        refundType: 'ln',
        transactionHash: null,
        providerRefundId: Buffer.from(String(hash), 'base64').toString('hex')
      })
      t.match(await payer.api('GET', `/v1/invoice/${Buffer.from(String(hash), 'base64').toString('hex')}`), {
        state: 'SETTLED',
        amt_paid_sat: '6000'
      })
      t.match(json(await gateway.send('GET', `/api/payments/${String(payment['invoiceId'])}/status`), 200), {
        status: 'refunded'
      })
    })

    await t.test('a refund over the chain is a transaction that the network has', async t => {
      const payment = await paid('0.0002')
      const refundAddress = await payer.address()
      const refund = json(
        await gateway.merchantSend('POST', '/api/refunds', {
          invoiceId: payment['invoiceId'],
          refundAddress,
          amountSatoshis: 20_000
        }),
        201
      )
      t.match(refund, { status: 'confirmed', refundType: 'chain', transactionHash: /^[0-9a-f]{64}$/ })
      t.ok(Number(refund['feeSatoshis']) > 100, `${String(refund['feeSatoshis'])} satoshis of fee`)
      await chain.mine(1)
      await until('the refund at the payer', async () => {
        const { transactions } = await payer.api('GET', '/v1/transactions')
        return (transactions as readonly Json[]).some(
          one => one['tx_hash'] === refund['transactionHash'] && one['amount'] === '20000'
        )
          ? true
          : null
      })
    })
  })

  await t.test('the kind itself', async t => {
    const lnd = openKind(t, lndKind, { clock: systemClock })
    const key = new Secret(await seller.key(REFUND))
    const request = { amountSats: 33, description: 'by hand', expirySeconds: 600 }
    const payout = (reference: string, destination: PayoutRequest['destination'], amountSats = 1000) => ({
      reference,
      chargeId: 'ab'.repeat(32),
      destination,
      amountSats,
      description: null
    })

    await t.test('a macaroon for receiving alone is enough, and a missing permission is named', async t => {
      t.match(await lnd.validateKey(new Secret(await seller.key(RECEIVE))), { isValid: true })
      t.match(await lnd.validateKey(new Secret(await seller.key(['invoices:read']))), {
        isValid: false,
        message: /lacks the .*invoices:write/
      })
      t.match(await lnd.validateKey(new Secret(await seller.key(['info:read']))), {
        isValid: false,
        message: /lacks the .*invoices:read/
      })
      const foreign = (await payer.key(RECEIVE)).replace(/.*macaroon=/, '')
      t.match(await lnd.validateKey(new Secret(key.reveal().replace(/macaroon=.*/, `macaroon=${foreign}`))), {
        isValid: false,
        message: /does not accept the macaroon/
      })
      const certificate = /cert=([^&]*)/.exec(await payer.key(RECEIVE))?.[1] ?? ''
      t.match(await lnd.validateKey(new Secret(key.reveal().replace(/cert=[^&]*/, `cert=${certificate}`))), {
        isValid: false,
        message: /another TLS certificate/
      })
    })

    await t.test('states and the list of what was settled', async t => {
      const since = Date.now()
      const charge = await lnd.createCharge(key, request)
      t.match(await lnd.lookUp(key, charge.chargeId), { status: 'unpaid', receivedSats: 0, settledAt: null })
      t.notOk((await listed(lnd, key, since)).some(({ chargeId }) => chargeId === charge.chargeId))
      await payer.pay(charge.invoice)
      const state = await lnd.lookUp(key, charge.chargeId)
      t.match(state, { status: /^paid$/, receivedSats: 33 })
      t.ok(Math.abs((state?.settledAt ?? 0) - Date.now()) < 60_000)
      t.same(
        (await listed(lnd, key, since)).filter(({ chargeId }) => chargeId === charge.chargeId),
        [{ chargeId: charge.chargeId, state }]
      )
      // From there on the node's own stream is read, by its count of settled invoices.
      const first = await lnd.listSettled(key, { since, oldest: since, position: null })
      t.match(first, { reach: /^whole$/, position: /"mark":\{/ })
      const later = await lnd.createCharge(key, request)
      const quiet = await lnd.listSettled(key, { since, oldest: since, position: first.position })
      t.match(quiet, { charges: [], reach: /^whole$/, position: first.position ?? '' })
      await payer.pay(later.invoice)
      const next = await lnd.listSettled(key, { since, oldest: since, position: quiet.position })
      t.same(
        next.charges.map(({ chargeId }) => chargeId),
        [later.chargeId]
      )
      t.same((await lnd.listSettled(key, { since, oldest: since, position: next.position })).charges, [])
      t.equal(await lnd.lookUp(key, 'ab'.repeat(32)), null)
      const cancelled = await lnd.createCharge(key, request)
      await seller.api('POST', '/v2/invoices/cancel', {
        payment_hash: Buffer.from(cancelled.chargeId, 'hex').toString('base64')
      })
      t.match(await lnd.lookUp(key, cancelled.chargeId), { status: 'expired' })
    })

    await t.test('an invoice is paid once, however often a payout is requested', async t => {
      const { payment_request: invoice } = await payer.api('POST', '/v1/invoices', { memo: 'any amount' })
      const expected = payout('2001', { type: 'ln', invoice: String(invoice) }, 700)
      t.equal(await lnd.lookUpPayout(key, expected), null)
      const [one, two] = await Promise.all([lnd.createPayout(key, expected), lnd.createPayout(key, expected)])
      t.equal(one.payoutId, two.payoutId)
      t.match(await lnd.lookUpPayout(key, expected), { status: 'confirmed', payoutId: one.payoutId })
      t.match(await payer.api('GET', `/v1/invoice/${one.payoutId}`), { state: 'SETTLED', amt_paid_sat: '700' })
    })

    await t.test("an unpayable invoice is refused with lnd's reason", async t => {
      const { payment_request: large } = await payer.api('POST', '/v1/invoices', { value: '1900000' })
      await t.rejects(lnd.createPayout(key, payout('2002', { type: 'ln', invoice: String(large) }, 1_900_000)), {
        name: 'ProviderRefused',
        reason: 'request'
      })
      t.match(await lnd.lookUpPayout(key, payout('2002', { type: 'ln', invoice: String(large) })), { status: 'failed' })
      const own = await lnd.createCharge(key, request)
      await t.rejects(lnd.createPayout(key, payout('2003', { type: 'ln', invoice: own.invoice }, 33)), {
        name: 'ProviderRefused',
        reason: 'request',
        message: /self-payments/
      })
      await t.rejects(
        lnd.createPayout(key, payout('2004', { type: 'chain', address: await payer.address() }, 2_000_000_000)),
        { name: 'ProviderRefused', message: /insufficient funds/ }
      )
    })

    await t.test("a payment in flight is processing, and what the payer's side holds back is found later", async t => {
      const preimage = Buffer.alloc(32, 9)
      const hash = createHash('sha256').update(preimage).digest('base64')
      const { payment_request: invoice } = await payer.api('POST', '/v2/invoices/hodl', { hash, value: '900' })
      const expected = payout('2005', { type: 'ln', invoice: String(invoice) }, 900)
      const quick = openKind(t, lndKind, { timeout: 3000, clock: systemClock })
      await t.rejects(quick.createPayout(key, expected), { message: /answer was lost/ })
      t.match(await lnd.lookUpPayout(key, expected), { status: 'processing' })
      await payer.api('POST', '/v2/invoices/settle', { preimage: preimage.toString('base64') })
      await until('the payment', async () =>
        (await lnd.lookUpPayout(key, expected))?.status === 'confirmed' ? true : null
      )
    })

    await t.test('a transaction is found by its label, before and after it is in a block', async t => {
      const expected = payout('3001', { type: 'chain', address: await payer.address() }, 5000)
      t.equal(await lnd.lookUpPayout(key, expected), null)
      const sent = await lnd.createPayout(key, expected)
      t.match(await lnd.lookUpPayout(key, expected), { transactionHash: sent.transactionHash, feeSats: sent.feeSats })
      t.equal((await lnd.createPayout(key, expected)).transactionHash, sent.transactionHash, 'and not sent twice')
      await chain.mine(2)
      await until('the block at the node', async () => {
        const { transactions } = await seller.api('GET', '/v1/transactions')
        return (transactions as readonly Json[]).some(
          one => one['tx_hash'] === sent.transactionHash && Number(one['num_confirmations']) > 0
        )
          ? true
          : null
      })
      t.match(await lnd.lookUpPayout(key, expected), { transactionHash: sent.transactionHash })
    })
  })
})
