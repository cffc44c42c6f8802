import t, { type Test as T } from 'tap'
import challenge from '../../../plugins/challenge.ts'
import credential from '../../../plugins/credential.ts'
import { harness, type HarnessRequest, type HarnessResult } from '../../../src/engine/pipeline/harness.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import { requestHeaders } from '../../../src/engine/upstream/header-policy.ts'
import { HeaderList } from '../../../src/index.ts'
import type { SellingOptions } from '../../../src/selling/challenges/open.ts'
import type { ChallengeSettings } from '../../../src/selling/offers/settings.ts'
import { fixture, freshAddress, l402Parameters, modern, route, type Fixture } from '../challenges/fixture.ts'

interface Shop extends Fixture {
  readonly upstream: { status: number }
  /** The headers that an upstream would get. */
  readonly forwarded: readonly string[]
  ask(request?: HarnessRequest): Promise<HarnessResult>
  /** The same on a second gateway. */
  askOther(request?: HarnessRequest): Promise<HarnessResult>
}

async function shop(t: T, changes: Partial<ChallengeSettings> = {}, more: Partial<SellingOptions> = {}): Promise<Shop> {
  const f = {
    ...(await fixture(t, { x402Origin: 'https://api.example.com', ...changes }, undefined, more)),
    upstream: { status: 200 },
    forwarded: new Array<string>()
  }
  const config = route({ name: `shop-${freshAddress()}` })
  const address = freshAddress()
  const asks = await Promise.all(
    [f.challenges, f.another('gateway-2').challenges].map(async challenges => {
      const chain = await harness([credential, challenge], {
        services: { challenges, clock: f.clock },
        answer: (ctx, responder) => {
          f.forwarded.push(requestHeaders(ctx, 'upstream', null, []).join('\n').toLowerCase())
          const deliver = async () => {
            const own = ['PAYMENT-REQUIRED', 'e30=', 'PAYMENT-RESPONSE', 'e30=']
            await responder.head(f.upstream.status, new HeaderList(own))
            responder.end(null)
          }
          void deliver()
        },
        route: { name: config.name, config }
      })
      return (request?: HarnessRequest) =>
        chain.run({
          target: '/v1/quote?q=1',
          peerAddress: address,
          host: 'api.example.com',
          ...request
        })
    })
  )
  const [ask, askOther] = asks
  if (ask === undefined || askOther === undefined) throw new Error('two gateways were made')
  return { ...f, ask, askOther }
}

interface Required {
  resource: { url: string }
  error?: string
  accepts: Array<{ maxTimeoutSeconds: number; extra: { invoice: string; requestHash: string } }>
}

function json(result: HarnessResult, name: string) {
  return JSON.parse(Buffer.from(result.headers.get(name) ?? '', 'base64').toString()) as Record<string, unknown>
}

function required(result: HarnessResult) {
  // The test reads what the gateway wrote.
  return json(result, 'payment-required') as unknown as Required
}

function paid(s: Shop, result: HarnessResult) {
  const [accepted] = required(result).accepts
  if (accepted === undefined) throw new Error('there is nothing to accept')
  const preimage = s.payee.pay(accepted.extra.invoice)
  return [
    'PAYMENT-SIGNATURE',
    Buffer.from(JSON.stringify({ x402Version: 2, accepted, payload: { preimage } })).toString('base64')
  ]
}

t.test('x402: a 402 has a third challenge for the same invoice, and its payment buys one response', async t => {
  const s = await shop(t)
  const first = await s.ask()
  const lines = first.headers.all('www-authenticate')
  t.equal(required(first).resource.url, 'https://api.example.com/v1/quote?q=1')
  t.equal(required(first).accepts[0]?.extra.invoice, l402Parameters(lines).invoice)
  const headers = paid(s, first)
  const bought = await s.ask({ headers })
  t.equal(bought.status, 200)
  t.notMatch(s.forwarded[0], /payment-signature/)
  t.match(s.forwarded[0], /x-l402-scheme\nx402/)
  t.match(json(bought, 'payment-response'), { success: true, network: 'lnbtc:0f9188f13cb7b2c71f2a335e3a4fc328' })
  const again = await s.ask({ headers })
  t.equal(again.status, 402)
  t.match(json(again, 'payment-response'), { success: false, errorReason: 'duplicate_settlement', transaction: '' })
  t.equal(required(again).error, 'duplicate_settlement')
  t.ok(s.counted.lines.includes('payment route x402 10'))
  t.ok(s.counted.lines.includes('verified x402 duplicate_settlement'))
})

