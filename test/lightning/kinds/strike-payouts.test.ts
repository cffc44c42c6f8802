import { inspect } from 'node:util'
import { bech32 } from '@scure/base'
import { startKind, type OpenedKind } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import type { InvoiceTerms } from '../../../src/lightning/codecs/bolt11-encode.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import type { PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import { strike as strikeKind } from '../../../src/lightning/kinds/strike/strike.ts'
import type { NodeFault } from '../../fakes/node-server.ts'
import { startFakeStrike, type FakeStrike } from '../../fakes/strike.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { refundOf } from '../providers/contract/subject.ts'
import { ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'

const CANARY = 'canary-key-77fe21'
const key = new Secret(CANARY)
const address: string = bech32.encode('bcrt', [0, ...bech32.toWords(new Uint8Array(20).fill(5))])

let made = 0

interface Rig {
  readonly clock: ManualClock
  readonly fake: FakeStrike
  readonly strike: OpenedKind
  /** The same account as another process of the gateway sees it. */
  another(): OpenedKind
  lightning(terms?: Partial<InvoiceTerms>): PayoutRequest
  chain(amountSats?: number): PayoutRequest
}

async function rig(t: T): Promise<Rig> {
  const { clock, fake, provider, open } = await startKind(t, strikeKind, ({ clock }) =>
    startFakeStrike({ clock, key: CANARY })
  )
  return {
    clock,
    fake,
    strike: provider,
    another: open,
    lightning: terms => refundOf(clock, 21, 'the amount', terms),
    chain: (amountSats = 50_000) => ({
      reference: `20000000000${++made}`,
      chargeId: 'c',
      destination: { type: 'chain', address },
      amountSats,
      description: 'Broken cup'
    })
  }
}

t.test('over Lightning it is confirmed immediately, with its fee in whole satoshis', async t => {
  const { clock, fake, strike, lightning } = await rig(t)
  const request = lightning()
  const payout = await strike.createPayout(key, request)
  const [payment] = fake.account.payments.values()
  t.same(payout, {
    payoutId: payment?.id,
    status: 'confirmed',
    feeSats: 1,
    transactionHash: null,
    processedAt: clock.now()
  })
  t.same(
    fake.requests.map(({ method, path }) => `${method} ${path}`),
    ['POST /v1/payment-quotes/lightning', `PATCH /v1/payment-quotes/${payment?.quote.id}/execute`]
  )
  t.match(fake.requests[0]?.idempotencyKey, /^[0-9a-f-]{36}$/)
  t.same(await strike.lookUpPayout(key, request, payout.payoutId), payout)
  t.same(await strike.lookUpPayout(key, request, null), payout, 'it is found by our reference too')
})

t.test('a quote above the fee limit is not executed', async t => {
  const { strike, fake, lightning } = await rig(t)
  for (const reference of ['1', '2'])
    await t.rejects(strike.createPayout(key, { ...lightning(), reference, feeLimitSats: 0 }), {
      name: 'ProviderRefused',
      reason: 'request'
    })
  t.equal(fake.account.payments.size, 0)
  t.match(await strike.createPayout(key, { ...lightning(), feeLimitSats: 1 }), { status: 'confirmed', feeSats: 1 })
})

t.test("an invoice without an amount, or of zero, is paid with the refund's", async t => {
  for (const says of ['none', 'zero'] as const) {
    const { clock, fake, strike } = await rig(t)
    await strike.createPayout(key, refundOf(clock, 4_321, says))
    t.match(fake.requests[0]?.body, { amount: { amount: '0.00004321', currency: 'BTC', feePolicy: 'EXCLUSIVE' } })
    t.match([...fake.account.payments.values()], [{ quote: { sats: 4_321 } }], says)
  }
})

t.test('one that takes its time is processing until it is done', async t => {
  const { clock, fake, strike, lightning } = await rig(t)
  fake.account.isSlow = true
  const request = lightning()
  const payout = await strike.createPayout(key, request)
  t.match(payout, { status: 'processing', processedAt: null })
  clock.advance(5_000)
  fake.account.settle(payout.payoutId, 'COMPLETED')
  t.match(await strike.lookUpPayout(key, request, payout.payoutId), { status: 'confirmed', processedAt: clock.now() })
  const other = lightning()
  const failed = await strike.createPayout(key, other)
  fake.account.settle(failed.payoutId, 'FAILED')
  t.match(await strike.lookUpPayout(key, other, failed.payoutId), { status: 'failed', processedAt: clock.now() })
})

t.test(
  'over the chain the cheapest speed of a day at most is taken; the transaction is reported once it is broadcast',
  async t => {
    const { fake, strike, chain } = await rig(t)
    const request = chain()
    const payout = await strike.createPayout(key, request)
    t.match(payout, { status: 'processing', feeSats: 300, transactionHash: null, processedAt: null })
    t.match(fake.requests[1]?.body, {
      btcAddress: address,
      sourceCurrency: 'BTC',
      amount: { amount: '0.00050000', currency: 'BTC', feePolicy: 'EXCLUSIVE' },
      onchainTierId: 'tier_standard',
      description: 'Broken cup'
    })
    fake.account.settle(payout.payoutId, 'COMPLETED')
    t.match(await strike.lookUpPayout(key, request, payout.payoutId), {
      status: 'confirmed',
      transactionHash: 'cd'.repeat(32)
    })
    await strike.createPayout(key, chain(80_000))
    t.match(
      fake.requests.findLast(({ path }) => path === '/v1/payment-quotes/onchain')?.body,
      { onchainTierId: 'tier_free' },
      'the free one from its least amount on'
    )
  }
)

t.test('a payout that Strike refuses was not sent', async t => {
  const { clock, fake, strike, lightning, chain } = await rig(t)
  const paid = lightning()
  await strike.createPayout(key, paid)
  const expired = lightning({ timestamp: Math.floor(clock.now() / 1000) - 7_200, expirySeconds: 3_600 })
  const refusals: ReadonlyArray<[why: string, request: PayoutRequest, members: Record<string, unknown>]> = [
    [
      'an expired invoice',
      expired,
      { reason: 'request', message: 'The payment provider refused to send: The invoice has expired.' }
    ],
    [
      'an invoice that was paid under another reference',
      { ...paid, reference: 'another' },
      { reason: 'request', message: /has been paid/ }
    ],
    [
      'more than the balance',
      { ...chain(), amountSats: 2_000_000_000 },
      { reason: 'request', message: /balance is too low/ }
    ],
    ['what is no invoice', { ...lightning(), destination: { type: 'ln', invoice: 'lnbcrt1x' } }, { reason: 'request' }],
    [
      'what is no address',
      { ...chain(), destination: { type: 'chain', address: 'bcrt1qqqqqqqq' } },
      { reason: 'request' }
    ]
  ]
  for (const [why, request, members] of refusals)
    await t.rejects(strike.createPayout(key, request), { name: 'ProviderRefused', ...members }, why)
  fake.addKey('receiver', ['partner.receive-request.create'], fake.account)
  await t.rejects(strike.createPayout(new Secret('receiver'), lightning()), {
    reason: 'scope',
    scope: 'partner.payment-quote.lightning.create'
  })
  await t.rejects(strike.createPayout(new Secret('receiver'), chain()), {
    reason: 'scope',
    scope: 'partner.payment-quote.onchain.create'
  })
  fake.addKey('quoter', ['partner.payment-quote.lightning.create'], fake.account)
  await t.rejects(strike.createPayout(new Secret('quoter'), lightning()), {
    reason: 'scope',
    scope: 'partner.payment-quote.execute'
  })
  await t.rejects(strike.createPayout(new Secret('gone'), lightning()), { reason: 'key' })
  t.equal(fake.account.payments.size, 1)
})

t.test('a quote over another amount is not executed', async t => {
  const { fake, strike, lightning } = await rig(t)
  fake.rewrite = (on, body) =>
    on.startsWith('POST') ? { ...(body as object), amount: { amount: '0.00000022', currency: 'BTC' } } : body
  await t.rejects(strike.createPayout(key, lightning()), { reason: 'request', message: /another amount/ })
  t.equal(fake.account.payments.size, 0)
})

t.test('a limit at the execution means that nothing was sent', async t => {
  const { fake, strike, lightning } = await rig(t)
  fake.lock('executions', 60_000)
  await t.rejects(strike.createPayout(key, lightning()), { name: 'ProviderUnavailable', fault: 'rate', retryAfter: 60 })
  await t.rejects(strike.createPayout(key, lightning()), { name: 'NothingSent', fault: 'rate' })
  t.equal(fake.account.payments.size, 0)
})

const BEFORE: readonly NodeFault[] = [
  'hang',
  'lost before',
  'html',
  'html as 200',
  'server error',
  'empty',
  'huge',
  'redirect'
]
const AFTER: readonly NodeFault[] = ['hang after', 'lost after', 'html as 200 after', 'server error after']

for (const [kind, quote] of [
  ['lightning', /POST .*lightning$/],
  ['chain', /POST .*onchain$/]
] as const) {
  for (const fault of [...BEFORE, ...AFTER]) {
    t.test(`${kind}: the answer to the quote goes wrong (${fault}): nothing is sent, then or later`, async t => {
      const { fake, strike, another, ...requests } = await rig(t)
      const request = requests[kind]()
      fake.fail(fault, quote)
      const caught: unknown = await strike.createPayout(key, request).catch((error: unknown) => error)
      t.ok(caught instanceof ProviderUnavailable, inspect(caught))
      t.notMatch(inspect(caught, { depth: 20, showHidden: true }), CANARY)
      t.equal(fake.account.payments.size, 0)
      for (const provider of [strike, another()]) await provider.lookUpPayout(key, request, null).catch(() => null)
      t.equal(fake.account.payments.size, 0, 'looking up sends nothing')
    })
  }

  for (const fault of BEFORE) {
    t.test(
      `${kind}: the execution does not arrive (${fault}): uncertain, and not sent by looking it up or asking again`,
      async t => {
        const { fake, strike, another, ...requests } = await rig(t)
        const request = requests[kind]()
        fake.fail(fault, /PATCH/)
        const caught: unknown = await strike.createPayout(key, request).catch((error: unknown) => error)
        t.match(caught, { name: 'PayoutUncertain' })
        t.notMatch(inspect(caught, { depth: 20, showHidden: true }), CANARY)
        for (const provider of [strike, another()]) {
          await t.rejects(
            provider.lookUpPayout(key, request, null),
            { name: 'ProviderUnavailable', retryAfter: 60 },
            'the id of a payment is still unknown'
          )
          await t.rejects(provider.createPayout(key, request), { name: 'PayoutUncertain' })
        }
        t.equal(fake.account.payments.size, 0)
        await strike.createPayout(key, requests.lightning())
        t.equal(
          await strike.lookUpPayout(key, request, null),
          null,
          'once a payment has shown its id, it is certain that this one was not sent'
        )
        t.equal(fake.account.payments.size, 1)
      }
    )
  }

  for (const fault of AFTER) {
    t.test(
      `${kind}: the answer to the execution is lost (${fault}): found by our reference, and sent exactly once`,
      async t => {
        const { fake, strike, another, ...requests } = await rig(t)
        const request = requests[kind]()
        fake.fail(fault, /PATCH/)
        await t.rejects(strike.createPayout(key, request), { name: 'PayoutUncertain' })
        t.equal(fake.account.payments.size, 1)
        const status = kind === 'lightning' ? 'confirmed' : 'processing'
        for (const provider of [strike, another()]) {
          t.match(await provider.lookUpPayout(key, request, null), { status })
          t.match(await provider.createPayout(key, request), { status }, 'asking again answers the first')
        }
        t.equal(fake.account.payments.size, 1)
      }
    )

    t.test(
      `${kind}: the same (${fault}) where payments have ids of their own: never said to be unsent, sent exactly once`,
      async t => {
        const { fake, strike, another, ...requests } = await rig(t)
        fake.account.paymentIds = 'of their own'
        const before = requests.lightning()
        const known = await strike.createPayout(key, before)
        const request = requests[kind]()
        fake.fail(fault, /PATCH/)
        await t.rejects(strike.createPayout(key, request), { name: 'PayoutUncertain' })
        for (const provider of [strike, another()]) {
          await t.rejects(provider.lookUpPayout(key, request, null), { name: 'ProviderUnavailable' })
          await t.rejects(provider.createPayout(key, request), { name: 'PayoutUncertain' })
        }
        t.equal(fake.account.payments.size, 2)
        t.match(
          await another().lookUpPayout(key, before, known.payoutId),
          { status: 'confirmed' },
          'one whose id is known is found'
        )
      }
    )
  }
}

t.test('a payout that never began is unsent, at each look-up, and is not sent afterwards', async t => {
  const { fake, strike, another, lightning } = await rig(t)
  const request = lightning()
  t.equal(await strike.lookUpPayout(key, request, null), null)
  t.equal(await strike.lookUpPayout(key, request, null), null)
  await t.rejects(
    another().createPayout(key, request),
    { name: 'PayoutUncertain' },
    'a process that woke up late must not pay what was given up'
  )
  t.equal(fake.account.payments.size, 0)
})

t.test('an invoice that has expired since says nothing of what was sent', async t => {
  const { clock, fake, strike, another, lightning } = await rig(t)
  const request = lightning({ expirySeconds: 60 })
  fake.fail('lost before', /PATCH/)
  await t.rejects(strike.createPayout(key, request), { name: 'PayoutUncertain' })
  fake.rewrite = (on, body) =>
    on.endsWith('/lightning')
      ? { data: { status: 422, code: 'INVALID_STATE_FOR_INVOICE_EXPIRED', message: 'The invoice has expired.' } }
      : body
  clock.advance(120_000)
  await t.rejects(another().lookUpPayout(key, request, null), { name: 'ProviderUnavailable', message: /does not say/ })
  fake.addKey('receiver', ['partner.receive-request.create'], fake.account)
  await t.rejects(
    another().lookUpPayout(new Secret('receiver'), request, null),
    { reason: 'scope' },
    'a key without the read permission is reported'
  )
})

t.test('concurrent payouts under one reference, in two processes, pay once', async t => {
  const { fake, strike, another, lightning } = await rig(t)
  const request = lightning()
  const other = another()
  await Promise.allSettled(
    Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? strike : other).createPayout(key, request))
  )
  t.equal(fake.account.payments.size, 1)
  t.match(await other.lookUpPayout(key, request, null), { status: 'confirmed' })
})

const answers: ReadonlyArray<[why: string, status: number, code: string, outcome: Record<string, unknown>]> = [
  ['a conflict', 409, 'PROCESSING_CONFLICT', { name: 'PayoutUncertain' }],
  ['a payment in flight', 422, 'PROCESSING_PAYMENT', { name: 'PayoutUncertain' }],
  ['a refusal without a code', 422, '', { name: 'PayoutUncertain' }],
  [
    'no route',
    422,
    'LN_ROUTE_NOT_FOUND',
    { name: 'ProviderRefused', reason: 'request', message: 'The payment provider refused to send: words' }
  ],
  ['a quote that has expired', 422, 'PAYMENT_QUOTE_EXPIRED', { name: 'ProviderRefused' }]
]
for (const [why, status, code, outcome] of answers) {
  t.test(`the execution is answered with ${why}`, async t => {
    const { fake, strike, lightning } = await rig(t)
    fake.refuse(/PATCH/, status, code)
    await t.rejects(strike.createPayout(key, lightning()), outcome)
    t.equal(fake.account.payments.size, 0)
  })
}
