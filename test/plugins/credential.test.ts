import t, { type Test as T } from 'tap'
import challenge from '../../plugins/challenge.ts'
import credential from '../../plugins/credential.ts'
import type { Offer } from '../../src/selling/offers/offer.ts'
import type { RouteConfig } from '../../src/engine/config/schema.ts'
import { ClientGone, HeaderList, LongError } from '../../src/index.ts'
import {
  harness,
  type Harness,
  type HarnessAnswer,
  type HarnessRequest,
  type HarnessResult
} from '../../src/engine/pipeline/harness.ts'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { paymentHashOf } from '../../src/lightning/codecs/hmac.ts'
import type { ChallengeSettings } from '../../src/selling/offers/settings.ts'
import {
  fixture,
  freshAddress,
  l402Parameters,
  modern,
  narrowed,
  offer,
  route,
  type Fixture
} from '../selling/challenges/fixture.ts'
import { until } from '../support/until.ts'

interface Gate extends Fixture {
  readonly chain: Harness
  /** Requests that reached the upstream. */
  reached: number
  answer: HarnessAnswer
  send(request?: HarnessRequest): Promise<HarnessResult>
  /** Asks without a credential and pays the invoice of the answer. */
  buy(request?: HarnessRequest): Promise<Bought>
}

interface Bought {
  readonly lines: string[]
  readonly macaroon: string
  readonly preimage: string
  readonly paymentHash: string
  readonly classic: string
}

async function gate(
  t: T,
  changes: {
    readonly route?: Partial<RouteConfig>
    readonly settings?: Partial<ChallengeSettings>
    readonly fixture?: Fixture
  } = {}
): Promise<Gate> {
  const parts = changes.fixture ?? (await fixture(t, changes.settings))
  const config = route(changes.route)
  const address = freshAddress()
  const gate: Gate = {
    ...parts,
    reached: 0,
    answer: { status: 200, body: 'sold' },
    chain: await harness([credential, challenge], {
      services: { challenges: parts.challenges, clock: parts.clock },
      route: { name: config.name, config },
      answer: (ctx, responder) => {
        gate.reached++
        const answer = gate.answer
        if (typeof answer === 'function') return answer(ctx, responder)
        const deliver = async () => {
          const headers = new HeaderList(Object.entries(answer.headers ?? {}).flat())
          await responder.head(answer.status ?? 200, headers)
          if (typeof answer.body === 'string') responder.write(Buffer.from(answer.body))
          responder.end(null)
        }
        return deliver()
      }
    }),
    send: request => gate.chain.run({ target: '/v1/quote', peerAddress: address, ...request }),
    buy: async request => {
      const first = await gate.send(request)
      if (first.status !== 402) throw new Error(`expected 402, got ${first.status}: ${first.text}`)
      const lines = first.headers.all('www-authenticate')
      const { macaroon, invoice } = l402Parameters(lines)
      const preimage = gate.payee.pay(invoice)
      return {
        lines,
        macaroon,
        preimage,
        paymentHash: paymentHashOf(preimage),
        classic: `L402 ${macaroon}:${preimage}`
      }
    }
  }
  return gate
}

const auth = (value: string) => ({ headers: { Authorization: value } })
const merchantOffer = (changes: Partial<Offer> = {}): HarnessRequest => ({
  prepare: ctx => {
    ctx.offer = offer({ ...changes })
  }
})

t.test('a paid classic token opens the resource until it expires, and is private to its payer', async t => {
  const g = await gate(t)
  const bought = await g.buy()
  for (let use = 0; use < 3; use++) {
    const result = await g.send(auth(bought.classic))
    t.equal(result.status, 200)
    t.equal(result.text, 'sold')
    t.equal(result.headers.get('cache-control'), 'private')
    t.notOk(result.headers.has('payment-receipt'), 'classic credentials get no receipt')
    t.same(result.ctx.payment, { scheme: 'l402', paymentHash: bought.paymentHash, amountSats: 10 })
  }
  g.clock.advance(3_600_000)
  t.equal((await g.send(auth(bought.classic))).status, 200, 'still valid at its last second')
  g.clock.advance(1_000)
  const expired = await g.send(auth(bought.classic))
  t.equal(expired.status, 403)
  t.match(expired.json(), { error: 'Forbidden', message: 'Token expired', details: String })
  t.equal(g.reached, 4)
  t.same(
    g.counted.lines.filter(line => line.startsWith('payment ')),
    ['payment route l402 10'],
    'counted once'
  )
})

