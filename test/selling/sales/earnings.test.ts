import t from 'tap'
import type { Database } from '../../../src/platform/database/database.ts'
import { ValidationError } from '../../../src/engine/operations/errors.ts'
import { Earnings, type Dimension, type Step } from '../../../src/selling/sales/earnings.ts'
import { stepsOf } from '../../../src/selling/sales/steps.ts'
import type { SalesOwner } from '../../../src/selling/sales/store.ts'
import { eachDatabase } from '../../support/database.ts'
import { account, paidPayment, sell } from './fixture.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const NOON = Date.parse('2026-11-20T12:00:00Z')
const MIDNIGHT = Date.parse('2026-11-20T00:00:00Z')
const iso = (at: number) => new Date(at).toISOString()

const OWNERS: readonly SalesOwner[] = [{ merchantId: 1 }, { merchantId: 2 }, { merchantId: 3 }, 'gateway', 'all']

/** Sums of one owner in the month around, as text. */
async function told(
  database: Database,
  owner: SalesOwner,
  of: Dimension,
  by: Step = 'day',
  one: { readonly key?: string } = {}
) {
  const period = { from: Date.parse('2026-11-01T00:00:00Z'), to: Date.parse('2026-12-01T00:00:00Z') }
  const points = await new Earnings(database).sums({ owner, of, by, ...one, ...period })
  return points.map(
    ({ at, key, name, sales, sats }) => `${iso(at)} ${key}${name === null ? '' : ` (${name})`} ${sales} ${sats}`
  )
}

/** All owners' figures, by every query. */
async function whole(database: Database) {
  const all: Record<string, string[]> = {}
  for (const owner of OWNERS)
    for (const of of ['source', 'proxy', 'scheme', ...(owner === 'all' ? ['merchant'] : ['endpoint'])] as Dimension[])
      for (const by of ['hour', 'day', 'month'] as const)
        all[`${JSON.stringify(owner)} ${of} ${by}`] = await told(database, owner, of, by)
  all['one proxy'] = await told(database, { merchantId: 1 }, 'proxy', 'day', { key: 'weather-1' })
  all["another's"] = await told(database, { merchantId: 1 }, 'proxy', 'day', { key: 'other-2' })
  return all
}

async function fill(database: Database) {
  for (const id of [1, 2, 3]) await account(database, id)
  const weather = {
    source: 'proxy',
    merchantId: '1',
    proxyId: 'weather-1',
    resource: '/l402/proxy/weather-1/today'
  } as const
  await sell(database, MIDNIGHT - 1, { ...weather, amountSats: 1 })
  await sell(database, MIDNIGHT, { ...weather, amountSats: 2 })
  await sell(database, NOON, { ...weather, amountSats: 4, scheme: 'payment' })
  await sell(database, NOON + 1, { source: 'producer', merchantId: '1', resource: 'a'.repeat(900), amountSats: 8 })
  await sell(database, NOON + 2 * HOUR, { source: 'storefront', merchantId: '1', amountSats: 16, scheme: null })
  await sell(database, NOON, { ...weather, merchantId: '2', proxyId: 'other-2', amountSats: 32 })
  await sell(database, NOON, { amountSats: 64 })
  await paidPayment(database, 1, { paidAt: NOON - 26 * HOUR, soldAt: NOON, sats: 128 })
  await paidPayment(database, 1, { paidAt: NOON, soldAt: null, sats: 256 })
  await paidPayment(database, 1, { paidAt: NOON, soldAt: NOON, sats: null })
}

