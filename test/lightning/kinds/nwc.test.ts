import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { startKind, type Opening } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { NothingSent } from '../../../src/lightning/provider-calls/errors.ts'
import { KINDS, publicKeyOf, signEvent, tagOf } from '../../../src/lightning/kinds/nwc/event.ts'
import { readNwcKey } from '../../../src/lightning/kinds/nwc/key.ts'
import { nwc } from '../../../src/lightning/kinds/nwc/nwc.ts'
import { AddressGuard } from '../../../src/engine/upstream/guard.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { startFakeNwc } from '../../fakes/nwc.ts'
import { refundOf } from '../providers/contract/subject.ts'
import { until } from '../../support/until.ts'
import { newInvoice } from '../../support/invoices.ts'

const request = { amountSats: 2_100, description: 'a quote', expirySeconds: 600 }
const HASH = 'ab'.repeat(32)

async function setUp(t: T, options: Opening = {}) {
  const made = await startKind(t, nwc, startFakeNwc, options)
  const { fake, provider, key } = made
  const told: string[] = []
  const end = new AbortController()
  /** Follows the wallet; a request that is answered shows that the relay knows. */
  const follow = async () => {
    const following = provider.follow(key, end.signal, ({ chargeId }) => told.push(chargeId))
    // Most tests end while it goes on.
    following.catch(() => {})
    await provider.lookUp(key, HASH)
    return { over: following }
  }
  return { ...made, told, end, follow, relay: fake.relay }
}

t.test('a key is the address of a connection, as wallets show it', async t => {
  const wallet = 'c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5'
  const secret = 'ab'.repeat(32)
  const relays = (text: string) => readNwcKey(text).relays.map(({ url }) => url)
  const read = readNwcKey(
    `nostr+walletconnect://${wallet}?relay=wss%3A%2F%2FRelay.example.com%2Fv1&relay=wss://b.example.com:444&secret=${secret}&lud16=a@example.com`
  )
  t.match(read, {
    wallet,
    relays: [{ origin: 'https://relay.example.com:443' }, { origin: 'https://b.example.com:444' }]
  })
  t.equal(read.secret.reveal(), secret)
  t.notOk(read.origin.includes(secret.slice(0, 16)))
  t.same(relays(`nostrwalletconnect:${wallet}?secret=${secret}&relay=ws://127.0.0.1:7000`), ['ws://127.0.0.1:7000/'])
  t.equal(readNwcKey(`NOSTR+WALLETCONNECT://${wallet.toUpperCase()}?relay=wss://r&secret=${secret}`).wallet, wallet)
  const many = Array.from({ length: 9 }, (_, at) => `relay=wss://r${at % 6}.example.com`).join('&')
  t.equal(relays(`nostr+walletconnect://${wallet}?${many}&secret=${secret}`).length, 4, 'the first, each once')
  for (const [text, wanted] of [
    [`nostr+walletconnect://${wallet}`, /must have the form nostr\+walletconnect:/],
    [`nostr+walletconnect://${wallet.slice(1)}?relay=wss://r&secret=${secret}`, /must have the form/],
    [`nostr+walletconnect://${'f'.repeat(64)}?relay=wss://r&secret=${secret}`, /not the public key of a wallet/],
    [`nostr+walletconnect://${wallet}?relay=wss://r`, /has no secret.*Copy it whole/],
    [`nostr+walletconnect://${wallet}?secret=${secret}`, /has no relay/],
    [`nostr+walletconnect://${wallet}?relay=wss://r&secret=${secret}0`, /not a private key/],
    [`nostr+walletconnect://${wallet}?relay=wss://r&secret=${'0'.repeat(64)}`, /not a private key/],
    [`nostr+walletconnect://${wallet}?relay=wss://r&secret=${secret}&secret=${secret}`, /secret twice/],
    [`nostr+walletconnect://${wallet}?relay=https://r&secret=${secret}`, /relay in the nwc key must be the address/],
    [`nostr+walletconnect://${wallet}?relay=wss://r/../a&secret=${secret}`, /must be the address of a relay/],
    [`nostr+walletconnect://${wallet}?relay=wss://u:p@r&secret=${secret}`, /user name/]
  ] as const)
    t.throws(() => readNwcKey(text), { name: 'AddressKeyError', message: wanted }, text.slice(0, 40))
})

t.test('hundreds of connections to one relay share one socket and a few subscriptions', async t => {
  const { fake, provider, relay } = await setUp(t)
  const keys = Array.from({ length: 200 }, () => new Secret(fake.key()))
  const states = await Promise.all(keys.map(key => provider.lookUp(key, HASH)))
  t.ok(states.every(state => state === null))
  t.same(relay.connections, { now: 1, ever: 1 })
  t.ok(relay.peak <= 12, `${relay.peak} concurrent subscriptions`)
})