t.test('a route that renews cannot do so while no invoice can be had: the answer is that of a first visit', async t => {
  const g = await gate(t, { route: { renewal: 402 } })
  const bought = await g.buy()
  const refused = await g.send({ target: '/v1/other', ...auth(bought.classic) })
  t.equal(refused.status, 402)
  t.equal(refused.headers.all('www-authenticate').length, 2)
  t.not(l402Parameters(refused.headers.all('www-authenticate')).macaroon, bought.macaroon)
  g.payee.fault = new Error('the provider is down')
  t.equal((await g.send({ target: '/v1/third', ...auth(bought.classic) })).status, 503)
  t.equal((await g.send(auth(bought.classic))).status, 200, 'the purchase is served')
})

t.test('a known token needs no database and no promise; a new one is 503 while the database is down', async t => {
  const g = await gate(t)
  const known = await g.buy()
  const fresh = await g.buy()
  t.equal((await g.send(auth(known.classic))).status, 200)
  g.watched.broken.add('claim').add('find').add('outstanding')
  g.watched.calls.length = 0
  const hooks = await credential.setup(
    {},
    {
      services: { challenges: g.challenges },
      route: { name: 'quotes', config: route(), own: false },
      mode: 'production',
      slot: name => ({ index: 0, name })
    }
  )
  const probe = g.chain.begin({ target: '/v1/quote', ...auth(known.classic) })
  const again = await probe.result
  t.equal(again.status, 200)
  again.ctx.payment = null
  t.equal(hooks.request?.(again.ctx), undefined, 'the hook returns synchronously, with no promise')
  t.match(again.ctx, { payment: { paymentHash: known.paymentHash } })
  t.same(g.watched.calls, [], 'no call to the database')
  const unavailable = await g.send(auth(fresh.classic))
  t.equal(unavailable.status, 503)
  t.ok(unavailable.headers.has('retry-after'))
  g.watched.broken.clear()
  t.equal((await g.send(auth(fresh.classic))).status, 200, 'nothing was used up')
})

t.test('the response decides whether a single-use credential is spent or given back', async t => {
  const g = await gate(t)
  const fails =
    (status: number): HarnessAnswer =>
    (_ctx, responder) => {
      responder.fail(new LongError(status, 'Bad gateway', 'The upstream failed.'))
    }
  const breaks =
    (error: Error): HarnessAnswer =>
    async (_ctx, responder) => {
      await responder.head(200, new HeaderList([]))
      responder.write(Buffer.from('half of what was'))
      responder.fail(error)
    }
  const cases: Array<{ name: string; answer: HarnessAnswer; spent: boolean; offer?: Partial<Offer> }> = [
    { name: 'upstream 500 where the route keeps it', answer: { status: 500 }, spent: true, offer: { releaseOn: [] } },
    { name: 'our own 503', answer: fails(503), spent: false },
    { name: 'our own 413', answer: fails(413), spent: false },
    { name: 'upstream 101', answer: { status: 101 }, spent: true },
    { name: 'our own 502 in the body', answer: breaks(new LongError(502, 'Bad gateway', 'broken')), spent: false },
    { name: 'our own 504 in the body', answer: breaks(new LongError(504, 'Gateway timeout', 'late')), spent: false },
    { name: 'a fault of a plugin in the body', answer: breaks(new TypeError('ours')), spent: false },
    { name: 'a client that left in the body', answer: breaks(new ClientGone()), spent: true },
    { name: 'a client that was too slow', answer: breaks(new LongError(408, 'Request Timeout', 'slow')), spent: true },
    { name: 'an operation that answers', answer: () => ({ status: 200, headers: [], body: 'pong' }), spent: true },
    { name: 'an operation that refuses', answer: () => ({ status: 400, headers: [], body: 'no' }), spent: false }
  ]
  for (const { name, answer, spent, offer: changes } of cases) {
    g.answer = { status: 200 }
    const bought = await g.buy(merchantOffer(changes))
    g.answer = answer
    const value = modern(bought.lines, bought.preimage)
    await g.send({ ...auth(value), ...merchantOffer(changes) })
    g.answer = { status: 200 }
    const again = await g.send({ ...auth(value), ...merchantOffer(changes) })
    t.equal(again.status, spent ? 402 : 200, name)
  }
  await allSettled(g)
})

