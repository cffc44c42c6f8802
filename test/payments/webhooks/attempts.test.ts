import t from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { WebhookStore } from '../../../src/payments/webhooks/store.ts'
import { isAuthentic, type Received } from '../../fakes/receiver.ts'
import { secretText } from './accounts.ts'
import { fixture } from './fixture.ts'

const header = (received: Received | undefined, name: string) => String(received?.headers[name])
const stamp = (received: Received | undefined) => Number(/^t=(\d+),/.exec(header(received, 'x-service-signature'))?.[1])

await t.test('Delivery: POST with Content-Type: application/json', async t => {
  const { clock, jobs, receiver, merchant, paid, row } = await fixture(t)
  const endpoint = await receiver({ answer: () => ({ status: 201, body: 'thanks' }) })
  const account = await merchant(`${endpoint.url}/hooks?shop=1`)
  const payment = await paid(account)
  const written = await row(account)
  t.match(written, {
    status: 'pending',
    attempts: 0,
    event: 'payment.paid',
    url: `${endpoint.url}/hooks?shop=1`,
    next_attempt_at: new Date(clock.now())
  })
  t.match(await jobs.waiting(), [
    { queue: 'webhooks', group: String(account.id), data: { delivery: written.id, attempt: 1 } }
  ])
  clock.advance(1_500)
  t.same(await jobs.run(), [null])
  const [one, ...more] = endpoint.received
  t.same(more, [])
  t.match(one, { method: 'POST', path: '/hooks?shop=1', text: written.body })
  t.equal(header(one, 'content-type'), 'application/json')
  t.match(header(one, 'user-agent'), /^boltgate\/\d/)
  t.equal(header(one, 'x-correlation-id'), written.id)
  t.equal(header(one, 'content-length'), String(Buffer.byteLength(written.body)))
  t.match(JSON.parse(one?.text ?? ''), {
    invoiceId: payment.invoiceId,
    status: /^paid$/,
    provider: 'primary',
    providerChargeId: payment.chargeId,
    paidAt: new Date(payment.paidAt ?? 0).toISOString()
  })
  t.ok(one !== undefined && isAuthentic(one, secretText, clock.now()))
  t.notOk(one !== undefined && isAuthentic(one, `${secretText}.`, clock.now()))
  t.match(await row(account), {
    status: 'delivered',
    attempts: 1,
    response_status: 201,
    response_body: 'thanks',
    error: null,
    claimed_until: null,
    next_attempt_at: null,
    last_attempt_at: new Date(clock.now()),
    delivered_at: new Date(clock.now())
  })
  t.same(await jobs.waiting(), [])
})

await t.test(
  'Failed deliveries retry with exponential backoff at 30, 60, 120, 240, 480 seconds, with identical body bytes each attempt and a freshly timestamped signature; after the retries the event is marked permanently failed',
  async t => {
    const { clock, jobs, receiver, merchant, paid, row } = await fixture(t)
    const endpoint = await receiver({ answer: () => ({ status: 500, body: 'no\0' }) })
    const account = await merchant(endpoint.url)
    await paid(account)
    const times: number[] = []
    const begun = clock.now()
    t.same(await jobs.run(), [null])
    for (const [index, pause] of [30, 60, 120, 240, 480].entries()) {
      times.push(clock.now() - begun)
      t.match(await row(account), {
        status: 'pending',
        attempts: index + 1,
        response_status: 500,
        response_body: 'no\ufffd',
        error: 'The endpoint answered 500.',
        next_attempt_at: new Date(clock.now() + pause * 1000),
        delivered_at: null
      })
      const [next, ...others] = await jobs.waiting()
      t.equal(next?.startAfter, clock.now() + pause * 1000, `${pause} s`)
      t.same(others, [])
      clock.advance(pause * 1000 - 1)
      t.same(await jobs.run(), [], 'not before')
      clock.advance(1)
      const [result] = await jobs.run()
      if (index < 4) t.equal(result, null)
      else
        t.match(
          result,
          { name: 'DeliveryFailed', message: /payment\.paid to merchant \d+, attempt 6: The endpoint answered 500\./ },
          'the queue shows it as failed, with its reason'
        )
    }
    t.match(await row(account), { status: 'failed', attempts: 6, next_attempt_at: null })
    t.same(await jobs.waiting(), [])
    t.equal(endpoint.received.length, 6)
    t.equal(new Set(endpoint.received.map(one => one.body.toString('hex'))).size, 1, 'identical body bytes')
    t.same(
      endpoint.received.map(one => stamp(one) * 1000 - begun),
      [0, 30_000, 90_000, 210_000, 450_000, 930_000],
      'about 16 minutes'
    )
    t.equal(new Set(endpoint.received.map(one => header(one, 'x-service-signature'))).size, 6)
  }
)

