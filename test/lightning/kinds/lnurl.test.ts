import { createServer } from 'node:http'
import { bech32 } from '@scure/base'
import { openKind, startKind } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { lnurl } from '../../../src/lightning/kinds/lnurl/lnurl.ts'
import { readLnurlKey } from '../../../src/lightning/kinds/lnurl/key.ts'
import { LnurlStore } from '../../../src/lightning/kinds/lnurl/store.ts'
import { AddressGuard } from '../../../src/engine/upstream/guard.ts'
import { startFakeLnurl } from '../../fakes/lnurl.ts'
import { openTestDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { serve } from '../../support/serve.ts'

const request = { amountSats: 2_100, description: 'a quote', expirySeconds: 600 }
const DAY = 86_400_000
const database = await openTestDatabase(t, {})

async function setUp(t: T, { production = false } = {}) {
  const guard = new AddressGuard({ production, resolve: async () => ['10.0.0.7'] })
  const made = await startKind(t, lnurl, startFakeLnurl, { guard, database })
  return production ? { ...made, provider: made.open({ ownKey: made.key }) } : made
}

t.test('a key is an address, an LNURL or a link', async t => {
  const paid = { origin: 'https://example.com:443', path: '/.well-known/lnurlp/shop' }
  t.match(readLnurlKey('shop@example.com'), paid)
  t.match(readLnurlKey('Shop@Example.com'), paid)
  t.match(readLnurlKey('shop+till_1@example.com:8443'), {
    origin: 'https://example.com:8443',
    path: '/.well-known/lnurlp/shop+till_1'
  })
  const link = bech32.encode('lnurl', bech32.toWords(Buffer.from('https://example.com/lnurlp/7?x=1')), false)
  for (const text of [link, link.toUpperCase(), `lightning:${link}`, 'lnurlp://example.com/lnurlp/7?x=1'])
    t.match(readLnurlKey(text), { origin: 'https://example.com:443', path: '/lnurlp/7?x=1' }, text)
  t.match(readLnurlKey('lnurlp+http://127.0.0.1:5000/pay'), { origin: 'http://127.0.0.1:5000', path: '/pay' })
  t.equal(
    readLnurlKey('shop@example.com').account,
    readLnurlKey('lnurlp://example.com/.well-known/lnurlp/shop').account
  )
  for (const text of [
    'shop',
    'shop@',
    '@example.com',
    'a@b@example.com',
    'shop@example.com/path',
    'shop @example.com',
    'https://example.com/lnurlp/7',
    'lnurlp://user:secret@example.com/pay',
    'lnurlp://example.com\\@10.0.0.1/',
    'ftp://example.com',
    `${link.slice(0, -1)}${link.endsWith('q') ? 'p' : 'q'}`,
    bech32.encode('lnurl', bech32.toWords(Buffer.from('file:///etc/passwd')), false)
  ])
    t.throws(() => readLnurlKey(text), { name: 'AddressKeyError' }, text)
  t.equal(lnurl.keyFault('shop@example.com '), undefined)
})

t.test('an address without verify is refused with the reason, by its check and by every invoice', async t => {
  const { fake, provider, key } = await setUp(t)
  fake.answer = { verify: undefined }
  const why = /does not say whether its invoices are paid .*LUD-21/
  t.match(await provider.validateKey(key), { isValid: false, message: why })
  await t.rejects(provider.createCharge(key, request), { name: 'ProviderRefused', reason: 'key', message: why })
})

t.test('the verify URL is kept here, and never shown', async t => {
  const { fake, provider, key } = await setUp(t)
  const charge = await provider.createCharge(key, request)
  const verify = fake.verifyOf(charge.paymentHash)
  t.equal(charge.chargeId, charge.paymentHash)
  t.notOk(JSON.stringify(charge).includes('verify'))
  const { account } = readLnurlKey(key.reveal())
  t.match(await new LnurlStore(database.sql).find(account, charge.paymentHash), {
    verify,
    expiresAt: charge.expiresAt,
    settledAt: null
  })
})

t.test('an invoice is valid for as long as the server says, and not when it is about to end', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  t.equal((await provider.createCharge(key, request)).expiresAt, clock.now() + 3_600_000)
  fake.expirySeconds = 20
  await t.rejects(provider.createCharge(key, request), { fault: 'server' })
})