/** Leaves while the upstream works on a request, and returns the state of the credential. */
async function leave(
  g: Awaited<ReturnType<typeof gate>>,
  method: string,
  bought: { readonly lines: readonly string[]; readonly preimage: string; readonly paymentHash: string },
  changes: Partial<Offer>
) {
  const waiting = Promise.withResolvers<void>()
  g.answer = () => {
    waiting.resolve()
  }
  const exchange = g.chain.begin({
    target: '/v1/quote',
    method,
    ...auth(modern(bought.lines, bought.preimage)),
    ...merchantOffer({ method, ...changes })
  })
  await waiting.promise
  exchange.leave()
  await exchange.result
  await allSettled(g)
  return (await g.selling.challengeStore.find(bought.paymentHash))?.state === 'spent' ? 'spent' : 'unspent'
}

t.test(
  'a credential of an unsafe method comes back twice for clients that left, and of a safe one each time (decision 184)',
  async t => {
    const g = await gate(t)
    const rows: ReadonlyArray<readonly [method: string, changes: Partial<Offer>, states: readonly string[]]> = [
      ['POST', {}, ['unspent', 'unspent', 'spent']],
      ['DELETE', {}, ['unspent', 'unspent', 'spent']],
      ['GET', {}, ['unspent', 'unspent', 'unspent', 'unspent', 'unspent']],
      ['GET', { releaseOn: ['5xx'] }, ['spent']],
      ['POST', { releaseOn: [] }, ['spent']]
    ]
    for (const [method, changes, states] of rows) {
      const bought = await g.buy({ method, ...merchantOffer({ method, ...changes }) })
      const seen: string[] = []
      for (const _each of states) seen.push(await leave(g, method, bought, changes))
      t.same(seen, states, `${method} ${JSON.stringify(changes)}`)
    }
    const lines = g.counted.lines.filter(line => line.startsWith('client gone'))
    t.equal(lines.filter(line => line.endsWith('returned')).length, 9)
    t.equal(lines.filter(line => line.endsWith('spent')).length, 4)
  }
)

t.test('a client that leaves while its payment is being verified has it back', async t => {
  const g = await gate(t)
  const { lines, preimage, paymentHash } = await g.buy()
  const verifying = Promise.withResolvers<void>()
  g.watched.slow.set('lease', verifying.promise)
  g.watched.calls.length = 0
  const early = g.chain.begin({ target: '/v1/quote', ...auth(modern(lines, preimage)) })
  await until(() => g.watched.calls.includes('lease'))
  early.leave()
  verifying.resolve()
  await early.result
  await allSettled(g)
  t.match(await g.selling.claims.find(paymentHash), { state: 'unspent' })
  t.equal((await g.send(auth(modern(lines, preimage)))).status, 200)
})

/** Waits until no lease is open; a lease that was forgotten makes the test time out. */
async function allSettled(g: Gate) {
  await until(() => g.challenges.leases.open === 0)
}

t.test('free offers pass, and a proxy without a price is not served for free', async t => {
  const g = await gate(t, { route: { price: 0 } })
  t.equal((await g.send()).status, 200)
  t.equal((await g.send(auth('L402 nonsense:nonsense'))).status, 200)
  const proxied = await gate(t, { fixture: g, route: { upstream: { kind: 'proxy', param: 'proxyId' } } })
  t.equal((await proxied.send()).status, 500)
  t.equal(proxied.reached, 0)
})

t.test(
  'a modern credential that fits is judged, leased and spent in two statements; a spent one is refused after two',
  async t => {
    const g = await gate(t)
    const { lines, preimage } = await g.buy()
    const authorization = auth(modern(lines, preimage))
    g.watched.calls.length = 0
    t.equal((await g.send(authorization)).status, 200)
    await g.asked()
    t.same(g.watched.calls, ['lease', 'spend'])
    g.watched.calls.length = 0
    const again = await g.send(authorization)
    t.equal(again.status, 402)
    t.match(again.json(), { detail: 'The credential was already redeemed' })
    t.same(g.watched.calls.slice(0, 3), ['lease', 'find', 'outstanding'], 'the third is of the fresh challenge')
  }
)

