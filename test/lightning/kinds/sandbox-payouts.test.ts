import { bech32 } from '@scure/base'
import t, { type Test as T } from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import type { PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import { SandboxProvider } from '../../../src/lightning/kinds/sandbox/sandbox.ts'
import { SandboxStore } from '../../../src/lightning/kinds/sandbox/store.ts'
import { eachDatabase, openTestDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { newInvoice } from '../../support/invoices.ts'

const nodeKey = Buffer.alloc(32, 9)
const regtestAddress: string = bech32.encode('bcrt', [0, ...bech32.toWords(new Uint8Array(20).fill(5))])

/** An invoice of another node. */
function foreignInvoice(clock: ManualClock, terms: Parameters<typeof newInvoice>[0] = {}) {
  return newInvoice({ at: clock.now(), amountSats: 21, ...terms }).invoice
}

function payoutOf(reference: string, invoice: string, amountSats = 21): PayoutRequest {
  return { reference, chargeId: 'sbx_1', destination: { type: 'ln', invoice }, amountSats, description: null }
}

function chainPayout(reference: string, address = regtestAddress, amountSats = 1000): PayoutRequest {
  return { reference, chargeId: 'sbx_1', destination: { type: 'chain', address }, amountSats, description: null }
}

void eachDatabase(t, 'payouts of the sandbox', async (t: T, database) => {
  const clock = new ManualClock()
  const settled: string[] = []
  const sandbox = new SandboxProvider({
    store: new SandboxStore(database.sql),
    nodeKey,
    clock,
    settled: hash => {
      settled.push(hash)
    }
  })

  await t.test('it can pay out over Lightning and over the chain', async t => {
    t.same(sandbox.capabilities.payout, { lightning: true, chain: true, once: true })
  })

  await t.test('over Lightning it is confirmed immediately, with a small fee and no transaction', async t => {
    const payout = await sandbox.createPayout(null, payoutOf('1', foreignInvoice(clock)))
    t.match(payout, {
      payoutId: /^sbx_[0-9a-f-]{36}$/,
      status: 'confirmed',
      feeSats: 1,
      transactionHash: null,
      processedAt: clock.now()
    })
    t.same(await sandbox.lookUpPayout(null, { reference: '1' }), payout)
    t.same(settled, [], 'nothing of its own was settled')
  })

  await t.test(
    'over the chain it is processing for five seconds, then confirmed with a transaction of 64 hex characters',
    async t => {
      const begun = clock.now()
      const payout = await sandbox.createPayout(null, chainPayout('2'))
      t.match(payout, { status: 'processing', feeSats: 0, transactionHash: null, processedAt: null })
      clock.advance(4999)
      t.same(await sandbox.lookUpPayout(null, { reference: '2' }), payout)
      clock.advance(1)
      const later = await sandbox.lookUpPayout(null, { reference: '2' })
      t.match(later, {
        payoutId: payout.payoutId,
        status: 'confirmed',
        feeSats: 150,
        transactionHash: /^[0-9a-f]{64}$/,
        processedAt: begun + 5000
      })
    }
  )

  await t.test('the same reference pays once, concurrently too, and also after its invoice expired', async t => {
    const charge = await sandbox.createCharge(null, { amountSats: 21, description: '', expirySeconds: 600 })
    const all = await Promise.all(
      Array.from({ length: 20 }, () => sandbox.createPayout(null, payoutOf('3', charge.invoice)))
    )
    t.equal(new Set(all.map(payout => payout.payoutId)).size, 1)
    t.same(settled, [charge.paymentHash], 'its own invoice is settled, and reported once')
    clock.advance(3_600_000)
    t.same(await sandbox.createPayout(null, payoutOf('3', charge.invoice)), all[0])
    t.match(await sandbox.lookUp(null, charge.chargeId), { status: /^paid$/, receivedSats: 21 })
  })

  await t.test('an invoice is paid once: another reference is refused, and one that a payer has paid', async t => {
    const invoice = foreignInvoice(clock)
    const tried = await Promise.allSettled(
      Array.from({ length: 10 }, (_, index) => sandbox.createPayout(null, payoutOf(`4-${index}`, invoice)))
    )
    t.equal(tried.filter(one => one.status === 'fulfilled').length, 1)
    for (const one of tried)
      if (one.status === 'rejected') t.match(one.reason, { reason: 'request', message: /paid before/ })
    const charge = await sandbox.createCharge(null, { amountSats: 21, description: '', expirySeconds: 600 })
    await sandbox.settle(charge.invoice)
    await t.rejects(sandbox.createPayout(null, payoutOf('5', charge.invoice)), { reason: 'request' })
    t.equal(await sandbox.lookUpPayout(null, { reference: '5' }), null, 'nothing is remembered of what was refused')
  })

  const refused: ReadonlyArray<[why: string, request: PayoutRequest, message: RegExp]> = [
    [
      'an expired invoice',
      payoutOf('6', foreignInvoice(clock, { timestamp: Math.floor(clock.now() / 1000) - 600 })),
      /expired/
    ],
    [
      'an invoice of another network',
      payoutOf('6', foreignInvoice(clock, { network: 'mainnet' })),
      /regtest only, not of mainnet/
    ],
    ['an invoice that asks for another amount', payoutOf('6', foreignInvoice(clock), 22), /another amount/],
    ['what is no invoice', payoutOf('6', 'lnbcrt1'), /./],
    [
      'an address of another network',
      chainPayout('6', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4'),
      /regtest only, not of mainnet/
    ],
    ['what is no address', chainPayout('6', 'bcrt1qqqqqq'), /./],
    ['nothing', chainPayout('6', regtestAddress, 0), /at least 1/],
    ['a fraction', chainPayout('6', regtestAddress, 1.5), /at least 1/]
  ]
  for (const [why, request, message] of refused) {
    await t.test(`${why} is not paid`, async t => {
      await t.rejects(sandbox.createPayout(null, request), { status: 502, reason: 'request', message })
      t.equal(await sandbox.lookUpPayout(null, { reference: '6' }), null)
    })
  }

  await t.test(
    'keys: sandbox-no-payout lacks the scope, sandbox-no-create can still pay out, a bad key cannot',
    async t => {
      await t.rejects(sandbox.createPayout(new Secret('sandbox-no-payout'), chainPayout('7')), {
        status: 502,
        reason: 'scope',
        scope: 'partner.payment-quote.execute',
        message: /partner\.payment-quote\.execute/
      })
      await t.rejects(sandbox.createPayout(new Secret('sandbox-invalid'), chainPayout('7')), { reason: 'key' })
      await t.rejects(sandbox.createPayout(new Secret('short'), chainPayout('7')), { reason: 'key' })
      t.match(
        await sandbox.validateKey(new Secret('sandbox-no-payout')),
        { isValid: true },
        'validation checks receiving only'
      )
      t.match(
        await sandbox.createCharge(new Secret('sandbox-no-payout'), {
          amountSats: 1,
          description: '',
          expirySeconds: 60
        }),
        { network: 'regtest' }
      )
      t.match(await sandbox.createPayout(new Secret('sandbox-no-create'), chainPayout('7')), { status: 'processing' })
    }
  )

  t.equal(await sandbox.lookUpPayout(null, { reference: 'unknown' }), null)
})

t.test(
  'a database that is down before the payout is unavailable, one that fails while it is written is uncertain',
  async t => {
    const database = await openTestDatabase(t)
    const clock = new ManualClock()
    class Lost extends SandboxStore {
      override async payOut(...paid: Parameters<SandboxStore['payOut']>): Promise<never> {
        await super.payOut(...paid)
        throw Object.assign(new Error('gone'), { code: 'CONNECTION_CLOSED' })
      }
    }
    const flaky = new SandboxProvider({ store: new Lost(database.sql), nodeKey, clock })
    await t.rejects(flaky.createPayout(null, chainPayout('1')), { name: 'PayoutUncertain' })
    t.match(await flaky.lookUpPayout(null, { reference: '1' }), { status: 'processing' }, 'it was paid, and is found')
    await database.close()
    const sandbox = new SandboxProvider({ store: new SandboxStore(database.sql), nodeKey, clock })
    await t.rejects(sandbox.createPayout(null, chainPayout('2')), { status: 503 })
    await t.rejects(sandbox.lookUpPayout(null, { reference: '2' }), { status: 503 })
  }
)
