import t, { type Test as T } from 'tap'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { PAYMENT_CHANNEL, PaymentWatch } from '../../../src/payments/payments/watch.ts'
import { loadNodeKey } from '../../../src/lightning/kinds/sandbox/node-key.ts'
import { openDemoInvoices } from '../../../src/payments/payments/creator.ts'
import { hasPaidPayment } from '../../../src/accounts/merchants/holdings.ts'
import { PaymentStore } from '../../../src/payments/payments/store-sql.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { eachDatabase, openAnyDatabase, temporaryFolder } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { anInput, fixture, type Fixture } from './fixture.ts'
import { until } from '../../support/until.ts'

/**
 * Lets time pass in small steps, with what each of them starts; a jump would leave behind what is planned meanwhile.
 */
async function pass({ clock, database }: Fixture, ms: number) {
  for (let passed = 0; passed < ms; passed += 500) {
    clock.advance(Math.min(500, ms - passed))
    for (let polls = 0; polls < 3; polls++) await database.sql`select 1`
  }
}

/** A log that keeps its warnings and errors. */
function keptLog() {
  const lines: string[] = []
  const keep = (first: unknown, second?: unknown) => {
    lines.push(String(second ?? first))
  }
  return { ...silentLog, lines, warn: keep, error: keep }
}

const stored = async ({ database }: Fixture, invoiceId: string) =>
  (await database.sql`select status from payments where invoice_id = ${invoiceId}`)[0]?.['status']

void t.test('a demo invoice (amount 0)', async t => {
  const made = await fixture(t)
  const { call, database, merchant, payments, primary, clock, changes, told: notified } = made

  await t.test(
    'any currency, no provider key, an invoice without amount on regtest, expires in 10 minutes, demo_<uuid> (decision 43)',
    async t => {
      const bare = await merchant({ primaryApiKey: undefined } as never)
      const requests = primary.requests.length
      for (const [currency, amount] of [
        ['USD', 0],
        ['EUR', '0.00'],
        ['GBP', -0],
        ['BTC', '0']
      ] as const) {
        const { status, data } = await call(
          bare,
          'POST',
          '/api/payments',
          anInput({ currency, amount, description: 'A try' })
        )
        t.equal(status, 201)
        t.match(data, {
          status: 'unpaid',
          amount: 0,
          currency,
          hostedCheckoutUrl: '',
          expiresAt: new Date(clock.now() + 600_000).toISOString(),
          providerChargeId: /^demo_[0-9a-f-]{36}$/
        })
        t.equal(data['alternateChargeId'], data['providerChargeId'])
        const invoice = decodeInvoice(String(data['lightningInvoice']))
        t.match(invoice, {
          network: 'regtest',
          amountMsat: null,
          description: 'A try',
          paymentHash: data['paymentHash']
        })
      }
      t.equal(primary.requests.length, requests, 'no provider is called')
    }
  )

  await t.test(
    'confirms itself at any read, 5 s after creation, before any job has run; the merchant is notified once',
    async t => {
      const acme = await merchant()
      const { data } = await call(acme, 'POST', '/api/payments', anInput({ amount: 0 }))
      const id = String(data['invoiceId'])
      const confirmed = new Date(clock.now() + 5_000).toISOString()
      clock.advance(4_999)
      t.equal((await call(null, 'GET', `/api/payments/${id}/status`)).text, '{"status":"unpaid"}')
      const before = changes.length
      clock.advance(7_000)
      t.equal((await call(null, 'GET', `/api/payments/${id}/status`)).text, '{"status":"paid"}')
      t.same((await call(acme, 'GET', `/api/payments/${id}`)).data, { ...data, status: 'paid', paidAt: confirmed })
      const looked = primary.lookUps
      t.match((await call(acme, 'POST', `/api/payments/${id}/sync`)).data, { status: /^paid$/, paidAt: confirmed })
      t.equal(primary.lookUps, looked, 'sync of a demo is a plain get (decision 44)')
      t.same(
        changes.slice(before).map(change => [change.from, change.payment.status, change.tellMerchant]),
        [['unpaid', 'paid', true]]
      )
      t.ok(await hasPaidPayment(database.sql, acme.id))
      await payments.settled(String(data['paymentHash']))
    }
  )

  await t.test('reads so also when it cannot be written down', async t => {
    const acme = await merchant()
    const payment = await payments.create(acme, anInput({ amount: 0 }))
    const { changed } = notified
    t.teardown(() => {
      notified.changed = changed
    })
    notified.changed = () => Promise.reject(new Error('no'))
    clock.advance(5_000)
    t.match(await payments.get(acme, payment.invoiceId), { status: /^paid$/, paidAt: payment.confirmsAt })
    t.equal(await stored(made, payment.invoiceId), 'unpaid')
  })

  await t.test('its node key is its own, in <data>/demo-node.key', async t => {
    const folder = temporaryFolder(t)
    const demo = openDemoInvoices(folder, new ManualClock())
    const charge = demo('x'.repeat(2000))
    const again = openDemoInvoices(folder, new ManualClock())
    t.equal(decodeInvoice(charge.invoice).payee, decodeInvoice(again('y').invoice).payee)
    t.equal(loadNodeKey(`${folder}/demo-node.key`).length, 32)
    t.equal(decodeInvoice(charge.invoice).description?.length, 639)
  })
})

