import t, { type Test as T } from 'tap'
import { OfferedPrices } from '../../../src/selling/offers/offered-prices.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { openTestDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const PLACE = 'route:a'
const HOUR = 3_600_000

/** A process that asks a price, and for how long it would still take a former one. */
interface Process {
  readonly prices: OfferedPrices
  until(amountSats: number): number | null
}

async function begun(database: Database, clock: ManualClock, amountSats: number): Promise<Process> {
  const prices = new OfferedPrices(database, clock, silentLog)
  prices.ask(new Map([[PLACE, String(amountSats)]]))
  await prices.start()
  return {
    prices,
    until: amount => prices.grace([PLACE], HOUR)?.until({ amountSats: amount, fiat: null, asked: null }, 0) ?? null
  }
}

async function rig(t: T) {
  const database = await openTestDatabase(t)
  const clock = new ManualClock()
  return { database, clock }
}

t.test('a former price ends with the last process that charged it, however the later ones end', async t => {
  for (const ending of ['closed', 'killed'] as const) {
    await t.test(ending, async t => {
      const { database, clock } = await rig(t)
      const old = await begun(database, clock, 10)
      clock.advance(HOUR)
      // A deployment: the new one begins before the old one ends.
      const next = await begun(database, clock, 20)
      clock.advance(10_000)
      await old.prices.close()
      const last = clock.now()
      clock.advance(31_000)
      await next.prices.sync()
      t.equal(next.until(10), last + 1)
      clock.advance(100 * HOUR)
      if (ending === 'closed') await next.prices.close()
      const later = await begun(database, clock, 20)
      t.equal(later.until(10), last + 1, 'it has not been asked since')
      clock.advance(HOUR)
      const higher = await begun(database, clock, 30)
      t.equal(higher.until(10), last + 1)
      t.equal(higher.until(20), clock.now())
      await Promise.all([later, higher, next].map(({ prices }) => prices.close()))
    })
  }
})

t.test('a route that is added while the former prices are read is written without another wait', async t => {
  const { database, clock } = await rig(t)
  let isAdded = false
  const meanwhile = new Proxy(database, {
    get(target, name) {
      // The first thing that is read beside a transaction is what others have asked.
      if (name === 'sql' && !isAdded) {
        isAdded = true
        prices.ask(new Map([[PLACE, '10']]).set('route:b', '20'))
      }
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' && name !== 'sql' ? value.bind(target) : value
    }
  })
  const prices = new OfferedPrices(meanwhile, clock, silentLog)
  prices.ask(new Map([[PLACE, '10']]))
  await prices.start()
  t.same(await database.sql`select place, price from offered_prices order by place`, [
    { place: PLACE, price: '10' },
    { place: 'route:b', price: '20' }
  ])
  await prices.close()
})
