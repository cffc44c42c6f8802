import { Readable } from 'node:stream'
import t from 'tap'
import throttle from '../../plugins/throttle.ts'
import { definePlugin, readField, StateUnavailable, Type, type State } from '../../src/index.ts'
import { harness, type HarnessRequest } from '../../src/engine/pipeline/harness.ts'
import { builtInPolicies } from '../../src/engine/sections/policy.ts'
import { loadText } from '../support/gateway.ts'
import { merchant, testServices, type TestServices } from '../support/plugin-harness.ts'

async function build(config: object, over: Partial<TestServices> = {}) {
  const services = { ...testServices(), ...over }
  return {
    services,
    chain: await harness([{ plugin: throttle, config }], {
      services,
      answer: () => ({ status: 200, headers: [], body: null })
    })
  }
}

/** How many of `count` requests pass. */
async function passing(chain: Awaited<ReturnType<typeof harness>>, count: number, request: HarnessRequest = {}) {
  let passed = 0
  for (let i = 0; i < count; i++) if ((await chain.run(request)).status === 200) passed++
  return passed
}

const away = { takeFixed: () => Promise.reject(new StateUnavailable('connection refused')) }

for (const [policy, { limit }] of Object.entries(builtInPolicies)) {
  t.test(`policy ${policy} lets ${limit} requests through in a window`, async t => {
    const { chain } = await build({ policy })
    t.equal(await passing(chain, limit + 5), limit)
  })
}

t.test("above the limit the answer is the contract's 429, without RateLimit headers", async t => {
  const { chain, services } = await build({ policy: 'admin' })
  await passing(chain, 30)
  services.clock.advance(17_500)
  const result = await chain.run()
  t.equal(result.status, 429)
  t.equal(result.headers.get('retry-after'), '43')
  t.strictSame(result.json(), {
    error: 'Too many requests',
    message: 'Rate limit exceeded. Try again in 43 seconds.',
    retryAfter: 43
  })
  t.notOk(result.headers.pairs.some(name => /ratelimit/i.test(name)))
  t.equal((await chain.run()).source, 'error')
  t.match(await services.metrics.render(), /^boltgate_throttled_total\{policy="admin"\} 2$/m)
})

t.test('counters belong to the principal where there is one, else to the address', async t => {
  const { chain } = await build({ policy: 'checkout-create' })
  const one = { clientAddress: '198.51.100.1' }
  t.equal(await passing(chain, 9, { ...one, principal: merchant('1') }), 5)
  t.equal(
    await passing(chain, 9, { clientAddress: '198.51.100.2', principal: merchant('1') }),
    0,
    'the same merchant elsewhere'
  )
  t.equal(await passing(chain, 9, { ...one, principal: merchant('2') }), 5, 'another merchant at the same address')
  t.equal(await passing(chain, 9, { ...one, principal: { kind: 'admin', id: 'admin' } }), 5)
  t.equal(await passing(chain, 9, one), 5, 'an anonymous client, by address')
  t.equal(await passing(chain, 9, { clientAddress: '198.51.100.2' }), 5)
  const byAddress = (await build({ policy: 'magic-link' })).chain
  t.equal(await passing(byAddress, 2, { principal: merchant('1') }), 2)
  t.equal(await passing(byAddress, 5, { principal: merchant('2') }), 1, 'policies by address')
})

t.test('one IPv6 client is its /64, and an IPv4 address inside IPv6 is the IPv4 address', async t => {
  const { chain } = await build({ policy: 'checkout-create' })
  t.equal(await passing(chain, 3, { clientAddress: '2001:db8:1:2::1' }), 3)
  t.equal(await passing(chain, 9, { clientAddress: '2001:0DB8:1:2:ffff:ffff:ffff:ffff' }), 2)
  t.equal(await passing(chain, 9, { clientAddress: '2001:db8:1:3::1' }), 5)
  t.equal(await passing(chain, 3, { clientAddress: '::ffff:192.0.2.1' }), 3)
  t.equal(await passing(chain, 9, { clientAddress: '192.0.2.1' }), 2)
})

t.test('two routes with one policy share its counter, two policies do not', async t => {
  const services = testServices()
  const options = { services, answer: () => ({ status: 200, headers: [], body: null }) }
  const payments = await harness([{ plugin: throttle, config: { policy: 'payment-create' } }], options)
  const refunds = await harness([{ plugin: throttle, config: { policy: 'payment-create' } }], options)
  const reads = await harness([{ plugin: throttle, config: { policy: 'read' } }], options)
  t.equal(await passing(payments, 7), 7)
  t.equal(await passing(refunds, 7), 3)
  t.equal(await passing(reads, 7), 7)
})

t.test('two throttles in one chain stack: each counts separately', async t => {
  const services = testServices()
  const entry = (policy: string) => ({ plugin: throttle, config: { policy } })
  const chain = await harness([entry('admin'), entry('checkout-create')] as never, {
    services,
    answer: () => ({ status: 200, headers: [], body: null })
  })
  t.equal(await passing(chain, 30), 5)
  services.clock.advance(60_000)
  t.equal(await passing(chain, 1), 1)
})

