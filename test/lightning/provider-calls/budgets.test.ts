import t from 'tap'
import { ClientReputation } from '../../../src/selling/minting/client-reputation.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { MemoryState } from '../../../src/platform/state/memory.ts'
import { StateUnavailable, type State } from '../../../src/platform/state/state.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import { openSeats } from '../../../src/lightning/providers/seats.ts'
import {
  Budgets,
  tokensToKeep,
  type CallBudget,
  type AnonymousClient
} from '../../../src/lightning/provider-calls/budgets.ts'
import { callLimits } from '../providers/declared.ts'
import { NothingSent } from '../../../src/lightning/provider-calls/errors.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openTestRedis, testRedisUrl } from '../../support/redis.ts'
import { until } from '../../support/until.ts'

const SECOND = 1_000
const TEN_MINUTES = 600_000
const newcomer: AnonymousClient = { hasPaid: false, unpaid: 0, inPlace: 0 }
const strike = callLimits('strike', null, null)

interface Rig {
  readonly clock: ManualClock
  readonly metrics: Metrics
  readonly budgets: Budgets
  readonly budget: CallBudget
  readonly reputation: ClientReputation
  /** When calls were made. */
  readonly calls: number[]
  /** An anonymous client asks for an invoice; null, or its Retry-After in seconds. */
  ask(client: string, place: string): Promise<number | null>
  /** An account asks with its key. */
  pay(): Promise<number | null>
}

function rig(limits = strike): Rig {
  const clock = new ManualClock()
  const state = new MemoryState(clock)
  const metrics = new Metrics()
  const budgets = new Budgets({ state, clock, metrics })
  const budget = budgets.of('strike', '', limits)
  const reputation = new ClientReputation(state)
  const calls: number[] = []
  const spent = async (standing: 'keyed' | AnonymousClient) => {
    try {
      await budget.spend('others', 'a key', standing)
      calls.push(clock.now())
      return null
    } catch (error) {
      if (!(error instanceof NothingSent)) throw error
      return error.retryAfter
    }
  }
  const ask = async (client: string, place: string) => {
    const request = await reputation.request(client, place)
    const wait = await spent(request.client)
    if (wait !== null) request.refused()
    return wait
  }
  return { clock, metrics, budgets, budget, reputation, calls, ask, pay: () => spent('keyed') }
}

/** Most calls in any ten minutes. */
function busiest(calls: readonly number[]) {
  let most = 0
  for (let last = 0, first = 0; last < calls.length; last++) {
    while ((calls[last] ?? 0) - (calls[first] ?? 0) >= TEN_MINUTES) first++
    most = Math.max(most, last - first + 1)
  }
  return most
}

for (const attackers of [3, 30]) {
  t.test(
    `${attackers} addresses that ask without end keep no honest buyer a second from its invoice, at what Strike allows`,
    async t => {
      const r = rig()
      const refused = { honest: 0, elsewhere: 0, keyed: 0 }
      for (let second = 0; second < 900; second++) {
        for (let attacker = 0; attacker < attackers; attacker++) {
          await r.ask(`attacker ${attacker}`, 'route:a')
          await r.ask(`attacker ${attacker}`, 'route:a')
        }
        if ((await r.ask(`buyer ${second}`, 'route:a')) !== null) refused.honest++
        if (second % 10 === 0 && (await r.ask(`other ${second}`, 'proxy:b')) !== null) refused.elsewhere++
        if (second % 6 === 0 && (await r.pay()) !== null) refused.keyed++
        r.clock.advance(SECOND)
      }
      t.same(refused, { honest: 0, elsewhere: 0, keyed: 0 })
      t.ok(busiest(r.calls) <= 950, `${busiest(r.calls)} calls in ten minutes, of 1,000 before Strike locks out`)
      t.ok(busiest(r.calls) > 800, 'and what no other client wanted was granted')
    }
  )
}

t.test(
  '300 addresses that all begin in one second delay the buyers of that moment by seconds, and no buyer after them',
  async t => {
    const r = rig()
    // A buyer that is refused waits for its Retry-After, and longer each time, as clients do.
    const waiting = new Map<string, { readonly since: number; tries: number; next: number }>()
    const delayed: string[] = []
    for (let second = 0; second < 300; second++) {
      for (let attacker = 0; attacker < 300; attacker++) await r.ask(`attacker ${attacker}`, 'route:a')
      waiting.set(`buyer ${second}`, { since: second, tries: 0, next: second })
      for (const [buyer, state] of waiting) {
        if (state.next > second) continue
        const wait = await r.ask(buyer, 'route:a')
        if (wait !== null) state.next = second + Math.max(wait, 2 ** ++state.tries)
        else {
          waiting.delete(buyer)
          if (second > state.since) delayed.push(`${buyer} by ${second - state.since} s`)
        }
      }
      r.clock.advance(SECOND)
    }
    t.equal(waiting.size, 0, 'everybody got one')
    t.ok(delayed.length <= 3, delayed.join(', '))
    t.ok(
      delayed.every(line => Number(/by (\d+)/.exec(line)?.[1]) <= 15),
      delayed.join(', ')
    )
    t.ok(busiest(r.calls) <= 950)
  }
)

