import t, { type Test as T } from 'tap'
import { receiptFor, receipts } from '../../../src/web/mail/notices.ts'
import { MerchantStore } from '../../../src/accounts/merchants/store.ts'
import type { Payment, PaymentStatus } from '../../../src/payments/payments/schema.ts'
import type { Mail } from '../../../src/web/mail/mail.ts'
import { aPayment, fixture } from '../../payments/payments/fixture.ts'

const payment = aPayment({
  orderId: 'order-7',
  status: 'paid',
  amount: '12.5',
  currency: 'USD',
  description: 'Two coffees',
  customerEmail: 'ada@example.org',
  customerName: 'Ada',
  metadata: { note: 'metadata-text' },
  payToken: 'the-pay-token',
  chargeId: 'the-charge',
  invoice: 'lnbcrt1theinvoice',
  amountSats: 12_500,
  receivedSats: 12_501,
  paidAt: Date.parse('2026-11-21T12:34:56.789Z')
})

function change(different: Partial<Payment> = {}, from: PaymentStatus = 'unpaid') {
  return { payment: { ...payment, ...different }, from, tellMerchant: true }
}

function receipt(different: Partial<Payment> = {}, merchantName = 'Café Ada', note: string | null = null) {
  const mail = receiptFor(change(different), merchantName, note)
  if (mail === null) throw new Error('there is no receipt')
  return mail
}

t.test('the receipt has the seller details, but not of a demo', async t => {
  t.match(receipt({}, 'Café Ada', 'Ada Ltd\r\nVAT GB1').text, /Seller +Ada Ltd VAT GB1\n/)
  t.notMatch(receipt().text, /Seller/)
  t.notMatch(receipt({ kind: 'demo' }, 'Café Ada', 'VAT GB1').text, /VAT/)
})

t.test('the receipt says what was paid, to whom, when and for what', async t => {
  const mail = receipt()
  t.match(mail, { to: 'ada@example.org', subject: 'Receipt from Café Ada: $12.50', id: 'receipt.123456789012345' })
  for (const text of [mail.text, mail.html ?? '']) {
    for (const word of [
      'Café Ada',
      '$12.50',
      '12,501',
      '2026-11-21 12:34:56 UTC',
      'order-7',
      'Two coffees',
      '123456789012345',
      'ab'.repeat(32)
    ])
      t.ok(text.includes(word), word)
    for (const word of ['the-pay-token', 'lnbcrt1theinvoice', 'the-charge', 'metadata-text'])
      t.notOk(text.includes(word), word)
  }
  t.match(receipt({ currency: 'BTC', amount: '0.000125' }).subject, /0\.000125.BTC$/)
})

t.test('a demo payment is marked as one', async t => {
  const mail = receipt({
    kind: 'demo',
    amount: '0',
    amountSats: null,
    receivedSats: null,
    description: 'A book',
    orderId: 'order-of-mine'
  })
  t.match(mail.subject, /^Demo receipt/)
  t.match(mail.text, 'No money was moved.')
  t.match(mail.html, 'No money was moved.')
  t.notMatch(mail.text, 'has received')
  t.notMatch(
    `${mail.text}${mail.html}`,
    /A book|order-of-mine/,
    'it costs nothing, so it carries no text of its author'
  )
})

t.test('texts of merchants stay texts: no markup, no forged lines, no header lines', async t => {
  const mail = receipt(
    { description: '<img src=x onerror=alert(1)>\r\n\r\nAmount  $1', orderId: '"><script>\u2028Paid at never' },
    'Evil\r\nBcc: x@example.com\u202e<b>'
  )
  t.notMatch(mail.html, /<img|<script|<b>/)
  t.match(mail.html, '&lt;img src=x')
  t.notMatch(mail.subject, /[\r\n\u202e]/)
  t.equal(mail.text.split('\n').filter(line => line.startsWith('Amount')).length, 1)
  t.notMatch(mail.text, /[\u2028\u202e\r]/)
  t.ok([...receipt({}, 'x'.repeat(5000)).subject].length <= 201)
})

t.test('only becoming paid has a receipt, and only with an address', async t => {
  for (const status of ['processing', 'underpaid', 'expired', 'refunded'] as const)
    t.equal(receiptFor(change({ status }), 'A'), null, status)
  t.equal(receiptFor(change({ customerEmail: null }), 'A'), null)
  for (const from of ['unpaid', 'processing', 'underpaid', 'expired'] as const)
    t.ok(receiptFor(change({}, from), 'A'), from)
})

async function withReceipts(t: T) {
  const fixed = await fixture(t)
  const queued: Array<{ mail: Mail; about: string }> = []
  const store = new MerchantStore(fixed.database)
  fixed.told.changed = receipts({
    // Read inside the transaction, as a job would be added there.
    outbox: {
      queue: async (sql, mail, about) => {
        await sql`select 1`
        queued.push({ mail, about })
      }
    },
    merchant: (sql, id) => store.within(sql).byId(id)
  })
  return { fixed, queued }
}

t.test(
  'receipt recipient: the customer gets one receipt when the payment is paid (contract, Create payment body)',
  async t => {
    const {
      fixed: { payments, merchant, primary, clock },
      queued
    } = await withReceipts(t)
    const account = await merchant()
    const made = await payments.create(account, {
      orderId: 'o-1',
      amount: '10',
      currency: 'USD',
      customerEmail: 'ada@example.org',
      description: 'Tea'
    })
    await payments.sync(account, made.invoiceId)
    t.equal(queued.length, 0)
    primary.states.set(made.chargeId, { status: 'paid', receivedSats: 20_000, settledAt: clock.now() })
    for (let n = 0; n < 3; n++) await payments.sync(account, made.invoiceId)
    await Promise.all([
      payments.settled(made.paymentHash),
      payments.settled(made.paymentHash),
      payments.sync(account, made.invoiceId)
    ])
    t.equal(queued.length, 1, 'however often it is seen to be paid')
    t.match(queued[0], {
      about: `receipt of payment ${made.invoiceId}`,
      mail: { to: 'ada@example.org', id: `receipt.${made.invoiceId}`, text: account.name }
    })
  }
)

t.test('no address, no receipt; and a demo payment has one', async t => {
  const {
    fixed: { payments, merchant, primary, clock },
    queued
  } = await withReceipts(t)
  const account = await merchant()
  const made = await payments.create(account, { orderId: 'o-1', amount: '10', currency: 'USD' })
  primary.states.set(made.chargeId, { status: 'paid', receivedSats: 20_000, settledAt: clock.now() })
  await payments.sync(account, made.invoiceId)
  t.equal(queued.length, 0)
  const demo = await payments.create(account, {
    orderId: 'o-2',
    amount: '0',
    currency: 'USD',
    customerEmail: 'ada@example.org'
  })
  clock.advance(60_000)
  await payments.sync(account, demo.invoiceId)
  await payments.sync(account, demo.invoiceId)
  t.match(queued, [{ mail: { subject: /^Demo receipt/ } }])
  t.equal(queued.length, 1)
})
