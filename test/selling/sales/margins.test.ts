/** Revenue, cost and margin by model, of what routes with a price list charged. */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Entries } from '../../../src/selling/balances/entries.ts'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import { Margins } from '../../../src/selling/sales/margins.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { eachDatabase } from '../../support/database.ts'
import { challengeOf, credentialOf } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { AdminKey } from '../../../src/accounts/merchants/admin-key.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { TEST_BOUND, TEST_HEADER } from '../../../src/selling/minting/probes.ts'
import { eventually } from '../../support/gateway-process.ts'
import { asPerson, sessionOf } from '../../web/console/session.ts'
import { newBalance, use } from '../balances/fixture.ts'
import { narrowed, openMetered, replies } from '../shop.ts'

const DAY = 86_400_000
const PATH = '/v1/chat/completions'
const MIDNIGHT = Date.parse('2026-11-21T00:00:00Z')

type Charge = readonly [at: number, model: string | null, msat: number, unpaid: number, markup: number | null]

/** Writes charges as one slice does, in one row. */
async function charge(database: Database, charges: readonly Charge[]) {
  const clock = new ManualClock()
  const store = new BalanceStore(database)
  const balance = newBalance(clock)
  const slice = randomBytes(8).toString('hex')
  await store.open(balance)
  const requests = { balanceId: balance.id, sliceId: slice, keptUntil: clock.now() + DAY, now: clock.now() }
  await store.grab({ ...requests, gateway: 'g', need: 1_000_000, want: 1_000_000 })
  const entries = new Entries()
  for (const [at, model, msat, unpaid, markup] of charges) entries.add(use({ at, model, markup }), msat, unpaid)
  const spent = charges.reduce((sum, [, , msat]) => sum + msat, 0)
  await store.write({ ...requests, nth: 1, spent, back: 0, reserved: 0, isLast: false, entries })
}

const CHARGES: readonly Charge[] = [
  [MIDNIGHT - 1, 'small', 105, 0, 1.05],
  [MIDNIGHT, 'small', 210, 0, 1.05],
  [MIDNIGHT + 1, 'large', 1_000, 250, 1.25],
  [MIDNIGHT + 2, 'small', 0, 0, 1.05],
  [MIDNIGHT + 3, 'own', 77, 0, null],
  [MIDNIGHT + 4, null, 5, 0, null]
]
const SUMS = [
  { at: MIDNIGHT - DAY, model: 'small', requests: 1, msat: 105, costMsat: 100 },
  { at: MIDNIGHT, model: 'large', requests: 1, msat: 1_000, costMsat: 1_000 },
  { at: MIDNIGHT, model: 'small', requests: 2, msat: 210, costMsat: 200 }
]

await eachDatabase(t, 'margins: sums of days and models are exact while they are rolled up', async (t, database) => {
  const margins = new Margins(database)
  const sums = async () => await margins.sums(MIDNIGHT - DAY, MIDNIGHT + DAY)
  t.same(await sums(), [])
  await charge(database, CHARGES.slice(4))
  await charge(database, CHARGES.slice(0, 4))
  t.same(await sums(), SUMS, 'before the first run')
  const [row] = await database.sql`select count(*)::int as rows from balance_entries where cost_msat is not null`
  t.equal(row?.['rows'], 1, 'an entry with a price of its own has no cost')
  let now = Date.now()
  for (let run = 0; run < 3; run++) {
    await Promise.all([margins.roll(now), margins.roll(now)])
    t.same(await sums(), SUMS, `after run ${run}`)
    now += 121_000
  }
  const [held] = await database.sql`select sum(requests)::int as requests from model_sums`
  t.equal(held?.['requests'], 4, 'all that was there is summed')
  await charge(database, CHARGES)
  const twice = SUMS.map(({ at, model, requests, msat, costMsat }) => {
    return { at, model, requests: requests * 2, msat: msat * 2, costMsat: costMsat * 2 }
  })
  t.same(await sums(), twice, 'fresh ones beside those summed')
  for (let run = 0; run < 2; run++) await margins.roll((now += 121_000))
  t.same(await sums(), twice)
  await database.sql`delete from balance_entries`
  t.same(await sums(), twice, 'they survive the purge of entries')
  t.same(await margins.sums(MIDNIGHT, MIDNIGHT + DAY), twice.slice(1))
})