t.test('a client that surveys more paths than it may hold invoices shares them; one payment buys one path', async t => {
  const g = await gate(t, { settings: { maxPerPlace: 4 } })
  const result = await Promise.all(Array.from({ length: 100 }, (_none, at) => g.send({ target: `/v1/item/${at}` })))
  t.ok(result.every(({ status }) => status === 402))
  t.equal(g.payee.requests.length, 4, 'sellers make no more invoices than before')
  const offers = result.map(({ headers }, at) => ({ at, lines: headers.all('www-authenticate') }))
  t.equal(new Set(offers.map(({ lines }) => l402Parameters(lines).macaroon)).size, 100, 'a token for each path')
  const own = offers.filter(({ lines }) => lines.some(line => line.startsWith('Payment ')))
  t.equal(own.length, 4, 'the Payment challenge is bound to the request that its invoice was made for')
  const later = await g.send({ target: '/v1/item/later' })
  const { invoice } = l402Parameters(later.headers.all('www-authenticate'))
  const sharing = offers.filter(({ lines }) => l402Parameters(lines).invoice === invoice)
  t.match(later.json(), { l402: { invoice, payment_hash: decodeInvoice(invoice).paymentHash } })
  t.ok(own.some(({ lines }) => l402Parameters(lines).invoice === invoice))
  const preimage = g.payee.pay(invoice)
  const classic = (lines: readonly string[]) => `L402 ${l402Parameters([...lines]).macaroon}:${preimage}`
  const tries = [...sharing, { at: 'later', lines: later.headers.all('www-authenticate') }]
  const chosen = tries.at(-1)
  const first = await g.send({ target: `/v1/item/${chosen?.at}`, ...auth(classic(chosen?.lines ?? [])) })
  t.equal(first.status, 200)
  for (const { at, lines } of tries.slice(0, -1)) {
    const answer = await g.send({ target: `/v1/item/${at}`, ...auth(classic(lines)) })
    t.equal(answer.status, 401)
    t.match(answer.json(), { detail: 'The invoice was already used for another request' })
  }
  const first402 = own.find(({ lines }) => l402Parameters(lines).invoice === invoice)
  const modernTry = modern(first402?.lines ?? [], preimage)
  t.equal((await g.send({ target: `/v1/item/${first402?.at}`, ...auth(modernTry) })).status, 402)
  t.equal(
    (await g.send({ target: `/v1/item/${chosen?.at}`, ...auth(classic(chosen?.lines ?? [])) })).status,
    200,
    'again'
  )
  t.match(await g.selling.claims.find(decodeInvoice(invoice).paymentHash), {
    scheme: 'l402',
    resource: '/v1/item/later',
    path: '/v1/item/later'
  })
})

t.test('an invoice is not shared with another price, service, place, or client', async t => {
  const g = await gate(t, { settings: { maxPerPlace: 1 } })
  const ask = (changes: Partial<Offer>, more: HarnessRequest = {}) =>
    g.send({ target: '/v1/b', ...merchantOffer({ path: '/v1/b', tokenPath: '/v1/b', ...changes }), ...more })
  t.equal((await ask({ path: '/v1/a', tokenPath: '/v1/a' })).status, 402)
  t.equal((await ask({})).status, 402, 'the same price')
  t.equal((await ask({ amountSats: 11 })).status, 429)
  t.equal((await ask({ amountSats: 9 })).status, 429)
  t.equal((await ask({ amountSats: null, fiat: 'USD 0.01' })).status, 429)
  t.equal((await ask({ service: 'boltgate:1' })).status, 429)
  t.equal((await ask({ merchantId: '7' })).status, 429)
  t.equal((await ask({ asked: 'server' })).status, 429)
  t.equal(g.payee.requests.length, 1)
  t.equal((await ask({ amountSats: 11 }, { peerAddress: freshAddress() })).status, 402)
})