void t.test('the sweeper', async t => {
  const log = keptLog()
  // A database of its own: what other tests left due would be swept too.
  const made = await fixture(t, { log, database: await openAnyDatabase(t) })
  const { merchant, payments, clock, changes, told: notified, database, store, another } = made
  const acme = await merchant()
  await payments.start()
  await payments.start()

  await t.test('wakes when the next demo is due', async t => {
    await pass(made, 1_000)
    const payment = await payments.create(acme, anInput({ amount: 0 }))
    await pass(made, 4_500)
    t.equal(await stored(made, payment.invoiceId), 'unpaid')
    const before = changes.length
    await pass(made, 1_000)
    await until(async () => (await stored(made, payment.invoiceId)) === 'paid')
    t.match(
      changes.slice(before).map(change => change.payment),
      [{ invoiceId: payment.invoiceId, status: /^paid$/, paidAt: payment.confirmsAt }]
    )
  })

  await t.test('looks every 30 seconds, for what other gateways have made and for what has expired', async t => {
    const elsewhere = another()
    const [demo, real] = [await elsewhere.create(acme, anInput({ amount: 0 })), await elsewhere.create(acme, anInput())]
    const before = changes.length
    await pass(made, 30_500)
    // Its next look is planned by what the last one found, and the clock may have moved on before that was written.
    const becomes = (invoiceId: string, status: string) =>
      until(async () => {
        clock.advance(10)
        return (await stored(made, invoiceId)) === status
      })
    await becomes(demo.invoiceId, 'paid')
    clock.advance(3_600_000)
    await pass(made, 4_000)
    await becomes(real.invoiceId, 'expired')
    t.same(
      changes
        .slice(before)
        .map(change => [change.payment.invoiceId, change.from, change.payment.status, change.tellMerchant]),
      [
        [demo.invoiceId, 'unpaid', 'paid', true],
        [real.invoiceId, 'unpaid', 'expired', true]
      ]
    )
    await payments.sweep()
    t.equal(changes.length, before + 2, 'nothing twice')
  })

  await t.test('goes through more than one batch, past a payment that cannot be written', async t => {
    const [stubborn] = await Promise.all(
      Array.from({ length: 120 }, () => payments.create(acme, anInput({ amount: 0 })))
    )
    const { changed } = notified
    notified.changed = async (sql, change) => {
      if (change.payment.invoiceId === stubborn?.invoiceId) throw new Error('no')
      await changed(sql, change)
    }
    t.teardown(() => {
      notified.changed = changed
    })
    clock.advance(4_900)
    await payments.sweep()
    const before = changes.length
    log.lines.length = 0
    clock.advance(100)
    await payments.sweep()
    t.equal(changes.length - before, 119)
    t.ok(log.lines.includes('a payment that is due could not be written; it is tried again soon'))
    notified.changed = changed
    await payments.recordExpiries()
    await pass(made, 30_500)
    await until(async () => (await store.unconfirmed(clock.now(), null, 10)).length === 0)
    t.equal(changes.length - before, 120)
  })

  await t.test('survives a database outage, and rests between tries', async t => {
    let tries = 0
    let isDown = true
    const flaky = new (class extends PaymentStore {
      override async unconfirmed(...args: Parameters<PaymentStore['unconfirmed']>) {
        tries++
        if (isDown) throw Object.assign(new Error('gone'), { code: 'ECONNREFUSED' })
        return await super.unconfirmed(...args)
      }
    })(database)
    const other = another({ store: flaky })
    await other.start()
    t.teardown(() => other.close())
    clock.advance(20)
    await other.sweep()
    const before = tries
    clock.advance(29_000)
    await other.sweep()
    t.equal(tries, before + 1, 'only the one that was requested here')
    const payment = await other.create(acme, anInput({ amount: 0 }))
    clock.advance(1_000)
    await other.sweep()
    t.equal(tries, before + 2, 'half a minute after the first')
    isDown = false
    await pass(made, 30_500)
    await until(async () => (await stored(made, payment.invoiceId)) === 'paid')
  })

  await t.test('sweeps again also when the next is due in the very step that ends the run before it', async t => {
    // Time passes as soon as a timer is set, between two steps of what set it.
    const hasty = new ManualClock(clock.now())
    let timers = 0
    hasty.after = (ms, run) => {
      const timer = ManualClock.prototype.after.call(hasty, ms, run)
      if (++timers <= 2) queueMicrotask(() => hasty.advance(ms))
      return timer
    }
    const other = another({ clock: hasty })
    await other.start()
    t.teardown(() => other.close())
    // The second fires as the first run ends.
    await until(() => timers === 3)
  })

  await t.test('closed, it sweeps no more', async t => {
    const other = another()
    await other.start()
    await other.close()
    await other.close()
    const payment = await other.create(acme, anInput({ amount: 0 }))
    await payments.close()
    clock.advance(60_000)
    await database.sql`select 1`
    t.equal(await stored(made, payment.invoiceId), 'unpaid')
  })
})

