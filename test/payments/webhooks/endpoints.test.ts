import t, { type Test as T } from 'tap'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { isAuthentic, type Received } from '../../fakes/receiver.ts'
import { eachDatabase } from '../../support/database.ts'
import { secretText } from './accounts.ts'
import { fixture, type Fixture } from './fixture.ts'

const ENDPOINTS = '/api/merchant/webhooks/endpoints'
const DELIVERIES = '/api/merchant/webhooks/deliveries'
type Row = Record<string, unknown>

/** A further endpoint, made by the operation. */
async function further(f: Fixture, account: Merchant, url: string, different: object = {}) {
  const { status, data } = await f.call(account, 'POST', ENDPOINTS, { url, ...different })
  if (status !== 201) throw new Error(JSON.stringify(data))
  return { id: String(data['endpointId']), secret: String(data['webhookSecret']) }
}

function only(t: T, received: readonly Received[]) {
  t.equal(received.length, 1)
  const [one] = received
  if (one === undefined) throw new Error('nothing came')
  return one
}

await eachDatabase(t, 'an event is sent to each endpoint that wants it, with its own secret', async (t, database) => {
  const f = await fixture(t, { database })
  const [first, paid, all, expired] = await Promise.all([f.receiver(), f.receiver(), f.receiver(), f.receiver()])
  const account = await f.merchant(first.url)
  const ofPaid = await further(f, account, paid.url, { events: ['payment.paid', 'l402.challenge.paid'] })
  const ofAll = await further(f, account, all.url, { events: ['*'] })
  await further(f, account, expired.url, { events: ['payment.expired'] })
  const { invoiceId } = await f.paid(account)
  t.same(await f.jobs.run(), [null, null, null])
  t.ok(isAuthentic(only(t, first.received), secretText, f.clock.now()))
  t.ok(isAuthentic(only(t, paid.received), ofPaid.secret, f.clock.now()))
  t.ok(isAuthentic(only(t, all.received), ofAll.secret, f.clock.now()))
  t.notOk(isAuthentic(only(t, all.received), ofPaid.secret, f.clock.now()))
  t.same(expired.received, [])
  t.same(only(t, all.received).body, only(t, first.received).body, 'the same bytes to all')
  t.match(
    (await f.rows(account)).map(row => [row.endpoint_id, row.status, row.url]).sort(),
    [
      [null, 'delivered', first.url],
      [ofPaid.id, 'delivered', paid.url],
      [ofAll.id, 'delivered', all.url]
    ].sort()
  )
  t.equal(new Set((await f.rows(account)).map(({ id }) => id)).size, 3)
  const shown = async (query: string) =>
    ((await f.call(account, 'GET', `${DELIVERIES}?${query}`)).data['deliveries'] as Row[]).map(row => [
      row['endpointId'],
      row['invoiceId']
    ])
  t.same(await shown('endpoint=first'), [['first', invoiceId]])
  t.same(await shown(`endpoint=${ofAll.id}`), [[ofAll.id, invoiceId]])
  t.equal((await shown('')).length, 3)
  t.equal((await f.call(account, 'GET', `${DELIVERIES}?endpoint=second`)).status, 400)
})

await eachDatabase(t, 'concurrent events, of accounts with and without endpoints: each once', async (t, database) => {
  const f = await fixture(t, { database })
  const without = await f.merchant(null)
  const [one, two] = [await f.merchant('http://127.0.0.1:9900/one'), await f.merchant(null)]
  const ids = [await further(f, one, 'http://127.0.0.1:9900/a'), await further(f, two, 'http://127.0.0.1:9900/b')]
  const challenges = [without, one, two, one, two].map((account, at) => ({
    paymentHash: String(at).repeat(64),
    resource: '/a',
    amountSats: 1,
    merchantId: String(account.id),
    source: 'producer' as const,
    proxyId: null,
    idempotencyKey: null,
    createdAt: f.clock.now(),
    paidAt: f.clock.now()
  }))
  type Told = Parameters<Fixture['webhooks']['challengesPaid']>[1]
  // Only what the event reports is read.
  const tell = () => f.webhooks.challengesPaid(database.sql, challenges as unknown as Told)
  await tell()
  await tell()
  const written = async (account: Merchant) =>
    (await f.rows(account)).map(row => `${row.event_key.split(':')[1]?.[0]} ${row.endpoint_id}`).sort()
  t.same(await written(without), [])
  t.same(await written(one), ['1', '3'].flatMap(hash => [`${hash} ${ids[0]?.id}`, `${hash} null`]).sort())
  t.same(await written(two), ['2', '4'].map(hash => `${hash} ${ids[1]?.id}`).sort())
  const waiting = await f.jobs.waiting()
  t.equal(waiting.length, 6, 'an attempt for each delivery')
  t.same(
    [...new Set(waiting.map(({ group }) => group))].sort(),
    [String(one.id), ...ids.map(({ id }) => id)].sort(),
    'endpoints hold places of their own'
  )
})

