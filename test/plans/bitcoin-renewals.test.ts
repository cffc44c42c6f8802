import t from 'tap'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { Unavailable } from '../../src/engine/operations/errors.ts'
import { gate } from '../../src/accounts/merchants/gate.ts'
import type { Mail } from '../../src/web/mail/mail.ts'
import { DAY, fixture, iso, type Fixture } from './bitcoin-fixture.ts'

const HOUR = 3_600_000

/** The address of the page that a mail names. */
function pageOf(mail: Mail | undefined) {
  return /https:\/\/pay\.example\.com\/pay\/[A-Za-z0-9_-]{43}/.exec(mail?.text ?? '')?.[0] ?? 'none'
}

/** Pays what a page asks for. */
async function payAt({ database, settle }: Fixture, page: string) {
  const [row] = await database.sql<
    { payment_hash: string }[]
  >`select payment_hash from bitcoin_invoices where pay_token = ${page.slice(-43)}`
  if (row === undefined) throw new Error(`no invoice behind ${page}`)
  await settle({ paymentHash: row.payment_hash })
}

t.test('renewal: an invoice by mail 7 days before the end, reminders at 3 and 1, each exactly once', async t => {
  const f = await fixture(t, '2027-01-31T12:00:00.000Z')
  const merchant = await f.account({ name: 'Acme\r\nBcc: evil@example.com' })
  await f.settle(await f.buy(merchant))
  const end = Date.parse('2027-02-28T12:00:00.000Z')
  const until = (time: number) => {
    f.clock.advance(time - f.clock.now())
  }

  until(end - 7 * DAY - 1)
  await f.reminders.run()
  t.same(await f.mails(), [], 'not a moment early')
  until(end - 7 * DAY)
  await Promise.all([f.reminders.run(), f.reminders.run()])
  await f.reminders.run()
  const [first, ...none] = await f.mails()
  t.same(none, [], 'two processes and a repetition send one mail')
  t.equal(first?.to, merchant.email)
  t.match(first?.subject, /^boltgate: your plan ends in a week$/)
  t.match(
    first?.text,
    /ends on 2027-02-28 12:00 UTC[^]*\$49 \(49000 satoshis\)[^]*can be paid until 2027-02-28 12:00 UTC/
  )
  t.match(first?.text, /^Hello Acme Bcc: evil@example\.com,\n/, 'a name forges no line')
  t.equal((await f.now(merchant)).subscriptionStatus, 'active')

  until(end - 3 * DAY)
  await f.reminders.run()
  until(end - DAY)
  await f.reminders.run()
  await f.reminders.run()
  const mails = await f.mails()
  t.same(
    mails.map(mail => mail.subject),
    [
      'boltgate: your plan ends in a week',
      'boltgate: your plan ends in three days',
      'boltgate: your plan ends tomorrow'
    ]
  )
  t.equal(new Set(mails.map(pageOf)).size, 1, 'one invoice is in all of them')
  t.equal(new Set(mails.map(mail => mail.id)).size, 3, 'a mail program takes none for a repetition')

  await payAt(f, pageOf(first))
  t.equal(iso((await f.now(merchant)).currentPeriodEnd), '2027-03-31T12:00:00.000Z', '31 January + 1 month + 1 month')
  until(end + DAY)
  await f.reminders.run()
  t.equal((await f.mails()).length, 3, 'a paying subscriber gets no reminder')
  t.match(await f.now(merchant), { subscriptionStatus: /^active$/ })
  until(Date.parse('2027-03-31T12:00:00.000Z') - 7 * DAY)
  await f.reminders.run()
  t.equal((await f.mails()).length, 4, 'until the next end')
})

t.test(
  'the end passes unpaid: past_due, then canceled after a grace of 7 days; a late payment brings the plan back',
  async t => {
    const f = await fixture(t)
    const merchant = await f.account()
    await f.settle(await f.buy(merchant))
    const { currentPeriodEnd } = await f.now(merchant)
    const end = currentPeriodEnd ?? 0
    f.clock.advance(end - f.clock.now())
    await f.reminders.run()
    await f.reminders.run()
    t.match(await f.now(merchant), { tier: 'individual', subscriptionStatus: /^past_due$/, currentPeriodEnd: end })
    const [ended, ...none] = await f.mails()
    t.same(none, [], 'the mails that were missed are not sent after the one that is due')
    t.match(ended, {
      subject: 'boltgate: your plan has ended',
      text: new RegExp(`On ${iso(end + 7 * DAY)?.slice(0, 10)} [^]* the plan is canceled`)
    })
    t.match(gate(await f.now(merchant), null, f.clock.now()), { status: 403, message: /payment/ })

    f.clock.advance(7 * DAY - 1)
    await f.reminders.run()
    t.match(await f.now(merchant), { subscriptionStatus: /^past_due$/ })
    f.clock.advance(1)
    await f.reminders.run()
    await f.reminders.run()
    t.match(await f.now(merchant), { tier: 'individual', subscriptionStatus: /^canceled$/ })
    t.same(
      (await f.mails()).map(mail => mail.subject),
      ['boltgate: your plan has ended', 'boltgate: your plan was canceled']
    )
    f.clock.advance(60 * DAY)
    await f.reminders.run()
    t.equal((await f.mails()).length, 2)

    await payAt(f, pageOf(ended))
    t.match(await f.now(merchant), { subscriptionStatus: /^active$/ })
    t.ok(((await f.now(merchant)).currentPeriodEnd ?? 0) > f.clock.now() + 27 * DAY, 'from when it was paid')
    t.equal(gate(await f.now(merchant), null, f.clock.now()), null)
  }
)