t.test('a place that is flooded by ever new addresses leaves the others theirs', async t => {
  const r = rig()
  const made = { flooded: 0, alike: 0 }
  const refused = { quiet: 0, keyed: 0 }
  for (let second = 0; second < 900; second++) {
    for (let call = 0; call < 5; call++) {
      if ((await r.ask(`a ${second} ${call}`, 'route:a')) === null) made.flooded++
      if ((await r.ask(`b ${second} ${call}`, 'route:b')) === null) made.alike++
    }
    if (second % 5 === 0 && (await r.ask(`quiet ${second}`, 'proxy:c')) !== null) refused.quiet++
    if (second % 10 === 0 && (await r.pay()) !== null) refused.keyed++
    r.clock.advance(SECOND)
  }
  t.same(refused, { quiet: 0, keyed: 0 })
  const part = made.flooded / (made.flooded + made.alike)
  t.ok(part > 0.4 && part < 0.6, `two that are flooded share alike: ${made.flooded} and ${made.alike}`)
})

t.test(
  'budget shares: keys have all of it, paying buyers more than anonymous clients, clients with many unpaid invoices the least',
  async t => {
    const bucket = { burst: 100, perMinute: 85 }
    t.equal(tokensToKeep('ahead', bucket), 75, 'invoices made ahead leave most of the budget to those who wait')
    t.equal(tokensToKeep('ahead', { burst: 1, perMinute: 1 }), 0, 'and never so much that it is not made at all')
    t.equal(tokensToKeep('keyed', bucket), 0)
    t.equal(tokensToKeep({ ...newcomer, hasPaid: true }, bucket), 20)
    t.equal(tokensToKeep(newcomer, bucket), 30)
    const kept = [0, 1, 2, 10, 40, 10_000].map(unpaid => tokensToKeep({ ...newcomer, unpaid }, bucket))
    t.same(
      kept,
      kept.toSorted((a, b) => a - b)
    )
    t.ok(tokensToKeep({ hasPaid: true, unpaid: 5, inPlace: 0 }, bucket) > 30, 'a buyer who paid once has a limit too')
    t.ok(
      tokensToKeep({ hasPaid: false, unpaid: 1e6, inPlace: 1e6 }, bucket) <= 99,
      'a full budget has one for everybody'
    )
    t.ok(
      tokensToKeep({ hasPaid: false, unpaid: 0, inPlace: 1e6 }, bucket) <
        tokensToKeep({ hasPaid: false, unpaid: 1, inPlace: 1e6 }, bucket)
    )
  }
)

t.test('the wait is the true one', async t => {
  const r = rig()
  for (let call = 0; call < 70; call++) t.equal(await r.pay(), null)
  const expected = { fault: 'rate', retryAfter: 1, status: 503, headers: ['Retry-After', '1'] }
  await t.rejects(r.budget.spend('others', null, newcomer), expected, 'the rest is kept for others')
  for (let call = 70; call < 100; call++) t.equal(await r.pay(), null)
  t.equal(await r.pay(), 1)
  // 30 to keep and one to take, 85 a minute.
  await t.rejects(r.budget.spend('others', null, newcomer), { retryAfter: 22, headers: ['Retry-After', '22'] })
  r.clock.advance(21_000)
  await t.rejects(r.budget.spend('others', null, newcomer), { retryAfter: 1 })
  r.clock.advance(1_000)
  await t.resolves(r.budget.spend('others', null, newcomer))
})

t.test("a provider's own 429 rests what it counts: our address for all accounts, or one key alone", async t => {
  const r = rig()
  await r.budget.refused('others', 'a key', 3_600)
  t.equal(await r.pay(), 3_600)
  await r.budget.spend('executions', 'a key', 'keyed')
  const opennode = r.budgets.of('opennode', '', callLimits('opennode', null, null))
  await opennode.refused(undefined, 'one', 60)
  await t.rejects(opennode.spend(undefined, 'one', 'keyed'), { fault: 'rate', retryAfter: 60 })
  await opennode.spend(undefined, 'another', 'keyed')
  t.same(await r.budgets.report(), [
    { provider: 'strike', limit: 'others', exhausted: true, retryAfter: 3_600 },
    { provider: 'strike', limit: 'payment quotes', exhausted: false, retryAfter: null },
    { provider: 'strike', limit: 'executions', exhausted: false, retryAfter: null },
    { provider: 'opennode', limit: 'account', exhausted: true, retryAfter: 60 }
  ])
  r.clock.advance(3_600_000)
  t.equal(await r.pay(), null)
  t.ok((await r.budgets.report()).every(({ exhausted }) => !exhausted))
})