await eachDatabase(t, 'margins: the 20 models that earned most, and the rest as one', async (t, database) => {
  const margins = new Margins(database)
  await charge(
    database,
    Array.from({ length: 23 }, (_, nth) => [MIDNIGHT, `model ${nth}`, 1_000 + nth, 0, 1] as const)
  )
  const points = await margins.sums(MIDNIGHT, MIDNIGHT + DAY)
  t.equal(points.length, 21)
  t.match(
    points.find(({ model }) => model === null),
    { requests: 3, msat: 3_003, costMsat: 3_003 }
  )
})

t.test('margins: the console shows revenue, cost and margin of models that a price list sells', async t => {
  const name = '<b>mini</b>'
  const { 'gpt-5-mini': mini } = JSON.parse(
    readFileSync(new URL('../usage/vectors/models.json', import.meta.url), 'utf8')
  ) as Record<string, object>
  const list = join(t.testdir({ 'models.json': JSON.stringify({ [name]: mini }) }), 'models.json')
  const usage = { prompt_tokens: 10_000, prompt_tokens_details: { cached_tokens: 9500 }, completion_tokens: 700 }
  const { gateway, authorization, ask } = await openMetered(
    t,
    `unit: token, bundle: 100 sats, usage: openai, prices: { catalog: "${list}", markup: 25% }, estimate: { else: 50 }`,
    replies({ usage }),
    { path: PATH, keys: true }
  )
  const cookie = await sessionOf(gateway, gateway.adminKey)
  t.notMatch((await asPerson(gateway, cookie, '/operator')).text, 'Models', 'without sales of models')
  const send = (headers: Readonly<Record<string, string>>) => ask({ model: name }, headers)
  t.equal((await send({})).status, 200)
  const key = narrowed(authorization.replace('Bearer ', ''), 'budget_msat=90000')
  t.equal((await send({ authorization: `Bearer ${key}` })).status, 200, 'a budget is counted beside the balance')
  const get = (path: string) => gateway.adminSend('GET', path)
  // A dollar is 1,666.67 satoshis here; 1762.5 millionths of one, with the markup.
  const { points, ...sum } = await eventually('both requests are written', async () => {
    const margins = (await get('/api/admin/margins')).json() as {
      readonly requests: number
      readonly points: ReadonlyArray<{ readonly model: string; readonly msat: number; readonly costMsat: number }>
    }
    return margins.requests === 2 ? margins : null
  })
  t.match(points, [{ model: name, requests: 2 }])
  const [{ msat, costMsat } = { msat: 0, costMsat: 0 }] = points
  t.ok(msat > 0)
  t.equal(costMsat, 2 * Math.round(msat / 2 / 1.25))
  t.match(sum, { requests: 2, msat, costMsat })
  const page = (await asPerson(gateway, cookie, '/operator')).text
  const [, section = ''] = /<section[^>]*aria-labelledby="models">(.*?)<\/section>/s.exec(page) ?? []
  t.match(section, '&lt;b>mini')
  t.notMatch(section, name)
  const words = section.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ')
  t.match(words, new RegExp(`Revenue ${(msat / 1000).toLocaleString('en')} sats`))
  t.match(words, /Margin [0-9.]+ sats 20%/)
  t.equal((await get('/api/admin/margins?from=2026-11-02&to=2026-11-01')).status, 400)
  const test = new AdminKey(new Secret(gateway.adminKey)).session(Date.now() + 60_000, TEST_BOUND)
  const tested = challengeOf(
    await gateway.send('POST', PATH, { headers: { [TEST_HEADER]: test }, body: { model: name } }),
    'l402'
  )
  const invoice = tested.parameters.get('invoice') ?? ''
  const own = credentialOf(tested, await gateway.pay(invoice))
  t.equal((await send({ authorization: own })).status, 200)
  await eventually('the request of the own test is written', async () => {
    const [row] = await gateway.database
      .sql`select cost_msat from balance_entries where balance_id = ${decodeInvoice(invoice).paymentHash}`
    return row ?? null
  })
  t.match((await get('/api/admin/margins')).json(), { requests: 2, msat, costMsat }, 'an own test is no revenue')
})
