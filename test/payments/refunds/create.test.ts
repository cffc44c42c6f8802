import t, { type Test as T } from 'tap'
import type { Payment } from '../../../src/payments/payments/schema.ts'
import { eachDatabase } from '../../support/database.ts'
import { addressOf, fixtureOn, invoiceOf, type Json } from './fixture.ts'

const address = addressOf()

void eachDatabase(t, 'POST /api/refunds', async (t: T, database) => {
  const f = await fixtureOn(database)
  const { clock, provider } = f
  const good = (payment: Payment, more: Json = {}) => ({
    invoiceId: payment.invoiceId,
    refundAddress: address,
    amountSatoshis: 100,
    ...more
  })

  t.beforeEach(() => {
    provider.fate = () => 'pays'
    provider.kind = 'sandbox'
    provider.capabilities = { ...provider.capabilities, payout: { lightning: true, chain: true } }
  })

  await t.test('201 refund object: every field of the contract, reason and processedAt left to get', async t => {
    const payment = await f.payment()
    const reply = await f.call(
      'POST',
      '/api/refunds',
      good(payment, { reason: 'Returned', email: 'payer@example.com' })
    )
    t.equal(reply.status, 201)
    const refundId = String(reply.data['refundId'])
    t.match(refundId, /^[1-9][0-9]{14}$/)
    t.match(await f.refunds.get(f.merchant, refundId), { reason: 'Returned', email: 'payer@example.com' })
    t.same(reply.data, {
      refundId,
      providerRefundId: `out_${refundId}`,
      alternateRefundId: `out_${refundId}`,
      invoiceId: payment.invoiceId,
      status: 'confirmed',
      amountSatoshis: 100,
      feeSatoshis: 2,
      refundAddress: address,
      refundType: 'chain',
      transactionHash: 'ab'.repeat(32),
      createdAt: new Date(clock.now()).toISOString()
    })
    t.match(provider.asked.at(-1), {
      reference: refundId,
      chargeId: payment.chargeId,
      amountSats: 100,
      destination: { type: 'chain', address }
    })
    t.equal(provider.keys.at(-1), 'key of primary', 'paid by the provider that made the invoice')
    const got = await f.call('GET', `/api/refunds/${refundId}`)
    t.same(got.data, { ...reply.data, reason: 'Returned', processedAt: new Date(clock.now()).toISOString() })
  })

  await t.test('refundType | chain (default) or ln: an ln refund has no transaction hash', async t => {
    const payment = await f.payment()
    const invoice = invoiceOf(clock)
    const reply = await f.call('POST', '/api/refunds', good(payment, { refundAddress: invoice, refundType: 'ln' }))
    t.match(reply, {
      status: 201,
      data: { status: 'confirmed', refundType: 'ln', refundAddress: invoice, transactionHash: null }
    })
    t.same(provider.asked.at(-1)?.destination, { type: 'ln', invoice })
  })

  // What one field's schema can see is a problem with the field's name (decisions 1 and 2).
  const fields: ReadonlyArray<[row: string, change: Json, field: string]> = [
    ['invoiceId | string | yes: missing', { invoiceId: undefined }, 'InvoiceId'],
    ['missing refundAddress', { refundAddress: undefined }, 'RefundAddress'],
    ['refundAddress 26-500 chars: 25', { refundAddress: 'b'.repeat(25) }, 'RefundAddress'],
    ['refundAddress 26-500 chars: 501', { refundAddress: 'l'.repeat(501), refundType: 'ln' }, 'RefundAddress'],
    ['bad refundType: bank', { refundType: 'bank' }, 'RefundType'],
    ['amountSatoshis | integer: 0', { amountSatoshis: 0 }, 'AmountSatoshis'],
    ['amountSatoshis | integer: a fraction', { amountSatoshis: 1.5 }, 'AmountSatoshis'],
    ['email | max 200: 201', { email: `${'a'.repeat(189)}@example.com` }, 'Email'],
    ['email | two of them', { email: 'vic@e.co, evil@e.co' }, 'Email'],
    ['email | with a quoted name', { email: '"a, b"@c.d' }, 'Email'],
    ['reason | max 500: 501', { reason: 'r'.repeat(501) }, 'Reason']
  ]
  for (const [row, change, field] of fields) {
    await t.test(`400 problem: ${row}`, async t => {
      const payment = await f.payment()
      const requests = provider.asked.length
      const reply = await f.call('POST', '/api/refunds', good(payment, change))
      t.match(reply, { status: 400, type: /^application\/problem\+json/, data: { status: 400 } })
      t.same(Object.keys(reply.data['errors'] as object), [field])
      t.equal(provider.asked.length, requests, 'the provider was not called')
    })
  }

  await t.test('limits are inclusive: refundAddress and reason at 500, email at 200', async t => {
    const payment = await f.payment()
    const reply = await f.call(
      'POST',
      '/api/refunds',
      good(payment, { email: `${'a'.repeat(188)}@example.com`, reason: 'r'.repeat(500) })
    )
    t.equal(reply.status, 201)
    const long = await f.call(
      'POST',
      '/api/refunds',
      good(payment, { refundAddress: 'l'.repeat(500), refundType: 'ln' })
    )
    t.match(long, { status: 400, data: { error: /not a Lightning invoice/ } }, 'read, and found to be no invoice')
  })

  // What needs another field, the account or the database is {error} (decision 1), never 404.
  interface Case {
    readonly row: string
    readonly payment?: Partial<Payment>
    readonly body?: () => Json
    readonly error: RegExp
  }
  const cases: readonly Case[] = [
    {
      row: 'invoice not found for the merchant: unknown',
      body: () => ({ invoiceId: '123456789012345' }),
      error: /^Invoice not found$/
    },
    {
      row: 'invoice not found for the merchant: not an id',
      body: () => ({ invoiceId: 'abc' }),
      error: /^Invoice not found$/
    },
    {
      row: 'invoice not refundable: unpaid',
      payment: { status: 'unpaid', paidAt: null },
      error: /not refundable: its status is unpaid/
    },
    {
      row: 'invoice not refundable: expired',
      payment: { status: 'expired', paidAt: null },
      error: /not refundable: its status is expired/
    },
    {
      row: 'invoice not refundable: unpaid past its end',
      payment: { status: 'unpaid', paidAt: null, expiresAt: 0 },
      error: /its status is unpaid/
    },
    { row: 'invoice not refundable: refunded', payment: { status: 'refunded' }, error: /its status is refunded/ },
    {
      row: 'invoice not refundable: a demo (decision 43)',
      payment: { kind: 'demo', amount: '0', amountSats: null, confirmsAt: 1 },
      error: /demo payment cannot be refunded/
    },
    {
      row: 'amount exceeds payment',
      body: () => ({ amountSatoshis: 1001 }),
      error: /exceeds the payment: 1000 satoshis are left/
    },
    {
      row: 'amount exceeds payment: what was received counts (decision 55)',
      payment: { status: 'underpaid', receivedSats: 400 },
      body: () => ({ amountSatoshis: 401 }),
      error: /400 satoshis are left/
    },
    {
      row: 'missing amountSatoshis where required: every refund on the primary provider',
      body: () => ({ amountSatoshis: undefined }),
      error: /amountSatoshis is required for refunds on the primary provider/
    },
    {
      row: 'missing amountSatoshis where required: every ln refund, on the alternate provider too',
      payment: { slot: 'alternate' },
      body: () => ({ amountSatoshis: undefined, refundType: 'ln', refundAddress: invoiceOf(clock) }),
      error: /amountSatoshis is required for refunds of type ln/
    },
    {
      row: 'missing amountSatoshis where required: ln, though the invoice has no amount',
      body: () => ({
        amountSatoshis: undefined,
        refundType: 'ln',
        refundAddress: invoiceOf(clock, { amountMsat: null })
      }),
      error: /amountSatoshis is required/
    },
    {
      row: 'refundType must match the kind of refundAddress: BOLT11 with chain by default',
      body: () => ({ refundAddress: invoiceOf(clock) }),
      error: /is a Lightning invoice, but refundType is chain/
    },
    {
      row: 'refundType must match the kind of refundAddress: BOLT11 with chain',
      body: () => ({ refundAddress: invoiceOf(clock).toUpperCase(), refundType: 'chain' }),
      error: /is a Lightning invoice/
    },
    {
      row: 'a link to a Lightning invoice',
      body: () => ({ refundType: 'ln', refundAddress: `lightning:${invoiceOf(clock)}` }),
      error: /^refundAddress must be the Lightning invoice alone, without lightning: before it\.$/
    },
    {
      row: 'a text with such a link in it',
      body: () => ({ refundType: 'ln', refundAddress: `at lightning:${invoiceOf(clock)}` }),
      error: /^refundAddress is not a Lightning invoice/
    },
    {
      row: 'refundType must match the kind of refundAddress: address with ln',
      body: () => ({ refundType: 'ln' }),
      error: /is a Bitcoin address, but refundType is ln/
    },
    {
      row: 'refundAddress: neither',
      body: () => ({ refundAddress: 'not an address at all, really' }),
      error: /not a Bitcoin address/
    },
    {
      row: 'refundAddress: a mistyped address',
      body: () => ({ refundAddress: `${address.slice(0, -1)}${address.endsWith('q') ? 'p' : 'q'}` }),
      error: /checksum is wrong/
    },
    {
      row: 'refundAddress: an address of another network (decision 59)',
      body: () => ({ refundAddress: addressOf('bc') }),
      error: /is for mainnet, but the payment was made on regtest/
    },
    {
      row: 'refundAddress: an address of the test networks that regtest does not share',
      body: () => ({ refundAddress: addressOf('tb') }),
      error: /for testnet or signet/
    },
    {
      row: 'refundAddress: a witness version without rules',
      payment: { network: 'mainnet' },
      body: () => ({ refundAddress: 'bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs' }),
      error: /cannot be spent yet/
    },
    {
      row: 'refundAddress: an invoice of another network (decision 58)',
      body: () => ({ refundAddress: invoiceOf(clock, { network: 'mainnet' }), refundType: 'ln' }),
      error: /is for mainnet/
    },
    {
      row: 'refundAddress: an expired invoice (decision 58)',
      body: () => ({ refundAddress: invoiceOf(clock, { timestamp: clock.now() / 1000 - 600 }), refundType: 'ln' }),
      error: /has expired/
    },
    {
      row: 'refundAddress: an invoice with another amount (decision 58)',
      body: () => ({ refundAddress: invoiceOf(clock, { amountMsat: 101_000n }), refundType: 'ln' }),
      error: /amountSatoshis is 100, but .* asks for 101 satoshis/
    },
    {
      row: 'refundAddress: an invoice with a fraction of a satoshi',
      body: () => ({ refundAddress: invoiceOf(clock, { amountMsat: 100_500n }), refundType: 'ln' }),
      error: /asks for 100500 millisatoshis/
    }
  ]
  for (const { row, payment: different, body, error } of cases) {
    await t.test(`400 {error}: ${row}`, async t => {
      const payment = await f.payment(different)
      const requests = provider.asked.length
      const reply = await f.call('POST', '/api/refunds', good(payment, body?.()))
      t.match(reply, { status: 400, type: /^application\/json/ })
      t.same(Object.keys(reply.data), ['error'])
      t.match(reply.data['error'], error)
      t.equal(provider.asked.length, requests, 'the provider was not called')
      t.same(await f.refunds.ofInvoice(f.merchant, payment.invoiceId), [], 'and nothing is left behind')
    })
  }

  await t.test("400 {error}: invoice not found for the merchant: another merchant's", async t => {
    const payment = await f.payment()
    const reply = await f.call('POST', '/api/refunds', good(payment), await f.newMerchant())
    t.match(reply, { status: 400, data: { error: 'Invoice not found' } })
  })

  for (const status of ['paid', 'underpaid', 'processing'] as const) {
    await t.test(
      `Eligibility: the original payment must be in paid, underpaid or processing: ${status} is refunded`,
      async t => {
        const payment = await f.payment({ status })
        t.equal((await f.call('POST', '/api/refunds', good(payment, { amountSatoshis: 1000 }))).status, 201)
        t.equal((await f.stored(payment.invoiceId)).status, 'refunded')
      }
    )
  }

  await t.test(
    'amountSatoshis optional only on the alternate provider with chain, where omission means a full refund',
    async t => {
      const payment = await f.payment({ slot: 'alternate' })
      const reply = await f.call('POST', '/api/refunds', good(payment, { amountSatoshis: undefined }))
      t.match(reply, { status: 201, data: { amountSatoshis: 1000, status: 'confirmed' } })
      t.equal(provider.keys.at(-1), 'key of alternate')
      t.equal((await f.stored(payment.invoiceId)).status, 'refunded')
    }
  )

  await t.test('omission after partial refunds takes what is left, and nothing left is 400 (decision 60)', async t => {
    const payment = await f.payment({ slot: 'alternate' })
    await f.call('POST', '/api/refunds', good(payment, { amountSatoshis: 300 }))
    provider.fate = () => 'takes'
    await f.call('POST', '/api/refunds', good(payment, { amountSatoshis: 50 }))
    provider.fate = () => 'refuses'
    t.equal((await f.call('POST', '/api/refunds', good(payment, { amountSatoshis: 70 }))).status, 400)
    provider.fate = () => 'takes'
    t.match(await f.call('POST', '/api/refunds', good(payment, { amountSatoshis: undefined })), {
      status: 201,
      data: { amountSatoshis: 650 }
    })
    t.match(await f.call('POST', '/api/refunds', good(payment, { amountSatoshis: undefined })), {
      status: 400,
      data: { error: 'Nothing is left to refund.' }
    })
  })

  await t.test(
    'partial refunds: the payment reads refunded once they reach what was received, and no webhook is sent (decision 56)',
    async t => {
      const payment = await f.payment({ receivedSats: 999 })
      await f.call('POST', '/api/refunds', good(payment, { amountSatoshis: 500 }))
      t.equal((await f.stored(payment.invoiceId)).status, 'paid')
      const before = f.changes.length
      t.equal(
        (await f.call('POST', '/api/refunds', good(payment, { amountSatoshis: 500 }))).status,
        400,
        'one too many'
      )
      await f.call('POST', '/api/refunds', good(payment, { amountSatoshis: 499 }))
      t.equal((await f.stored(payment.invoiceId)).status, 'refunded')
      t.match(f.changes.slice(before), [
        { from: 'paid', tellMerchant: false, payment: { invoiceId: payment.invoiceId, status: 'refunded' } }
      ])
      t.match(await f.call('POST', '/api/refunds', good(payment, { amountSatoshis: 1 })), {
        status: 400,
        data: { error: /its status is refunded/ }
      })
    }
  )

  await t.test('an invoice without amount takes amountSatoshis (decision 58)', async t => {
    const payment = await f.payment()
    const reply = await f.call(
      'POST',
      '/api/refunds',
      good(payment, { refundAddress: invoiceOf(clock, { amountMsat: null }), refundType: 'ln', amountSatoshis: 77 })
    )
    t.match(reply, { status: 201, data: { amountSatoshis: 77 } })
  })

  await t.test('a Lightning invoice is paid by one refund; a failed one lets go of it', async t => {
    const payment = await f.payment()
    const other = await f.payment()
    const body = { refundAddress: invoiceOf(clock), refundType: 'ln' }
    provider.fate = () => 'refuses'
    t.equal((await f.call('POST', '/api/refunds', good(payment, body))).status, 400)
    provider.fate = () => 'lost before'
    t.match(await f.call('POST', '/api/refunds', good(payment, body)), { status: 201, data: { status: 'pending' } })
    provider.fate = () => 'pays'
    const requests = provider.asked.length
    for (const one of [payment, other]) {
      t.match(
        await f.call('POST', '/api/refunds', good(one, { ...body, refundAddress: body.refundAddress.toUpperCase() })),
        { status: 400, data: { error: /Another refund already pays/ } }
      )
    }
    t.equal(provider.asked.length, requests)
  })

  await t.test(
    'no key for the slot that made the invoice is 400, whatever the other slot has (decision 54)',
    async t => {
      const payment = await f.payment()
      const reply = await f.call('POST', '/api/refunds', good(payment), { ...f.merchant, primaryKey: null })
      t.match(reply, { status: 400, data: { error: 'Payment provider key required' } })
    }
  )

  await t.test('a provider that cannot send over this rail is 400', async t => {
    provider.capabilities = { ...provider.capabilities, payout: { lightning: false, chain: true } }
    const payment = await f.payment()
    t.match(
      await f.call('POST', '/api/refunds', good(payment, { refundAddress: invoiceOf(clock), refundType: 'ln' })),
      { status: 400, data: { error: /cannot send refunds of type ln/ } }
    )
    t.equal((await f.call('POST', '/api/refunds', good(payment))).status, 201)
    provider.capabilities = { ...provider.capabilities, payout: { lightning: false, chain: false } }
    t.match(await f.call('POST', '/api/refunds', good(await f.payment())), {
      status: 400,
      data: { error: /only receives: it can send no refunds/ }
    })
  })
})