t.test('an idle relay is disconnected after a minute, and called again on demand', async t => {
  const { clock, provider, relay, key } = await setUp(t)
  await provider.lookUp(key, HASH)
  clock.advance(30_000)
  await setImmediate()
  t.equal(relay.connections.now, 1)
  clock.advance(60_000)
  await until(() => relay.connections.now === 0)
  t.equal(await provider.lookUp(key, HASH), null)
  t.equal(relay.connections.ever, 2)
})

t.test('what was sent when the connection broke may have arrived: only a read is repeated, once', async t => {
  const { clock, fake, provider, relay, key } = await setUp(t)
  // The look-up before it, and the payment.
  relay.breaks.push(false, true)
  await t.rejects(provider.createPayout(key, refundOf(clock, 40)), { name: 'PayoutUncertain' })
  t.equal(fake.wallet.sendings, 0)
  relay.breaks.push(true)
  t.equal(await provider.lookUp(key, HASH), null)
  relay.breaks.push(true, true)
  await t.rejects(provider.lookUp(key, HASH), { status: 503, fault: 'network' })
})

t.test('a relay that refuses a request was sent nothing, and says why', async t => {
  const { clock, fake, provider, relay, key } = await setUp(t)
  for (const [reason, wanted] of [
    ['rate-limited: slow down', { fault: 'rate' }],
    ['error: no database', { fault: 'server' }],
    ['blocked: you are not on the list', { reason: 'key', message: /takes no requests.*not on the list/ }],
    ['auth-required: who are you', { reason: 'key' }]
  ] as const) {
    relay.refuses = reason
    await t.rejects(provider.createCharge(key, request), wanted, reason)
    relay.refuses = null
    relay.closes = reason
    await t.rejects(provider.createCharge(key, request), wanted, `${reason}, of a subscription`)
    relay.closes = null
  }
  t.equal(fake.requests.length, 0)
  relay.refuses = 'rate-limited: slow down'
  const error: unknown = await provider.createPayout(key, refundOf(clock, 40)).catch((caught: unknown) => caught)
  t.ok(error instanceof NothingSent)
})

t.test('a relay that allows few subscriptions still carries many requests', async t => {
  const { provider, relay, key } = await setUp(t)
  relay.most = 13
  for (let round = 0; round < 3; round++)
    await Promise.all(
      Array.from({ length: 40 }, async (_, at) => {
        for (let turns = 0; turns < at; turns++) await setImmediate()
        t.equal(await provider.lookUp(key, HASH), null)
      })
    )
})

t.test('of several relays one that answers is enough', async t => {
  const { fake, provider, relay } = await setUp(t)
  const other = await startFakeNwc()
  const gone = other.relay.url
  await other.close()
  const text = fake.key()
  const both = `${text}&relay=${encodeURIComponent(gone)}`
  t.match(await provider.createCharge(new Secret(both), request), { paymentHash: /./ })
  const first = text.replace('relay=', `relay=${encodeURIComponent(gone)}&relay=`)
  t.match(await provider.validateKey(new Secret(first)), { isValid: true })
  await relay.close()
  await t.rejects(provider.createCharge(new Secret(both), request), { status: 503, fault: 'network' })
})

t.test('unsigned responses, or those for other clients, are ignored', async t => {
  const { clock, fake, provider, relay, key } = await setUp(t)
  fake.fail('hang')
  fake.onHang = () => {
    const id = relay.taken.at(-1)?.id ?? ''
    const forged = signEvent('cd'.repeat(32), { created_at: 1, kind: KINDS.response, tags: [['e', id]], content: 'x' })
    relay.force(forged)
    relay.force({ ...forged, pubkey: fake.pubkey })
    relay.force({ ...forged, pubkey: 7 })
    relay.force('text')
    relay.force({ ...forged, pubkey: fake.pubkey, sig: '0'.repeat(128) })
    clock.advance(10_000)
  }
  await t.rejects(provider.createCharge(key, request), { fault: 'timeout' })
})