async function watching(t: T, database: Database) {
  const log = keptLog()
  const made = await fixture(t, { database, log })
  const { payments, merchant, another } = made
  const acme = await merchant()
  const elsewhere = another()
  await payments.start()
  await elsewhere.start()
  const payment = await payments.create(acme, anInput())
  const received: string[] = []
  elsewhere.watch(payment.invoiceId, () => {
    throw new Error('a bad listener')
  })
  const stop = elsewhere.watch(payment.invoiceId, () => {
    received.push('elsewhere')
  })
  payments.watch(payment.invoiceId, () => {
    received.push('here')
  })
  payments.watch('100000000000000', () => {
    received.push('another payment')
  })

  const { told: notified } = made
  const { changed } = notified
  notified.changed = () => Promise.reject(new Error('no'))
  await t.rejects(payments.observe(payment, { status: 'paid', receivedSats: null, settledAt: null }, made.clock.now()))
  notified.changed = changed
  await payments.observe(payment, { status: 'processing', receivedSats: null, settledAt: null }, made.clock.now())
  await until(() => received.length === 2)
  t.same(received.toSorted(), ['elsewhere', 'here'], 'a change that was rolled back is not reported')
  t.ok(log.lines.includes('a listener to a payment failed'))
  stop()
  stop()
  await payments.observe(payment, { status: 'paid', receivedSats: null, settledAt: null }, made.clock.now())
  await until(() => received.length === 3)
  t.same(received.slice(2), ['here'])
}

void t.test(
  'several gateways receive a change, once it is committed; a listener that throws affects no other',
  async t => {
    await eachDatabase(t, 'changes are received', watching)
  }
)

void t.test('a watch forgets clients that left, and restarts after a failed start', async t => {
  const { database } = await fixture(t)
  let isDown = true
  const watch = new PaymentWatch(
    {
      ...database,
      sql: database.sql,
      listen: (channel: string, heard: (payload: string) => void) =>
        isDown ? Promise.reject(new Error('gone')) : database.listen(channel, heard)
    } as Database,
    silentLog
  )
  await t.rejects(watch.start(), { message: 'gone' })
  isDown = false
  await watch.start()
  let calls = 0
  const listener = () => {
    calls++
  }
  const [stop, other] = [watch.watch('1', listener), watch.watch('1', listener)]
  await database.notify(PAYMENT_CHANNEL, '1')
  await until(() => calls === 2)
  stop()
  stop()
  t.equal(watch.size, 1, 'a client that leaves removes no other')
  other()
  t.equal(watch.size, 0)
  await watch.close()
  await watch.close()
})