t.test('a gateway that was down over end and grace still ends the plan', async t => {
  const f = await fixture(t)
  const merchant = await f.account()
  await f.settle(await f.buy(merchant))
  f.clock.advance(90 * DAY)
  await f.reminders.run()
  t.match(await f.now(merchant), { subscriptionStatus: /^canceled$/ })
  t.same(
    (await f.mails()).map(mail => mail.subject),
    ['boltgate: your plan was canceled']
  )
})

t.test('while the provider is down a plan still ends, and the mail is sent later, once', async t => {
  const f = await fixture(t)
  const merchant = await f.account()
  await f.settle(await f.buy(merchant))
  f.clock.advance(31 * DAY)
  f.payee.fault = new Error('away')
  await t.rejects(f.reminders.run(), { name: 'AggregateError' }, 'seen at /jobs')
  t.match(await f.now(merchant), { subscriptionStatus: /^past_due$/ })
  t.same(await f.mails(), [])
  f.payee.fault = null
  await f.reminders.run()
  t.equal((await f.mails()).length, 1)
})

t.test('one plan that cannot be renewed does not hold up the others', async t => {
  const f = await fixture(t)
  const merchants = [await f.account(), await f.account(), await f.account()]
  for (const merchant of merchants) await f.settle(await f.buy(merchant))
  f.clock.advance(25 * DAY)
  const create = f.payee.createInvoice.bind(f.payee)
  let calls = 0
  f.payee.createInvoice = request => (++calls <= 2 ? Promise.reject(new Unavailable('away', 'away')) : create(request))
  await t.rejects(f.reminders.run(), { name: 'AggregateError', message: /^1 plan/ })
  t.equal((await f.mails()).length, 2)
  await f.reminders.run()
  t.same((await f.mails()).map(mail => mail.to).sort(), merchants.map(merchant => merchant.email).sort())
})

t.test('a provider with a fixed expiry gets the default one, and a reminder has a new invoice', async t => {
  const f = await fixture(t)
  const merchant = await f.account()
  await f.settle(await f.buy(merchant))
  const create = f.payee.createInvoice.bind(f.payee)
  f.payee.createInvoice = request =>
    request.expirySeconds > 86_400 ? Promise.reject(new Error('too long')) : create(request)
  f.clock.advance(23 * DAY)
  await f.reminders.run()
  f.clock.advance(4 * DAY)
  await f.reminders.run()
  const [first, second] = await f.mails()
  t.not(pageOf(first), pageOf(second), 'the first one can be paid no more')
  const [row] = await f.database.sql<
    { invoice: string }[]
  >`select invoice from bitcoin_invoices where pay_token = ${pageOf(second).slice(-43)}`
  t.equal(decodeInvoice(row?.invoice ?? '').expiresAt * 1000, f.clock.now() + HOUR)
})

t.test(
  'no reminders: accounts that were deactivated, that pay by card now, were moved to another plan, or have another bitcoin plan',
  async t => {
    const f = await fixture(t)
    const [inactive, byCard, twice, moved] = [
      await f.account(),
      await f.account(),
      await f.account(),
      await f.account()
    ]
    for (const merchant of [inactive, byCard, twice, moved]) await f.settle(await f.buy(merchant))
    await f.settle(await f.buy(twice))
    await f.merchants.deactivate(inactive.id)
    await f.merchants.setTier(moved.id, 'l402')
    await f.merchants.change(byCard.id, { billingSubscriptionId: 'sub_9' })
    f.clock.advance(31 * DAY)
    await f.reminders.run()
    t.same(await f.mails(), [])
    t.match(await f.now(byCard), { subscriptionStatus: /^active$/ }, "the card's provider has the status of that one")
    t.match(
      await f.now(moved),
      { tier: 'l402', subscriptionStatus: /^active$/ },
      'the administrator has said what it has'
    )
    t.match(await f.now(inactive), { subscriptionStatus: /^past_due$/ })
    f.clock.advance(25 * DAY)
    await f.reminders.run()
    t.same(
      (await f.mails()).map(mail => mail.to),
      [twice.email],
      'once, for the end that counts'
    )
  }
)

t.test('a payment that arrives while the end is being written is not lost', async t => {
  const f = await fixture(t)
  const merchant = await f.account()
  await f.settle(await f.buy(merchant))
  const renewal = await f.buy(merchant)
  f.clock.advance(31 * DAY)
  await Promise.all([f.settle(renewal), f.reminders.run()])
  await f.reminders.run()
  t.match(await f.now(merchant), { subscriptionStatus: /^active$/ })
})

t.test('unpaid ones are deleted 30 days after they expired, with their challenge; paid ones stay', async t => {
  const f = await fixture(t)
  const merchant = await f.account()
  const [paid, unpaid, renewal] = [await f.buy(merchant), await f.buy(null), await f.buy(merchant)]
  await f.settle(paid)
  const left = async () => {
    const hashes = [paid, unpaid, renewal].map(made => made.paymentHash)
    const [row] = await f.database.sql`
      select (select count(*)::int from bitcoin_invoices where payment_hash = any(${hashes}::text[])) as invoices,
        (select count(*)::int from challenges where payment_hash = any(${hashes}::text[])) as challenges,
        (select count(*)::int from bitcoin_subscriptions where id = any(${[paid, unpaid, renewal].map(made => made.subscriptionId)}::text[])) as subscriptions`
    return row
  }
  f.clock.advance(HOUR + 30 * DAY)
  await f.reminders.purge()
  t.same(await left(), { invoices: 3, challenges: 3, subscriptions: 3 })
  f.clock.advance(1)
  await f.reminders.purge()
  t.same(await left(), { invoices: 1, challenges: 1, subscriptions: 1 })
  await f.settle(unpaid)
  t.equal((await f.now(merchant)).billingSubscriptionId, paid.subscriptionId)
})