t.test('a relay: forged events and floods end its connection, and it is left alone for a minute', async t => {
  const { clock, fake, provider, relay, key } = await setUp(t)
  const charge = await provider.createCharge(key, request)
  const news = { created_at: 1, kind: KINDS.notification, content: 'x' }
  const client = publicKeyOf(readNwcKey(key.reveal()).secret.reveal())
  const forged = { ...signEvent('cd'.repeat(32), { ...news, tags: [['p', client]] }), pubkey: fake.pubkey }
  const abuses: ReadonlyArray<readonly [name: string, count: number, event: (nth: number) => unknown]> = [
    [
      'unsigned answers',
      21,
      nth => ({ ...forged, kind: KINDS.response, content: String(nth), tags: [['e', relay.taken.at(-1)?.id ?? '']] })
    ],
    ['more events than are read', 1_300, nth => signed(nth)],
    ['large events', 60, nth => ({ ...forged, content: `${nth}${'x'.repeat(90_000)}` })]
  ]
  const one = signEvent('cd'.repeat(32), { ...news, tags: [] })
  function signed(nth: number) {
    return { ...one, created_at: nth }
  }
  for (const [name, count, event] of abuses) {
    fake.fail('hang')
    fake.onHang = () => {
      for (let nth = 0; nth < count; nth++) relay.force(event(nth))
    }
    await t.rejects(provider.lookUp(key, charge.chargeId), { status: 503 }, name)
    await until(() => relay.connections.now === 0)
    const { ever } = relay.connections
    clock.advance(59_000)
    await t.rejects(provider.lookUp(key, charge.chargeId), { name: 'NothingSent' }, 'it is left alone')
    t.equal(relay.connections.ever, ever)
    clock.advance(1_000)
    t.match(await provider.lookUp(key, charge.chargeId), { status: 'unpaid' })
  }
})

t.test('a relay: a wallet that floods notifications is no longer followed, and the others are', async t => {
  const { fake, provider, told, follow, relay, key } = await setUp(t)
  const charge = await provider.createCharge(key, request)
  const { over } = await follow()
  for (let nth = 0; nth < 150; nth++) fake.notify(charge.paymentHash, { state: 'pending' })
  await t.rejects(over, { fault: 'server' })
  t.match(await provider.lookUp(key, charge.chargeId), { status: 'unpaid' }, 'the connection stays')
  t.equal(relay.connections.ever, 1)
  fake.wallet.settle(charge.paymentHash)
  fake.notify(charge.paymentHash)
  t.match(await provider.lookUp(key, charge.chargeId), { status: 'paid' })
  t.same(told, [], 'it is polled')
})

t.test('a relay that no longer says anything is left, and another connection is made', async t => {
  const { clock, provider, relay, key } = await setUp(t)
  await provider.lookUp(key, HASH)
  clock.advance(1)
  relay.isMute = true
  const pending = provider.lookUp(key, HASH)
  await setImmediate()
  clock.advance(10_000)
  await t.rejects(pending, { fault: 'timeout' })
  relay.isMute = false
  t.equal(await provider.lookUp(key, HASH), null)
  t.equal(relay.connections.ever, 2)
})

t.test("a wallet's errors mean what NIP-47 says, and its words are shown", async t => {
  const { fake, provider, key } = await setUp(t)
  for (const [code, wanted] of [
    ['UNAUTHORIZED', { reason: 'key', message: /may have been deleted/ }],
    ['EXPIRED', { reason: 'key', message: /has expired/ }],
    ['UNSUPPORTED_ENCRYPTION', { reason: 'key', message: /NIP-04/ }],
    ['RESTRICTED', { reason: 'scope', scope: 'make_invoice' }],
    ['NOT_IMPLEMENTED', { reason: 'scope', scope: 'make_invoice' }],
    ['INTERNAL', { reason: 'request', message: /refused the request: in words/ }],
    ['SOMETHING_NEW', { reason: 'request' }],
    ['RATE_LIMITED', { fault: 'rate' }]
  ] as const) {
    fake.refuse(code, 'in words', /make_invoice/)
    await t.rejects(provider.createCharge(key, request), wanted, code)
  }
})

t.test('the check names what is missing', async t => {
  const { fake, provider, key } = await setUp(t)
  const verdict = async (text: string) => await provider.validateKey(new Secret(text))
  t.match(await verdict(fake.key(['get_info', 'make_invoice'])), { isValid: false, message: /lacks lookup_invoice:/ })
  t.match(await verdict(fake.key(['get_info'])), { isValid: false, message: /lacks make_invoice and lookup_invoice/ })
  t.match(await verdict(fake.key(['get_info', 'make_invoice', 'lookup_invoice'])), {
    isValid: true,
    message: /only receives.*pay_invoice.*list_transactions/
  })
  t.match(
    await verdict(fake.key(['make_invoice', 'lookup_invoice'])),
    { isValid: true },
    'without get_info it is tried'
  )
  t.match(await provider.validateKey(key), { isValid: true, message: /makes invoices and pays with it\.$/ })
  fake.announce('nip99')
  t.match(await provider.validateKey(key), { isValid: false, message: /neither NIP-44 nor NIP-04/ })
  for (const encryption of [null, 'nip04']) {
    fake.announce(encryption)
    t.match(await provider.validateKey(key), { isValid: true, message: /encrypts by NIP-04 alone/ })
  }
  fake.announce('nip04 nip44_v2')
  t.match(await provider.validateKey(key), { isValid: true, message: /makes invoices and pays with it\.$/ })
  fake.relay.kept.length = 0
  t.match(await provider.validateKey(key), { isValid: true }, 'a relay that lost the announcement')
})

