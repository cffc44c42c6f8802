import t from 'tap'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import { agreedNetwork } from '../../../src/lightning/provider-calls/lightning-charge.ts'
import { openSeats } from '../../../src/lightning/providers/seats.ts'
import { openTestDatabase } from '../../support/database.ts'
import { loadText } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'

t.test('nodes call their networks by several names, and one that is not known is what its invoices say', async t => {
  for (const [named, made] of [
    ['bitcoin', 'mainnet'],
    ['mainnet', 'mainnet'],
    ['testnet3', 'testnet'],
    ['testnet4', 'testnet'],
    ['signet', 'signet'],
    ['regtest', 'regtest'],
    ['a new one', 'mainnet'],
    [null, 'signet']
  ] as const)
    t.equal(agreedNetwork(named, made), made)
  t.throws(() => agreedNetwork('bitcoin', 'testnet'), {
    reason: 'key',
    message: /on mainnet, and makes invoices of testnet/
  })
})

t.test('in production the network is mainnet unless the file says another, in development any', async t => {
  const database = await openTestDatabase(t, {})
  const networksOf = async (mode: 'development' | 'production', setting: string) => {
    const { config } = await loadText(
      `lightning:\n  primary: { kind: strike, key: a-key }\n  alternate: { kind: opennode, key: a-key }\n${setting}`,
      {}
    )
    const { seats, close } = openSeats({
      kinds: providerKinds,
      mode,
      lightning: config.lightning,
      dataDir: '/nowhere',
      database,
      clock: new ManualClock()
    })
    await close()
    return [...seats.primary, ...seats.alternate].map(({ network }) => network)
  }
  t.same(await networksOf('production', ''), ['mainnet', 'mainnet'])
  t.same(await networksOf('production', '  network: signet\n'), ['signet', 'signet'])
  t.same(await networksOf('development', ''), [null, null])
  t.same(await networksOf('development', '  network: mainnet\n'), ['mainnet', 'mainnet'])
})
