import fc from 'fast-check'
import t from 'tap'
import {
  afterPoll,
  FIRST_STATE,
  nextPolls,
  type Candidate,
  type PollOutcome,
  type Poll,
  type PollState
} from '../../../src/payments/notifications/poll-plan.ts'
import { pollRules, type PollRules } from '../../../src/payments/notifications/poller.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import type { Capabilities } from '../../../src/lightning/provider-calls/provider.ts'
import { polling } from '../../lightning/providers/declared.ts'

const MINUTE = 60_000
const listing: PollRules = {
  perMinute: 4,
  isShared: true,
  costs: { list: 1, lookUp: 1 },
  hasList: true,
  every: { fresh: MINUTE, stale: 10 * MINUTE },
  sweepEvery: 30 * MINUTE,
  sweeps: 'all',
  recentPerRun: 0,
  tick: 15_000
}
const candidate = (id: string, different: Partial<Candidate> = {}) => ({
  id,
  isFresh: true,
  payments: 1,
  ending: 0,
  young: 0,
  since: 0,
  ...different
})

/** Asks as often as the clock ticks, and answers what was asked when. */
function simulate(
  rules: PollRules,
  candidates: readonly Candidate[],
  { minutes, outcome = () => null }: { minutes: number; outcome?: (account: string, at: number) => PollOutcome | null }
) {
  const requests: Array<{ at: number; account: string; type: Poll['type']; count: number }> = []
  let state: PollState = FIRST_STATE
  for (let now = 1_000_000; now <= 1_000_000 + minutes * MINUTE; now += rules.tick) {
    const plan = nextPolls(state, candidates, rules, now)
    state = plan.state
    for (const poll of plan.polls) {
      requests.push({ at: now, account: poll.account, type: poll.type, count: poll.type === 'list' ? 1 : poll.count })
      const usual: PollOutcome =
        poll.type === 'list'
          ? { type: 'listed', reach: 'whole', asOf: now, position: null }
          : { type: 'looked up', cursor: null }
      // What is kept between runs is JSON.
      state = JSON.parse(
        JSON.stringify(afterPoll(state, poll, outcome(poll.account, now) ?? usual, now, rules))
      ) as PollState
    }
  }
  return requests
}

void t.test(
  'an account with unpaid payments is listed each minute, one without every ten, and not immediately',
  async t => {
    const requests = simulate(listing, [candidate('1'), candidate('2', { isFresh: false })], { minutes: 20 })
    const of = (account: string) =>
      requests
        .filter(poll => poll.account === account && poll.type === 'list')
        .map(({ at }) => (at - 1_000_000) / MINUTE)
    t.same(
      of('1'),
      Array.from({ length: 20 }, (_, index) => index + 1)
    )
    t.same(of('2'), [10, 20])
  }
)

void t.test('a listing covers everything since the last one that succeeded, and a little more', async t => {
  const start = 5_000_000
  const accounts = [candidate('1', { since: 4_000_000 })]
  const first = nextPolls(FIRST_STATE, accounts, listing, start).state
  const one = nextPolls(first, accounts, listing, start + MINUTE)
  const [list] = one.polls
  if (list === undefined) throw new Error('nothing was asked')
  t.same(one.polls, [
    { type: 'list', account: '1', since: 4_000_000 - 120_000, oldest: 4_000_000 - 120_000, position: null }
  ])
  const failed = afterPoll(one.state, list, { type: 'failed', fault: 'away' }, start + MINUTE, listing)
  t.same(nextPolls(failed, accounts, listing, start + MINUTE + 4_000).polls, [])
  const two = nextPolls(failed, accounts, listing, start + 2 * MINUTE)
  t.match(two.polls, [{ type: 'list', account: '1', since: 4_000_000 - 120_000 }])
  const listed = afterPoll(
    two.state,
    list,
    { type: 'listed', reach: 'whole', asOf: start + 2 * MINUTE, position: 'here' },
    start + 2 * MINUTE,
    listing
  )
  t.same(nextPolls(listed, accounts, listing, start + 3 * MINUTE).polls, [
    { type: 'list', account: '1', since: start, oldest: 4_000_000 - 120_000, position: 'here' }
  ])
})

void t.test('listings: look-ups of any number of open payments never delay them', async t => {
  const declared = {
    capabilities: { notifies: false } as Capabilities,
    listSettled: async () => Promise.reject(new Error())
  }
  for (const kind of ['lnd', 'phoenixd', 'cln', 'lnbits', 'nwc']) {
    const rules = pollRules(declared, polling(kind), 1)
    const requests = simulate(rules, [candidate('1', { payments: 200 })], { minutes: 20 })
    const lists = requests.filter(({ type }) => type === 'list')
    t.equal(Math.max(...lists.map(({ at }, nth) => at - (lists[nth - 1]?.at ?? at))), 5_000, kind)
    t.ok(requests.length > lists.length, `${kind}: look-ups get the rest`)
  }
})

void t.test('a list that may have been cut is followed by look-ups of every open payment', async t => {
  const accounts = [candidate('1', { payments: 6 })]
  const start = nextPolls(FIRST_STATE, accounts, listing, 0).state
  const {
    polls: [list],
    state
  } = nextPolls(start, accounts, listing, MINUTE)
  if (list === undefined) throw new Error('nothing was asked')
  const cut = afterPoll(state, list, { type: 'listed', reach: 'newest', asOf: MINUTE, position: null }, MINUTE, listing)
  const sweep = nextPolls(cut, accounts, listing, MINUTE + 15_000)
  t.same(sweep.polls, [{ type: 'look up', account: '1', after: '', count: 3 }], 'what the budget leaves')
  const on = afterPoll(
    sweep.state,
    { type: 'look up', account: '1', after: '', count: 3 },
    { type: 'looked up', cursor: 'c' },
    MINUTE,
    listing
  )
  const next = nextPolls(on, accounts, listing, 2 * MINUTE + 15_000)
  t.same(
    next.polls.map(poll => (poll.type === 'look up' ? [poll.after, poll.count] : poll.type)),
    ['list', ['c', 3]]
  )
})