t.test('once it was seen as paid, its host is not called again, and its time stays', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  const { chargeId } = await provider.createCharge(key, request)
  fake.wallet.settle(chargeId)
  const seenAt = clock.now()
  t.match(await provider.lookUp(key, chargeId), { status: /^paid$/, settledAt: seenAt })
  const requests = fake.requests.length
  clock.advance(5_000)
  t.match(await provider.lookUp(key, chargeId), { status: /^paid$/, settledAt: seenAt })
  t.equal(fake.requests.length, requests)
})

t.test('paid is only what is about this invoice, with a preimage that fits where there is one', async t => {
  const { fake, provider, key } = await setUp(t)
  const { chargeId } = await provider.createCharge(key, request)
  const other = await provider.createCharge(key, request)
  for (const verified of [
    { settled: true, preimage: 'ab'.repeat(32) },
    { settled: true, preimage: 'none' },
    { settled: true, preimage: null, pr: other.invoice },
    { settled: true, preimage: null, pr: 'lnbc1nonsense' },
    { settled: 'true' },
    { settled: undefined }
  ]) {
    fake.verified = verified
    await t.rejects(provider.lookUp(key, chargeId), { fault: 'server' }, JSON.stringify(verified))
  }
  fake.verified = { settled: true, preimage: null, pr: undefined }
  t.match(await provider.lookUp(key, chargeId), { status: /^paid$/ }, 'its own report counts for its own account')
})

t.test('an invoice that the server has forgotten is unknown, and expired once its time is over', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  const { chargeId } = await provider.createCharge(key, request)
  fake.verified = { status: 'ERROR', reason: 'Not found' }
  t.equal(await provider.lookUp(key, chargeId), null)
  clock.advance(3_600_000)
  t.match(await provider.lookUp(key, chargeId), { status: 'expired' })
})

t.test("an invoice of another address is unknown under one's own, whichever host hands it out", async t => {
  const { provider, key } = await setUp(t)
  const { fake: thief } = await setUp(t)
  const { chargeId, invoice } = await provider.createCharge(key, request)
  thief.answer = { pr: invoice }
  thief.terms = {
    metadata: JSON.stringify([
      ['text/plain', 'Payments of a shop'],
      ['text/identifier', 'shop@127.0.0.1']
    ])
  }
  const stolen = new Secret(thief.key())
  t.equal(await provider.lookUp(stolen, chargeId), null)
  await provider.createCharge(stolen, request)
  thief.verified = { settled: true, preimage: null, pr: undefined }
  await provider.createCharge(stolen, { ...request }).catch((error: unknown) => {
    t.match(error, { fault: 'server' }, 'one invoice is no second one')
  })
  t.match(await provider.lookUp(key, chargeId), { status: 'unpaid' }, 'the thief speaks for itself alone')
})

t.test('terms are cached for two minutes, and read again once an invoice is refused', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  const firsts = () => fake.requests.filter(({ path }) => path.includes('well-known')).length
  await provider.createCharge(key, request)
  await provider.createCharge(key, request)
  t.equal(firsts(), 1)
  fake.answer = { status: 'ERROR', reason: 'closed for\u0000 today' }
  await t.rejects(provider.createCharge(key, request), {
    name: 'ProviderRefused',
    message: 'The server of the Lightning address refused: closed for today'
  })
  fake.answer = {}
  await provider.createCharge(key, request)
  t.equal(firsts(), 2)
  clock.advance(120_000)
  await provider.createCharge(key, request)
  t.equal(firsts(), 3)
})

t.test('terms that cannot be met are reported', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  for (const [terms, wanted] of [
    [{ payerData: { name: { mandatory: false }, email: { mandatory: true } } }, /wants to know the email/],
    [{ minSendable: 5_000_500, maxSendable: 9_000_999 }, /takes 5001 to 9000 satoshis, not 2100/],
    [{ status: 'ERROR', reason: 'no such user' }, /refused: no such user/]
  ] as const) {
    fake.terms = terms
    await t.rejects(provider.createCharge(key, request), { name: 'ProviderRefused', message: wanted })
    clock.advance(120_000)
  }
  for (const terms of [
    { tag: 'withdrawRequest' },
    { callback: 'file:///etc/passwd' },
    { metadata: 7 },
    { maxSendable: 1 }
  ]) {
    fake.terms = terms
    await t.rejects(provider.validateKey(key), { fault: 'server' }, JSON.stringify(terms))
  }
})