t.test('a connection that was deleted is silent, and is reported as such', async t => {
  const { fake, provider, key } = await setUp(t)
  await provider.createCharge(key, request)
  fake.revoke(key.reveal())
  await t.rejects(provider.createCharge(key, request), {
    status: 503,
    fault: 'timeout',
    message: /offline, or the connection was deleted in it/
  })
  t.match(await provider.validateKey(key), { isValid: false, message: /known to its relay.*deleted in it/ })
  fake.relay.kept.length = 0
  t.match(await provider.validateKey(key), { isValid: false, message: /its relay knows none/ })
})

t.test('only a wallet with NIP-04 alone is called with it once it was silent', async t => {
  const { clock, fake, provider, relay, key, told, follow } = await setUp(t)
  const said = () => relay.taken.map(event => tagOf(event, 'encryption'))
  fake.onHang = () => {
    clock.advance(2_000)
  }
  await provider.createCharge(key, request)
  fake.announce(null)
  const charge = await provider.createCharge(key, request)
  t.same(said(), ['nip44_v2', 'nip44_v2', 'nip04'])
  fake.wallet.settle(charge.chargeId)
  t.match(await provider.lookUp(key, charge.chargeId), { status: /^paid$/ })
  await follow()
  fake.notify(charge.chargeId)
  await until(() => told.length > 0)
  t.same(told, [charge.chargeId], 'its notifications are read too')
  fake.announce('nip44_v2')
  clock.advance(3_600_000)
  await provider.createCharge(key, request)
  t.equal(said().at(-1), 'nip44_v2', 'the better one is tried again')

  fake.announce('nip99')
  await t.rejects(provider.createCharge(key, request), {
    name: 'ProviderRefused',
    message: /neither NIP-44 nor NIP-04/
  })
})

t.test('a payment that the wallet reports is known immediately, until it is not followed any more', async t => {
  const { clock, fake, provider, told, follow, end, relay, key } = await setUp(t)
  const charge = await provider.createCharge(key, request)
  const { over } = await follow()
  fake.notify(charge.paymentHash)
  for (const changes of [{ type: 'outgoing', state: 'settled' }, { state: 'pending' }])
    fake.notify(charge.paymentHash, changes)
  fake.wallet.settle(charge.paymentHash)
  fake.notify(charge.paymentHash)
  await until(() => told.length > 0)
  await provider.lookUp(key, HASH)
  t.same(told, [charge.paymentHash])
  clock.advance(30_000)
  for (let turns = 0; turns < 20; turns++) await setImmediate()
  clock.advance(60_000)
  t.equal(relay.connections.now, 1, 'it is not idle')
  end.abort()
  await over
  clock.advance(90_000)
  await until(() => relay.connections.now === 0)
})

t.test('a connection that breaks ends what follows it, and is followed again', async t => {
  const { fake, provider, told, follow, relay, key } = await setUp(t)
  const charge = await provider.createCharge(key, request)
  const { over } = await follow()
  relay.drop()
  await t.rejects(over, { fault: 'network' })
  await follow()
  fake.wallet.settle(charge.paymentHash)
  fake.notify(charge.paymentHash)
  await until(() => told.length > 0)
  t.same(told, [charge.paymentHash])
})

t.test('a payment is proved by its preimage, without another look-up', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  const { invoice, preimage, paymentHash } = newInvoice({ at: clock.now(), amountSats: 40 })
  fake.preimages.set(paymentHash, preimage)
  const refund = { ...refundOf(clock, 40), destination: { type: 'ln', invoice } } as const
  t.match(await provider.createPayout(key, refund), { status: 'confirmed', feeSats: 2 })
  t.same(
    fake.requests.map(({ method }) => method),
    ['lookup_invoice', 'pay_invoice']
  )
})

t.test('"failed" is believed when the invoice can no longer be paid, "expired" of a payment never', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  fake.wallet.outcome = 'failed'
  const refund = refundOf(clock, 40)
  t.match(await provider.createPayout(key, refund), { status: 'processing' })
  clock.advance(86_399_000)
  t.match(await provider.lookUpPayout(key, refund), { status: 'processing', processedAt: null })
  clock.advance(1_000)
  t.match(await provider.lookUpPayout(key, refund), { status: 'failed', processedAt: clock.now() })
})