await eachDatabase(
  t,
  'deliveries to an endpoint that is paused or removed fail with a message',
  async (t, database) => {
    const f = await fixture(t, { database })
    const endpoint = await f.receiver({ answer: () => ({ status: 500 }) })
    const account = await f.merchant(null)
    for (const [how, words] of [
      ['paused', 'The webhook endpoint was paused.'],
      ['removed', 'The webhook endpoint was removed.']
    ] as const) {
      const { id } = await further(f, account, endpoint.url)
      await f.paid(account)
      await f.jobs.run()
      const stop = () =>
        how === 'paused'
          ? f.call(account, 'PUT', `${ENDPOINTS}/${id}`, { isActive: false })
          : f.call(account, 'DELETE', `${ENDPOINTS}/${id}`)
      t.equal((await stop()).status, how === 'paused' ? 200 : 204)
      const { data } = await f.call(account, 'GET', `${DELIVERIES}?endpoint=${id}`)
      const [delivery] = data['deliveries'] as [Row]
      t.match(delivery, { status: 'failed', error: words, attempts: 1, responseStatus: 500, nextAttemptAt: null })
      f.clock.advance(30_000)
      t.same(await f.jobs.run(), [null], 'the job of its next attempt does nothing')
      await f.paid(account)
      t.equal(
        (await f.call(account, 'GET', `${DELIVERIES}?endpoint=${id}`)).data['total'],
        1,
        'nothing more is written'
      )
      const again = () => f.call(account, 'POST', `${DELIVERIES}/${delivery['id']}/resend`)
      const refused = await again()
      t.same([refused.status, refused.data], [400, { error: 'The webhook endpoint is paused or was removed' }])
      if (how === 'paused') {
        await f.call(account, 'PUT', `${ENDPOINTS}/${id}`, { isActive: true })
        t.equal((await again()).status, 202)
        const sent = endpoint.received.length
        await f.jobs.run()
        t.equal(endpoint.received.length, sent + 1, 'an endpoint that stays can get it again')
        await f.call(account, 'DELETE', `${ENDPOINTS}/${id}`)
      }
    }

    await t.test('an attempt in flight meanwhile ends, and the next one says it', async t => {
      const { id } = await further(f, account, endpoint.url)
      await f.paid(account)
      const [job] = await f.jobs.waiting()
      if (job === undefined) throw new Error('no job')
      const sending = f.another({
        call: async () => {
          await f.call(account, 'DELETE', `${ENDPOINTS}/${id}`)
          throw new Error('nobody there')
        }
      })
      const { delivery } = job.data
      await sending.attempts.attempt({ delivery: String(delivery), attempt: 1 }, job.id, new AbortController().signal)
      t.match((await f.call(account, 'GET', `${DELIVERIES}?endpoint=${id}`)).data['deliveries'], [
        { status: 'pending', attempts: 1 }
      ])
      f.clock.advance(30_000)
      t.match(await f.jobs.run(), [null, { name: 'DeliveryFailed' }], 'the job of the first attempt does nothing')
      t.match((await f.call(account, 'GET', `${DELIVERIES}?endpoint=${id}`)).data['deliveries'], [
        { status: 'failed', error: 'The webhook endpoint was removed.', attempts: 2 }
      ])
    })
  }
)

await t.test('a change of address, events and secret counts for what waits and for what comes', async t => {
  const f = await fixture(t)
  const [before, after] = [await f.receiver({ answer: () => ({ status: 500 }) }), await f.receiver()]
  const account = await f.merchant(null)
  const { id, secret } = await further(f, account, before.url)
  await f.paid(account)
  await f.jobs.run()
  const rotated = await f.call(account, 'POST', `${ENDPOINTS}/${id}/rotate-secret`)
  t.equal(rotated.status, 200)
  const fresh = String(rotated.data['webhookSecret'])
  t.match(fresh, /^whsec_/)
  t.not(fresh, secret)
  const changed = await f.call(account, 'PUT', `${ENDPOINTS}/${id}`, { url: after.url, events: ['payment.expired'] })
  t.match(changed.data, { endpointId: id, isFirst: false, url: after.url, events: ['payment.expired'], isActive: true })
  t.notMatch(changed.data, { webhookSecret: String })
  await f.paid(account)
  f.clock.advance(30_000)
  await f.jobs.run()
  t.ok(isAuthentic(only(t, after.received), fresh, f.clock.now()))
  t.equal(before.received.length, 1, 'a payment that is paid has no such event any more')
})