t.test(
  'x402: an invoice that is handed out again, another host and a plain description have no third challenge',
  async t => {
    const s = await shop(t, { maxPerClient: 1 })
    t.ok((await s.ask()).headers.has('payment-required'))
    t.notOk((await s.ask()).headers.has('payment-required'), 'handed out again')
    const other = await shop(t, { x402Origin: 'https://other.example.com' })
    t.notOk((await other.ask()).headers.has('payment-required'), 'another host')
    const plain = await shop(t)
    plain.payee.hashes = false
    t.notOk((await plain.ask()).headers.has('payment-required'), 'a plain description')
    const off = await shop(t, { x402Origin: null })
    t.notOk((await off.ask()).headers.has('payment-required'), 'off')
  }
)

t.test('x402: a payment is for its request alone', async t => {
  const s = await shop(t)
  const headers = paid(s, await s.ask())
  const reasonOf = async (request: HarnessRequest) =>
    json(await s.ask({ headers, ...request }), 'payment-response')['errorReason']
  t.equal(await reasonOf({ target: '/v1/quote?q=2' }), 'invalid_exact_lnbtc_request_mismatch')
  t.equal(await reasonOf({ method: 'POST' }), 'invalid_exact_lnbtc_request_mismatch')
  s.clock.advance(661_000)
  t.equal(await reasonOf({}), 'invalid_exact_lnbtc_invoice_expired')
})

t.test('x402: a body is bound by its bytes and its type', async t => {
  const s = await shop(t)
  const post = (body: string, headers: readonly string[] = [], type = 'application/json'): HarnessRequest => ({
    method: 'POST',
    body,
    headers: ['Content-Type', type, ...headers],
    prepare: ctx => {
      ctx.body.limit = 1_048_576
    }
  })
  const headers = paid(s, await s.ask(post('{"a":1}')))
  const reason = async (request: HarnessRequest) => json(await s.ask(request), 'payment-response')['errorReason']
  t.equal(await reason(post('{"a": 1}', headers)), 'invalid_exact_lnbtc_request_mismatch')
  t.equal(await reason(post('{"a":1}', headers, 'text/plain')), 'invalid_exact_lnbtc_request_mismatch')
  t.equal((await s.ask(post('{"a":1}', headers))).status, 200)
})

t.test('x402: two credentials in one request are refused, and neither is used', async t => {
  const s = await shop(t)
  const first = await s.ask()
  const headers = paid(s, first)
  const lines = first.headers.all('www-authenticate')
  const { macaroon, invoice } = l402Parameters(lines)
  const preimage = s.payee.pay(invoice)
  for (const other of [`L402 ${macaroon}:${preimage}`, modern(lines, preimage)])
    t.equal((await s.ask({ headers: [...headers, 'Authorization', other] })).status, 400)
  t.equal((await s.ask({ headers: [...headers, ...headers] })).status, 400)
  t.equal((await s.ask({ headers })).status, 200)
})

t.test('x402: one payment buys once over three schemes and two gateways', async t => {
  for (let round = 0; round < 6; round++) {
    const s = await shop(t)
    const first = await s.ask()
    const lines = first.headers.all('www-authenticate')
    const headers = paid(s, first)
    const preimage = s.payee.pay(l402Parameters(lines).invoice)
    const l402 = ['Authorization', `L402 ${l402Parameters(lines).macaroon}:${preimage}`]
    const payment = ['Authorization', modern(lines, preimage)]
    const sent = [headers, payment, headers, l402, headers, payment]
    const order = [...sent.slice(round), ...sent.slice(0, round)]
    const results = await Promise.all(
      order.map((one, at) => (at % 2 === 0 ? s.ask({ headers: one }) : s.askOther({ headers: one })))
    )
    t.equal(results.filter(({ status }) => status === 200).length, 1, `round ${round}`)
  }
})

