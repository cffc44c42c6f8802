import { ManualClock } from '../../support/manual-clock.ts'
import t, { type Test as T } from 'tap'
import { ClientReputation } from '../../../src/selling/minting/client-reputation.ts'
import { StateUnavailable } from '../../../src/platform/state/state.ts'
import { RateLimited, Unavailable } from '../../../src/engine/operations/errors.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { MemoryState } from '../../../src/platform/state/memory.ts'
import { Budgets } from '../../../src/lightning/provider-calls/budgets.ts'
import { callLimits } from '../../lightning/providers/declared.ts'
import { fixture, freshAddress, offer } from '../challenges/fixture.ts'
import { until } from '../../support/until.ts'

type Result = 'made' | 'client is refused' | 'budget is refused'

/** A place whose provider is Strike, or has no limit. */
async function scene(t: T, provider: 'strike' | 'unlimited') {
  const f = await fixture(t)
  const state = new MemoryState(f.clock)
  if (provider === 'strike')
    f.payee.budget = new Budgets({ state, clock: f.clock, metrics: new Metrics() }).of(
      'strike',
      '',
      callLimits('strike', null, null)
    )
  const place = `route:${freshAddress()}`
  const ask = async (clientKey: string, query: string, at = place) => {
    try {
      await f.selling.minting.mint(offer({ place: at, query }), { clientKey, digest: null })
      return 'made'
    } catch (error) {
      if (error instanceof RateLimited) return 'client is refused'
      if (error instanceof Unavailable) return 'budget is refused'
      throw error
    }
  }
  return { ...f, place, ask }
}

for (const attackers of [3, 30, 300]) {
  t.test(
    `${attackers} addresses with ever another query: each is refused alone, and an honest buyer a second gets its invoice`,
    async t => {
      const s = await scene(t, 'unlimited')
      const seconds = attackers === 300 ? 3 : 45
      const addresses = Array.from({ length: attackers }, freshAddress)
      const got: Result[] = []
      for (let second = 0; second < seconds; second++) {
        const answers = await Promise.all(addresses.map(address => s.ask(address, `n=${second}`)))
        if (second === 40) t.same(new Set(answers), new Set(['client is refused']), 'from the 41st on')
        got.push(await s.ask(freshAddress(), ''))
        s.clock.advance(1_000)
      }
      t.same(new Set(got), new Set(['made']))
      const rows = await s.database.sql<{ most: number }[]>`
      select max(count)::int as most from (select count(*) from challenges where place = ${s.place} group by client_key) of_clients`
      t.equal(rows[0]?.most, Math.min(40, seconds), 'each has its 40 and no more')
    }
  )
}

t.test('an account with its key is served when the budget is used up for anonymous clients', async t => {
  const s = await scene(t, 'strike')
  await until(async () => (await s.ask(freshAddress(), '')) !== 'made')
  t.match(
    await s.selling.minting.mint(offer({ place: `plans:${s.place}` }), {
      clientKey: 'merchant:1',
      digest: null,
      keyed: true
    }),
    { again: false }
  )
  t.match(
    await s.selling.minting.mint(offer({ source: 'producer', place: `producer:${s.place}` }), {
      clientKey: 'merchant:1',
      digest: null,
      uncapped: true
    }),
    { again: false }
  )
})

t.test('a buyer that has paid comes before anonymous clients', async t => {
  const s = await scene(t, 'strike')
  const buyer = freshAddress()
  const bought = await s.selling.minting.mint(offer({ place: `${s.place}:other` }), { clientKey: buyer, digest: null })
  await s.selling.claims.claim(bought.challenge.paymentHash, 'l402', null)
  await until(async () => (await s.ask(freshAddress(), '')) !== 'made')
  t.equal(await s.ask(buyer, '', `${s.place}:other`), 'made')
  t.equal(
    await s.ask(freshAddress(), '', `${s.place}:third`),
    'made',
    'a quiet place has some left for anonymous clients too'
  )
})

t.test('a budget that is used up is 503 with the true wait, and nothing is written', async t => {
  const s = await scene(t, 'strike')
  await s.payee.budget?.refused('others', null, 600)
  await t.rejects(s.selling.minting.mint(offer({ place: s.place }), { clientKey: freshAddress(), digest: null }), {
    status: 503,
    headers: ['Retry-After', '600']
  })
  t.same(await s.database.sql`select 1 from challenges where place = ${s.place}`, [])
})

t.test('without the shared state all clients rank the same, and another error is not hidden', async t => {
  const state = new MemoryState(new ManualClock())
  const reputation = new ClientReputation(state)
  await reputation.request('192.0.2.1', 'place')
  Object.assign(state, { get: () => Promise.reject(new StateUnavailable('redis is down')) })
  t.match(await reputation.request('192.0.2.1', 'place'), { client: { hasPaid: false, unpaid: 0, inPlace: 0 } })
  Object.assign(state, { get: () => Promise.reject(new TypeError('a defect')) })
  await t.rejects(reputation.request('192.0.2.1', 'place'), new TypeError('a defect'))
})
