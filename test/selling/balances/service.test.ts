import t from 'tap'
import { Ledger } from '../../../src/selling/balances/ledger.ts'
import { Balances, type BalancesDependencies } from '../../../src/selling/balances/service.ts'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import type { Context } from '../../../src/engine/message/context.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { openAnyDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'

t.test('a balance: is opened only while the token that bought it is valid', async t => {
  const clock = new ManualClock()
  const database = await openAnyDatabase(t)
  const store = new BalanceStore(database)
  const ledger = new Ledger({ store, database, clock, log: silentLog })
  t.teardown(() => ledger.close())
  for (const [paymentHash, expiresIn, status] of [
    ['11'.repeat(32), 0, 402],
    ['22'.repeat(32), -1, 402],
    ['33'.repeat(32), 1, null],
    ['44'.repeat(32), null, 402]
  ] as const) {
    const challenge = {
      paymentHash,
      scheme: 'l402',
      tokenExpiresAt: clock.now() + (expiresIn ?? 1),
      merchantId: null,
      proxyId: null,
      place: 'route:a',
      amountSats: 10
    }
    const parts = {
      store,
      ledger,
      clock,
      log: silentLog,
      quotes: null,
      challenges: { answer: async () => ({ status: 402 }) },
      claims: { find: async () => (expiresIn === null ? null : challenge) },
      offers: { inSatoshis: async () => 10 }
    }
    // No more of its parts and of the context is used here.
    const balances = new Balances(parts as unknown as BalancesDependencies)
    const meter = { unit: 'call', bundle: 10_000, prices: 1, per: 1, usage: 'requests', estimate: { else: 1 } }
    const ctx = {
      offer: { meter, sessions: null },
      payment: { paymentHash, scheme: 'l402' },
      upgrade: null,
      correlationId: 'c'
    }
    const begun = await balances.begin(ctx as unknown as Context) // as above
    t.equal(begun !== null && 'status' in begun ? begun.status : null, status, `ends in ${expiresIn} ms`)
    t.equal(
      (await store.list({ skip: 0, take: 9 })).some(({ id }) => id === paymentHash),
      status === null
    )
  }
})
