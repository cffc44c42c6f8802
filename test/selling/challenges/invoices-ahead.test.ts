import { setImmediate } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { ChallengeCharges } from '../../../src/selling/minting/charges.ts'
import type { Offer } from '../../../src/selling/offers/offer.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { Budgets } from '../../../src/lightning/provider-calls/budgets.ts'
import { ProviderRefused, ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import { MemoryState } from '../../../src/platform/state/memory.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { callLimits } from '../../lightning/providers/declared.ts'
import { FakePayee, fixture, freshAddress, offer, settings, type Fixture } from './fixture.ts'

interface Scene extends Fixture {
  readonly place: string
  /** Whether the provider is left alone by its breaker. */
  isLeftAlone: boolean
  ask(changes?: Partial<Offer>): Promise<ReturnType<typeof shown>>
  /** Has so many lie ready, by one request more, all concurrently. */
  stock(count: number): Promise<void>
  /** Resolves when the provider has been asked so many times. */
  until(requests: number): Promise<void>
  /** Lets what is made ahead come. */
  come(): Promise<void>
  /** What the provider was asked for, in seconds of life and for whom. */
  requested(): string[]
}

function shown({ challenge }: Awaited<ReturnType<Fixture['selling']['minting']['mint']>>) {
  return challenge
}

/** A place whose payee makes invoices ahead, each client of a network of its own. */
async function scene(t: T, most = 50): Promise<Scene> {
  const f = await fixture(t)
  const place = `route:${freshAddress()}`
  const s: Scene = {
    ...f,
    place,
    isLeftAlone: false,
    ask: async changes =>
      shown(await f.selling.minting.mint(offer({ place, ...changes }), { clientKey: freshAddress(), digest: null })),
    stock: async count => {
      const gate = Promise.withResolvers<void>()
      f.payee.gate = gate.promise
      const before = f.payee.requests.length
      const pending = Array.from({ length: count + 1 }, () => s.ask())
      await s.until(before + 2 * count + 1)
      f.payee.gate = null
      gate.resolve()
      await Promise.all(pending)
      await s.come()
      t.equal(s.selling.minting.invoicesAhead, count)
    },
    until: async requests => {
      for (let time = 0; f.payee.requests.length < requests; time++) {
        if (time > 200) throw new Error(`only ${f.payee.requests.length} of ${requests} were asked for`)
        await f.asked()
      }
    },
    come: async () => {
      for (let time = 0; time < 5; time++) await setImmediate()
    },
    requested: () =>
      f.payee.requests.map(
        ({ expirySeconds, priority }) => `${expirySeconds} ${typeof priority === 'string' ? priority : 'anonymous'}`
      )
  }
  f.payee.ahead = { account: 'primary operator', most, isLeftAlone: () => s.isLeftAlone }
  return s
}

t.test('the third 402 of a price does not wait, and promises no less than the first', async t => {
  const s = await scene(t)
  await s.ask()
  await s.ask()
  await s.come()
  t.same(s.requested(), ['600 anonymous', '600 anonymous', '1200 ahead'])
  t.equal(s.selling.minting.invoicesAhead, 1)
  s.clock.advance(300_000)
  s.payee.gate = new Promise(() => {})
  const challenge = await s.ask({ path: '/v1/other', tokenPath: '/v1/other' })
  const invoice = decodeInvoice(challenge.invoice)
  t.equal(invoice.amountMsat, 10_000n)
  t.equal(invoice.description, 'A quote')
  t.equal(challenge.paymentHash, invoice.paymentHash)
  const left = challenge.expiresAt - s.clock.now()
  t.equal(left, 900_000, 'what is left of 1,200 seconds, and at least 600')
  t.equal(invoice.expiresAt * 1000, challenge.expiresAt, "the challenge's end is the invoice's own")
  t.equal(Date.parse(challenge.payment?.expires ?? ''), challenge.expiresAt)
  t.equal(challenge.createdAt, s.clock.now(), 'it is issued now, whenever its invoice was made')
  t.equal(challenge.tokenExpiresAt, s.clock.now() + 3_600_000)
  t.equal((await s.selling.claims.find(challenge.paymentHash))?.path, '/v1/other')
  t.same(
    s.counted.lines.filter(line => line.startsWith('ahead')),
    ['ahead miss 1', 'ahead miss 1', 'ahead hit 1']
  )
})

t.test('past half its life an invoice is not handed out', async t => {
  const s = await scene(t)
  await s.stock(1)
  s.clock.advance(600_000)
  t.equal((await s.ask()).expiresAt - s.clock.now(), 600_000, 'half of it is left')
  await s.come()
  s.clock.advance(600_001)
  t.equal(s.selling.minting.invoicesAhead, 0)
  const { expiresAt } = await s.ask()
  t.equal(expiresAt, Math.floor(s.clock.now() / 1000) * 1000 + 600_000, 'a fresh one')
  t.ok(s.counted.lines.includes('ahead unused 1'))
})

t.test('an invoice serves its own price, description, times and account alone', async t => {
  const s = await scene(t)
  await s.stock(3)
  const made = s.payee.requests.length
  const others: Array<Partial<Offer>> = [
    { amountSats: 11 },
    { description: 'Another quote' },
    { invoiceExpirySeconds: 300 },
    { tokenValiditySeconds: 7200 }
  ]
  for (const changes of others) {
    const { amountSats, description } = { ...offer(), ...changes }
    const { invoice } = await s.ask(changes)
    t.match(decodeInvoice(invoice), { amountMsat: BigInt(amountSats ?? 0) * 1000n, description })
  }
  s.payee.ahead = { account: 'primary another key', most: 50, isLeftAlone: () => false }
  await s.ask()
  t.equal(s.payee.requests.length, made + 5)
  t.equal(s.selling.minting.invoicesAhead, 3)
})

t.test('nothing is made ahead where it could outlive its token, or has no fixed price', async t => {
  const cases: Array<[string, Partial<Offer>]> = [
    ['a token that ends first', { tokenValiditySeconds: 1199 }],
    ['a cart', { source: 'storefront' }],
    ['a month', { source: 'subscription' }],
    ["a producer's resource", { source: 'producer' }]
  ]
  for (const [name, changes] of cases) {
    const s = await scene(t)
    for (let time = 0; time < 4; time++) await s.ask(changes)
    await s.come()
    t.same(new Set(s.requested().map(line => line.split(' ')[1])), new Set(['anonymous']), name)
    t.equal(s.selling.minting.invoicesAhead, 0, name)
  }
})

t.test('a provider that takes another life: no 402 promises less, and none outlives its token', async t => {
  const s = await scene(t)
  const make = s.payee.createInvoice.bind(s.payee)
  const withLife = (seconds: number) => {
    s.payee.createInvoice = request => make({ ...request, expirySeconds: seconds })
  }
  for (const [seconds, isKept] of [
    [600, false],
    [900, true],
    [3700, false]
  ] as const) {
    s.selling.configure({ settings, keys: s.keys })
    withLife(seconds)
    await s.ask()
    await s.ask()
    await s.come()
    t.equal(s.selling.minting.invoicesAhead, isKept ? 1 : 0, `${seconds}`)
    if (!isKept) continue
    s.clock.advance(300_000)
    t.ok((await s.ask()).expiresAt - s.clock.now() >= 600_000)
    await s.come()
    s.clock.advance(300_001)
    t.equal(s.selling.minting.invoicesAhead, 0)
  }
})

t.test('while the provider is left alone nothing is handed out; the stock is handed out afterwards', async t => {
  const s = await scene(t)
  await s.stock(2)
  s.isLeftAlone = true
  s.payee.fault = new ProviderUnavailable('It is left alone.', 7, undefined, 'open')
  await t.rejects(s.ask(), { status: 503 })
  t.equal(s.selling.minting.invoicesAhead, 2)
  s.isLeftAlone = false
  t.ok(await s.ask())
  t.equal(s.selling.minting.invoicesAhead, 1)
})

t.test('a provider that hangs: the stock is handed out, and pending requests are given up after 20 s', async t => {
  const s = await scene(t)
  await s.stock(3)
  s.payee.gate = new Promise(() => {})
  for (let time = 0; time < 3; time++) t.ok(await s.ask())
  const waiting = s.ask()
  const refused = t.rejects(waiting, { status: 503 })
  await s.until(12)
  s.clock.advance(20_000)
  await refused
  const requests = s.payee.requests.length
  s.payee.gate = null
  s.clock.advance(5_000)
  t.ok(await s.ask())
  await s.come()
  t.ok(s.payee.requests.length > requests, 'it resumes once the provider answers again')
})

t.test('a provider that refuses longer expiries is not tried with them at each 402', async t => {
  const s = await scene(t)
  const make = s.payee.createInvoice.bind(s.payee)
  let refusals = 0
  s.payee.createInvoice = async request => {
    if (request.expirySeconds > 600) {
      refusals++
      throw new ProviderRefused('request', 'The expiry must be at most 600.')
    }
    return await make(request)
  }
  for (let time = 0; time < 20; time++) {
    t.ok(await s.ask())
    await s.come()
    s.clock.advance(20_000)
  }
  t.equal(refusals, 1)
})

t.test('a wrong invoice that was made ahead is not sent', async t => {
  const s = await scene(t)
  await s.ask()
  await s.ask()
  await s.come()
  t.equal(s.selling.minting.invoicesAhead, 1)
  s.payee.fault = 'amount'
  t.ok(await s.ask())
  await s.come()
  t.equal(s.selling.minting.invoicesAhead, 0)
})

t.test('a reload and a stop discard what is ready and what is being made', async t => {
  const s = await scene(t)
  await s.stock(2)
  const gate = Promise.withResolvers<void>()
  s.payee.gate = gate.promise
  const { paymentHash } = await s.ask()
  t.equal(s.selling.minting.invoicesAhead, 1)
  s.selling.configure({ settings, keys: s.keys })
  t.equal(s.selling.minting.invoicesAhead, 0)
  gate.resolve()
  await s.come()
  t.equal(s.selling.minting.invoicesAhead, 0)
  s.payee.gate = null
  await s.stock(2)
  await s.selling.close()
  t.equal(s.selling.minting.invoicesAhead, 0)
  const rows = await s.database.sql<{ payment_hash: string }[]>`
    select payment_hash from challenges where place = ${s.place}`
  t.equal(rows.length, 7, 'one for each 402, and none of the unseen ones')
  t.ok(rows.some(row => row.payment_hash === paymentHash))
})

t.test('an invoice whose row could not be written is not handed out again', async t => {
  const s = await scene(t)
  await s.stock(2)
  const before = s.selling.minting.invoicesAhead
  s.payee.gate = new Promise(() => {})
  s.watched.deaf.add('insert')
  await t.rejects(s.ask(), { status: 503 })
  s.watched.deaf.clear()
  t.equal(s.selling.minting.invoicesAhead, before - 1)
  t.ok(await s.ask(), 'the other is its own')
})

t.test('a notification of an invoice that was never handed out does no harm', async t => {
  const s = await scene(t)
  const notified: string[] = []
  const make = s.payee.createInvoice.bind(s.payee)
  const made: string[] = []
  s.payee.createInvoice = async request => {
    const charge = await make(request)
    made.push(charge.paymentHash)
    return charge
  }
  s.selling.settlements.onSettled('route', async ({ paymentHash }) => {
    notified.push(paymentHash)
  })
  await s.stock(1)
  const [, , ahead = ''] = made
  await s.selling.settlements.settled(ahead)
  t.same(notified, [])
  t.equal((await s.ask()).paymentHash, ahead, 'it is handed out as before')
  await s.selling.settlements.settled(ahead)
  t.same(notified, [ahead])
})

t.test('a poll begins before the oldest invoice that was made ahead', async t => {
  const s = await scene(t)
  await s.stock(1)
  const madeAt = s.clock.now()
  await s.database.sql`delete from challenges where place = ${s.place}`
  s.clock.advance(599_000)
  await s.ask()
  const charges = new ChallengeCharges(s.database)
  const open = await charges.open('primary', 'sandbox', s.clock.now())
  t.ok((open.find(({ merchantId }) => merchantId === null)?.since ?? Infinity) <= madeAt)
})

t.test('a stock leaves three quarters of a budget to waiting clients', async t => {
  const s = await scene(t)
  const budgets = new Budgets({ state: new MemoryState(s.clock), clock: s.clock, metrics: new Metrics() })
  s.payee.budget = budgets.of('strike', '', callLimits('strike', null, null))
  // A flood of addresses that ask once each: a bucket of 100 that anonymous clients may empty down to 30 and more.
  for (let requests = 0; requests < 60; requests++)
    await s.ask().catch((error: unknown) => {
      t.match(error, { status: 503 })
    })
  await s.come()
  const ahead = s.requested().filter(line => line.endsWith('ahead')).length
  t.ok(ahead > 0 && ahead < 25, `${ahead} were requested ahead`)
  const before = s.payee.requests.length
  await s.selling.minting.mint(offer({ place: s.place, source: 'producer' }), {
    clientKey: 'merchant:1',
    digest: null,
    uncapped: true
  })
  t.ok(s.payee.requests.length > before, 'an account with its key is served')
})

t.test('of any number of concurrent clients, with faults and reloads, each has an invoice of its own', async t => {
  const s = await scene(t, 7)
  const handed: string[] = []
  let refused = 0
  for (let round = 0; round < 12; round++) {
    const gate = Promise.withResolvers<void>()
    s.payee.gate = round % 3 === 1 ? gate.promise : null
    s.payee.fault = round % 4 === 3 ? new ProviderUnavailable() : null
    const pending = Array.from({ length: 12 }, () =>
      s.ask().then(
        ({ paymentHash }) => handed.push(paymentHash),
        () => refused++
      )
    )
    await s.come()
    if (round % 5 === 4) s.selling.configure({ settings, keys: s.keys })
    gate.resolve()
    await Promise.all(pending)
    s.clock.advance(round % 2 === 0 ? 10_000 : 350_000)
  }
  t.ok(handed.length > 100, `${handed.length} were handed out, ${refused} refused`)
  t.equal(new Set(handed).size, handed.length)
  const rows = await s.database.sql<{ payment_hash: string }[]>`
    select payment_hash from challenges where place = ${s.place}`
  t.same(rows.map(row => row.payment_hash).sort(), handed.toSorted())
  t.ok(s.counted.lines.filter(line => line === 'ahead hit 1').length > 20)
  t.ok(s.payee.requests.length <= 2 * (handed.length + refused), 'at most twice the demand')
})

t.test('of several providers each has a stock of its own, and one that is left alone hands nothing out', async t => {
  const s = await scene(t)
  const second = new FakePayee(s.clock, 'second')
  second.ahead = { account: 'primary second operator', most: 50, isLeftAlone: () => false }
  s.payee.instead = second
  await s.stock(3)
  t.equal((await s.ask()).providerKind, 'sandbox', 'the stock of the first is handed out')
  s.isLeftAlone = true
  s.payee.fault = new ProviderUnavailable('x', 5, undefined, 'open')
  await s.come()
  const before = s.payee.requests.length
  for (let time = 0; time < 3; time++) t.equal((await s.ask()).providerKind, 'second', 'while the first is left alone')
  await s.come()
  t.ok(
    second.requests.some(({ priority }) => priority === 'ahead'),
    'the second makes some ahead for itself'
  )
  t.ok(s.payee.requests.length <= before + 3, 'and the first makes none ahead')
  s.isLeftAlone = false
  s.payee.fault = null
  const again = await s.ask()
  t.equal(again.providerKind, 'sandbox', "the rest of the first's stock is used first again")
})

t.test(
  'an empty budget of the first is no reason to wait: its stock is handed out, then the second is called',
  async t => {
    const s = await scene(t)
    s.payee.instead = new FakePayee(s.clock, 'second')
    await s.stock(2)
    s.payee.fault = new ProviderUnavailable('x', 5, undefined, 'rate')
    const made: string[] = []
    for (let time = 0; time < 4; time++) made.push((await s.ask()).providerKind)
    t.same(made, ['sandbox', 'sandbox', 'second', 'second'])
    for (const fault of ['amount', 'hash', 'expired'] as const) {
      s.payee.fault = fault
      t.equal((await s.ask()).providerKind, 'second', `nor is an invoice with a wrong ${fault} the last state`)
    }
    s.payee.instead = null
    await t.rejects(s.ask(), { status: 503, message: 'The payment provider gave no usable invoice.' })
  }
)
