import t from 'tap'
import { Round } from '../../../src/engine/upstream/client-share.ts'

const ignore = () => undefined

function call(path: string) {
  const queued = {
    over: false,
    call: { method: 'GET', path, headers: [], body: null },
    head: { text: '', length: 0, last: false },
    handler: {
      get over() {
        return queued.over
      },
      client: '',
      stalledTicks: 0,
      giveUp: ignore,
      onRequestStart: ignore,
      onBodySent: ignore,
      onRequestSent: ignore,
      onResponseStart: ignore,
      onResponseData: ignore,
      onResponseEnd: ignore,
      onResponseError: ignore
    }
  }
  return queued
}

/** Takes requests until none may be taken; answers their paths. */
function taken(round: Round, most = Number.POSITIVE_INFINITY) {
  const paths: string[] = []
  for (let share = round.first(); share !== null && paths.length < most; share = round.first())
    paths.push(round.take(share)?.call.path ?? '')
  return paths
}

t.test('clients take turns; requests of one go in their order', async t => {
  const round = new Round(10, 5)
  for (let at = 1; at <= 3; at++) round.add(call(`a${at}`), 'a')
  round.add(call('b1'), 'b')
  round.add(call('c1'), 'c')
  round.add(call('c2'), 'c')
  t.same(taken(round), ['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
})

t.test('none takes more than its share, and what is beyond it waits for its own', async t => {
  const round = new Round(2, 1)
  for (let at = 1; at <= 4; at++) round.add(call(`a${at}`), 'a')
  t.equal(round.wanted(100), 2)
  const share = round.first()
  t.same(taken(round), ['a1', 'a2'])
  t.equal(round.wanted(100), 0)
  round.add(call('b1'), 'b')
  t.same(taken(round), ['b1'])
  if (share === null) throw new Error('no waiter')
  round.release(share)
  t.same(taken(round), ['a3'])
  for (let at = 1; at <= 4; at++) round.add(call(`n${at}`), '')
  t.same(taken(round), ['n1', 'n2', 'n3', 'n4'], 'work without a client has no share')
})

t.test('an abandoned wait is skipped, and dropped while it waits', async t => {
  const round = new Round(1, 1)
  const calls = Array.from({ length: 5 }, (_, at) => call(`a${at}`))
  for (const one of calls) round.add(one, 'a')
  const share = round.first()
  if (calls[0] !== undefined) calls[0].over = true
  t.same(taken(round), ['a1'])
  for (const one of calls.slice(2, 4)) one.over = true
  round.look(1)
  t.equal(share?.waiting.length, 1)
  t.same(
    round.clear().map(one => one.call.path),
    ['a4']
  )
})

t.test(
  'clients that kept others waiting queue behind them for a minute, and share a part of the connections',
  async t => {
    const round = new Round(4, 2)
    for (const client of ['a', 'b']) for (let at = 1; at <= 6; at++) round.add(call(client + String(at)), client)
    const a = round.first()
    t.same(taken(round, 2), ['a1', 'b1'])
    const b = round.first() === a ? null : round.first()
    t.equal(b, null, "and so it is a's turn again")
    if (a === null) throw new Error('no waiter')
    round.look(1)
    round.noteStall(a)
    round.noteStall(a)
    t.same(taken(round, 2), ['b2', 'b3'], 'b has not blocked another client')
    round.add(call('c1'), 'c')
    t.equal(round.wanted(100), 3, 'one each of a, b and c')
    t.same(taken(round), ['b4', 'c1', 'a2'])
    t.ok(round.isQueueFull)
    t.equal(round.wanted(100), 0)
    t.equal(round.wantedBehind(100), 2)
    t.notOk(round.occupied)
    round.release(a)
    t.same(taken(round), ['a3'], 'returned connections are theirs')
    round.look(601)
    t.same(taken(round), [])
    round.look(602)
    t.notOk(round.isQueueFull)
    t.same(taken(round), ['a4', 'a5'], 'after a minute all is forgotten, and a has its own share')
  }
)

t.test(
  'many slow addresses, once detected, delay no other client: a new one gets a connection immediately, every time',
  async t => {
    const round = new Round(64, 128)
    const slow = Array.from({ length: 50 }, (_, at) => `slow ${at}`)
    for (const client of slow) for (let at = 0; at < 40; at++) round.add(call(client), client)
    const running = Array.from({ length: 256 }, () => {
      const share = round.first()
      if (share !== null) round.take(share)
      return share
    })
    for (const share of running) {
      if (share === null) continue
      round.noteStall(share)
      round.release(share)
    }
    for (let at = 0; at < 64; at++) round.add(call(`honest ${at}`), 'honest')
    const next = taken(round)
    t.same(
      next.slice(0, 64),
      Array.from({ length: 64 }, (_, at) => `honest ${at}`)
    )
    t.equal(next.length, 64 + 128)
  }
)
