import { setImmediate } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { Heard, PageWorld, type PageAnswer } from './page-server.ts'

/** Lets the reads of a stream come back. */
function settled() {
  return setImmediate()
}

function mustBeSecret(t: T, answer: PageAnswer) {
  t.equal(answer.headers.get('content-type'), 'text/html; charset=utf-8')
  t.equal(answer.headers.get('cache-control'), 'no-store')
  t.equal(answer.headers.get('referrer-policy'), 'no-referrer')
  t.match(answer.headers.get('x-robots-tag'), /\bnoindex\b/)
  t.equal(answer.headers.get('x-content-type-options'), 'nosniff')
  t.equal(
    answer.headers.get('content-security-policy'),
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
  )
}

t.test('the address of a page is kept nowhere, and the page loads nothing but its own', async t => {
  const world = new PageWorld({ sandbox: true })
  for (const status of ['unpaid', 'processing', 'underpaid', 'paid', 'expired', 'refunded'] as const) {
    const answer = await world.get(
      `/pay/${world.add({ status, kind: 'sandbox', successUrl: 'https://shop.example/' }).payToken}`
    )
    t.equal(answer.status, 200, `${status}: expired and paid ones still resolve`)
    mustBeSecret(t, answer)
    t.notMatch(
      answer.text,
      /\sstyle=|<style|\son[a-z]+=|<script(?![^>]* src="\.\.\/assets\/pay-[0-9a-f]{12}\.js">)/,
      'nothing inline, which the policy would stop'
    )
  }
})

t.test('/pay/<invoiceId> does not resolve, nor does an unknown token', async t => {
  const world = new PageWorld()
  const { invoiceId, payToken } = world.add()
  world.add({ payToken: 'short' })
  for (const token of [
    invoiceId,
    'B'.repeat(43),
    payToken.slice(1),
    `${payToken}A`,
    payToken.toLowerCase(),
    'short',
    '%3Cscript%3E',
    '..%2F..'
  ]) {
    const answer = await world.get(`/pay/${token}`)
    t.equal(answer.status, 404, token)
    mustBeSecret(t, answer)
    t.match(answer.text, 'Payment not found')
    t.notMatch(answer.text, token)
    t.match(await world.get(`/pay/${token}/events`), { status: 404, text: '{"error":"Payment not found"}' })
  }
})

t.test('assets: the hash of the content in the name, cached forever; 404 for all others', async t => {
  const world = new PageWorld()
  const page = (await world.get(`/pay/${world.add().payToken}`)).text
  for (const [ending, type, part] of [
    ['css', 'text/css; charset=utf-8', '--accent'],
    ['js', 'text/javascript; charset=utf-8', 'EventSource']
  ] as const) {
    const name = new RegExp(`"\\.\\./assets/(pay-[0-9a-f]{12}\\.${ending})"`).exec(page)?.[1]
    t.ok(name, ending)
    const answer = await world.get(`/assets/${name}`)
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('content-type'), type)
    t.equal(answer.headers.get('cache-control'), 'public, max-age=31536000, immutable')
    t.equal(answer.headers.get('x-content-type-options'), 'nosniff')
    t.match(answer.text, part)
    t.notMatch(answer.text, /https?:\/\/(?!\?)|@import|url\(/, 'nothing from elsewhere')
    t.equal((await world.get(`/assets/pay.${ending}`)).status, 404)
    t.equal((await world.get(`/assets/pay-000000000000.${ending}`)).status, 404)
  }
  t.equal((await world.get('/assets/favicon.ico')).status, 404)
})

