import t from 'tap'
import { PriceCheck } from '../../src/plans/price-check.ts'
import { BillingError, type BilledPrice } from '../../src/plans/provider.ts'
import { StripeBilling } from '../../src/plans/stripe/stripe.ts'
import { createLog } from '../../src/platform/telemetry/log.ts'
import { Metrics } from '../../src/platform/telemetry/metrics.ts'
import { Secret } from '../../src/platform/keys/secrets.ts'
import { startFakeStripe } from '../fakes/stripe.ts'
import { defaultYaml, startGateway } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'

const right: BilledPrice = {
  priceId: 'price_1',
  amount: 4900,
  currency: 'usd',
  every: { interval: 'month', count: 1 },
  isActive: true
}

interface Rig {
  readonly clock: ManualClock
  readonly check: PriceCheck
  readonly lines: string[]
  readonly metrics: Metrics
  asked: number
  price: () => Promise<BilledPrice | null>
}

function rig(price: BilledPrice | null) {
  const lines: string[] = []
  const clock = new ManualClock()
  const metrics = new Metrics()
  const log = createLog({
    level: 'info',
    destination: {
      write: line => {
        lines.push(line)
      }
    }
  })
  const provider = {
    price: async () => {
      made.asked++
      return await made.price()
    }
  }
  const made: Rig = {
    clock,
    lines,
    metrics,
    asked: 0,
    price: async () => price,
    check: new PriceCheck({ provider, clock, log, metrics })
  }
  return made
}

const wrongPrices: ReadonlyArray<[name: string, price: BilledPrice | null, said: RegExp]> = [
  [
    'another amount',
    { ...right, amount: 5900 },
    /4900 of the smallest unit of usd each month, and the price price_1 charges 5900 of the smallest unit of usd each month/
  ],
  ['another currency', { ...right, currency: 'eur' }, /charges 4900 of the smallest unit of eur/],
  ['another interval', { ...right, every: { interval: 'year', count: 1 } }, /each year/],
  ['every third month', { ...right, every: { interval: 'month', count: 3 } }, /each 3 months/],
  ['one that is charged once', { ...right, every: null }, /once/],
  ['no fixed amount', { ...right, amount: null }, /no fixed amount/],
  ['an archived one', { ...right, isActive: false }, /archived/],
  ['none', null, /no price with the id of billing\.prices\.individual/]
]

for (const [name, price, said] of wrongPrices) {
  t.test(
    `a price at the provider that is not the listed one (${name}) sells nothing, and the operator sees why`,
    async t => {
      const made = rig(price)
      await made.check.look()
      await t.rejects(made.check.agree('individual'), {
        name: 'Unavailable',
        status: 503,
        message: /cannot be bought by card at the moment: its price/
      })
      t.match(made.lines.join(''), said)
      t.match(made.lines.join(''), /"level":"error".*"setting":"billing\.prices\.individual"/)
      t.match(await made.metrics.render(), /boltgate_billing_price_wrong\{plan="individual"\} 1/)
    }
  )
}

t.test('the listed price sells, and is not read again for each buyer', async t => {
  const made = rig(right)
  await Promise.all(Array.from({ length: 20 }, () => made.check.agree('individual')))
  for (let count = 0; count < 20; count++) await made.check.agree('individual')
  t.equal(made.asked, 1)
  made.clock.advance(600_000)
  await made.check.agree('individual')
  t.equal(made.asked, 2)
  t.match(await made.metrics.render(), /boltgate_billing_price_wrong\{plan="individual"\} 0/)
  t.same(made.lines, [])
})

t.test('a price that was fixed sells within seconds', async t => {
  const made = rig({ ...right, isActive: false })
  await t.rejects(made.check.agree('individual'))
  await t.rejects(made.check.agree('individual'))
  t.equal(made.asked, 1, 'buyers do not check again immediately')
  made.price = async () => right
  made.clock.advance(10_000)
  await made.check.agree('individual')
})

t.test('a price that cannot be read sells nothing', async t => {
  const made = rig(right)
  made.price = () => Promise.reject(new BillingError('away', 'x'))
  await t.rejects(made.check.agree('individual'), { name: 'BillingError', fault: 'away' })
  t.notMatch(await made.metrics.render(), /boltgate_billing_price_wrong\{/, 'nothing is said of what is not known')
})

t.test('a price is read as Stripe keeps it', async t => {
  const fake = await startFakeStripe()
  t.teardown(() => fake.close())
  const open = (individual: string) =>
    new StripeBilling({
      key: new Secret(fake.key),
      webhookSecret: new Secret(fake.webhookSecret),
      prices: { individual },
      url: fake.url,
      timeout: 10_000,
      clock: new ManualClock()
    })
  t.same(await open(fake.price).price('individual'), { ...right, priceId: fake.price })
  fake.prices.set('price_metered', {
    active: true,
    unit_amount: 4900,
    currency: 'usd',
    recurring: { interval: 'month', interval_count: 1, usage_type: 'metered' }
  })
  t.match(await open('price_metered').price('individual'), { amount: null })
  fake.prices.set('price_once', { active: false, unit_amount: 4900, currency: 'usd', recurring: null })
  t.match(await open('price_once').price('individual'), { every: null, isActive: false })
  t.equal(await open('price_of_nothing').price('individual'), null)
  fake.fail('server error', /prices/, 2)
  await t.rejects(open(fake.price).price('individual'), { name: 'BillingError', fault: 'away' })
})

t.test('a gateway whose plan costs more at Stripe than is listed does not sell it', async t => {
  const fake = await startFakeStripe()
  fake.prices.set(fake.price, {
    active: true,
    unit_amount: 9900,
    currency: 'usd',
    recurring: { interval: 'month', interval_count: 1, usage_type: 'licensed' }
  })
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        [
          'billing:    { kind: sandbox }',
          `billing: { kind: stripe, url: "${fake.url}", key: "${fake.key}", webhookSecret: "${fake.webhookSecret}", prices: { individual: ${fake.price} } }`
        ]
      ]
    })
  })
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
