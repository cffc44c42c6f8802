import { startKind } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { refundOf } from '../providers/contract/subject.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { PayoutUncertain, ProviderRefused, ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import { lnd as lndKind } from '../../../src/lightning/kinds/lnd/lnd.ts'
import type { PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import { startFakeLnd, type Permission } from '../../fakes/lnd.ts'

const address = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'

async function setUp(t: T) {
  const { clock, fake: node, provider: lnd, key } = await startKind(t, lndKind, startFakeLnd)
  const overLightning = () => refundOf(clock, 40, 'the amount', { expirySeconds: 600 })
  const overChain: PayoutRequest = {
    ...overLightning(),
    reference: '1001',
    amountSats: 5000,
    destination: { type: 'chain', address }
  }
  const sent = (path: string): readonly unknown[] =>
    node.requests.filter(request => request.method === 'POST' && request.path === path).map(({ body }) => body)
  return { clock, node, lnd, key, overLightning, overChain, sent }
}

const lacks = (scope: Permission) => ({ name: 'ProviderRefused', reason: 'scope', scope })

t.test('a refund over Lightning pays its invoice, with a limit on time and fee', async t => {
  const { clock, node, lnd, key, overLightning, sent } = await setUp(t)
  const request = overLightning()
  const payout = await lnd.createPayout(key, request)
  t.same(payout, {
    payoutId: [...node.wallet.payments.keys()][0],
    status: 'confirmed',
    feeSats: 2,
    transactionHash: null,
    processedAt: clock.now()
  })
  t.match(sent('/v2/router/send'), [
    { timeout_seconds: 8, fee_limit_sat: '10', no_inflight_updates: true, amt: undefined }
  ])
  t.same(await lnd.lookUpPayout(key, request), payout)
  await lnd.createPayout(key, refundOf(clock, 100_000))
  t.match(sent('/v2/router/send')[1], { fee_limit_sat: '5000' })
  t.equal(node.wallet.payments.size, 2)
  const limited = overLightning()
  await t.rejects(lnd.createPayout(key, { ...limited, feeLimitSats: 0 }), { name: 'ProviderRefused' })
  t.match(sent('/v2/router/send')[2], { fee_limit_sat: '0' })
  t.match(await lnd.createPayout(key, { ...limited, feeLimitSats: 3 }), { status: 'confirmed' })
  t.match(sent('/v2/router/send')[3], { fee_limit_sat: '3' })
})

t.test('a payment that lnd gives up is refused with its reason, and can be tried again', async t => {
  const { clock, node, lnd, key, overLightning } = await setUp(t)
  const request = overLightning()
  node.wallet.outcome = 'FAILURE_REASON_NO_ROUTE'
  await t.rejects(lnd.createPayout(key, request), { name: 'ProviderRefused', reason: 'request', message: /no route/ })
  const failedAt = clock.now()
  clock.advance(1_000)
  t.match(
    await lnd.lookUpPayout(key, request),
    { status: 'failed', feeSats: 0, processedAt: failedAt },
    'without an attempt by a route it says only when it began'
  )
  node.wallet.outcome = 'FAILURE_REASON_INSUFFICIENT_BALANCE'
  await t.rejects(lnd.createPayout(key, request), { message: /too little/ })
  node.wallet.outcome = 'SUCCEEDED'
  t.match(await lnd.createPayout(key, request), { status: 'confirmed' })
})

t.test("a payment that lnd refuses to begin was not sent, and lnd's reason is passed on", async t => {
  const { clock, lnd, key, overLightning } = await setUp(t)
  const request = overLightning()
  clock.advance(600_000)
  await t.rejects(lnd.createPayout(key, request), {
    name: 'ProviderRefused',
    reason: 'request',
    message: /invoice expired/
  })
  t.equal(await lnd.lookUpPayout(key, request), null)
})

for (const [fault, isSent] of [
  ['lost after', true],
  ['hang after', true],
  ['lost before', false],
  ['html', false]
] as const) {
  t.test(`a lost answer over the chain is uncertain and found out by its label: ${fault}`, async t => {
    const { clock, node, lnd, key, overChain } = await setUp(t)
    node.fail(fault, /POST \/v1\/transactions$/)
    await t.rejects(lnd.createPayout(key, overChain), PayoutUncertain)
    const found = await lnd.lookUpPayout(key, overChain)
    if (!isSent) {
      t.equal(found, null)
      return
    }
    const [transaction] = node.wallet.transactions
    t.match(found, {
      payoutId: transaction?.hash,
      transactionHash: transaction?.hash,
      status: 'confirmed',
      feeSats: 200
    })
    for (let at = 0; at < 250; at++) node.wallet.sendCoins(address, 1, '')
    t.match(await lnd.lookUpPayout(key, overChain), { payoutId: transaction?.hash })
    node.wallet.mine()
    clock.advance(3_600_000)
    for (let at = 0; at < 250; at++) node.wallet.sendCoins(address, 1, '')
    node.wallet.mine()
    t.match(
      await lnd.lookUpPayout(key, overChain),
      { payoutId: transaction?.hash },
      'also with hundreds of blocks and pages above it'
    )
    t.match(await lnd.createPayout(key, { ...overChain, reference: '1002' }), { status: 'confirmed' })
  })
}

t.test('a refund over the chain is sent once, our reference its label, and has hash and fee immediately', async t => {
  const { clock, node, lnd, key, overChain, sent } = await setUp(t)
  const payout = await lnd.createPayout(key, overChain)
  const [transaction] = node.wallet.transactions
  t.same(payout, {
    payoutId: transaction?.hash,
    status: 'confirmed',
    feeSats: 200,
    transactionHash: transaction?.hash,
    processedAt: clock.now()
  })
  t.same(sent('/v1/transactions'), [{ addr: address, amount: '5000', target_conf: 6, label: 'boltgate:1001' }])
  t.same(await lnd.createPayout(key, overChain), payout, 'the same reference is found, not sent again')
  t.equal(node.wallet.transactions.length, 1)
})

t.test('too little money on chain is a refusal, with nothing sent', async t => {
  const { node, lnd, key, overChain } = await setUp(t)
  node.wallet.funds = 100
  await t.rejects(lnd.createPayout(key, overChain), {
    name: 'ProviderRefused',
    reason: 'request',
    message: /insufficient funds/
  })
  t.same(node.wallet.transactions, [])
  t.equal(await lnd.lookUpPayout(key, overChain), null)
})

t.test('a transaction that was sent is reported even when its fee cannot be read', async t => {
  const { node, lnd, key, overChain } = await setUp(t)
  const sendCoins = node.wallet.sendCoins.bind(node.wallet)
  node.wallet.sendCoins = (...sent) => {
    node.fail('html', /GET \/v1\/transactions$/)
    return sendCoins(...sent)
  }
  const payout = await lnd.createPayout(key, overChain)
  t.match(payout, { status: 'confirmed', feeSats: 0, transactionHash: node.wallet.transactions[0]?.hash })
  t.match(await lnd.lookUpPayout(key, overChain), { feeSats: 200 }, 'a later look-up finds the fee')
})

t.test('a missing permission is named before anything is sent', async t => {
  const { node, lnd, overLightning, overChain } = await setUp(t)
  const holding = (...permissions: Permission[]): Secret<string> => new Secret(node.key(permissions))
  await t.rejects(
    lnd.createPayout(holding('offchain:write'), overLightning()),
    lacks('offchain:read'),
    'one that could not look up must not send'
  )
  await t.rejects(lnd.createPayout(holding('offchain:read'), overLightning()), lacks('offchain:write'))
  await t.rejects(lnd.createPayout(holding('onchain:write'), overChain), lacks('onchain:read'))
  await t.rejects(lnd.createPayout(holding('onchain:read'), overChain), lacks('onchain:write'))
  t.equal(node.wallet.payments.size + node.wallet.transactions.length, 0)
})

t.test('a node that goes down during a payout may have sent', async t => {
  const { node, lnd, key, overLightning, overChain } = await setUp(t)
  for (const [request, path] of [
    [overLightning(), /send$/],
    [overChain, /POST \/v1\/transactions$/]
  ] as const) {
    node.fail('going down', path)
    await t.rejects(lnd.createPayout(key, request), PayoutUncertain, 'nothing is found yet')
    t.equal(await lnd.lookUpPayout(key, request), null)
    node.fail('going down after', path)
    t.match(await lnd.createPayout(key, request), { status: 'confirmed' }, 'it is found')
    t.match(await lnd.createPayout(key, request), { status: 'confirmed' })
  }
  t.equal(node.wallet.payments.size, 1)
  t.equal(node.wallet.transactions.length, 1)
})

t.test('a locked node has sent nothing', async t => {
  const { node, lnd, key, overLightning, overChain } = await setUp(t)
  for (const [request, path] of [
    [overLightning(), /send$/],
    [overChain, /POST \/v1\/transactions$/]
  ] as const) {
    node.fail('locked', path)
    const error: unknown = await lnd.createPayout(key, request).catch((fault: unknown) => fault)
    t.ok(error instanceof ProviderUnavailable && !(error instanceof PayoutUncertain))
  }
})

t.test('a look-up that fails is no "unknown"', async t => {
  const { node, lnd, key, overLightning, overChain } = await setUp(t)
  for (const fault of ['html', 'html as 404', 'server error', 'lost before', 'hang'] as const) {
    for (const request of [overLightning(), overChain]) {
      node.fail(fault)
      // A read that breaks off is tried once more.
      if (fault === 'lost before') node.fail(fault)
      const error: unknown = await lnd.lookUpPayout(key, request).catch((thrown: unknown) => thrown)
      t.ok(
        error instanceof ProviderUnavailable || error instanceof ProviderRefused,
        `${fault} ${request.destination.type}`
      )
    }
  }
})