t.test('events: the status immediately, then each change, and the end after a final one', async t => {
  const world = new PageWorld()
  const payment = world.add()
  const answer = await world.get(`/pay/${payment.payToken}/events`)
  t.equal(answer.headers.get('content-type'), 'text/event-stream')
  t.equal(answer.headers.get('cache-control'), 'no-store')
  const received = new Heard(answer.stream)
  await settled()
  t.same(received.statuses, ['unpaid'])
  world.change(payment, { amountSats: 18_342 })
  await settled()
  t.same(received.statuses, ['unpaid'], 'a change of something else is ignored')
  for (const status of ['processing', 'underpaid', 'paid'] as const) {
    t.notOk(received.ended)
    world.change(payment, { status })
    await settled()
  }
  t.same(received.statuses, ['unpaid', 'processing', 'underpaid', 'paid'])
  t.ok(received.ended)
  t.equal(world.listeners, 0, 'no listener is left')
})

t.test('events: of a payment that is final there is one, and the end', async t => {
  const world = new PageWorld()
  for (const status of ['paid', 'expired', 'refunded'] as const) {
    const received = new Heard((await world.get(`/pay/${world.add({ status }).payToken}/events`)).stream)
    await settled()
    t.same(received.statuses, [status])
    t.ok(received.ended)
  }
  t.equal(world.listeners, 0)
})

t.test('events: an expiry is sent once it is recorded (decision 178)', async t => {
  const world = new PageWorld()
  const payment = world.add({ expiresAt: world.clock.now() + 20_000 })
  const received = new Heard((await world.get(`/pay/${payment.payToken}/events`)).stream)
  await settled()
  world.clock.advance(19_999)
  await settled()
  t.same(received.statuses, ['unpaid'])
  world.clock.advance(1)
  await settled()
  t.same(received.statuses, ['unpaid'], 'its provider has not reported yet')
  world.change(payment, { status: 'expired' })
  await settled()
  t.same(received.statuses, ['unpaid', 'expired'])
  t.ok(received.ended)
})

t.test('events: a demo confirms itself by the clock', async t => {
  const world = new PageWorld()
  const payment = world.add({ kind: 'demo', amount: '0', confirmsAt: world.clock.now() + 5000 })
  const received = new Heard((await world.get(`/pay/${payment.payToken}/events`)).stream)
  await settled()
  world.clock.advance(5000)
  await settled()
  t.same(received.statuses, ['unpaid', 'paid'])
  t.ok(received.ended)
})

t.test('events: a payment that is being confirmed does not expire by time', async t => {
  const world = new PageWorld()
  const payment = world.add({ status: 'processing', expiresAt: world.clock.now() + 20_000 })
  const received = new Heard((await world.get(`/pay/${payment.payToken}/events`)).stream)
  await settled()
  world.clock.advance(20_000)
  await settled()
  t.same(received.statuses, ['processing'])
  t.notOk(received.ended)
  received.end()
})

t.test('events: a change without a notification is still found', async t => {
  const world = new PageWorld()
  const payment = world.add()
  const received = new Heard((await world.get(`/pay/${payment.payToken}/events`)).stream)
  await settled()
  world.add({ ...payment, status: 'paid' })
  await settled()
  t.same(received.statuses, ['unpaid'])
  world.clock.advance(30_000)
  await settled()
  t.same(received.statuses, ['unpaid', 'paid'])
})

t.test('events: they end when the database is down, so that the page polls instead', async t => {
  const world = new PageWorld()
  const payment = world.add()
  const received = new Heard((await world.get(`/pay/${payment.payToken}/events`)).stream)
  await settled()
  world.fault = new Error('away')
  world.change(payment, { status: 'paid' })
  await settled()
  t.same(received.statuses, ['unpaid'])
  t.ok(received.ended)
  t.equal(world.listeners, 0)
})

t.test('events: a client that leaves is forgotten', async t => {
  const world = new PageWorld()
  const payment = world.add()
  const received = new Heard((await world.get(`/pay/${payment.payToken}/events`)).stream)
  t.equal(world.listeners, 1)
  received.end()
  t.equal(world.listeners, 0)
  await settled()
  world.change(payment, { status: 'paid' })
  await settled()
  t.same(received.statuses, [], 'not even what was being read')
})
