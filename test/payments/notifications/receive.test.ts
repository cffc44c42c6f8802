import t from 'tap'
import { ProviderRefused, ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import { DatabaseStopped } from '../../../src/platform/database/errors.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { fixture, paid, signed } from './fixture.ts'

const RECEIVED = { status: 200, text: '{"received":true}' }

void t.test("a notification of a payment (alternate, signed with the merchant's key)", async t => {
  const made = await fixture(t)
  const { alternate, clock, jobs, payments, notify, log } = made
  const key = 'the key of acme'
  const acme = await made.merchant({ primaryApiKey: undefined as never, alternateApiKey: new Secret(key) })
  const other = await made.merchant({
    primaryApiKey: undefined as never,
    alternateApiKey: new Secret('the key of another')
  })
  const send = (chargeId: string, secret: string, more = ' paid') => {
    const body = `charge ${chargeId}${more}`
    return notify('alternate', body, { 'x-test-signature': signed(body, secret) })
  }

  await t.test('is answered immediately, and the state is then looked up, never taken from it', async t => {
    const payment = await made.pay(acme)
    const before = alternate.lookUps
    t.same(await send(payment.chargeId, key), RECEIVED)
    t.equal(alternate.lookUps, before, 'no call was made before the answer')
    await jobs.run()
    t.equal(
      (await payments.get(acme, payment.invoiceId)).status,
      'unpaid',
      'the provider says so, whatever the notification said'
    )
    alternate.states.set(payment.chargeId, paid(clock.now()))
    t.same(await send(payment.chargeId, key), RECEIVED)
    t.same(await jobs.run(), [])
    t.match(await payments.get(acme, payment.invoiceId), {
      status: /^paid$/,
      paidAt: clock.now(),
      receivedSats: 10_000
    })
    t.equal(alternate.keys.at(-1), key)
  })

  await t.test('a bad signature is 401, without a call', async t => {
    const payment = await made.pay(acme)
    alternate.states.set(payment.chargeId, paid(clock.now()))
    const body = `charge ${payment.chargeId} paid`
    const forged = [
      {},
      { 'x-test-signature': '' },
      { 'x-test-signature': signed(body, 'a guess') },
      { 'x-test-signature': signed(`${body} `, key) },
      // Merchants know their own keys.
      { 'x-test-signature': signed(body, 'the key of another') }
    ]
    for (const headers of forged) {
      const answer = await notify('alternate', body, headers as Record<string, string>)
      t.equal(answer.status, 401)
      t.same(JSON.parse(answer.text), {
        error: 'Unauthorized',
        message: 'The signature of the notification is not valid.'
      })
    }
    t.equal(jobs.waiting.length, 0)
    t.equal((await payments.get(acme, payment.invoiceId)).status, 'unpaid')
  })

  await t.test('the bytes as they came are what is signed', async t => {
    const payment = await made.pay(acme)
    const body = Buffer.concat([Buffer.from(`charge ${payment.chargeId} `), Buffer.from([0xff, 0xfe, 0x00, 0x0a])])
    t.same(await notify('alternate', body, { 'x-test-signature': signed(body, key) }), RECEIVED)
    t.equal(jobs.waiting.length, 1)
    await jobs.run()
  })

  await t.test('one that cannot be read is 400; one that is not about a charge is taken and ignored', async t => {
    t.same(await notify('alternate', 'what is this'), {
      status: 400,
      text: '{"error":"The notification cannot be read."}'
    })
    t.same(await notify('alternate', ''), { status: 400, text: '{"error":"The notification cannot be read."}' })
    t.same(await notify('alternate', 'payout 1'), RECEIVED)
    t.equal(jobs.waiting.length, 0)
  })

  await t.test(
    'an unknown charge is 200 and ignored, also one that no database can hold, of the other slot, or of a demo',
    async t => {
      const demo = await made.pay(acme, { amount: 0 })
      const primary = await made.pay(await made.merchant())
      for (const id of ["nobody's", 'x'.repeat(5000), 'a\0b', '', demo.chargeId, primary.chargeId]) {
        const body = `charge ${id}`
        t.same(await notify('alternate', body, { 'x-test-signature': signed(body, key) }), RECEIVED)
      }
      t.equal(jobs.waiting.length, 0)
    }
  )

  await t.test('a charge made with a key that was replaced since is refused: only the present key is kept', async t => {
    const payment = await made.pay(other)
    await made.merchants.setProviderKey(other.id, 'alternate', new Secret('a new key'))
    t.equal((await send(payment.chargeId, 'the key of another')).status, 401)
    t.same(await send(payment.chargeId, 'a new key'), RECEIVED)
    jobs.waiting.splice(0)
  })

  await t.test('an unavailable provider: the job fails, retries, and finds the payment later', async t => {
    const payment = await made.pay(acme)
    alternate.states.set(payment.chargeId, paid(clock.now()))
    await send(payment.chargeId, key)
    alternate.fault = new ProviderUnavailable('away', 5, undefined, 'timeout')
    t.match(await jobs.run(), [{ name: 'ProviderUnavailable' }])
    alternate.fault = null
    t.same(await jobs.run(), [])
    t.equal((await payments.get(acme, payment.invoiceId)).status, 'paid')
  })

  await t.test('a refused key ends the job: asking again would not help', async t => {
    const payment = await made.pay(acme)
    await send(payment.chargeId, key)
    alternate.fault = new ProviderRefused('key', 'The provider does not accept this key.')
    t.same(await jobs.run(), [])
    alternate.fault = null
    t.equal(jobs.waiting.length, 0)
  })

  await t.test('a notification that cannot be stored is 503, so that it is sent again', async t => {
    const payment = await made.pay(acme)
    jobs.fault = new DatabaseStopped('killed')
    t.equal((await send(payment.chargeId, key)).status, 503)
    jobs.fault = null
    t.same(await send(payment.chargeId, key), RECEIVED)
    await jobs.run()
  })

  await t.test('no key, body or signature is logged', async t => {
    t.ok(log.lines.length > 0)
    for (const secret of [key, 'the key of another', 'a new key', 'charge charge-']) {
      t.notOk(
        log.lines.some(line => line.includes(secret)),
        secret
      )
    }
  })
})

void t.test('a notification that a registration signs (primary)', async t => {
  const made = await fixture(t)
  const { primary, clock, jobs, payments, notify, registration } = made
  const acme = await made.merchant({ primaryApiKey: new Secret("acme's key") })
  const rival = await made.merchant({ primaryApiKey: new Secret("rival's key") })
  const payment = await made.pay(acme)
  await made.pay(rival)
  await registration.close()
  const secretOf = (key: string) =>
    primary.subscriptions.find(one => one.key === key)?.secret ?? (t.fail('not registered') as never)
  const body = `charge ${payment.chargeId}`

  await t.test("holds with the secret of the charged account's registration alone", async t => {
    primary.states.set(payment.chargeId, paid(clock.now()))
    for (const secret of ["acme's key", secretOf("rival's key"), '']) {
      t.equal((await notify('primary', body, { 'x-test-signature': signed(body, secret) })).status, 401)
    }
    t.same(await notify('primary', body, { 'x-test-signature': signed(body, secretOf("acme's key")) }), RECEIVED)
    await jobs.run()
    t.equal((await payments.get(acme, payment.invoiceId)).status, 'paid')
  })

  await t.test(
    "a notification with another receiver's own secret is ignored and not refused: two of our accounts may be one at the provider",
    async t => {
      const before = jobs.waiting.length
      const send = (secret: string, query: string) =>
        notify('primary', body, { 'x-test-signature': signed(body, secret) }, query)
      t.same(await send(secretOf("rival's key"), `?account=${rival.id}`), RECEIVED)
      t.equal(jobs.waiting.length, before)
      for (const query of [
        `?account=${acme.id}`,
        '?account=operator',
        '?account=0',
        '?account=99999999999',
        '?account=x',
        '?account=',
        '?other=1'
      ]) {
        t.equal((await send(secretOf("rival's key"), query)).status, 401, query)
      }
      t.equal((await send('a guess', `?account=${rival.id}`)).status, 401)
      t.same(await send(secretOf("acme's key"), `?account=${rival.id}`), RECEIVED)
      t.equal(jobs.waiting.length, before + 1, "the charged account's secret is valid at any address")
      jobs.waiting.splice(0)
    }
  )

  await t.test('an account that never registered cannot be notified about', async t => {
    const row = await made.challenge({ merchantId: String((await made.merchant()).id), source: 'proxy' })
    const about = `charge ${row.chargeId}`
    t.equal((await notify('primary', about, { 'x-test-signature': signed(about, secretOf("acme's key")) })).status, 401)
  })

  await t.test(
    "a challenge is recorded as settled once the provider reports it as paid, the operator's by the operator's registration",
    async t => {
      const again = await fixture(t)
      again.registration.charged(null, 'primary', 'strike')
      await again.registration.close()
      const [{ secret, key } = { secret: '', key: '' }] = again.primary.subscriptions
      t.equal(key, 'the operator key')
      for (const [merchantId, source, by] of [
        [null, 'route', secret],
        [String(acme.id), 'proxy', secretOf("acme's key")],
        [String(acme.id), 'producer', secretOf("acme's key")]
      ] as const) {
        const row = await again.challenge({ merchantId, source })
        const about = `charge ${row.chargeId}`
        t.same(await again.notify('primary', about, { 'x-test-signature': signed(about, by) }), RECEIVED)
        await again.jobs.run()
        t.equal(await again.isSettled(row.paymentHash), false, 'the provider says that it is unpaid')
        again.primary.states.set(row.chargeId, paid(clock.now()))
        await again.notify('primary', about, { 'x-test-signature': signed(about, by) })
        await again.jobs.run()
        t.equal(await again.isSettled(row.paymentHash), true)
      }
    }
  )
})

void t.test('a kind that sends no notifications has no receiver: 404', async t => {
  const made = await fixture(t)
  Object.defineProperty(made.alternate, 'readNotification', { value: undefined })
  t.equal((await made.notify('alternate', 'charge x')).status, 404)
})

void t.test('a body above 16 KiB is 413: it is read before its sender is known', async t => {
  const made = await fixture(t)
  t.equal((await made.notify('primary', 'x'.repeat(16_385))).status, 413)
})