await t.test('the list has the first endpoint first, and never a secret', async t => {
  const f = await fixture(t)
  const account = await f.merchant('https://shop.example.com/hooks')
  const { id, secret } = await further(f, account, 'https://ledger.example.com/')
  const { data } = await f.call(account, 'GET', ENDPOINTS)
  t.same(data, [
    {
      endpointId: 'first',
      isFirst: true,
      url: 'https://shop.example.com/hooks',
      events: ['*'],
      isActive: true,
      createdAt: null
    },
    {
      endpointId: id,
      isFirst: false,
      url: 'https://ledger.example.com/',
      events: ['*'],
      isActive: true,
      createdAt: new Date(f.clock.now()).toISOString()
    }
  ])
  const [row] = await f.database.sql`select to_jsonb(e)::text as row from webhook_endpoints e where id = ${id}`
  t.notOk(String(row?.['row']).includes(secret), 'it is sealed')
  t.same((await f.call(await f.merchant(null), 'GET', ENDPOINTS)).data, [])
})

await t.test("a plan's limit holds, also for concurrent requests; the first one has its place", async t => {
  const f = await fixture(t)
  const account = await f.merchant(null)
  const made = await Promise.all(
    Array.from({ length: 6 }, () => f.call(account, 'POST', ENDPOINTS, { url: 'https://a.example.com/' }))
  )
  t.same(made.map(({ status }) => status).sort(), [201, 201, 201, 201, 403, 403])
  t.match(made.find(({ status }) => status === 403)?.data, {
    error: 'Feature not available',
    message: /^This plan allows 5 webhook endpoints/,
    action_required: 'upgrade_plan',
    feature: 'webhook_endpoints',
    required_plan: 'individual'
  })
})

await t.test('addresses and events that cannot be are refused, as are endpoints of others', async t => {
  const f = await fixture(t, { production: true })
  const account = await f.merchant('https://shop.example.com/hooks')
  const { id } = await further(f, account, 'https://ledger.example.com/')
  for (const body of [
    { url: 'http://ledger.example.com/' },
    { url: 'https://127.0.0.1/' },
    { url: 'https://ledger.example.com/', events: [] },
    { url: 'https://ledger.example.com/', events: ['payment.lost'] }
  ]) {
    t.equal((await f.call(account, 'POST', ENDPOINTS, body)).status, 400, JSON.stringify(body))
    t.equal((await f.call(account, 'PUT', `${ENDPOINTS}/${id}`, body)).status, 400, JSON.stringify(body))
  }
  const other = await f.merchant(null)
  for (const [method, path, body] of [
    ['PUT', '', { isActive: false }],
    ['DELETE', '', undefined],
    ['POST', '/rotate-secret', undefined],
    ['POST', '/test', undefined]
  ] as const)
    for (const [who, which] of [
      [other, id],
      [account, 'x']
    ] as const) {
      const { status, data } = await f.call(who, method, `${ENDPOINTS}/${which}${path}`, body)
      t.same([status, data], [404, { error: 'Webhook endpoint not found' }], `${method} ${which}${path}`)
    }
  t.match((await f.call(account, 'GET', ENDPOINTS)).data, [{}, { endpointId: id, isActive: true }])
})

await t.test('a test event goes to the requested endpoint, signed with its secret', async t => {
  const f = await fixture(t)
  const [first, second] = [await f.receiver(), await f.receiver({ answer: () => ({ status: 401, body: 'no' }) })]
  const account = await f.merchant(first.url)
  const { id, secret } = await further(f, account, second.url, { isActive: false })
  t.match((await f.call(account, 'POST', `${ENDPOINTS}/${id}/test`)).data, {
    isDelivered: false,
    url: second.url,
    responseStatus: 401,
    responseBody: 'no'
  })
  t.ok(isAuthentic(only(t, second.received), secret, f.clock.now()))
  t.match((await f.call(account, 'POST', `${ENDPOINTS}/first/test`)).data, { isDelivered: true, url: first.url })
  t.ok(isAuthentic(only(t, first.received), secretText, f.clock.now()))
  t.same(await f.rows(account), [])
})