t.test("x402: a paid request gets no challenge of the upstream's own, which would cost its client again", async t => {
  const s = await shop(t)
  s.upstream.status = 402
  const { headers, status } = await s.ask({ headers: paid(s, await s.ask()) })
  t.equal(status, 402)
  t.same([headers.has('payment-required'), headers.has('payment-response')], [false, false])
})

t.test('x402: what cannot be read has a reason', async t => {
  const s = await shop(t)
  const reason = async (value: string) =>
    json(await s.ask({ headers: ['PAYMENT-SIGNATURE', value] }), 'payment-response')['errorReason']
  t.equal(await reason('%'), 'invalid_payload')
  t.equal(await reason(Buffer.from('{}').toString('base64')), 'invalid_payload')
  const other = await shop(t)
  const [, value = ''] = paid(other, await other.ask())
  t.equal(await reason(value.slice(0, 40)), 'invalid_payload')
})

t.test('x402: a provider that takes no hashes sells by the other schemes, and is retried after 10 minutes', async t => {
  for (const hashes of [false, 'refused'] as const) {
    const s = await shop(t)
    s.payee.hashes = hashes
    const first = await s.ask()
    t.equal(first.status, 402)
    t.notOk(first.headers.has('payment-required'))
    t.ok(decodeInvoice(l402Parameters(first.headers.all('www-authenticate')).invoice).description, 'people see a text')
    const requests = s.payee.requests.length
    t.notOk((await s.ask()).headers.has('payment-required'))
    t.same(
      s.payee.requests.slice(requests).map(({ hashed }) => hashed),
      [undefined]
    )
    s.payee.hashes = true
    s.clock.advance(600_001)
    t.ok((await s.ask()).headers.has('payment-required'))
  }
})

