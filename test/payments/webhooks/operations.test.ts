import t from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { isAuthentic } from '../../fakes/receiver.ts'
import { secretText } from './accounts.ts'
import { fixture } from './fixture.ts'

const LIST = '/api/merchant/webhooks/deliveries'
type Row = Record<string, unknown>

await t.test(
  "history: newest first, with everything that became of a delivery, and only the merchant's own",
  async t => {
    const { call, clock, jobs, merchant, paid, receiver } = await fixture(t)
    const endpoint = await receiver({ answer: () => ({ status: 500, body: 'out of order' }) })
    const account = await merchant(endpoint.url)
    const first = await paid(account)
    const begun = clock.now()
    await jobs.run()
    clock.advance(1_000)
    endpoint.answer(() => ({ status: 200 }))
    const second = await paid(account)
    await jobs.run()
    const { status, data, header } = await call(account, 'GET', LIST)
    t.equal(status, 200)
    t.equal(header('x-total-count'), '2')
    t.same(Object.keys(data), ['deliveries', 'total', 'limit', 'offset'])
    t.match(data, { total: 2, limit: 50, offset: 0 })
    const [newest, oldest] = data['deliveries'] as Row[]
    t.match(newest, {
      invoiceId: second.invoiceId,
      status: 'delivered',
      attempts: 1,
      responseStatus: 200,
      responseBody: '',
      error: null,
      nextAttemptAt: null,
      deliveredAt: new Date(clock.now()).toISOString()
    })
    t.same(Object.keys(oldest ?? {}), [
      'id',
      'endpointId',
      'event',
      'invoiceId',
      'paymentHash',
      'status',
      'url',
      'attempts',
      'responseStatus',
      'responseBody',
      'error',
      'createdAt',
      'lastAttemptAt',
      'nextAttemptAt',
      'deliveredAt'
    ])
    t.match(oldest, {
      id: /^[0-9a-f-]{36}$/,
      endpointId: 'first',
      event: 'payment.paid',
      invoiceId: first.invoiceId,
      paymentHash: first.paymentHash,
      status: 'pending',
      url: endpoint.url,
      attempts: 1,
      responseStatus: 500,
      responseBody: 'out of order',
      error: 'The endpoint answered 500.',
      createdAt: new Date(begun).toISOString(),
      lastAttemptAt: new Date(begun).toISOString(),
      nextAttemptAt: new Date(begun + 30_000).toISOString(),
      deliveredAt: null
    })
    t.same((await call(await merchant(null), 'GET', LIST)).data['deliveries'], [])

    await t.test('status, since, limit and offset', async t => {
      const ids = async (query: string) =>
        ((await call(account, 'GET', `${LIST}?${query}`)).data['deliveries'] as Row[]).map(row => row['invoiceId'])
      t.same(await ids('status=pending'), [first.invoiceId])
      t.same(await ids('status=delivered'), [second.invoiceId])
      t.same(await ids('status=failed'), [])
      t.same(await ids(`since=${new Date(begun + 1).toISOString()}`), [second.invoiceId])
      t.same(await ids(`since=${new Date(begun).toISOString()}`), [second.invoiceId, first.invoiceId])
      t.same(await ids('limit=1'), [second.invoiceId])
      t.same(await ids('limit=1&offset=1'), [first.invoiceId])
      t.match(
        (await call(account, 'GET', `${LIST}?limit=1000&offset=-3`)).data,
        { limit: 200, offset: 0 },
        'clamped, silently'
      )
      t.match((await call(account, 'GET', `${LIST}?limit=0&offset=9`)).data, {
        limit: 1,
        offset: 9,
        total: 2,
        deliveries: []
      })
      for (const query of ['status=lost', 'since=yesterday', 'since=2026-02-31', 'limit=some']) {
        const refused = await call(account, 'GET', `${LIST}?${query}`)
        t.equal(refused.status, 400, query)
        t.type(refused.data['errors'], 'object')
      }
    })
  }
)

