import { readResponse } from '../../../src/engine/formats/response-schema.ts'
import { startKind } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { blink } from '../../../src/lightning/kinds/blink/blink.ts'
import { BlinkWallet, readBlinkPayment } from '../../../src/lightning/kinds/blink/responses.ts'
import { Budgets } from '../../../src/lightning/provider-calls/budgets.ts'
import { MemoryState } from '../../../src/platform/state/memory.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { startFakeBlink } from '../../fakes/blink.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { refundOf } from '../providers/contract/subject.ts'

const request = { amountSats: 2_100, description: 'a quote', expirySeconds: 600 }

async function setUp(t: T) {
  const clock = new ManualClock()
  const limits = { ofAddress: {}, ofAccount: { burst: 1_000, perMinute: 1_000 } }
  const budget = new Budgets({ state: new MemoryState(clock), clock, metrics: new Metrics() }).of('blink', '', limits)
  return await startKind(t, blink, startFakeBlink, { clock, budget })
}

t.test('the wallet in bitcoin is looked up once, and receives the money', async t => {
  const { fake, provider, key } = await setUp(t)
  await provider.createCharge(key, request)
  await provider.createCharge(key, request)
  t.equal(fake.requests.filter(({ text }) => text.includes('query Wallets')).length, 1)
  t.match(fake.requests.at(-1)?.body, {
    variables: { input: { amount: 2_100, memo: 'a quote', expiresIn: 10 } }
  })
})

t.test('the time of an invoice is whole minutes, and never what would become four hours', async t => {
  const { provider, key } = await setUp(t)
  for (const [asked, wanted] of [
    [20, 60],
    [61, 120],
    [200_000, 86_400]
  ] as const)
    t.equal(
      decodeInvoice((await provider.createCharge(key, { ...request, expirySeconds: asked })).invoice).expirySeconds,
      wanted
    )
})

t.test('a missing scope is named, by the check and by whatever needs it', async t => {
  const { clock, fake, provider } = await setUp(t)
  for (const [scopes, missing] of [
    [['RECEIVE'], 'READ'],
    [['READ'], 'RECEIVE']
  ] as const) {
    const key = new Secret(fake.key(scopes))
    t.match(await provider.validateKey(key), { isValid: false, message: `The Blink key lacks the scope ${missing}.` })
    await t.rejects(provider.createCharge(key, request), { name: 'ProviderRefused', reason: 'scope', scope: missing })
  }
  const receiving = new Secret(fake.key(['READ', 'RECEIVE']))
  await t.rejects(provider.createPayout(receiving, refundOf(clock, 40)), { scope: 'WRITE' })
})

t.test("errors in Blink's responses are mapped to ours", async t => {
  const { clock, fake, provider, key } = await setUp(t)
  for (const [code, wanted] of [
    ['INVALID_INPUT', { name: 'ProviderRefused', reason: 'request', message: 'Blink refused the request: not so' }],
    ['NOT_AUTHENTICATED', { name: 'ProviderRefused', reason: 'key' }],
    ['LND_OFFLINE', { fault: 'server' }]
  ] as const) {
    fake.refusing = { code, message: 'not\u0000 so' }
    await t.rejects(provider.createCharge(key, request), wanted, code)
  }
  fake.refusing = { code: 'TOO_MANY_REQUEST', message: 'wait' }
  await t.rejects(provider.createCharge(key, request), { fault: 'rate', retryAfter: 300 })
  fake.refusing = null
  const requests = fake.requests.length
  await t.rejects(provider.createCharge(key, request), { fault: 'rate' }, 'no request for five minutes')
  t.equal(fake.requests.length, requests)
  clock.advance(300_000)
  t.ok(await provider.createCharge(key, request))
})

t.test('an insufficient balance is a refusal, and an uncertain payout is not', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  fake.refusing = { code: 'INSUFFICIENT_BALANCE', message: 'balance is too low' }
  await t.rejects(provider.createPayout(key, refundOf(clock, 40)), {
    name: 'ProviderRefused',
    message: 'Blink did not pay: balance is too low'
  })
  fake.refusing = { code: 'LIGHTNING_PAYMENT_ERROR', message: 'something' }
  await t.rejects(provider.createPayout(key, refundOf(clock, 40)), { name: 'PayoutUncertain' })
})

t.test('of several attempts the best one counts', async t => {
  const status = (...statuses: string[]) => {
    const wallet = readResponse(BlinkWallet, {
      transactionsByPaymentHash: [
        { direction: 'RECEIVE', status: 'SUCCESS', createdAt: 5 },
        ...statuses.map(status => ({ direction: 'SEND', status, createdAt: 7, settlementFee: -3 }))
      ]
    })
    return wallet === null ? wallet : readBlinkPayment(wallet, 'ab'.repeat(32))?.payout
  }
  t.match(status('FAILURE', 'SUCCESS', 'PENDING'), { status: 'confirmed', feeSats: 3, processedAt: 7_000 })
  t.match(status('FAILURE', 'PENDING'), { status: 'processing', processedAt: null })
  t.match(status('FAILURE'), { status: 'failed', feeSats: 0 })
  t.equal(status(), undefined, 'an incoming payment is no payout')
})

t.test('it is called back at an address with a token, since its signature cannot be checked', async t => {
  const { fake, provider, key } = await setUp(t)
  const secret = new Secret('webhook-secret-1')
  await provider.subscribe(key, 'https://us.example.com/api/webhooks/primary?account=7', secret)
  const called = new URL(fake.endpoints[0] ?? '')
  t.equal(called.searchParams.get('account'), '7')
  const token = called.searchParams.get('token')
  t.match(token, /^[\w-]{22}$/)
  const read = (body: Buffer, given: string | null) => provider.readNotification(new HeaderList([]), body, given)
  const hash = 'ab'.repeat(32)
  t.equal(read(fake.notification(hash), token)?.chargeId, hash)
  t.ok(read(fake.notification(hash, 'receive.intraledger'), token)?.verify(secret))
  t.notOk(read(fake.notification(hash), token)?.verify(new Secret('another-secret-2')))
  t.notOk(read(fake.notification(hash), null)?.verify(secret))
  t.equal(read(fake.notification(hash, 'send.lightning'), token), null)
  t.throws(() => read(fake.notification('../x'), token), { status: 400 })
})

t.test('a list of more than one call resumes where it ended, and stops at older items', async t => {
  const { clock, fake, provider, key } = await setUp(t)
  const since = clock.now()
  for (let count = 0; count < 505; count++) {
    const { paymentHash } = fake.wallet.addInvoice({ amountSats: 1, description: '', expirySeconds: 600 })
    fake.wallet.settle(paymentHash)
  }
  const first = await provider.listSettled(key, { since, oldest: since, position: null })
  t.match(first, { reach: 'more', charges: { length: 500 } })
  const second = await provider.listSettled(key, { since, oldest: since, position: first.position })
  t.match(second, { reach: 'whole', asOf: first.asOf, charges: { length: 5 } })
  const requests = fake.requests.length
  t.match(await provider.listSettled(key, { since: since + 5_000, oldest: since, position: null }), { reach: 'whole' })
  t.equal(fake.requests.length, requests + 1)
})