t.test('refusals and remaining budget are measured', async t => {
  const r = rig()
  await until(async () => (await r.ask('crowd', 'route:a')) !== null)
  const text = await r.metrics.render()
  t.match(text, /boltgate_provider_budget_refused_total\{provider="strike",limit="others",caller="anonymous"\} 1\n/)
  t.match(text, /boltgate_provider_budget_left\{provider="strike",limit="others"\} 0\.\d+\n/)
  t.match(text, /boltgate_provider_budget_left\{provider="strike",limit="executions"\} 1\n/)
})

t.test('two slots at one address have one budget, and figures of an operator replace the defaults', async t => {
  const { budgets, budget } = rig()
  t.equal(budgets.of('strike', '', strike), budget)
  t.not(budgets.of('strike', 'http://127.0.0.1:9', strike), budget)
  t.same(callLimits('strike', null, 500).ofAddress['others'], { burst: 500, perMinute: 500 })
  t.same(callLimits('lnd', null, 60).ofAccount, { burst: 60, perMinute: 60 })
  const test = callLimits('strike', 'https://api.dev.strike.me', null).ofAddress['others'] ?? {
    burst: NaN,
    perMinute: NaN
  }
  t.ok(test.burst + 10 * test.perMinute <= 350, 'of the test host')
})

t.test('while the shared state is down each process counts alone', async t => {
  const clock = new ManualClock()
  const gone = new Proxy(new MemoryState(clock), {
    get: () => () => {
      throw new StateUnavailable('away')
    }
  }) as State
  const budget = new Budgets({ state: gone, clock, metrics: new Metrics() }).of('strike', '', strike)
  for (let call = 0; call < 100; call++) await budget.spend('others', null, 'keyed')
  await t.rejects(budget.spend('others', null, 'keyed'), NothingSent)
  const request = await new ClientReputation(gone).request('buyer', 'route:a')
  t.same(request.client, newcomer)
  request.refused()
})

const url = testRedisUrl()
t.test(
  'processes over one Redis have one budget',
  { skip: url === null ? 'TEST_REDIS_URL is not set' : false },
  async t => {
    if (url === null) return
    const clock = new ManualClock()
    const prefix = `test:${process.pid}-budget:`
    const processes = await Promise.all(
      [1, 2, 3].map(async () => {
        const state = await openTestRedis(t, url, clock, prefix)
        return {
          budget: new Budgets({ state, clock, metrics: new Metrics() }).of('strike', '', strike),
          strangers: new ClientReputation(state)
        }
      })
    )
    const results = await Promise.all(
      Array.from({ length: 150 }, (_, index) =>
        processes[index % 3]?.budget.spend('others', null, 'keyed').then(
          () => true,
          () => false
        )
      )
    )
    t.equal(results.filter(Boolean).length, 100)
    await processes[0]?.budget.refused('others', null, 30)
    await t.rejects(processes[1]?.budget.spend('others', null, 'keyed') ?? Promise.resolve(), { retryAfter: 30 })
    await processes[0]?.strangers.request('a', 'route:a')
    t.match((await processes[2]?.strangers.request('a', 'route:a'))?.client, { unpaid: 1, inPlace: 1 })
  }
)

t.test('two slots of one service share its budget, however its address is written', async t => {
  const { budgets, clock } = rig()
  const slot = { kind: 'strike', timeout: 1000, key: 'a key of the operator' } as const
  const lightning = { primary: [slot], alternate: [{ ...slot, url: 'https://api.strike.me/v1' }] }
  const providers = openSeats({
    kinds: providerKinds,
    mode: 'production',
    lightning,
    dataDir: '/nowhere',
    database: { sql: null as never },
    clock,
    budgets
  } as never)
  t.teardown(() => providers.close())
  const ofStrike = (await budgets.report()).filter(({ limit }) => limit === 'others')
  t.equal(ofStrike.length, 2, "one beside the rig's own")
})

t.test(
  'calls that belong together are taken together, by anonymous clients too, and from a bucket that holds fewer',
  async t => {
    const clock = new ManualClock()
    const budgets = new Budgets({ state: new MemoryState(clock), clock, metrics: new Metrics() })
    const budget = budgets.of('btcpay', '', { ofAddress: {}, ofAccount: { burst: 3, perMinute: 60 } })
    await budget.spend(undefined, 'a key', 'keyed', 2)
    await budget.spend(undefined, 'a key', 'keyed', 0)
    await t.rejects(budget.spend(undefined, 'a key', 'keyed', 2), { fault: 'rate', retryAfter: 1 })
    await budget.spend(undefined, 'a key', 'keyed')
    await budget.spend(undefined, 'another key', { hasPaid: false, unpaid: 99, inPlace: 99 }, 2)
    const small = budgets.of('lnurl', '', { ofAddress: {}, ofAccount: { burst: 1, perMinute: 1 } })
    await small.spend(undefined, 'a key', 'keyed', 2)
    await t.rejects(small.spend(undefined, 'a key', 'keyed', 2), { fault: 'rate' })
  }
)
