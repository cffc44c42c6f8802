import t from 'tap'
import type { Context } from '../../../src/engine/message/context.ts'
import { isCrossSite, isLocalCaller } from '../../../src/engine/message/caller.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { keptHeaders } from '../../../src/engine/message/own-cookies.ts'
import { IdempotencyKeyTaken, once, type Kept } from '../../../src/engine/message/idempotency.ts'
import { readUnpaidBody } from '../../../src/engine/message/unpaid-body.ts'
import { VALIDATION } from '../../../src/engine/operations/error-kinds.ts'
import { ShortError } from '../../../src/engine/operations/errors.ts'

/** The parts of a context that decisions about its caller read. */
function contextWith(parts: object, headers: readonly string[] = []) {
  return { headers: new HeaderList([...headers]), host: 'pay.example', ...parts } as unknown as Context
}

t.test('callers: one is local by its connection alone, and not behind a proxy', async t => {
  for (const peerAddress of ['127.0.0.1', '127.9.8.7', '::1', '::ffff:127.0.0.1', '::FFFF:127.0.0.1'])
    t.ok(isLocalCaller(contextWith({ peerAddress })), peerAddress)
  for (const peerAddress of ['10.0.0.1', '1127.0.0.1', '127.0.0.1.example', '::2', '::1:1', ''])
    t.notOk(isLocalCaller(contextWith({ peerAddress })), peerAddress)
  for (const name of ['Forwarded', 'X-Forwarded-For', 'X-Real-IP', 'Via'])
    t.notOk(isLocalCaller(contextWith({ peerAddress: '127.0.0.1' }, [name, 'x'])), name)
})

t.test('callers: a page of another origin is recognized by Sec-Fetch-Site, or by Origin without it', async t => {
  for (const [headers, is] of [
    [[], false],
    [['Sec-Fetch-Site', 'none'], false],
    [['Sec-Fetch-Site', 'same-origin', 'Origin', 'https://evil.example'], false],
    [['Sec-Fetch-Site', 'same-site'], true],
    [['Sec-Fetch-Site', 'cross-site', 'Origin', 'https://pay.example'], true],
    [['Origin', 'https://pay.example'], false],
    [['Origin', 'https://evil.example'], true],
    [['Origin', 'null'], true]
  ] as const)
    t.equal(isCrossSite(contextWith({}, headers)), is, headers.join(' '))
})

t.test('bodies: an unpaid one counts in every limit by its size and pieces, one with a credential later', async t => {
  const read = async (length: number, pieces: number, more: { headers?: string[]; credential?: boolean } = {}) => {
    const counted: unknown[] = []
    const ctx = contextWith(
      {
        body: { bytes: () => Promise.resolve(new Uint8Array(length)), pieces, isAnonymous: false },
        bodyUnits: null,
        bodyLimits: [1, 2].map(limit => ({
          count: async (_: unknown, units: number) => {
            counted.push([limit, units])
          }
        }))
      },
      more.headers
    )
    for (let time = 0; time < 2; time++)
      t.equal((await readUnpaidBody(ctx, () => more.credential === true)).byteLength, length)
    t.equal(ctx.body.isAnonymous, true)
    return [counted, ctx.bodyUnits]
  }
  t.same(await read(65_535, 1_023), [[], 0])
  for (const [length, pieces, units] of [
    [65_536, 1, 1],
    [1, 1_024, 1],
    [131_072, 2_048, 4]
  ] as const) {
    const inEach = [
      [1, units],
      [2, units]
    ]
    t.same(await read(length, pieces), [inEach, 0], 'once, though it is read twice')
    for (const headers of [
      ['Authorization', 'x'],
      ['PAYMENT-SIGNATURE', 'x'],
      ['x-api-key', `bg_${'A'.repeat(200)}`]
    ])
      t.same(await read(length, pieces, { headers }), [[], units], headers.join(' '))
    t.same(await read(length, pieces, { credential: true }), [[], units])
  }
})

t.test('replays: fields of one message are not kept, others are as they were sent', async t => {
  const own = ['Content-Length', 'Date', 'Connection', 'Keep-Alive', 'Transfer-Encoding', 'X-Correlation-Id']
  const pairs = [...own, 'X-API-Version', 'X-Idempotency-Replayed'].flatMap(name => [name, '1'])
  t.same(keptHeaders([...pairs, 'X-A', '1', 'x-a', '2']), [
    ['X-A', '1'],
    ['x-a', '2']
  ])
})

t.test('replays: a key belongs to one body while it lives, and a refusal may be of its first request', async t => {
  const idempotency = { key: 'k', fingerprint: 'f' }
  const attempt = async (found: Array<Kept<string> | null>, made: Error | null = null) => {
    let tries = 0
    const make = async () => {
      tries++
      if (made !== null) throw made
      return 'new'
    }
    const { made: result, headers } = await once(idempotency, async () => found.shift() ?? null, make, 100)
    return [result, headers, tries]
  }
  const kept = (fingerprint: string, freeAt: number | null) => ({ made: 'old', fingerprint, freeAt })
  const replayed = ['X-Idempotency-Replayed', 'true']
  t.same(
    await once(
      null,
      () => Promise.reject(new Error('asked')),
      async () => 'new',
      0
    ),
    { made: 'new', headers: [] }
  )
  t.same(await attempt([null]), ['new', [], 1])
  t.same(await attempt([kept('f', 0)]), ['old', replayed, 0])
  t.same(await attempt([kept('other', 100)]), ['new', [], 1], 'its day is over')
  for (const freeAt of [101, null]) await t.rejects(attempt([kept('other', freeAt)]), { status: 400 })
  for (const error of [new IdempotencyKeyTaken(), new ShortError(VALIDATION, 'taken')]) {
    t.same(await attempt([null, kept('f', null)], error), ['old', replayed, 1])
    await t.rejects(attempt([null, null], error), error)
  }
  const fault = new Error('fault')
  await t.rejects(attempt([null, kept('f', null)], fault), fault)
})