t.test('memory answers without a promise', async t => {
  const services = testServices()
  const config = { policy: 'global' }
  const hooks = await throttle.setup(config, {
    services,
    route: { name: 'r', config: null, own: false },
    mode: 'production',
    slot: name => ({ index: 0, name })
  })
  const { ctx } = (await harness([], { services })).begin()
  t.equal(hooks.request?.(ctx), undefined)
})

t.test('while the shared state is down each worker counts alone, and says so once', async t => {
  const { chain, services } = await build({ policy: 'checkout-create' }, { state: away as unknown as State })
  t.equal(await passing(chain, 9), 5)
  t.equal(services.lines.length, 1)
  t.match(services.lines[0], { level: 'warn', message: /cannot reach the shared state/ })
})

t.test('a fault of the state that is no outage is not taken for one', async t => {
  const state = { takeFixed: () => Promise.reject(new TypeError('bug')) } as unknown as State
  const { chain } = await build({ policy: 'global' }, { state })
  t.equal((await chain.run()).status, 500)
})

t.test('a policy that does not exist fails the set-up and names those that do', async t => {
  await t.rejects(build({ policy: 'reed' }), /no policy "reed".*read/)
})

t.test('a body that is read before payment adds one to the count for each 64 KiB (decision 415)', async t => {
  const KIB = 1024
  const paid = { scheme: 'l402', paymentHash: '00', amountSats: 1 } as const
  const reader = definePlugin({
    name: 'reader',
    description: 'Reads a field of the body, and takes what has the right token for paid.',
    config: Type.Object({}),
    setup: () => ({
      async request(ctx) {
        await readField({ json: 'model' }, ctx)
        if (ctx.headers.get('authorization') === 'L402 good') ctx.payment = paid
      }
    })
  })
  const open = async (limit: number) => {
    const few = { limit, window: 60_000, by: 'address' } as const
    const services = { ...testServices(), policies: { few } }
    const throttled = { plugin: throttle, config: { policy: 'few' } }
    const answer = () => ({ status: 200, headers: [], body: null })
    return harness([throttled, { plugin: reader, config: {} }], { services, answer })
  }
  const sending = (bytes: number, authorization = '') => ({
    method: 'POST',
    headers: ['Content-Type', 'application/json', ...(authorization === '' ? [] : ['Authorization', authorization])],
    body: `{"model":"${'x'.repeat(bytes - 12)}"}`
  })
  const left = (chain: Awaited<ReturnType<typeof harness>>) => passing(chain, 100)

  for (const [bytes, authorization, counted] of [
    [64 * KIB - 1, '', 1],
    [64 * KIB, '', 2],
    [200 * KIB, '', 4],
    [200 * KIB, 'L402 forged', 4],
    [200 * KIB, 'L402 good', 1]
  ] as const) {
    const chain = await open(20)
    t.equal((await chain.run(sending(bytes, authorization))).status, 200)
    t.equal(await left(chain), 20 - counted, `${bytes} bytes, ${authorization}`)
  }

  const pieces = await open(20)
  const text = `{"model":"${'x'.repeat(4_096)}"}`
  const body = Readable.from(Array.from(text, letter => Buffer.from(letter)))
  t.equal((await pieces.run({ ...sending(12), body })).status, 200)
  t.equal(await left(pieces), 20 - 5, 'and one more for each 1,024 pieces')

  const small = await open(5)
  t.equal((await small.run(sending(900 * KIB))).status, 200, 'one body uses up the limit, but is served')
  t.equal(await left(small), 0)

  const busy = await open(5)
  const statuses = await Promise.all(Array.from({ length: 5 }, async () => (await busy.run(sending(900 * KIB))).status))
  t.same([...new Set(statuses)], [429], 'of many concurrent ones none is read')
})

t.test('policies by token: each verified payment has a counter of its own', async t => {
  const services = { ...testServices(), policies: { each: { limit: 2, window: 20_000, by: 'token' } as const } }
  const verified = definePlugin({
    name: 'verified',
    config: Type.Object({}),
    setup: () => ({
      request(ctx) {
        const paymentHash = ctx.headers.get('x-payment')
        if (paymentHash !== undefined) ctx.payment = { scheme: 'l402', paymentHash, amountSats: 5 }
      }
    })
  })
  const chain = await harness([verified, { plugin: throttle, config: { policy: 'each' } }], { services })
  for (const payment of ['a', 'b']) t.equal(await passing(chain, 3, { headers: { 'x-payment': payment } }), 2)
  t.equal(await passing(chain, 3), 2, 'by address without one')
})

t.test('check warns of a policy by token before the payment is verified', async t => {
  const warnings = async (chain: string) =>
    (
      await loadText(
        `use: [ service, sandbox ]
policies: { each: { limit: 2, window: 20s, by: token } }
chains: { sold: [ { throttle: { policy: global } }, ${chain} ] }
routes:
  - { match: { path: /a }, price: 5 sats, chain: sold, upstream: { url: "http://127.0.0.1:1" } }
`,
        {}
      )
    ).config.warnings.map(({ message }) => message)
  t.same(await warnings('credential, challenge, { throttle: { policy: each } }'), [])
  t.match(await warnings('{ throttle: { policy: each } }, credential, challenge'), [
    /found the policy "each", by token, before a payment is verified/
  ])
})