await t.test('resend: 202, the same bytes, a fresh signature, counted as a further attempt', async t => {
  const { call, clock, jobs, merchant, merchants, paid, receiver, row } = await fixture(t)
  const endpoint = await receiver()
  const account = await merchant(endpoint.url)
  await paid(account)
  await jobs.run()
  const { id } = await row(account)
  const delivered = clock.now()
  clock.advance(60_000)
  const { status, data } = await call(account, 'POST', `${LIST}/${id}/resend`)
  t.equal(status, 202)
  t.match(data, { id, status: 'pending', attempts: 1, nextAttemptAt: new Date(clock.now()).toISOString() })
  t.same(await jobs.run(), [null])
  const [before, after] = endpoint.received
  t.same(after?.body, before?.body)
  t.ok(after !== undefined && isAuthentic(after, secretText, clock.now()))
  t.not(after?.headers['x-service-signature'], before?.headers['x-service-signature'])
  t.match(await row(account), {
    status: 'delivered',
    attempts: 2,
    delivered_at: new Date(delivered),
    last_attempt_at: new Date(clock.now())
  })

  await t.test('one that was decided gets this one attempt, which others do not follow', async t => {
    endpoint.answer(() => ({ status: 500 }))
    t.equal((await call(account, 'POST', `${LIST}/${id}/resend`)).status, 202)
    t.match(await jobs.run(), [{ name: 'DeliveryFailed' }])
    t.match(await row(account), {
      status: 'failed',
      attempts: 3,
      next_attempt_at: null,
      delivered_at: new Date(delivered)
    })
    t.same(await jobs.waiting(), [])
  })

  await t.test('twice concurrently: one attempt', async t => {
    endpoint.answer(() => ({ status: 200 }))
    const count = endpoint.received.length
    const answers = await Promise.all([
      call(account, 'POST', `${LIST}/${id}/resend`),
      call(account, 'POST', `${LIST}/${id}/resend`)
    ])
    t.same(
      answers.map(answer => answer.status),
      [202, 202]
    )
    await jobs.run()
    t.equal(endpoint.received.length, count + 1)
    t.match(await row(account), { status: 'delivered', attempts: 4 })
  })

  await t.test('without a webhook URL there is nowhere to send it', async t => {
    const changed = await merchants.changeWebhook(account.id, { url: null })
    if (changed === null) throw new Error('the account is gone')
    const refused = await call(changed.merchant, 'POST', `${LIST}/${id}/resend`)
    t.equal(refused.status, 400)
    t.same(refused.data, { error: 'No webhook URL is set' })
    t.match(await row(account), { status: 'delivered' })
  })
})

await t.test('resend of a waiting one brings it forward, and its schedule continues', async t => {
  const { call, clock, jobs, merchant, merchants, paid, receiver, row } = await fixture(t)
  const endpoint = await receiver({ answer: () => ({ status: 500 }) })
  const account = await merchant(endpoint.url)
  await paid(account)
  await jobs.run()
  const { id } = await row(account)
  clock.advance(10_000)
  t.equal((await call(account, 'POST', `${LIST}/${id}/resend`)).status, 202)
  t.same(await jobs.run(), [null])
  t.match(await row(account), { status: 'pending', attempts: 2, next_attempt_at: new Date(clock.now() + 60_000) })
  clock.advance(20_000)
  t.same(await jobs.run(), [null], 'the job of the time that was overtaken')
  t.equal(endpoint.received.length, 2, 'does nothing')
  await merchants.changeWebhook(account.id, { url: endpoint.url, secret: new Secret(secretText) })
  endpoint.answer(() => ({ status: 200 }))
  clock.advance(40_000)
  t.same(await jobs.run(), [null])
  t.match(await row(account), { status: 'delivered', attempts: 3 })
})

