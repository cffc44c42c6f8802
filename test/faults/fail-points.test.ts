import t, { type Test as T } from 'tap'
import { isAuthentic, type Received } from '../fakes/receiver.ts'
import { serversOnly } from '../support/database.ts'
import { eventually, freshPostgres } from '../support/gateway-process.ts'
import {
  killableGateway,
  pricedRoute,
  webhookSecret,
  type Acknowledged,
  type KillableGateway,
  type KillableOptions
} from './killable-gateway.ts'
import { newInvoice } from '../support/invoices.ts'

/*
 * The whole campaign is FAIL_POINTS=20, with tap's --timeout raised: it kills 20 times at each point, and waits for the
 * gateway to recover automatically, which takes it more than a minute after a kill.
 */
const TIMES = Number(process.env['FAIL_POINTS'] ?? 2)
const isCampaign = TIMES >= 20
/**
 * Milliseconds within which a gateway takes up what a killed one left: jobs are given up after 75 s, refunds looked at
 * after 90 s.
 */
const BY_ITSELF = 240_000
/**
 * Kills before everybody waits for the webhooks that they caught: attempts of a killed gateway are repeated after 15 s.
 */
const AT_ONCE = 3
/** Concurrent attempts of one merchant. */
const PLACES = 4
const MADE = /^POST \/v1\/receive-requests$/
const EXECUTED = /^PATCH \/v1\/payment-quotes\/[^/]+\/execute$/

// Most of the time something is waited for: a lease, a job of a process that is gone.
t.jobs = 5

/** Runs a fail-point over the embedded database, and over PostgreSQL where there is one. */
function onEach(name: string, options: KillableOptions, run: (t: T, made: KillableGateway) => Promise<void>) {
  if (!serversOnly())
    void t.test(`${name} (embedded)`, { buffered: true }, async t => {
      await run(t, await killableGateway(t, options))
    })
  void t.test(`${name} (PostgreSQL)`, { buffered: true }, async t => {
    const database = await freshPostgres(t)
    if (database !== null) await run(t, await killableGateway(t, { ...options, env: { DATABASE_URL: database } }))
  })
}

/** That the one event of a payment was delivered with the same authentic bytes each time; answers how often it came. */
async function told(t: T, made: KillableGateway, id: string) {
  await made.delivered(id)
  const attempts = made.attempts(id)
  t.equal(new Set(attempts.map(({ text }) => text)).size, 1, 'identical bytes at each attempt')
  t.ok(
    attempts.every(one => isAuthentic(one, webhookSecret, one.at)),
    'each is signed'
  )
  t.ok(attempts.length <= 2, `at most one duplicate: ${attempts.length} attempts`)
  return attempts.length
}

onEach(
  'killed when the provider has made an invoice and the payment is not written: who was answered loses nothing',
  // Each challenge waits for an invoice of its own.
  { invoicesAhead: 0 },
  async (t, made) => {
    const orphans: Array<{ readonly orderId: string; readonly at: number }> = []
    for (let kills = 0; kills < TIMES; kills++) {
      await made.payment()
      const {
        strike: { account },
        operator
      } = made
      const orderId = made.order()
      // What was handed out before is used up, so that each round has a challenge made.
      const credential = made.pay(await made.gateway.send('GET', pricedRoute), operator)
      t.equal((await made.gateway.send('GET', pricedRoute, { headers: { authorization: credential } })).status, 200)
      const before = { merchant: account.requests.size, operator: operator.requests.size }
      const held = made.hold(MADE, MADE)
      const pending = [
        made.ask('POST', '/api/payments', { orderId, amount: '0.001', currency: 'BTC' }),
        made.ask('GET', pricedRoute)
      ]
      await held
      t.same(
        [account.requests.size, operator.requests.size],
        [before.merchant + 1, before.operator + 1],
        'both invoices are made'
      )
      const orphan = [...account.requests.keys()].at(-1) ?? ''
      await made.kill()
      orphans.push({ orderId, at: Date.now() })
      t.same(await Promise.all(pending), [null, null], 'no client got a response')
      await made.start()
      t.equal((await made.gateway.merchantSend('GET', `/api/payments/order/${orderId}`)).status, 404)
      t.match(
        await made.gateway.merchantSend('POST', '/api/payments', { orderId, amount: '0.001', currency: 'BTC' }),
        { status: 400, text: /already exists/ },
        'its order id is held for two minutes'
      )
      made.strike.pay(orphan)
      await made.notified()
      t.equal((await made.gateway.send('GET', pricedRoute)).status, 402, 'challenges are made as ever')
      const next = await made.payment()
      made.strike.pay(next.chargeId)
      await made.notified()
      await made.becomes(next, 'paid')
      await told(t, made, next.invoiceId)
    }
    if (!isCampaign) return
    for (const { orderId, at } of orphans) {
      await eventually(
        'the order id is free',
        async () =>
          await made.payment(orderId).then(
            () => true,
            () => null
          ),
        at + 130_000 - Date.now()
      )
    }
  }
)