t.test('what certainly fails before it is sent is refused immediately', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  for (const code of ['INSUFFICIENT_BALANCE', 'QUOTA_EXCEEDED']) {
    fake.refuse(code, 'too little', /pay_invoice/)
    await t.rejects(
      provider.createPayout(key, refundOf(clock, 40)),
      { name: 'ProviderRefused', reason: 'request', message: /did not pay: too little/ },
      code
    )
  }
  fake.refuse('PAYMENT_FAILED', 'timeout', /pay_invoice/)
  await t.rejects(provider.createPayout(key, refundOf(clock, 40)), { name: 'PayoutUncertain' })
})

t.test('a wallet that names no state is paid where it says when', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  fake.isStateless = true
  const { chargeId } = await provider.createCharge(key, request)
  t.match(await provider.lookUp(key, chargeId), { status: 'unpaid' }, 'though it shows a preimage')
  fake.wallet.settle(chargeId)
  t.match(await provider.lookUp(key, chargeId), { status: /^paid$/, settledAt: clock.now() })
  const late = await provider.createCharge(key, request)
  clock.advance(600_000)
  t.match(await provider.lookUp(key, late.chargeId), { status: 'expired' })
})

t.test('a wallet that pays its own invoice has it paid once the outgoing half is', async t => {
  const { fake, provider, key } = await setUp(t)
  const charge = await provider.createCharge(key, request)
  fake.wallet.outcome = 'failed'
  fake.wallet.pay(charge.invoice, null)
  t.match(await provider.lookUp(key, charge.chargeId), { status: 'unpaid' })
  fake.wallet.outcome = 'paid'
  fake.wallet.pay(charge.invoice, null)
  t.match(await provider.lookUp(key, charge.chargeId), { status: /^paid$/, receivedSats: 2_100 })
})

t.test(
  'a connection without the list permission is not listed for an hour, and small pages are read to their end',
  async t => {
    const { clock, fake, provider, key } = await setUp(t)
    const since = { since: clock.now(), oldest: clock.now(), position: null }
    const small = new Secret(fake.key(['make_invoice', 'lookup_invoice']))
    t.match(await provider.listSettled(small, since), { charges: [], reach: 'newest' })
    t.match(await provider.listSettled(small, since), { charges: [], reach: 'newest' })
    t.equal(fake.requests.length, 1)
    clock.advance(3_600_000)
    await provider.listSettled(small, since)
    t.equal(fake.requests.length, 2)
    fake.page = 2
    for (let count = 0; count < 5; count++) fake.wallet.settle((await provider.createCharge(key, request)).chargeId)
    const { charges, reach } = await provider.listSettled(key, since)
    t.same([charges.length, reach], [5, 'whole'])
  }
)

t.test(
  'the host of a relay is checked as any address of a merchant is, and the operator names what he likes',
  async t => {
    const clock = new ManualClock()
    const fake = await startFakeNwc({ clock })
    const guard = new AddressGuard({ production: true, resolve: async () => ['10.0.0.1'] })
    const own = new Secret(fake.key())
    const { provider } = await setUp(t, { guard, clock, ownKey: own })
    t.teardown(() => fake.close())
    const merchants = new Secret(fake.key())
    t.match(await provider.validateKey(merchants), { isValid: false, message: /without TLS.*take a relay with wss:/ })
    const inside = fake.key().replace(/relay=[^&]*/, 'relay=wss://relay.example.com')
    t.match(await provider.validateKey(new Secret(inside)), {
      isValid: false,
      message: /in the nwc key cannot be called/
    })
    t.match(await provider.validateKey(own), { isValid: true })
    const url = fake.relay.url.replace('ws://', 'http://')
    const { provider: placed } = await setUp(t, { guard, clock, url })
    t.match(await placed.validateKey(merchants), { isValid: true }, 'a relay that gateway.yaml names')
  }
)

t.test('a refused or dropped hash is distinguished from a bad key', async t => {
  const { fake, provider, key } = await setUp(t)
  const hashed = { text: 'a text', hash: hash('sha256', 'a text') }
  fake.wallet.hashes = 'refused'
  await t.rejects(provider.createCharge(key, { ...request, hashed }), { name: 'ProviderRefused', reason: 'request' })
  fake.wallet.hashes = 'ignored'
  const { invoice } = await provider.createCharge(key, { ...request, hashed })
  t.equal(decodeInvoice(invoice).descriptionHash, null)
})