t.test('a description goes along as a comment as far as the server takes it', async t => {
  const { fake, provider, key } = await setUp(t)
  const comment = () => fake.requests.at(-1)?.url.searchParams.get('comment') ?? null
  await provider.createCharge(key, { ...request, description: `a & b = c?\n${'é'.repeat(90)}` })
  t.equal(comment(), `a & b = c? ${'é'.repeat(29)}`)
  fake.terms = { commentAllowed: undefined }
  await provider.validateKey(key)
  await provider.createCharge(key, request)
  t.equal(comment(), null)
  t.equal(fake.requests.at(-1)?.url.searchParams.get('shop'), '1', 'the query of the callback stays')
})

t.test('a callback or verify at a private host is not called, whichever host names it', async t => {
  const { fake, provider, key } = await setUp(t, { production: true })
  t.match(await provider.validateKey(key), { isValid: true }, 'the own host of gateway.yaml is')
  fake.terms = { callback: 'https://inside.example.com/pay' }
  t.match(await provider.validateKey(key), {
    isValid: false,
    message: /host to which the lnurl key leads cannot be called/
  })
  fake.terms = { callback: 'http://127.0.0.1:9/pay' }
  t.match(await provider.validateKey(key), { isValid: false, message: /without TLS/ })
  fake.terms = {}
  fake.answer = { verify: 'https://inside.example.com/verify' }
  t.match(await provider.validateKey(key), { isValid: false, message: /leads cannot be called/ })
})

t.test('an answer of more than 64 KiB is not read', async t => {
  const { fake, provider, key } = await setUp(t)
  fake.terms = { metadata: JSON.stringify([['image/png;base64', 'A'.repeat(70_000)]]) }
  await t.rejects(provider.createCharge(key, request), { fault: 'size' })
})

t.test('invoices that ended 90 days ago are forgotten', async t => {
  const { clock, provider, key } = await setUp(t)
  const { chargeId, expiresAt } = await provider.createCharge(key, request)
  const [purge] = lnurl.jobs?.({ clock, database }) ?? []
  const run = async () => await purge?.run({ id: '1', data: {} }, AbortSignal.abort())
  clock.advance(expiresAt + 90 * DAY - clock.now())
  await run()
  t.match(await provider.lookUp(key, chargeId), { status: 'expired' })
  clock.advance(1)
  await run()
  t.equal(await provider.lookUp(key, chargeId), null)
})

t.test('an invoice for something else than the address says is invalid', async t => {
  const { fake, provider, key } = await setUp(t)
  fake.terms = { metadata: '[["text/plain","other"]]' }
  await t.rejects(provider.createCharge(key, request), { fault: 'server' })
})

t.test('a bound of all the bitcoin there will ever be is one, as LNbits has it', async t => {
  const { fake, provider, key } = await setUp(t)
  fake.terms = { maxSendable: 2_100_000_000_000_000_000 }
  t.match(await provider.validateKey(key), { isValid: true })
})

t.test('redirects are followed, three at most, to addresses that may be called', async t => {
  const { fake, provider } = await setUp(t)
  const places = new Map<string, string>([
    ['/one', `${fake.url}/.well-known/lnurlp/shop`],
    ['/two', '/one'],
    ['/three', '/two'],
    ['/four', '/three'],
    ['/round', '/round'],
    ['/file', 'file:///etc/passwd'],
    ['/user', 'http://user:secret@127.0.0.1/']
  ])
  const server = createServer((request, response) => {
    const location = places.get(request.url ?? '')
    response.writeHead(request.url === '/three' ? 308 : 302, location === undefined ? {} : { location }).end('<html>')
  })
  const port = await serve(t, server)
  const at = (path: string) => new Secret(`lnurlp+http://127.0.0.1:${port}${path}`)
  for (const path of ['/one', '/three']) {
    const charge = await provider.createCharge(at(path), request)
    fake.wallet.settle(charge.paymentHash)
    t.match(await provider.lookUp(at(path), charge.chargeId), { status: 'paid' }, path)
  }
  for (const path of ['/four', '/round'])
    t.match(await provider.validateKey(at(path)), { isValid: false, message: /redirects more than 3 times/ }, path)
  for (const path of ['/file', '/user', '/nowhere'])
    t.match(await provider.validateKey(at(path)), { isValid: false, message: /redirects to an address/ }, path)
  const guarded = openKind(t, lnurl, {
    guard: new AddressGuard({ production: true }),
    clock: new ManualClock(),
    ownKey: at('/one'),
    url: `http://127.0.0.1:${port}`,
    database
  })
  t.match(
    await guarded.validateKey(at('/one')),
    { isValid: false, message: /cannot be called|without TLS/ },
    'another host'
  )
})