onEach(
  'killed when the provider has said that it was paid and the status is not written: it becomes paid',
  {},
  async (t, made) => {
    const left: Acknowledged[] = []
    for (let kills = 0; kills < TIMES; kills++) {
      const payment = await made.payment()
      const { invoiceId, chargeId } = payment
      made.strike.pay(chargeId)
      const held = made.hold(new RegExp(`^GET /v1/receive-requests/${chargeId}/receives$`))
      const isAsked = kills % 2 === 0
      const pending = isAsked ? made.ask('POST', `/api/payments/${invoiceId}/sync`) : Promise.resolve(null)
      if (!isAsked) t.same(await made.strike.deliver(), [200], 'the notification is acknowledged')
      await held
      t.equal(await made.status(invoiceId), 'unpaid')
      await made.kill()
      t.equal(await pending, null, 'no client got a response')
      if (isAsked) t.same(await made.strike.deliver(), [null], 'nor is the notification delivered')
      await made.start()
      if (isAsked) await made.notified()
      else if (isCampaign) {
        left.push(payment)
        continue
      } else
        t.match((await made.gateway.merchantSend('POST', `/api/payments/${invoiceId}/sync`)).json(), {
          status: /^paid$/
        })
      await made.becomes(payment, 'paid')
      await told(t, made, invoiceId)
    }
    for (const payment of left) {
      await made.becomes(payment, 'paid', BY_ITSELF)
      await told(t, made, payment.invoiceId)
    }
  }
)

const hung = new Set<string>()
onEach(
  'killed when the status is written and its webhook is not sent, or not answered: all arrive',
  { answer: one => (hung.delete(invoiceOf(one)) ? 'hang' : { status: 200 }) },
  async (t, made) => {
    let caught: Acknowledged[] = []
    for (let kills = 1; kills <= TIMES; kills++) {
      const payments: Acknowledged[] = []
      for (let n = 0; n <= PLACES; n++) payments.push(await made.payment())
      for (const { invoiceId, chargeId } of payments) {
        hung.add(invoiceId)
        made.strike.pay(chargeId)
      }
      await made.notified()
      for (const payment of payments) await made.becomes(payment, 'paid')
      const sent = () => payments.filter(({ invoiceId }) => made.attempts(invoiceId).length > 0)
      await eventually('every place is taken', async () => sent().length === PLACES)
      await made.kill()
      const [waiting, none] = payments.filter(payment => !sent().includes(payment))
      if (waiting === undefined || none !== undefined) throw new Error('one and one only is still to be sent')
      for (const { invoiceId } of payments) hung.delete(invoiceId)
      await made.start()
      t.equal(await told(t, made, waiting.invoiceId), 1, 'what was not sent is delivered immediately, and once')
      caught.push(...sent().filter(payment => payment !== waiting))
      if (kills % AT_ONCE !== 0 && kills < TIMES) continue
      for (const { invoiceId } of caught)
        t.equal(await told(t, made, invoiceId), 2, 'what was sent without a response is sent again')
      caught = []
    }
  }
)

function invoiceOf({ text }: Received) {
  return (JSON.parse(text) as { invoiceId: string }).invoiceId
}

