import { testMerchants } from '../../support/merchants.ts'
import { setImmediate } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { merchantsChannel } from '../../../src/accounts/merchants/store.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { Tallies } from '../../../src/platform/telemetry/tallies.ts'
import { ProxyDirectory, type ListedProxy } from '../../../src/payments/proxies/directory.ts'
import { PROXY_CHANNEL, ProxyStore, type ProxyRow } from '../../../src/payments/proxies/store.ts'
import { aMerchant } from '../../accounts/merchants/a-merchant.ts'
import { eachDatabase } from '../../support/database.ts'
import { eventually } from '../../support/gateway-process.ts'
import { ManualClock } from '../../support/manual-clock.ts'

function aRow(proxyId: string, merchantId: number, members: Partial<ProxyRow> = {}): ProxyRow {
  return {
    proxyId,
    merchantId,
    name: 'a',
    description: null,
    targetBaseUrl: 'https://api.example.com',
    defaultPriceSats: 1,
    defaultPrice: null,
    endpoints: [],
    tokenValiditySeconds: 3600,
    timeout: 30,
    renewal: 'default',
    priceGrace: 0,
    formerPrices: [],
    allowedMethods: [],
    allowedPaths: [],
    blockedPaths: [],
    authHeader: null,
    authValue: null,
    isActive: true,
    isListed: false,
    examples: [],
    createdAt: 0,
    updatedAt: 0,
    ...members
  }
}

t.test(
  "another node's changes of a merchant apply to its proxies immediately, without waiting for the next reading",
  async t => {
    await eachDatabase(t, 'by notification', async (t, database) => {
      const merchants = testMerchants(database, systemClock)
      const store = new ProxyStore(database)
      const { merchant } = await merchants.create({ name: 'a', email: 'a@example.com' })
      const { merchant: other } = await merchants.create({ name: 'b', email: 'b@example.com' })
      for (const [id, owner] of [
        ['a-000001', merchant],
        ['a-000002', merchant],
        ['b-000001', other]
      ] as const)
        await store.insert(aRow(id, owner.id), null, () => Promise.resolve(0))
      // This clock is paused, so nothing is read again by time.
      const directory = new ProxyDirectory({
        store,
        database,
        clock: new ManualClock(),
        log: silentLog,
        tallies: new Tallies(),
        merchants: ids => merchants.byIds(ids),
        open: () => null
      })
      await directory.start()
      t.teardown(() => directory.stop())
      const active = async (id: string) => (await directory.find(id))?.merchant.isActive
      for (const id of ['a-000001', 'a-000002', 'b-000001']) t.equal(await active(id), true)

      await merchants.deactivate(merchant.id)
      await eventually('both proxies of the account know', async () =>
        (await active('a-000001')) === false && (await active('a-000002')) === false ? true : null
      )
      t.equal(await active('b-000001'), true, "another account's do not")
      await merchants.change(other.id, { l402Enabled: false })
      await eventually('a flag too', async () =>
        (await directory.find('b-000001'))?.merchant.flags.l402Enabled === false ? true : null
      )
    })
  }
)

/** A directory over a store whose readings end when the test says, each with what stood when it began. */
function staged(t: T): {
  directory: ProxyDirectory
  stored: Map<string, ProxyRow>
  account: { isActive: boolean }
  notify(channel: string, payload: string): void
  readings: { finish(): Promise<void> }[]
} {
  const stored = new Map<string, ProxyRow>()
  const account = { isActive: true }
  const readings: { finish(): Promise<void> }[] = []
  const heard = new Map<string, (payload: string) => void>()
  const store = {
    byIds: (ids: readonly string[]) => {
      const rows = ids.flatMap(id => stored.get(id) ?? [])
      return new Promise<ProxyRow[]>(resolve => {
        readings.push({
          finish: async () => {
            resolve(rows)
            await setImmediate()
          }
        })
      })
    }
  } as unknown as ProxyStore // nothing else of it is asked
  const database = {
    listen: (channel: string, hear: (payload: string) => void) => {
      heard.set(channel, hear)
      return Promise.resolve(() => Promise.resolve())
    }
  } as unknown as Database // Also paused.
  const merchant = (): Merchant => aMerchant({ id: 7, isActive: account.isActive })
  const directory = new ProxyDirectory({
    store,
    database,
    clock: new ManualClock(),
    log: silentLog,
    tallies: new Tallies(),
    merchants: ids => Promise.resolve(new Map(ids.map(id => [id, merchant()]))),
    open: () => null
  })
  t.teardown(() => directory.stop())
  return {
    directory,
    stored,
    account,
    readings,
    notify: (channel, payload) => {
      heard.get(channel)?.(payload)
    }
  }
}

t.test('a reading that began before a change never puts the old state back', async t => {
  const { directory, stored, readings, notify } = staged(t)
  await directory.start()
  stored.set('a-000001', aRow('a-000001', 7, { defaultPriceSats: 1 }))
  const first = directory.find('a-000001')
  stored.set('a-000001', aRow('a-000001', 7, { defaultPriceSats: 2 }))
  notify(PROXY_CHANNEL, 'a-000001')
  t.equal(readings.length, 2, 'a change of what is being read is read as well')
  await readings[1]?.finish()
  await readings[0]?.finish()
  await first
  t.equal((directory.find('a-000001') as ListedProxy).row.defaultPriceSats, 2)

  const old = directory.reread()
  stored.set('a-000001', aRow('a-000001', 7, { defaultPriceSats: 3 }))
  notify(PROXY_CHANNEL, 'a-000001')
  await readings[3]?.finish()
  await readings[2]?.finish()
  await old
  t.equal((directory.find('a-000001') as ListedProxy).row.defaultPriceSats, 3)

  const before = directory.reread()
  stored.delete('a-000001')
  notify(PROXY_CHANNEL, 'a-000001')
  await readings[5]?.finish()
  await readings[4]?.finish()
  await before
  t.equal(directory.find('a-000001'), null, 'a deleted one stays deleted')
})

t.test('a merchant that changes while its proxy is first read is seen as it is then', async t => {
  const { directory, stored, account, readings, notify } = staged(t)
  await directory.start()
  stored.set('a-000001', aRow('a-000001', 7))
  const first = directory.find('a-000001')
  await readings[0]?.finish()
  await first
  t.equal((directory.find('a-000001') as ListedProxy).merchant.isActive, true)
  account.isActive = false
  notify(merchantsChannel, '8')
  t.equal(readings.length, 1, "another account's change has no effect here")
  notify(merchantsChannel, '7')
  await readings[1]?.finish()
  t.equal((directory.find('a-000001') as ListedProxy).merchant.isActive, false)

  stored.set('a-000002', aRow('a-000002', 7))
  const second = directory.find('a-000002')
  notify(merchantsChannel, '7')
  t.equal(readings.length, 4, 'whose it will be is not known yet, so it is read again')
  for (const reading of readings.slice(2)) await reading.finish()
  await second
})