void t.test('after a 429 no account of the budget is called before Retry-After is over', async t => {
  const requests = simulate(listing, [candidate('1'), candidate('2'), candidate('3')], {
    minutes: 90,
    outcome: (_account, at) => (at === 1_000_000 + MINUTE ? { type: 'limited', restsUntil: at + 60 * MINUTE } : null)
  })
  const after = requests.filter(({ at }) => at > 1_000_000 + MINUTE)
  t.equal(after[0]?.at, 1_000_000 + 61 * MINUTE)
  t.same(new Set(after.map(({ account }) => account)), new Set(['1', '2', '3']))
})

void t.test("a node of the merchant's own has a budget of its own", async t => {
  const rules: PollRules = { ...listing, isShared: false, perMinute: 1 }
  const requests = simulate(
    rules,
    ['1', '2', '3'].map(id => candidate(id)),
    {
      minutes: 3,
      outcome: account => (account === '2' ? { type: 'limited', restsUntil: 1e9 } : null)
    }
  )
  t.same(
    requests.map(({ account }) => account),
    ['1', '2', '3', '1', '3', '1', '3']
  )
})

const accounts = fc
  .array(
    fc.record({
      isFresh: fc.boolean(),
      payments: fc.integer({ min: 0, max: 40 }),
      young: fc.integer({ min: 0, max: 3 })
    }),
    { minLength: 1, maxLength: 25 }
  )
  .map(list =>
    list.map((one, index) => candidate(String(index + 1), { ...one, young: Math.min(one.young, one.payments) }))
  )
const rules = fc
  .record({
    perMinute: fc.integer({ min: 2, max: 20 }),
    isShared: fc.boolean(),
    hasList: fc.boolean(),
    list: fc.integer({ min: 1, max: 2 }),
    lookUp: fc.integer({ min: 1, max: 2 })
  })
  .map(({ perMinute, isShared, hasList, list, lookUp }) => ({
    ...listing,
    perMinute,
    isShared,
    hasList,
    costs: { list, lookUp },
    // As `pollRules` has it of accounts with budgets of their own.
    recentPerRun: hasList || isShared ? 0 : Math.floor((perMinute * 0.75 * listing.tick) / (MINUTE * lookUp)),
    sweepEvery: hasList ? 30 * MINUTE : MINUTE
  }))

void t.test('in no minute are there more calls than the budget has', async t => {
  fc.assert(
    fc.property(rules, accounts, (made, list) => {
      const requests = simulate(made, list, {
        minutes: 40,
        outcome: account => (Number(account) % 5 === 0 ? { type: 'failed', fault: 'away' } : null)
      })
      const budgets = Map.groupBy(requests, ({ account }) => (made.isShared ? 'all' : account))
      for (const polls of budgets.values()) {
        for (const { at } of polls) {
          const calls = polls
            .filter(poll => poll.at >= at && poll.at < at + MINUTE)
            .reduce((sum, poll) => sum + poll.count * (poll.type === 'list' ? made.costs.list : made.costs.lookUp), 0)
          if (calls > made.perMinute) throw new Error(`${calls} calls in the minute from ${at}`)
        }
      }
    }),
    { numRuns: 60 }
  )
  t.pass('for every set of accounts and rules that was drawn')
})

void t.test('no account waits longer than it takes to ask all the others', async t => {
  fc.assert(
    fc.property(rules, accounts, (made, list) => {
      const requests = simulate(made, list, { minutes: 120 })
      const cost = made.hasList ? made.costs.list : made.costs.lookUp
      const perRound = made.isShared ? Math.floor(made.perMinute / cost) : list.length
      // One interval, one round of everybody, and the look-ups that may fill a minute before it.
      const longest = (made.hasList ? 10 : 10 + 40) * MINUTE + (Math.ceil(list.length / perRound) + 2) * MINUTE
      for (const { id, payments } of list) {
        if (!made.hasList && payments === 0) continue
        let last = 1_000_000
        for (const { at } of [
          ...requests.filter(poll => poll.account === id && (poll.type === 'list') === made.hasList),
          { at: 1_000_000 + 120 * MINUTE }
        ]) {
          if (at - last > longest) throw new Error(`account ${id} waited ${(at - last) / MINUTE} minutes`)
          last = at
        }
      }
    }),
    { numRuns: 60 }
  )
  t.pass('for every set of accounts and rules that was drawn')
})

void t.test(
  "the rules stay below a fifth of Strike's limit, half of it where both slots call it; the sandbox is not polled",
  async t => {
    const capabilities: Capabilities = {
      onchain: false,
      hostedCheckout: false,
      notifies: true,
      payout: { lightning: true, chain: true }
    }
    const provider = { capabilities, listSettled: async () => [] } as never
    t.match(pollRules(provider, polling('strike'), 1), { perMinute: 20, isShared: true, hasList: true })
    t.match(pollRules(provider, polling('strike', 'https://api.strike.me/'), 2), { perMinute: 10 })
    t.match(pollRules(provider, polling('strike', 'https://api.dev.strike.me'), 1), { perMinute: 7 })
    t.match(pollRules(provider, polling('lnd'), 2), { isShared: false, perMinute: 60 })
    t.equal(providerKinds.find(({ name }) => name === 'sandbox')?.calls, null)
  }
)
