import { startKind, type Opening } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { phoenixd, readPhoenixdKey } from '../../../src/lightning/kinds/phoenixd/phoenixd.ts'
import { AddressGuard } from '../../../src/engine/upstream/guard.ts'
import { startFakePhoenixd } from '../../fakes/phoenixd.ts'
import { until } from '../../support/until.ts'

const request = { amountSats: 2_100, description: 'a quote', expirySeconds: 600 }
const RECEIVER = 'https://pay.example.com/api/webhooks/primary'

async function setUp(t: T, options: Opening = {}) {
  const made = await startKind(t, phoenixd, startFakePhoenixd, { receiver: () => RECEIVER, ...options })
  return { ...made, key: new Secret(made.fake.key('full', true)) }
}

t.test('a key names plain HTTP or TLS, and may carry the webhook secret', async t => {
  const read = (text: string) => {
    const { base, password, webhookSecret } = readPhoenixdKey(text)
    return [base, password.reveal(), webhookSecret?.reveal() ?? null]
  }
  t.same(read('phoenixd://127.0.0.1:9740?password=abc'), ['http://127.0.0.1:9740', 'abc', null])
  t.same(read('phoenixd+https://node.example.com:443/phoenix?webhook=w%2Bx&password=a%26b'), [
    'https://node.example.com:443/phoenix',
    'a&b',
    'w+x'
  ])
  for (const [text, wanted] of [
    ['phoenixd://127.0.0.1?password=abc', /host and port/],
    ['phoenixd://127.0.0.1:9740?webhook=abc', /no password/],
    ['phoenixd://127.0.0.1:9740?password=a%20b', /password in the phoenixd key must be visible ASCII/],
    ['http://127.0.0.1:9740?password=abc', /must have the form phoenixd:/]
  ] as const)
    t.throws(() => readPhoenixdKey(text), { name: 'AddressKeyError', message: wanted })
})

t.test("an amount reduced by phoenixd's channel fee is no underpayment", async t => {
  const { fake, provider, key } = await setUp(t)
  const { chargeId } = await provider.createCharge(key, request)
  fake.wallet.settle(chargeId, 40)
  t.match(await provider.lookUp(key, chargeId), { status: /^paid$/, receivedSats: 2_100 })
  const more = await provider.createCharge(key, request)
  fake.wallet.settle(more.chargeId, 2_500)
  t.match(await provider.lookUp(key, more.chargeId), { status: /^paid$/, receivedSats: 2_500 })
})

t.test('its webhook is registered with a key that can verify it, and verified over the bytes', async t => {
  const { fake, provider, key } = await setUp(t)
  const { chargeId } = await provider.createCharge(key, request)
  t.equal(fake.wallet.invoices.get(chargeId)?.webhook, RECEIVER)
  const without = new Secret(fake.key('full'))
  const other = await provider.createCharge(without, request)
  t.equal(fake.wallet.invoices.get(other.chargeId)?.webhook, null, 'an unverifiable webhook is not registered')
  const { headers, body } = fake.notification(chargeId)
  const read = (sent: Record<string, string>, bytes: Buffer = body) =>
    provider.readNotification(new HeaderList(Object.entries(sent).flat()), bytes)
  t.equal(read(headers)?.chargeId, chargeId)
  t.ok(read(headers)?.verify(key))
  t.notOk(read(headers)?.verify(without))
  t.notOk(read(headers)?.verify(new Secret('another form of key')))
  t.notOk(read({})?.verify(key))
  t.notOk(read(headers, Buffer.from(`${body.toString()} `))?.verify(key), 'a byte more is another text')
  t.equal(read({}, Buffer.from('{"type":"channel_opened"}')), null, 'other events are ignored')
  for (const bytes of ['', 'null', '[]', '"text"', '{"type":"payment_received","paymentHash":"../x"}'])
    t.throws(() => read({}, Buffer.from(bytes)), { status: 400 }, bytes)
})

t.test('the check says that a node without a channel has none yet', async t => {
  const { fake, provider, key } = await setUp(t)
  fake.channels = 0
  t.match(await provider.validateKey(key), { isValid: true, message: /no channel yet.*fee credit/ })
})

t.test('in production no password of a merchant goes over plain HTTP, and none to a private host', async t => {
  const guard = new AddressGuard({ production: true, resolve: async () => ['10.0.0.7'] })
  const { fake, provider, key } = await setUp(t, { guard })
  await t.rejects(provider.createCharge(key, request), {
    name: 'ProviderRefused',
    reason: 'key',
    message: /without TLS.*\+https/
  })
  await t.rejects(provider.createCharge(new Secret('phoenixd+https://node.example.com:443?password=abc'), request), {
    reason: 'key',
    message: /blocked range/
  })
  t.equal(fake.requests.length, 0)
  const own = await setUp(t, { guard, ownKey: key })
  t.match(await own.provider.createCharge(key, request), { chargeId: /./ }, "the operator's own may be both")
})

t.test('a 404 that is not its own says nothing of a payment', async t => {
  const { fake, provider } = await setUp(t)
  const elsewhere = new Secret(fake.key().replace('?', '/elsewhere?'))
  await t.rejects(provider.lookUp(elsewhere, 'ab'.repeat(32)), { fault: 'server' })
})

t.test('a stream ends with its WebSocket, and opens with a valid password, at a public address alone', async t => {
  const { fake, provider, key } = await setUp(t)
  const { signal } = new AbortController()
  const stream = provider.follow(key, signal, () => {})
  await until(() => fake.followers.size > 0)
  for (const follower of fake.followers) follower.close()
  await stream
  const wrong = new Secret(key.reveal().replace(/password=[^&]*/, 'password=wrong'))
  await t.rejects(
    provider.follow(wrong, signal, () => {}),
    { name: 'NothingSent', message: 'The phoenixd cannot be reached at the moment.' }
  )
  const strict = await setUp(t, { guard: new AddressGuard({ production: true }) })
  await t.rejects(
    strict.provider.follow(strict.key, signal, () => {}),
    { name: 'ProviderRefused', reason: 'key' }
  )
})

t.test('a wrong password is reported with where the right ones are', async t => {
  const { provider, key } = await setUp(t)
  const wrong = new Secret(key.reveal().replace(/password=[^&]*/, 'password=wrong'))
  t.match(await provider.validateKey(wrong), {
    isValid: false,
    message: /^phoenixd does not accept the password in the key: take http-password-limited-access of its phoenix\.conf/
  })
})
