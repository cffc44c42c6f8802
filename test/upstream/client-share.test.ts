import t from 'tap'
import { Round } from '../../src/upstream/client-share.ts'
import type { QueuedCall } from '../../src/upstream/connection.ts'

const ignore = (): void => undefined

function call (path: string): QueuedCall & { over: boolean } {
  const queued = {
    over: false,
    call: { method: 'GET', path, headers: [], body: null },
    head: { text: '', length: 0, last: false },
    handler: {
      get over () { return queued.over },
      client: '', dawdling: 0, giveUp: ignore, onRequestStart: ignore, onBodySent: ignore, onRequestSent: ignore,
      onResponseStart: ignore, onResponseData: ignore, onResponseEnd: ignore, onResponseError: ignore
    }
  }
  return queued
}

/** Takes requests until none may be taken; answers their paths. */
function taken (round: Round, most = Number.POSITIVE_INFINITY): string[] {
  const paths: string[] = []
  for (let share = round.first(); share !== null && paths.length < most; share = round.first()) paths.push(round.take(share)?.call.path ?? '')
  return paths
}

t.test('clients take turns; requests of one go in their order', async t => {
  const round = new Round(10)
  for (let at = 1; at <= 3; at++) round.add(call(`a${at}`), 'a')
  round.add(call('b1'), 'b')
  round.add(call('c1'), 'c')
  round.add(call('c2'), 'c')
  t.same(taken(round), ['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
})

t.test('none takes more than its share, and what is beyond it waits for its own', async t => {
  const round = new Round(2)
  for (let at = 1; at <= 4; at++) round.add(call(`a${at}`), 'a')
  t.equal(round.wanted(100), 2)
  const share = round.first()
  t.same(taken(round), ['a1', 'a2'])
  t.equal(round.wanted(100), 0)
  round.add(call('b1'), 'b')
  t.same(taken(round), ['b1'])
  if (share === null) throw new Error('nobody waited')
  round.release(share)
  t.same(taken(round), ['a3'])
  for (let at = 1; at <= 4; at++) round.add(call(`n${at}`), '')
  t.same(taken(round), ['n1', 'n2', 'n3', 'n4'], 'what is nobody\'s has no share')
})

t.test('what nobody waits for any more is passed over, and forgotten while it waits', async t => {
  const round = new Round(1)
  const calls = Array.from({ length: 5 }, (_, at) => call(`a${at}`))
  for (const one of calls) round.add(one, 'a')
  const share = round.first()
  if (calls[0] !== undefined) calls[0].over = true
  t.same(taken(round), ['a1'])
  for (const one of calls.slice(2, 4)) one.over = true
  round.look()
  t.equal(share?.waiting.length, 1)
  t.same(round.clear().map(one => one.call.path), ['a4'])
})