onEach(
  'killed when a credential is leased and its upstream has not answered: it is good again after the lease, once',
  {},
  async (t, made) => {
    const proxy = await made.gateway.merchantSend('POST', '/api/proxy', {
      name: 'Shop',
      targetBaseUrl: made.upstream.origin,
      defaultPriceSats: 5
    })
    t.equal(proxy.status, 201, proxy.text)
    const places = [
      { path: pricedRoute, account: made.operator },
      { path: `/l402/proxy/${(proxy.json() as { proxyId: string }).proxyId}/a`, account: made.strike.account }
    ] as const
    for (let kills = 0; kills < TIMES; kills++) {
      const { path, account } = places[kills % 2] ?? places[0]
      const authorization = made.pay(await made.gateway.send('GET', path), account)
      const paymentHash = [...account.requests.values()].at(-1)?.paymentHash ?? ''
      const use = () => made.gateway.send('GET', path, { headers: { authorization } })
      made.sells = false
      const before = made.upstream.hits.length
      const pending = use().catch(() => null)
      await eventually('the upstream is called', async () => made.upstream.hits.length > before)
      t.match(await use(), { status: 402, text: /being redeemed by another request/ })
      await made.kill()
      t.equal(await pending, null, 'nothing was delivered')
      made.sells = true
      await made.start()
      await eventually('the credential works again', async () => {
        const answer = await use()
        if (answer.status === 402)
          t.match(answer.text, /being redeemed by another request/, 'until then it is in use, not spent')
        return answer.status === 200
      })
      await eventually('it is spent', async () => /already redeemed/.test((await use()).text))
      t.equal(made.upstream.hits.length, before + 2, 'served once')
      if (account === made.operator) t.same(made.attempts(paymentHash), [], 'the operator is sent no webhooks')
      else await told(t, made, paymentHash)
    }
  }
)

onEach(
  'killed when the provider has paid a refund and it is not written: it is never paid twice, and ends confirmed',
  {},
  async (t, made) => {
    const { account } = made.strike
    const left: string[] = []
    for (let kills = 0; kills < TIMES; kills++) {
      const { invoiceId } = await made.paidPayment()
      // Rounds differ: all of it over Lightning, a part over Lightning, all of it over the chain.
      const refundType = kills % 3 === 2 ? 'chain' : 'ln'
      const amountSatoshis = kills % 3 === 1 ? 40_000 : 100_000
      const refund = {
        invoiceId,
        refundType,
        amountSatoshis,
        refundAddress:
          refundType === 'ln'
            ? newInvoice({ amountSats: amountSatoshis }).invoice
            : 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'
      }
      const before = account.payments.size
      const balance = account.balance
      const held = made.hold(EXECUTED)
      const request = made.ask('POST', '/api/refunds', refund)
      await held
      t.equal(account.payments.size, before + 1, 'the provider has paid')
      await made.kill()
      t.equal(await request, null, 'no client got a response')
      await made.start()
      const [pending, another] = (
        await made.gateway.merchantSend('GET', `/api/refunds/invoice/${invoiceId}`)
      ).json() as Array<{ refundId: string; status: string }>
      if (pending === undefined || another !== undefined) throw new Error('one refund is known, and one only')
      // Where a start takes long, the job that looks at refunds has been there first; over the chain it can know nothing yet.
      t.ok(
        pending.status === 'pending' || (refundType === 'ln' && pending.status === 'confirmed'),
        `it is ${pending.status}`
      )
      // The client that was not answered repeats itself.
      t.match(await made.gateway.merchantSend('POST', '/api/refunds', refund), {
        status: 400,
        text: refundType === 'ln' ? /Another refund already pays|exceeds the payment/ : /exceeds the payment/
      })
      const payment = [...account.payments.values()].at(-1)
      if (payment === undefined) throw new Error('the provider has paid')
      if (refundType === 'chain') account.settle(payment.id, 'COMPLETED')
      if (isCampaign && kills % 2 === 0) left.push(pending.refundId)
      else
        t.match((await made.gateway.merchantSend('POST', `/api/refunds/${pending.refundId}/sync`)).json(), {
          status: 'confirmed'
        })
      t.equal(account.payments.size, before + 1, 'paid once')
      t.equal(balance - account.balance, payment.quote.sats + payment.quote.feeSats)
      made.acknowledged.set(
        invoiceId,
        left.includes(pending.refundId) ? null : amountSatoshis === 100_000 ? 'refunded' : 'paid'
      )
    }
    for (const id of left) {
      const confirmed = async () =>
        ((await made.gateway.merchantSend('GET', `/api/refunds/${id}`)).json() as { status: string }).status ===
        'confirmed'
          ? true
          : null
      await eventually('the refund is confirmed automatically', confirmed, BY_ITSELF)
    }
    t.equal(account.payments.size, TIMES, 'one payout for each refund')
  }
)
