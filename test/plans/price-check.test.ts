import t from 'tap'
import { PriceCheck } from '../../src/plans/price-check.ts'
import { BillingError, type BilledPrice } from '../../src/plans/provider.ts'
import { StripeBilling } from '../../src/plans/stripe/stripe.ts'
import { createLog } from '../../src/platform/telemetry/log.ts'
import { Metrics } from '../../src/platform/telemetry/metrics.ts'
import { Secret } from '../../src/platform/keys/secrets.ts'
import { startFakeStripe } from '../fakes/stripe.ts'
import { startGateway } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { stripeYaml } from './fixture.ts'

const right: BilledPrice = {
  priceId: 'price_1',
  amount: 4900,
  currency: 'usd',
  every: { interval: 'month', count: 1 },
  isActive: true
}

function rig(price: BilledPrice | null) {
  const lines: string[] = []
  const log = createLog({
    level: 'info',
    destination: {
      write: line => {
        lines.push(line)
      }
    }
  })
  const clock = new ManualClock()
  const metrics = new Metrics()
  const provider = { price: () => Promise.resolve(price), asked: 0 }
  const counted = {
    price: () => {
      provider.asked++
      return provider.price()
    }
  }
  return { clock, provider, lines, metrics, check: new PriceCheck({ provider: counted, clock, log, metrics }) }
}

const wrongPrices: Readonly<Record<string, BilledPrice | null>> = {
  'another amount': { ...right, amount: 5900 },
  'another currency': { ...right, currency: 'eur' },
  'another interval': { ...right, every: { interval: 'year', count: 1 } },
  'every third month': { ...right, every: { interval: 'month', count: 3 } },
  'one that is charged once': { ...right, every: null },
  'no fixed amount': { ...right, amount: null },
  'an archived one': { ...right, isActive: false },
  none: null
}

t.test('a price at the provider that is not the listed one sells nothing, and the operator sees why', async t => {
  for (const [name, price] of Object.entries(wrongPrices)) {
    const { check, lines, metrics } = rig(price)
    await check.look()
    await t.rejects(
      check.agree(),
      { name: 'Unavailable', status: 503, message: /cannot be bought by card at the moment: its price/ },
      name
    )
    t.match(JSON.parse(lines.join('')), { level: 'error', setting: 'billing.prices.individual', price }, name)
    t.match(await metrics.render(), /boltgate_billing_price_wrong\{plan="individual"\} 1/, name)
  }
})

t.test('the listed price sells, and is not read again for each buyer', async t => {
  const { check, clock, provider, lines, metrics } = rig(right)
  for (let count = 0; count < 20; count++) await check.agree()
  t.equal(provider.asked, 1)
  clock.advance(600_000)
  await check.agree()
  t.equal(provider.asked, 2)
  t.match(await metrics.render(), /boltgate_billing_price_wrong\{plan="individual"\} 0/)
  t.same(lines, [])
})

t.test('a price that was fixed sells within seconds', async t => {
  const { check, clock, provider } = rig({ ...right, isActive: false })
  await t.rejects(check.agree())
  await t.rejects(check.agree())
  t.equal(provider.asked, 1, 'buyers do not check again immediately')
  provider.price = async () => right
  clock.advance(10_000)
  await check.agree()
})

t.test('a price that cannot be read sells nothing', async t => {
  const { check, provider, metrics } = rig(right)
  provider.price = () => Promise.reject(new BillingError('away', 'x'))
  await t.rejects(check.agree(), { name: 'BillingError', fault: 'away' })
  t.notMatch(await metrics.render(), /boltgate_billing_price_wrong\{/, 'nothing is said of what is not known')
})

t.test('a price is read as Stripe keeps it', async t => {
  const fake = await startFakeStripe()
  t.teardown(() => fake.close())
  const priceOf = (price: string) =>
    new StripeBilling({
      key: new Secret(fake.key),
      webhookSecret: new Secret(fake.webhookSecret),
      price,
      url: fake.url,
      timeout: 10_000,
      clock: new ManualClock()
    }).price()
  t.same(await priceOf(fake.price), { ...right, priceId: fake.price })
  const recurring = { interval: 'month', interval_count: 1, usage_type: 'metered' } as const
  fake.prices.set('price_metered', { active: true, unit_amount: 4900, currency: 'usd', recurring })
  t.match(await priceOf('price_metered'), { amount: null })
  fake.prices.set('price_once', { active: false, unit_amount: 4900, currency: 'usd', recurring: null })
  t.match(await priceOf('price_once'), { every: null, isActive: false })
  t.equal(await priceOf('price_of_nothing'), null)
})

t.test('a gateway whose plan costs more at Stripe than is listed does not sell it', async t => {
  const fake = await startFakeStripe()
  const recurring = { interval: 'month', interval_count: 1, usage_type: 'licensed' } as const
  fake.prices.set(fake.price, { active: true, unit_amount: 9900, currency: 'usd', recurring })
  const gateway = await startGateway(t, { yaml: stripeYaml(fake) })
  t.teardown(() => fake.close())
  const answer = await gateway.send('POST', '/api/billing/create-checkout-session', {
    body: { plan: 'individual', email: 'buyer@example.com' }
  })
  t.equal(answer.status, 503)
  t.equal(answer.headers['retry-after'], '300')
  t.match(answer.json(), { error: 'Plan not for sale', message: /not the listed one\. The operator finds in the log/ })
  t.equal(fake.sessions.size, 0)
  t.match((await gateway.send('GET', '/api/billing/pricing')).json(), { plans: [{}, { priceUsd: 49 }] })
})
