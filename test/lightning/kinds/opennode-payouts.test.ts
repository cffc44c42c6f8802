import { readResponse } from '../../../src/engine/formats/response-schema.ts'
import { startKind } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { PayoutUncertain, ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import { opennode } from '../../../src/lightning/kinds/opennode/opennode.ts'
import { OpenNodeWithdrawal } from '../../../src/lightning/kinds/opennode/responses.ts'
import type { PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import type { NodeFault } from '../../fakes/node-server.ts'
import { startFakeOpenNode } from '../../fakes/opennode.ts'
import { refundOf } from '../providers/contract/subject.ts'

const KEY = 'opennode-test-key'
const key = new Secret(KEY)
const ADDRESS = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'
const BALANCE = 100_000

async function setUp(t: T) {
  const { clock, fake, provider, open } = await startKind(t, opennode, startFakeOpenNode)
  fake.account.balance = BALANCE
  const lightning = (reference: string): PayoutRequest => ({ ...refundOf(clock, 700), reference })
  const chain = (reference: string): PayoutRequest => ({
    reference,
    chargeId: 'a charge',
    destination: { type: 'chain', address: ADDRESS },
    amountSats: 5_000,
    description: 'out of stock'
  })
  return { clock, fake, provider, open, lightning, chain }
}

void t.test('a refund over Lightning: accepted, in flight, confirmed with its fee', async t => {
  const { clock, fake, provider, lightning } = await setUp(t)
  const request = lightning('100000000000001')
  const payout = await provider.createPayout(key, request)
  t.same(payout, { payoutId: payout.payoutId, status: 'pending', feeSats: 0, transactionHash: null, processedAt: null })
  t.same(fake.requests, [
    {
      method: 'POST',
      path: '/v2/withdrawals',
      authorization: KEY,
      body: {
        type: 'ln',
        address: request.destination.type === 'ln' && request.destination.invoice,
        custom_id: request.reference
      }
    }
  ])
  fake.account.moveWithdrawal(payout.payoutId, 'processing')
  t.match(await provider.lookUpPayout(key, request, payout.payoutId), { status: 'processing', processedAt: null })
  clock.advance(3_000)
  fake.account.moveWithdrawal(payout.payoutId, 'confirmed')
  t.same(await provider.lookUpPayout(key, request, payout.payoutId), {
    payoutId: payout.payoutId,
    status: 'confirmed',
    feeSats: 3,
    transactionHash: null,
    processedAt: clock.now()
  })
  t.equal(fake.requests.at(-1)?.path, `/v1/withdrawal/${payout.payoutId}`)
})

void t.test('an invoice without an amount, or of zero, is given one, and only those', async t => {
  const { clock, fake, provider, lightning } = await setUp(t)
  for (const says of ['none', 'zero'] as const) {
    await provider.createPayout(key, refundOf(clock, 700, says))
    t.match(fake.requests.at(-1)?.body, { amount: 700 }, says)
  }
  await provider.createPayout(key, lightning('100000000000002'))
  t.notMatch(JSON.stringify(fake.requests.at(-1)?.body), 'amount')
})

void t.test('a refund on chain of a charge that was paid over Lightning is a withdrawal (decision 63)', async t => {
  const { clock, fake, provider, chain } = await setUp(t)
  const request = chain('100000000000001')
  const { payoutId } = await provider.createPayout(key, request)
  t.same(
    fake.requests.map(({ path, body }) => [path, body]),
    [['/v2/withdrawals', { type: 'chain', amount: 5_000, address: ADDRESS, custom_id: request.reference }]]
  )
  fake.account.moveWithdrawal(payoutId, 'confirmed')
  const transactionHash = fake.account.withdrawal(payoutId).tx
  t.match(transactionHash, /^[0-9a-f]{64}$/)
  t.same(await provider.lookUpPayout(key, request, payoutId), {
    payoutId,
    status: 'confirmed',
    feeSats: 3,
    transactionHash,
    processedAt: clock.now()
  })
})

void t.test('a refusal means that nothing was sent', async t => {
  const { clock, fake, provider, lightning, chain, open } = await setUp(t)
  fake.addKey('receive-only', ['Read', 'Invoices'], fake.account)
  await t.rejects(provider.createPayout(new Secret('receive-only'), chain('1')), {
    reason: 'scope',
    scope: 'Withdrawals'
  })
  await t.rejects(provider.createPayout(new Secret('unknown-key'), chain('1')), { reason: 'key' })
  await t.rejects(provider.createPayout(key, { ...chain('1'), amountSats: BALANCE + 1 }), {
    reason: 'request',
    message: /Insufficient balance/
  })
  await t.rejects(
    provider.createPayout(key, { ...chain('1'), destination: { type: 'chain', address: `${ADDRESS.slice(0, -1)}q` } }),
    { message: /Invalid bitcoin address/ }
  )
  const late = lightning('1')
  clock.advance(86_400_000)
  await t.rejects(provider.createPayout(key, late), { message: /expired/ })
  fake.fail('rate limit')
  await t.rejects(provider.createPayout(key, chain('1')), { fault: 'rate', retryAfter: 7 })
  await t.rejects(
    provider.createPayout(key, chain('1')),
    { name: 'NothingSent', fault: 'rate', retryAfter: 7 },
    'the key waits for its Retry-After'
  )
  clock.advance(7_000)
  fake.fail('html as 403')
  await t.rejects(
    provider.createPayout(key, chain('1')),
    PayoutUncertain,
    'a page of something in between proves nothing'
  )
  t.equal(fake.account.withdrawals.size, 0)
  const gone = await startFakeOpenNode()
  await gone.close()
  const alone = open({ url: gone.url })
  await t.rejects(
    alone.createPayout(key, chain('1')),
    { name: 'NothingSent', fault: 'network' },
    'no connection was made'
  )
})

const LOST: readonly NodeFault[] = [
  'lost after',
  'hang after',
  'server error after',
  'html as 200 after',
  'empty after'
]

for (const fault of LOST) {
  void t.test(
    `an answer that is lost (${fault}) is uncertain, found again by our reference, and never sent twice`,
    async t => {
      const { fake, provider, lightning, chain } = await setUp(t)
      for (const request of [lightning('100000000000001'), chain('100000000000002')]) {
        const before = fake.account.withdrawals.size
        fake.fail(fault, /^POST/)
        await t.rejects(provider.createPayout(key, request), { name: 'PayoutUncertain' })
        t.equal(fake.account.withdrawals.size, before + 1, 'it was taken once')
        const { payoutId = '' } = (await provider.lookUpPayout(key, request, null)) ?? {}
        t.equal(fake.account.withdrawal(payoutId).customId, request.reference)
        fake.account.moveWithdrawal(payoutId, 'confirmed')
        t.match(await provider.lookUpPayout(key, request, null), { payoutId, status: 'confirmed' })
      }
      t.equal(fake.requests.filter(({ method }) => method === 'POST').length, 2)
    }
  )
}

void t.test(
  'a payout that was lost before it was accepted stays uncertain: nothing shows that it was never sent',
  async t => {
    const { fake, provider, lightning, chain } = await setUp(t)
    for (const fault of ['lost before', 'hang', 'html', 'server error'] as const) {
      for (const request of [lightning('100000000000001'), chain('100000000000002')]) {
        fake.fail(fault)
        await t.rejects(provider.createPayout(key, request), PayoutUncertain)
        await t.rejects(provider.lookUpPayout(key, request, null), { fault: 'other', message: /stays pending/ })
      }
    }
    t.equal(fake.account.withdrawals.size, 0)
  }
)

void t.test('where the list does not show our reference, only the same invoice counts', async t => {
  const { fake, provider, lightning, chain } = await setUp(t)
  fake.account.listsCustomId = false
  const ln = lightning('100000000000001')
  fake.fail('lost after')
  await t.rejects(provider.createPayout(key, ln), PayoutUncertain)
  const [held] = fake.account.withdrawals.values()
  t.match(await provider.lookUpPayout(key, ln, null), { payoutId: held?.id, status: 'pending' })

  const onChain = chain('100000000000002')
  await provider.createPayout(key, onChain)
  fake.fail('lost after')
  await t.rejects(provider.createPayout(key, { ...onChain, reference: '100000000000003' }), PayoutUncertain)
  await t.rejects(
    provider.lookUpPayout(key, { ...onChain, reference: '100000000000003' }, null),
    ProviderUnavailable,
    "address and amount may be another refund's"
  )
})

void t.test('an earlier failed payout to the same invoice proves nothing about the next', async t => {
  const { fake, provider, lightning } = await setUp(t)
  const first = lightning('100000000000001')
  const { payoutId } = await provider.createPayout(key, first)
  fake.account.moveWithdrawal(payoutId, 'failed')
  const second = { ...first, reference: '100000000000002' }
  for (const listed of [true, false]) {
    fake.account.listsCustomId = listed
    await t.rejects(provider.lookUpPayout(key, second, null), ProviderUnavailable)
  }
  const again = await provider.createPayout(key, second)
  for (const listed of [true, false]) {
    fake.account.listsCustomId = listed
    t.equal((await provider.lookUpPayout(key, second, null))?.payoutId, again.payoutId)
  }
})

void t.test("a payout to the same invoice under another reference is another refund's", async t => {
  const { provider, lightning } = await setUp(t)
  const first = lightning('100000000000001')
  await provider.createPayout(key, first)
  await t.rejects(provider.lookUpPayout(key, { ...first, reference: '100000000000002' }, null), ProviderUnavailable)
})

void t.test('a look-up throws while the provider is down, and never returns null', async t => {
  const { clock, fake, provider, lightning } = await setUp(t)
  const request = lightning('100000000000001')
  const { payoutId } = await provider.createPayout(key, request)
  for (const fault of ['hang', 'html', 'html as 200', 'server error', 'rate limit'] as const) {
    for (const id of [payoutId, null]) {
      fake.fail(fault)
      await t.rejects(provider.lookUpPayout(key, request, id), ProviderUnavailable, fault)
      // After a 429 the key rests for as long as it says.
      clock.advance(10_000)
    }
  }
  await t.rejects(
    provider.lookUpPayout(key, request, 'unknown'),
    ProviderUnavailable,
    'an id that is not found any more'
  )
  fake.revokeKey(KEY)
  for (const id of [payoutId, null]) await t.rejects(provider.lookUpPayout(key, request, id), { reason: 'key' })
})

void t.test('every status of a withdrawal is read; an undocumented one is in flight', async t => {
  const read = (fields: object) => readResponse(OpenNodeWithdrawal, { id: 'w', ...fields })?.payout
  const expected = {
    pending: 'pending',
    unpaid: 'pending',
    processing: 'processing',
    confirmed: 'confirmed',
    paid: 'confirmed',
    failed: 'failed',
    error: 'failed',
    'brand new': 'processing'
  }
  for (const [status, meaning] of Object.entries(expected)) t.equal(read({ status })?.status, meaning)
  t.equal(read({})?.status, 'processing')
  t.match(read({ status: 'confirmed', fee: '12', processed_at: '1763683200', reference: null, tx: 'AB'.repeat(32) }), {
    feeSats: 12,
    processedAt: 1_763_683_200_000,
    transactionHash: 'ab'.repeat(32)
  })
  t.match(read({ status: 'pending', fee: -1, processed_at: 1_763_683_200, reference: 'pending' }), {
    feeSats: 0,
    processedAt: null,
    transactionHash: null
  })
  for (const nothing of [null, 'text', {}, []]) t.equal(readResponse(OpenNodeWithdrawal, nothing), null)
})