await t.test('the pause counts from the end of the failed attempt', async t => {
  const { another, clock, jobs, merchant, paid, row } = await fixture(t)
  const account = await merchant('http://127.0.0.1:1234/')
  const timeouts: number[] = []
  const slow = another({
    call: async ({ timeout }) => {
      timeouts.push(timeout)
      clock.advance(9_000)
      return { status: 503, body: Buffer.alloc(0) }
    }
  })
  jobs.declare(slow.jobs)
  const begun = clock.now()
  await paid(account)
  await jobs.run()
  t.same(timeouts, [10_000], 'each attempt times out at 10 s')
  t.match(await row(account), { last_attempt_at: new Date(begun + 9_000), next_attempt_at: new Date(begun + 39_000) })
})

await t.test('every failure is one, and the next attempt may succeed', async t => {
  const { clock, jobs, receiver, merchant, paid, row } = await fixture(t)
  const endpoint = await receiver()
  const account = await merchant(endpoint.url)
  await paid(account)
  const answers = [
    { status: 302, headers: { location: `${endpoint.url}/other` } },
    'reset',
    { status: 404, body: 'x'.repeat(3_000) },
    { status: 204 }
  ] as const
  const expected = [
    { response_status: 302, error: 'The endpoint answered 302. Redirects are not followed.' },
    { response_status: null, response_body: null, error: 'The endpoint closed the connection without an answer.' },
    { response_status: 404, response_body: 'x'.repeat(1024), error: 'The endpoint answered 404.' },
    { response_status: 204, error: null, status: 'delivered', attempts: 4 }
  ]
  for (const [index, answer] of answers.entries()) {
    endpoint.answer(() => answer)
    t.same(await jobs.run(), [null])
    t.match(await row(account), expected[index] ?? {})
    clock.advance([30_000, 60_000, 120_000, 0][index] ?? 0)
  }
  t.same(
    endpoint.received.map(one => one.path),
    ['/', '/', '/', '/'],
    'no redirect was followed'
  )
})

await t.test(
  'an address in a private network is refused at every attempt, whatever it was when it was saved',
  async t => {
    const addresses: string[][] = [['10.0.0.7'], ['93.184.216.34', '169.254.169.254'], ['::ffff:127.0.0.1']]
    const { clock, jobs, merchant, paid, row } = await fixture(t, {
      production: true,
      resolve: async () => addresses.shift() ?? []
    })
    const account = await merchant('https://hooks.example.com/a')
    await paid(account)
    for (const pause of [30_000, 60_000, 120_000]) {
      t.same(await jobs.run(), [null])
      const { error, response_status } = await row(account)
      t.match(error, /^The address was refused: The target host resolves to an address in a blocked range\.$/)
      t.equal(response_status, null)
      clock.advance(pause)
    }
    await jobs.run()
    t.match(await row(account), { attempts: 4, error: 'The name in the address could not be resolved.' })
  }
)

await t.test(
  'a retry goes to the URL that is set then, signed with the secret that is set then, with the same bytes',
  async t => {
    const { clock, jobs, merchants, receiver, merchant, paid, row } = await fixture(t)
    const old = await receiver({ answer: () => ({ status: 500 }) })
    const fixed = await receiver()
    const account = await merchant(old.url)
    await paid(account)
    await jobs.run()
    await merchants.changeWebhook(account.id, {
      url: `${fixed.url}/new`,
      secret: new Secret('another secret of the merchant')
    })
    clock.advance(30_000)
    t.same(await jobs.run(), [null])
    t.equal(old.received.length, 1)
    t.equal(fixed.received[0]?.text, old.received[0]?.text)
    t.ok(
      fixed.received[0] !== undefined && isAuthentic(fixed.received[0], 'another secret of the merchant', clock.now())
    )
    t.match(await row(account), { status: 'delivered', attempts: 2, url: `${fixed.url}/new` })
  }
)

await t.test('a URL that was cleared: the delivery fails, with its reason and without further attempts', async t => {
  const { clock, jobs, merchants, receiver, merchant, paid, row } = await fixture(t)
  const endpoint = await receiver({ answer: () => ({ status: 500 }) })
  const account = await merchant(endpoint.url)
  await paid(account)
  await jobs.run()
  await merchants.changeWebhook(account.id, { url: null })
  clock.advance(30_000)
  t.match(await jobs.run(), [{ name: 'DeliveryFailed' }])
  t.match(await row(account), {
    status: 'failed',
    attempts: 2,
    error: 'No webhook URL is set any more.',
    url: null,
    response_status: null,
    next_attempt_at: null
  })
  t.equal(endpoint.received.length, 1)
  t.same(await jobs.waiting(), [])
})

await t.test('a deactivated merchant is still notified', async t => {
  const { changes, clock, jobs, merchants, receiver, merchant, payment, row } = await fixture(t)
  const endpoint = await receiver()
  const account = await merchant(endpoint.url)
  const made = await payment(account)
  await merchants.deactivate(account.id)
  await changes.observe(made, { status: 'paid', receivedSats: null, settledAt: clock.now() }, clock.now())
  await jobs.run()
  t.match(await row(account), { status: 'delivered' })
})