await t.test('while an attempt is in flight a resend adds none', async t => {
  const { call, jobs, merchant, paid, receiver, row } = await fixture(t)
  const sent = Promise.withResolvers<void>()
  const endpoint = await receiver({
    answer: () => {
      sent.resolve()
      return 'hang'
    }
  })
  const account = await merchant(endpoint.url)
  await paid(account)
  const controller = new AbortController()
  const [job] = await jobs.waiting()
  if (job === undefined) throw new Error('no job')
  const running = jobs.runOne(job, controller.signal)
  await sent.promise
  const before = (await jobs.waiting()).length
  t.equal((await call(account, 'POST', `${LIST}/${(await row(account)).id}/resend`)).status, 202)
  t.equal((await jobs.waiting()).length, before)
  controller.abort(new Error('enough'))
  t.match(await running, { message: 'enough' })
})

await t.test('a failed job that an operator runs again sends once more; one that was overtaken does not', async t => {
  const { clock, jobs, merchant, paid, receiver, row } = await fixture(t)
  const endpoint = await receiver({ answer: () => ({ status: 500 }) })
  const account = await merchant(endpoint.url)
  await paid(account)
  for (const pause of [0, 30_000, 60_000, 120_000, 240_000]) {
    clock.advance(pause)
    await jobs.run()
  }
  clock.advance(480_000)
  const [last] = await jobs.waiting()
  if (last === undefined) throw new Error('no job')
  t.match(await jobs.run(), [{ name: 'DeliveryFailed' }])
  t.equal(await jobs.runOne({ ...last, id: 'another job of the same attempt' }), null)
  t.equal(endpoint.received.length, 6)
  t.match(await jobs.runOne(last), { name: 'DeliveryFailed', message: /attempt 7/ })
  t.match(await row(account), { status: 'failed', attempts: 7 })
  t.same(await jobs.waiting(), [], 'no other attempt follows')
  endpoint.answer(() => ({ status: 200 }))
  t.equal(await jobs.runOne(last), null)
  t.match(await row(account), { status: 'delivered', attempts: 8, error: null })
  t.equal(await jobs.runOne(last), null)
  t.equal(endpoint.received.length, 8, 'a delivered event is not sent again by its job')
})

const TEST = '/api/merchant/webhooks/test'

await t.test("a test event is sent immediately, signed, and the endpoint's response is returned", async t => {
  const { call, clock, jobs, merchant, receiver, rows } = await fixture(t)
  const endpoint = await receiver({ answer: () => ({ status: 202, body: 'thanks' }) })
  const account = await merchant(endpoint.url)
  const { status, data } = await call(account, 'POST', TEST)
  const [sent] = endpoint.received
  if (sent === undefined) throw new Error('nothing was sent')
  t.equal(status, 200)
  t.same(data, {
    id: data['id'],
    isDelivered: true,
    url: endpoint.url,
    responseStatus: 202,
    responseBody: 'thanks',
    error: null,
    sentAt: new Date(clock.now()).toISOString()
  })
  t.ok(isAuthentic(sent, secretText, clock.now()))
  t.equal(sent.headers['x-correlation-id'], data['id'])
  t.same(JSON.parse(sent.text), {
    event: 'webhook.test',
    id: data['id'],
    merchantId: account.id,
    createdAt: new Date(clock.now()).toISOString()
  })
  t.same(await rows(account), [], 'it is no delivery')
  t.same(await jobs.waiting(), [])
})

await t.test('a test event goes to no address that the guard refuses, and nowhere without a webhook URL', async t => {
  const { call, merchant } = await fixture(t, { production: true })
  t.match((await call(await merchant('http://127.0.0.1:9/'), 'POST', TEST)).data, {
    isDelivered: false,
    responseStatus: null,
    error: /^The address was refused/
  })
  const { status, data } = await call(await merchant(null), 'POST', TEST)
  t.equal(status, 400)
  t.same(data, { error: 'No webhook URL is set' })
})