await eachDatabase(
  t,
  'every satoshi is in exactly one sum of each kind, and in no other owner’s',
  async (t, database) => {
    await fill(database)
    const expected = {
      source: [
        '2026-11-19T00:00:00.000Z payment 1 128',
        '2026-11-19T00:00:00.000Z proxy 1 1',
        '2026-11-20T00:00:00.000Z payment 1 256',
        '2026-11-20T00:00:00.000Z storefront 1 16',
        '2026-11-20T00:00:00.000Z producer 1 8',
        '2026-11-20T00:00:00.000Z proxy 2 6'
      ],
      scheme: [
        '2026-11-19T00:00:00.000Z invoice 1 128',
        '2026-11-19T00:00:00.000Z l402 1 1',
        '2026-11-20T00:00:00.000Z invoice 1 256',
        '2026-11-20T00:00:00.000Z none 1 16',
        '2026-11-20T00:00:00.000Z l402 2 10',
        '2026-11-20T00:00:00.000Z payment 1 4'
      ],
      proxy: [
        '2026-11-19T00:00:00.000Z  1 128',
        '2026-11-19T00:00:00.000Z weather-1 1 1',
        '2026-11-20T00:00:00.000Z  3 280',
        '2026-11-20T00:00:00.000Z weather-1 2 6'
      ]
    }
    for (const [of, lines] of Object.entries(expected))
      t.same(await told(database, { merchantId: 1 }, of as Dimension), lines, `of ${of}, from the sales themselves`)
    t.same(await told(database, { merchantId: 2 }, 'source'), ['2026-11-20T00:00:00.000Z proxy 1 32'])
    t.same(await told(database, { merchantId: 3 }, 'source'), [], 'an account that sold nothing')
    t.same(await told(database, 'gateway', 'source'), ['2026-11-20T00:00:00.000Z route 1 64'])
    t.same(await told(database, 'all', 'merchant', 'month'), [
      '2026-11-01T00:00:00.000Z 1 (merchant 1) 7 415',
      '2026-11-01T00:00:00.000Z  1 64',
      '2026-11-01T00:00:00.000Z 2 (merchant 2) 1 32'
    ])

    const before = await whole(database)
    t.match(before, { 'one proxy': expected.proxy.filter(line => line.includes('weather-1')), "another's": [] })
    const earnings = new Earnings(database)
    for (const at of [MIDNIGHT + MINUTE, NOON + 2 * MINUTE, NOON + HOUR, NOON + 5 * HOUR]) {
      await earnings.roll(at)
      t.same(await whole(database), before, `the same once they are in the sums up to ${iso(at)}`)
    }
    const [fresh] = await database.sql<Array<{ at: Date }>>`select at from earnings_until`
    t.equal(fresh?.at.getTime(), NOON + 5 * HOUR - 2 * MINUTE)
    await Promise.all([1, 2, 3].map(() => new Earnings(database).roll(NOON + 6 * HOUR)))
    t.same(await whole(database), before, 'and when several processes add them concurrently')

    await sell(database, NOON + 7 * HOUR, { merchantId: '3', amountSats: 5 })
    t.same(
      await told(database, { merchantId: 3 }, 'source'),
      ['2026-11-20T00:00:00.000Z route 1 5'],
      'a sale is reported immediately'
    )
    await database.sql`delete from challenges`
    await earnings.roll(NOON + 9 * HOUR)
    t.same(
      (await told(database, { merchantId: 1 }, 'source')).slice(0, 2),
      expected.source.slice(0, 2),
      'sums stay when the sales are purged'
    )
  }
)

await eachDatabase(t, 'a sale that is reported twice, or refunded, is earned once', async (t, database) => {
  await account(database, 1)
  const hash = await sell(database, NOON, { merchantId: '1', scheme: null })
  const { ChallengeStore } = await import('../../../src/selling/holding/store.ts')
  const store = new ChallengeStore(database)
  const earnings = new Earnings(database)
  await earnings.roll(NOON + 10 * MINUTE)
  await store.claim(database.sql, { paymentHash: hash, scheme: 'l402', now: NOON + 20 * MINUTE })
  await store.claim(database.sql, { paymentHash: hash, scheme: 'l402', now: NOON + 21 * MINUTE })
  t.same(await told(database, { merchantId: 1 }, 'source'), ['2026-11-20T00:00:00.000Z route 1 10'])
  await earnings.roll(NOON + HOUR)
  t.same(await told(database, { merchantId: 1 }, 'source'), ['2026-11-20T00:00:00.000Z route 1 10'])

  await paidPayment(database, 1, { paidAt: NOON, soldAt: null, sats: 7 })
  const { PaymentStore } = await import('../../../src/payments/payments/store-sql.ts')
  const payments = new PaymentStore(database)
  const [made] = await payments.list(
    { merchantId: 1, status: null, period: { from: null, to: null }, text: null, now: NOON },
    { after: null, limit: 1 }
  )
  if (made === undefined) throw new Error('the payment is not there')
  await database.transaction(tx => payments.update(tx, { ...made, status: 'refunded' }, NOON + 3 * HOUR))
  const [row] = await database.sql<Array<{ sold_at: Date }>>`select sold_at from payments`
  t.equal(row?.sold_at.getTime(), NOON, 'of a row that an older version wrote, it stays where it was counted')
  await store.close()
})

