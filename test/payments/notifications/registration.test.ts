import t from 'tap'
import { Registration, SubscriptionStore } from '../../../src/payments/notifications/registration.ts'
import { systemRandom } from '../../../src/platform/system/ids.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { ProviderRefused } from '../../../src/lightning/provider-calls/errors.ts'
import { fixture, type Fixture } from './fixture.ts'
import { until } from '../../support/until.ts'

/** Waits for what a payment has begun; nothing is left of it then. */
async function settled({ log }: Fixture, lines: number) {
  await until(() => log.lines.length >= lines)
}

/** Another process's. */
function another(made: Fixture) {
  const { database, payees, sealer, clock, log } = made
  return new Registration({
    store: new SubscriptionStore(database),
    payees,
    sealer,
    clock,
    random: systemRandom,
    log,
    publicUrl: () => 'https://pay.example.com'
  })
}

void t.test("the primary's webhook is registered automatically on the first payment, once", async t => {
  const made = await fixture(t)
  const { primary, database, registration } = made
  const acme = await made.merchant({ primaryApiKey: new Secret("acme's key") })
  await Promise.all(Array.from({ length: 10 }, () => made.pay(acme)))
  await settled(made, 1)
  await made.pay(acme)
  // Other processes that have not heard of it, all concurrently.
  const others = [another(made), another(made), another(made)]
  for (const one of others) one.charged(acme, 'primary', 'strike')
  await Promise.all([...others, registration].map(one => one.close()))
  t.equal(primary.subscriptions.length, 1)
  const [{ key, url, secret } = { key: '', url: '', secret: '' }] = primary.subscriptions
  t.match({ key, url }, { key: "acme's key", url: `https://pay.example.com/api/webhooks/primary?account=${acme.id}` })
  t.ok(secret.length >= 10 && secret.length <= 50, 'as long as Strike takes')
  const [row] = await database.sql`select * from provider_subscriptions where merchant_id = ${acme.id}`
  t.match(row, {
    merchant_id: acme.id,
    slot: 'primary',
    kind: 'strike',
    subscription_id: 'subscription-1',
    secret: /^v1\./
  })
  t.notOk(JSON.stringify(row).includes(secret))
  t.equal((await another(made).secretOf(acme.id, 'primary', 'strike'))?.reveal(), secret)
  t.equal(await registration.secretOf(acme.id, 'primary', 'opennode'), null, 'of another kind')
  t.equal(await registration.secretOf(null, 'primary', 'strike'), null, 'of another account')
})

void t.test('of processes that meet the first payment concurrently, one registers', async t => {
  const made = await fixture(t)
  const acme = await made.merchant()
  const others = Array.from({ length: 8 }, () => another(made))
  for (const one of others) one.charged(acme, 'primary', 'strike')
  await Promise.all(others.map(one => one.close()))
  t.equal(made.primary.subscriptions.length, 1)
})

void t.test('a failure fails no payment; it is tried again with a later one, at most every 10 minutes', async t => {
  const made = await fixture(t)
  const { primary, clock, log } = made
  const acme = await made.merchant()
  primary.refusal = new ProviderRefused(
    'scope',
    'The provider key lacks the scope partner.webhooks.manage.',
    'partner.webhooks.manage'
  )
  t.equal((await made.pay(acme)).status, 'unpaid')
  await settled(made, 1)
  t.match(log.lines[0], /could not be registered.*partner\.webhooks\.manage/s)
  for (const minutes of [1, 4, 4]) {
    clock.advance(minutes * 60_000)
    await made.pay(acme)
  }
  const restarted = another(made)
  restarted.charged(acme, 'primary', 'strike')
  await restarted.close()
  t.equal(primary.subscriptions.length, 1, 'not before the pause is over, by any process')
  clock.advance(61_000)
  primary.refusal = null
  await made.pay(acme)
  await settled(made, 2)
  t.equal(primary.subscriptions.length, 2)
  t.equal(
    primary.subscriptions[1]?.secret,
    primary.subscriptions[0]?.secret,
    'an attempt whose answer was lost still verifies'
  )
  t.notOk(
    log.lines.some(line => line.includes(primary.subscriptions[0]?.secret ?? '')),
    'the secret is not logged'
  )
})

void t.test('a payment does not wait for a provider that hangs', async t => {
  const made = await fixture(t)
  const acme = await made.merchant()
  const { promise, resolve } = Promise.withResolvers<void>()
  const { primary } = made
  const subscribe = primary.subscribe.bind(primary)
  primary.subscribe = async (...given) => {
    await promise
    return await subscribe(...given)
  }
  t.equal((await made.pay(acme)).status, 'unpaid')
  resolve()
})

void t.test(
  'a changed key or address registers again, immediately and with the same secret; the same key saved again does not',
  async t => {
    const made = await fixture(t)
    const { primary, merchants, log } = made
    let acme = await made.merchant({ primaryApiKey: new Secret('one') })
    await made.pay(acme)
    await settled(made, 1)
    acme = (await merchants.setProviderKey(acme.id, 'primary', new Secret('one'))) ?? acme
    await made.pay(acme)
    acme = (await merchants.setProviderKey(acme.id, 'primary', new Secret('two'))) ?? acme
    await until(async () => {
      await made.pay(acme)
      return log.lines.length >= 2
    })
    t.same(
      primary.subscriptions.map(({ key }) => key),
      ['one', 'two']
    )
    t.equal(primary.subscriptions[0]?.secret, primary.subscriptions[1]?.secret)
    const { database, payees, sealer, clock } = made
    const moved = new Registration({
      store: new SubscriptionStore(database),
      payees,
      sealer,
      clock,
      random: systemRandom,
      log,
      publicUrl: () => 'https://new.example.com'
    })
    moved.charged(acme, 'primary', 'strike')
    await moved.close()
    t.same(
      primary.subscriptions.map(({ url }) => new URL(url).host),
      ['pay.example.com', 'pay.example.com', 'new.example.com']
    )
  }
)

void t.test(
  "kinds with a webhook URL per charge, and demo payments, register nothing; the operator's account registers too",
  async t => {
    const made = await fixture(t)
    const { primary, registration, database } = made
    const acme = await made.merchant({ primaryApiKey: undefined as never, alternateApiKey: new Secret('a key') })
    const demo = await made.merchant()
    await made.pay(acme)
    await made.pay(demo, { amount: 0 })
    registration.charged(null, 'primary', 'strike')
    await registration.close()
    t.same(
      primary.subscriptions.map(({ key, url }) => [key, new URL(url).search]),
      [['the operator key', '?account=operator']]
    )
    t.match(
      await database.sql`select merchant_id, slot from provider_subscriptions where merchant_id is null or merchant_id in (${acme.id}, ${demo.id})`,
      [{ merchant_id: null, slot: 'primary' }]
    )
  }
)