t.test('a client whose credential cannot be read is sent the challenge that it has paid, never another', async t => {
  const g = await gate(t, { route: { renewal: 402 } })
  const { macaroon, preimage, paymentHash, lines } = await g.buy()
  const bytes = Buffer.from(preimage, 'hex')
  const token = modern(lines, preimage).slice('Payment '.length)
  const inUpperCase = Buffer.from(
    Buffer.from(token, 'base64url').toString().replace(preimage, preimage.toUpperCase())
  ).toString('base64url')
  const unread: ReadonlyArray<readonly [name: string, headers: Record<string, string>]> = [
    ['no scheme', { Authorization: `${macaroon}:${preimage}` }],
    ['the whole in quotes', { Authorization: `"L402 ${macaroon}:${preimage}"` }],
    ['each in quotes', { Authorization: `"${macaroon}":"${preimage}"` }],
    ['another scheme', { Authorization: `Bearer ${macaroon}:${preimage}` }],
    ['an unknown scheme', { Authorization: `L402: ${macaroon}:${preimage}` }],
    ['Basic', { Authorization: `Basic ${Buffer.from(`${macaroon}:${preimage}`).toString('base64')}` }],
    ['the preimage alone', { Authorization: preimage }],
    ['the preimage in base64', { Authorization: `Bearer ${bytes.toString('base64')}` }],
    ['another field', { 'X-L402': `${macaroon}:${preimage}` }],
    ['a proxy credential', { 'Proxy-Authorization': `L402 ${macaroon}:${preimage}` }],
    ['a field of its own', { 'X-Preimage': preimage.toUpperCase() }],
    ['a bare preimage as a Payment token', { Authorization: `Payment ${preimage}` }],
    ['a Payment token with an upper-case preimage', { Authorization: `Payment ${inUpperCase}` }],
    ['a legacy credential with 0x', { Authorization: `Payment method="lightning", preimage="0x${preimage}"` }]
  ]
  const made = g.payee.requests.length
  for (const [name, headers] of unread) {
    const answer = await g.send({ headers })
    t.equal(answer.status, 402, name)
    const again = answer.headers.all('www-authenticate')
    t.equal(l402Parameters(again).macaroon, macaroon, name)
    t.same([...again].sort(), [...lines].sort(), `${name}: both lines`)
    t.match(answer.text, /paid: do not pay again/, name)
  }
  const malformed: readonly string[] = [
    `L402 ${macaroon}:${preimage.toUpperCase()}`,
    `L402 ${macaroon}:0x${preimage}`,
    `L402 "${macaroon}:${preimage}"`,
    `L402 ${macaroon}`,
    `L402 ${macaroon}:${bytes.toString('base64')}`
  ]
  for (const value of malformed) {
    const answer = await g.send(auth(value))
    t.equal(answer.status, 400, 'whatever `renewal` says')
    t.ok(answer.headers.has('x-l402-error'))
  }
  const broken = await g.send(auth(`L402 AgE=:${preimage}`))
  t.match(broken.headers.get('x-l402-error'), /macaroon cannot be read.*paid: do not pay again/)
  t.match(broken.json(), { l402: { macaroon } })
  t.equal(g.payee.requests.length, made, 'no invoice was made')
  t.equal((await g.send(auth(`L402 ${macaroon}:${preimage}`))).status, 200)
  t.match(await g.selling.claims.find(paymentHash), { scheme: 'l402' })
  t.match((await g.send(auth(`${macaroon}:${preimage}`))).json(), { l402: { macaroon } }, 'also once it was used')
})

t.test('an unreadable credential with a narrowed macaroon is never answered with a wider one', async t => {
  const g = await gate(t)
  const { macaroon, preimage } = await g.buy()
  const narrow = narrowed(macaroon, 'expires=1')
  const again = await g.send(auth(`${narrow}:${preimage}`))
  t.match(again.text, /paid: do not pay again/)
  t.same(
    again.headers.all('www-authenticate').map(line => line.replace(/invoice=.*/, '')),
    [`L402 macaroon="${narrow}", `],
    'the macaroon as it was shown, and no Payment challenge, which knows no caveats'
  )
  t.equal((await g.send(auth(`L402 ${macaroon}:${preimage}`))).status, 200)
  const bare = (await g.send(auth(preimage))).headers.all('www-authenticate')
  t.not(l402Parameters(bare).macaroon, macaroon, 'a preimage says nothing about the holder once its token is in use')
})

t.test('only a payment of this offer is sent again', async t => {
  const g = await gate(t)
  const { macaroon, preimage, lines } = await g.buy()
  const invoiceOf = async (request: HarnessRequest) =>
    l402Parameters((await g.send(request)).headers.all('www-authenticate')).invoice
  const { invoice } = l402Parameters(lines)
  t.equal(await invoiceOf(auth(`${macaroon}:${'ab'.repeat(32)}`)), invoice, 'an invoice that can still be paid')
  t.not(await invoiceOf({ target: '/v1/other', ...auth(`${macaroon}:${preimage}`) }), invoice, 'another path')
  t.not(await invoiceOf({ ...auth(preimage), peerAddress: freshAddress() }), invoice, 'a preimage that is public')
  t.equal(await invoiceOf({ ...auth(`${macaroon}:`), peerAddress: freshAddress() }), invoice, 'a macaroon of ours')
  t.not(await invoiceOf(auth(`${narrowed(macaroon, 'x=y').slice(0, -4)}AAAA:${preimage}`.slice(0, 90))), invoice)
  t.not(await invoiceOf(auth('Bearer sk-0123456789abcdef')), invoice, 'a credential of the upstream')
  t.not(await invoiceOf({}), invoice, 'no credential')
  t.equal((await g.send(auth(modern(lines, preimage)))).status, 200)
  t.not(await invoiceOf(auth(preimage)), invoice, 'what was used up is sold again')
})