await eachDatabase(
  t,
  'of many endpoints the top earners are listed separately, and nothing is lost',
  async (t, database) => {
    for (let at = 0; at < 60; at++)
      await sell(database, NOON, { merchantId: '1', resource: `/city/${at}`, amountSats: at + 1 })
    const check = async () => {
      const points = await new Earnings(database).sums({
        owner: { merchantId: 1 },
        of: 'endpoint',
        by: 'day',
        from: MIDNIGHT,
        to: MIDNIGHT + 24 * HOUR
      })
      t.equal(points.length, 21)
      t.match(
        points.find(({ key }) => key === null),
        { sales: 40, sats: 820 }
      )
      t.equal(
        points.reduce((sum, { sats }) => sum + sats, 0),
        1830
      )
    }
    await check()
    await new Earnings(database).roll(NOON + HOUR)
    await check()
  }
)

await eachDatabase(t, 'sums by hour are kept for 90 days, those by day and month forever', async (t, database) => {
  await account(database, 1)
  const old = NOON - 91 * 24 * HOUR
  await sell(database, old, { source: 'producer', merchantId: '1', resource: 'a', amountSats: 5 })
  await sell(database, NOON - HOUR, { source: 'producer', merchantId: '1', resource: 'a', amountSats: 7 })
  const earnings = new Earnings(database)
  const held = async (by: Step) => {
    const span = { from: Date.parse('2026-08-01T00:00:00Z'), to: Date.parse('2026-12-01T00:00:00Z') }
    return (await earnings.sums({ owner: { merchantId: 1 }, of: 'source', by, ...span })).map(({ sats }) => sats)
  }
  // As a gateway that ran at that time has it.
  await earnings.roll(old + HOUR)
  t.same(await held('hour'), [5, 7])
  await earnings.roll(NOON)
  await earnings.purge(NOON)
  t.same(await held('hour'), [7])
  t.same(await held('day'), [5, 7])
  t.same(await held('month'), [5, 7])
  await database.sql`delete from earnings`
  await database.sql`delete from earnings_until`
  await earnings.roll(NOON)
  t.same(await held('hour'), [7], 'nor are they made of what is older')
  t.same(await held('day'), [5, 7])
  t.throws(() => stepsOf('hour', { from: old, to: old + HOUR }, NOON), ValidationError)
})

t.test('a period is widened to whole steps in UTC, and one that is too long is refused', async t => {
  const at = (text: string) => Date.parse(text)
  const period = (from: string | null, to: string | null) => ({
    from: from === null ? null : at(from),
    to: to === null ? null : at(to)
  })
  const now = at('2026-03-31T12:34:56Z')
  const rows: Array<[Step, string | null, string | null, string, string]> = [
    ['hour', null, null, '2026-03-29T13:00:00.000Z', '2026-03-31T13:00:00.000Z'],
    ['day', null, null, '2026-03-02T00:00:00.000Z', '2026-04-01T00:00:00.000Z'],
    ['month', null, null, '2025-04-01T00:00:00.000Z', '2026-04-01T00:00:00.000Z'],
    ['day', '2024-02-28T23:59:59Z', '2024-03-01T00:00:00Z', '2024-02-28T00:00:00.000Z', '2024-03-01T00:00:00.000Z'],
    ['month', '2026-01-31T00:00:00Z', '2026-02-01T00:00:01Z', '2026-01-01T00:00:00.000Z', '2026-03-01T00:00:00.000Z']
  ]
  for (const [by, from, to, begin, end] of rows) {
    const steps = stepsOf(by, period(from, to), now)
    t.same([iso(steps.from), iso(steps.to)], [begin, end], `${by} ${from} ${to}`)
  }
  t.throws(() => stepsOf('day', period('2026-03-02', '2026-03-01'), now), ValidationError)
  t.throws(() => stepsOf('hour', period('2026-01-01', '2026-03-01'), now), ValidationError)
  t.throws(() => stepsOf('day', period('2024-01-01', '2026-03-01'), now), ValidationError)
})
