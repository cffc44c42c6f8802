import { startKind, type Opening } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { cln, readClnKey } from '../../../src/lightning/kinds/cln/cln.ts'
import { selfSigned } from '../../fakes/certificate.ts'
import { startFakeCln } from '../../fakes/cln.ts'
import { refundOf } from '../providers/contract/subject.ts'
import { until } from '../../support/until.ts'

const request = { amountSats: 2_100, description: 'a quote', expirySeconds: 600 }

const setUp = (t: T, options: Opening = {}) => startKind(t, cln, startFakeCln, options)

t.test(
  'a key names host, authority and rune; the certificate is checked by the name that clnrest gives itself',
  async t => {
    const { certificate } = selfSigned({ names: ['cln'] })
    const ca = Buffer.from(certificate).toString('base64url')
    const read = readClnKey(`clnrest://Node.example.com:3010?ca=${ca}&rune=abc-_=`)
    t.match(read, { origin: 'https://node.example.com:3010', certificate, servername: 'cln' })
    t.equal(read.rune.reveal(), 'abc-_=')
    t.match(readClnKey('clnrest+http://127.0.0.1:3010?rune=abc'), { origin: 'http://127.0.0.1:3010', servername: null })
    for (const [text, wanted] of [
      ['clnrest://127.0.0.1:3010?ca=abc&rune=abc', /ca in the cln key is not one X.509 certificate/],
      [`clnrest://127.0.0.1:3010?ca=${ca}`, /no rune/],
      [`clnrest://127.0.0.1:3010?ca=${ca}&rune=a%0Ab`, /rune in the cln key must be visible ASCII/]
    ] as const)
      t.throws(() => readClnKey(text), { name: 'AddressKeyError', message: wanted })
  }
)

t.test('an invoice whose answer was lost is found again by its label', async t => {
  const { fake, provider, key } = await setUp(t)
  fake.fail('lost after', /v1\/invoice$/)
  const charge = await provider.createCharge(key, request)
  t.equal(fake.wallet.invoices.size, 1, 'and not made twice')
  t.ok(fake.wallet.invoices.has(charge.chargeId))
})

t.test('a rune over its own rate limit is reported as such, not as a missing permission', async t => {
  const { fake, provider, key } = await setUp(t)
  fake.isRateUsedUp = true
  await t.rejects(provider.createCharge(key, request), { name: 'ProviderUnavailable', fault: 'rate', retryAfter: 60 })
})

t.test('a rune names what it lacks', async t => {
  const { fake, provider } = await setUp(t)
  const verdict = await provider.validateKey(new Secret(fake.key(['invoice', 'getinfo'])))
  t.match(verdict, { isValid: false, message: /lacks the permission method=listinvoices/ })
  t.match(await provider.validateKey(new Secret(fake.key(['invoice', 'getinfo', 'listinvoices', 'waitanyinvoice']))), {
    isValid: true,
    message: /only receives.*method=listpays and method=xpay/
  })
})

t.test("the check shows the node's warnings about an invoice", async t => {
  const { fake, provider, key } = await setUp(t)
  fake.warnings = { warning_capacity: 'Insufficient incoming channel capacity to pay invoice' }
  t.match(await provider.validateKey(key), { isValid: true, message: /warns: Insufficient incoming/ })
})

t.test('a refund has the fee limit that it is given, of nothing too', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  for (const feeLimitSats of [0, 3]) await provider.createPayout(key, { ...refundOf(clock, 40), feeLimitSats })
  await provider.createPayout(key, refundOf(clock, 40))
  t.same(
    fake.requests
      .filter(({ path }) => path === '/v1/xpay')
      .map(({ text }) => (JSON.parse(text) as { maxfee: number }).maxfee),
    [0, 3_000, 10_000]
  )
})

t.test('a node before 24.11 pays by the older method', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  fake.isOlder = true
  const refund = refundOf(clock, 40)
  t.match(await provider.createPayout(key, refund), { status: 'confirmed', feeSats: 2 })
  t.match(await provider.lookUpPayout(key, refund), { status: 'confirmed', feeSats: 2 })
  t.match(await provider.validateKey(key), { isValid: true, message: /pays with it/ })
  t.match(
    await provider.validateKey(
      new Secret(fake.key(['invoice', 'getinfo', 'listinvoices', 'waitanyinvoice', 'listpays', 'xpay']))
    ),
    { message: /only receives.*method=pay/ }
  )
})

t.test('a node with thousands of paid invoices is read from the first that may be ours, in few calls', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  for (let count = 0; count < 3_000; count++) {
    const { paymentHash } = fake.wallet.addInvoice({ amountSats: 1, description: 'old', expirySeconds: 60 })
    clock.advance(100)
    fake.wallet.settle(paymentHash)
  }
  clock.advance(3_600_000)
  const since = clock.now()
  const expected: string[] = []
  for (let count = 0; count < 15; count++) {
    const { chargeId } = await provider.createCharge(key, request)
    clock.advance(1_000)
    fake.wallet.settle(chargeId)
    expected.push(chargeId)
  }
  fake.requests.length = 0
  const found: string[] = []
  let position: string | null = null
  const drain = async () => {
    for (let lists = 1; ; lists++) {
      const before = fake.requests.length
      const list = await provider.listSettled(key, { since, oldest: since, position })
      t.ok(fake.requests.length - before <= 10, 'within what a listing costs')
      found.push(...list.charges.map(({ chargeId }) => chargeId))
      position = list.position
      if (list.reach === 'whole') return lists
    }
  }
  await drain()
  t.same(found.slice(-15), expected)
  t.ok(fake.requests.length < 60, `${fake.requests.length} calls`)
  found.length = 0
  t.equal(await drain(), 1, 'from then on it resumes')
  t.same(found, [])

  // Another node, or one that was rebuilt, counts from the beginning.
  fake.wallet.invoices.clear()
  fake.wallet.settled = 0
  const { chargeId } = await provider.createCharge(key, request)
  fake.wallet.settle(chargeId)
  await drain()
  t.same(found, [chargeId])
})

t.test('the mark of a list may be deleted at the node, and nothing behind it is lost', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  const since = clock.now()
  const pay = async () => {
    const { chargeId } = await provider.createCharge(key, request)
    fake.wallet.settle(chargeId)
    return chargeId
  }
  const old = await pay()
  const { position } = await provider.listSettled(key, { since, oldest: since, position: null })
  fake.wallet.invoices.delete(old)
  const later = [await pay(), await pay()]
  const list = await provider.listSettled(key, { since, oldest: since, position })
  t.same(
    list.charges.map(({ chargeId }) => chargeId),
    later
  )
})

t.test('a stream reads after the last payment, waits again, and ends at a node without long polls', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  const charges = [await provider.createCharge(key, request), await provider.createCharge(key, request)]
  const found: string[] = []
  const stream = provider.follow(key, new AbortController().signal, ({ chargeId }) => found.push(chargeId))
  const waits = async () => {
    await until(() => fake.followers.size > 0)
  }
  for (const { chargeId } of charges) {
    await waits()
    clock.advance(60_000)
    await waits()
    fake.wallet.settle(chargeId)
  }
  await waits()
  t.same(
    found,
    charges.map(({ chargeId }) => chargeId)
  )
  t.match(fake.requests.at(-1)?.text, /"lastpay_index":2,/)
  fake.isImpatient = true
  clock.advance(60_000)
  await t.rejects(stream, { name: 'ProviderUnavailable', fault: 'server' })
})