await t.test('a job that comes twice, and a process that died between sending and writing', async t => {
  const { another, clock, database, jobs, receiver, merchant, paid, row } = await fixture(t)
  const endpoint = await receiver()
  const account = await merchant(endpoint.url)

  await t.test('the job of an attempt that was made does nothing', async t => {
    await paid(account)
    const [job] = await jobs.waiting()
    if (job === undefined) throw new Error('no job')
    await jobs.run()
    t.equal(await jobs.runOne(job), null)
    t.equal(endpoint.received.length, 1)
    t.match(await row(account), { status: 'delivered', attempts: 1 })
  })

  await t.test("crash between send and write: the same bytes again, once the dead one's claim is over", async t => {
    const other = await merchant(endpoint.url)
    const before = endpoint.received.length
    await paid(other)
    const [job] = await jobs.waiting()
    if (job === undefined) throw new Error('no job')
    const store = new WebhookStore(database)
    const dying = another({
      store: new Proxy(store, {
        get: (target, name) =>
          name === 'finish'
            ? async () => {
                throw new Error('killed')
              }
            : (Reflect.get(target, name) as (...args: unknown[]) => unknown).bind(target)
      })
    })
    await t.rejects(
      dying.attempts.attempt({ delivery: (await row(other)).id, attempt: 1 }, 'job', new AbortController().signal),
      { message: 'killed' }
    )
    t.match(await row(other), { status: 'pending', attempts: 0 })
    await jobs.run()
    t.equal(endpoint.received.length, before + 1, 'while it might be alive no other process sends')
    clock.advance(14_999)
    t.same(await jobs.run(), [])
    clock.advance(1)
    t.same(await jobs.run(), [null], 'the job comes again when the claim lapses')
    t.equal(endpoint.received.length, before + 2)
    t.same(endpoint.received[before + 1]?.body, endpoint.received[before]?.body, 'identical in bytes')
    t.match(await row(other), { status: 'delivered', attempts: 1 })
  })

  await t.test('two gateways with one job concurrently: one sends', async t => {
    const third = await merchant(endpoint.url)
    const before = endpoint.received.length
    await paid(third)
    const { id } = await row(third)
    const gateways = Array.from({ length: 8 }, () => another({}))
    await Promise.all(
      gateways.map((gateway, index) =>
        gateway.attempts.attempt({ delivery: id, attempt: 1 }, `job-${index}`, new AbortController().signal)
      )
    )
    t.equal(endpoint.received.length, before + 1)
    t.match(await row(third), { attempts: 1, status: 'delivered' })
  })
})

await t.test('a gateway that stops gives its attempt back, and it counts as not made', async t => {
  const { jobs, receiver, merchant, paid, row } = await fixture(t)
  const controller = new AbortController()
  const endpoint = await receiver({
    answer: () => {
      controller.abort(new Error('the gateway stops'))
      return 'hang'
    }
  })
  const account = await merchant(endpoint.url)
  await paid(account)
  const [job] = await jobs.waiting()
  if (job === undefined) throw new Error('no job')
  t.match(await jobs.runOne(job, controller.signal), { message: 'the gateway stops' })
  t.match(await row(account), { status: 'pending', attempts: 0, claimed_until: null })
  endpoint.answer(() => ({ status: 200 }))
  t.equal(await jobs.runOne(job), null)
  t.match(await row(account), { status: 'delivered', attempts: 1 })
})

await t.test('an attempt whose job was lost is found a minute after it was due', async t => {
  const { clock, database, jobs, webhooks, receiver, merchant, paid, row } = await fixture(t)
  const endpoint = await receiver()
  const account = await merchant(endpoint.url)
  await paid(account)
  const { id } = await row(account)
  const jobOfOurs = async () => (await jobs.waiting()).filter(job => job.data['delivery'] === id)
  await webhooks.attempts.recover()
  t.equal((await jobOfOurs()).length, 1, 'it waits for a place: that is no loss')
  await database.sql`delete from fake_jobs`
  await webhooks.attempts.recover()
  clock.advance(60_000)
  await webhooks.attempts.recover()
  t.equal((await jobOfOurs()).length, 0, 'not before')
  clock.advance(1)
  await webhooks.attempts.recover()
  await webhooks.attempts.recover()
  t.match(await jobOfOurs(), [{ data: { attempt: 1 }, group: String(account.id) }])
  t.equal((await jobOfOurs()).length, 1)
  await jobs.run()
  t.match(await row(account), { status: 'delivered' })
})

await t.test('deliveries are kept for 30 days, those that are pending for longer', async t => {
  const { clock, jobs, webhooks, receiver, merchant, paid, rows } = await fixture(t)
  const endpoint = await receiver()
  const account = await merchant(endpoint.url)
  await paid(account)
  await jobs.run()
  await paid(account)
  clock.advance(30 * 86_400_000)
  await webhooks.purge()
  t.equal((await rows(account)).length, 2)
  clock.advance(1)
  await webhooks.purge()
  t.match(await rows(account), [{ status: 'pending' }])
})