t.test('x402: on a shared node the provider must confirm the payment', async t => {
  let status: 'paid' | 'unpaid' | 'away' = 'unpaid'
  let requests = 0
  const s = await shop(
    t,
    {},
    {
      charges: {
        isShared: () => true,
        countedOf: () => 'one',
        lookUp: async () => {
          requests++
          setImmediate(() => {
            s.clock.advance(3_000)
          })
          if (status === 'away') throw new ProviderUnavailable()
          return { status, receivedSats: null, settledAt: null }
        }
      }
    }
  )
  const headers = paid(s, await s.ask())
  for (const bad of ['unpaid', 'away'] as const) {
    status = bad
    const early = await s.ask({ headers })
    t.equal(early.status, 503, bad)
    t.ok(early.headers.has('retry-after'))
    t.notOk(early.headers.has('payment-required'), 'no second invoice')
  }
  t.equal(requests, 4, 'twice each')
  status = 'paid'
  t.equal((await s.ask({ headers })).status, 200)
  t.equal((await s.ask({ headers })).status, 402)
  t.equal(requests, 5, 'a used-up credential is not looked up')
  const wrong = paid(s, await s.ask())
  const forged = Buffer.from(wrong[1] ?? '', 'base64')
    .toString()
    .replace(/"preimage":"../, '"preimage":"00')
  await s.ask({ headers: ['PAYMENT-SIGNATURE', Buffer.from(forged).toString('base64')] })
  t.equal(requests, 5, 'nothing is looked up without the preimage')
})

t.test(
  'x402: the older dialect pays without a preimage, from the requesting network, once the provider confirms',
  async t => {
    let status: 'paid' | 'unpaid' = 'unpaid'
    const s = await shop(
      t,
      {},
      {
        charges: {
          isShared: () => false,
          countedOf: () => 'one',
          lookUp: async () => ({ status, receivedSats: null, settledAt: null })
        }
      }
    )
    const older = async (result: HarnessResult, change: object = {}) => {
      const [accepted] = required(result).accepts
      t.match(accepted?.extra, { paymentMethod: 'lightning' })
      const { invoice } = accepted?.extra ?? {}
      const payload = { x402Version: 2, scheme: 'exact', payload: { invoice }, accepted, ...change }
      return ['PAYMENT-SIGNATURE', Buffer.from(JSON.stringify(payload)).toString('base64')]
    }
    const first = await s.ask()
    const headers = await older(first)
    const unpaid = await s.ask({ headers })
    t.equal(unpaid.status, 503)
    t.notOk(unpaid.headers.has('payment-required'))
    status = 'paid'
    s.clock.advance(3_000)
    const elsewhere = await s.ask({ headers, peerAddress: freshAddress() })
    t.equal(json(elsewhere, 'payment-response')['errorReason'], 'invalid_exact_lnbtc_preimage_missing')
    const changed = await s.ask({ headers, target: '/v1/quote?q=2' })
    t.equal(json(changed, 'payment-response')['errorReason'], 'invalid_exact_lnbtc_request_mismatch')
    for (const payload of [{}, { invoice: 'lnbc1' }, { invoice: 7 }, { invoice: null, preimage: null }]) {
      const refused = await s.ask({ headers: await older(first, { payload }) })
      t.equal(json(refused, 'payment-response')['errorReason'], 'invalid_exact_lnbtc_preimage_missing')
    }
    t.equal((await s.ask({ headers })).status, 200)
    const again = await s.ask({ headers })
    t.equal(json(again, 'payment-response')['errorReason'], 'duplicate_settlement')
    t.equal((await s.ask({ headers: paid(s, first) })).status, 402, 'nor by the preimage')
  }
)

t.test('x402: behind one address, an invoice is for the one client that can claim it without a preimage', async t => {
  const charges = {
    isShared: () => false,
    countedOf: () => 'one',
    lookUp: async () => ({ status: 'paid', receivedSats: null, settledAt: null }) as const
  }
  const unproven = (accepted: object, invoice: string): string[] => [
    'PAYMENT-SIGNATURE',
    Buffer.from(JSON.stringify({ x402Version: 2, payload: { invoice }, accepted })).toString('base64')
  ]
  const invoiceOf = (result: HarnessResult): string => l402Parameters(result.headers.all('www-authenticate')).invoice
  const s = await shop(t, { maxPerClient: 1, maxPerPlace: 2 }, { charges })
  const [first] = required(await s.ask()).accepts
  const victim = await s.askOther()
  if (first === undefined) throw new Error('there is nothing to accept')
  t.not(invoiceOf(victim), first.extra.invoice, 'above the cap')
  t.notOk(victim.headers.has('payment-required'))
  t.equal(invoiceOf(await s.ask()), invoiceOf(victim), 'what cannot be claimed that way is handed out again')
  t.equal(invoiceOf(await s.ask({ target: '/v1/quote?q=2' })), invoiceOf(victim), 'for another request too')
  s.payee.pay(invoiceOf(victim))
  const accepted = { ...first, extra: { ...first.extra, invoice: invoiceOf(victim) } }
  t.equal((await s.ask({ headers: unproven(accepted, invoiceOf(victim)) })).status, 402, 'a neighbor claims it')
  s.payee.pay(first.extra.invoice)
  t.equal((await s.askOther({ headers: unproven(first, first.extra.invoice) })).status, 200)

  const full = await shop(t, { maxPerPlace: 2 }, { charges })
  const requests = ['/v1/quote?q=1', '/v1/quote?q=2', '/v1/quote?q=3'].map(target => ({ target }))
  const burst = [...(await Promise.all(requests.map(full.ask))), await full.askOther({ target: '/v1/quote?q=4' })]
  const [own, ...rest] = burst.map(invoiceOf)
  t.equal(burst.filter(({ headers }) => headers.has('payment-required')).length, 1)
  t.ok(
    rest.every(invoice => invoice === rest[0] && invoice !== own),
    'the last of a place is handed out again'
  )

  const both = await shop(t, { maxPerPlace: 8 }, { charges })
  const quote = (q: number) => ({ target: `/v1/quote?q=${q}` })
  for (const q of [1, 2, 3, 4, 5]) await both.ask(quote(q))
  await Promise.all([6, 7].flatMap(q => [both.ask(quote(q)), both.askOther(quote(q + 2))]))
  t.equal((await both.ask(quote(10))).status, 402, 'also where two processes fill a place together')
})
