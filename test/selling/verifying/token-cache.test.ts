import t from 'tap'
import { TokenCache, type KnownToken } from '../../../src/selling/verifying/token-cache.ts'

/** A verdict on a credential; compared by identity. */
function known() {
  return { kind: 'l402' } as unknown as KnownToken // the cache only keeps it
}

const preimage = '5a'.repeat(32)
const token = `L402 ${'QUJD'.repeat(80)}c2lnbmF0dXJlIGVuZA==:${preimage}`

t.test('a credential is found by its whole value and by nothing that only ends like it', async t => {
  const cache = new TokenCache()
  const paid = known()
  cache.add(token, paid)
  t.equal(cache.get(`${token.slice(0, 40)}${token.slice(40)}`), paid)
  for (const other of [
    token.replace('QUJD', 'QUJE'),
    token.replace('L402', 'LSAT'),
    ` ${token}`,
    `${token} `,
    token.slice(1),
    token.slice(-81),
    token.slice(-81, -65),
    preimage,
    ''
  ]) {
    t.equal(cache.get(other), undefined, other)
  }
  const twin = known()
  cache.add(token.replace('QUJD', 'QUJE'), twin)
  t.equal(cache.get(token), undefined, 'of two with the same end the last one is kept')
  t.equal(cache.get(token.replace('QUJD', 'QUJE')), twin)
})

t.test('tokens of one payment with other caveats coexist, and so do values of any form', async t => {
  const cache = new TokenCache()
  const values = [
    token,
    token.replace('c2lnbmF0', 'b3RoZXIg'),
    'Payment abc',
    `\nhex:00ff:${preimage}`,
    `:${preimage}`,
    'x',
    `Payment ${'a'.repeat(200)}`
  ]
  const kept = values.map(value => {
    const entry = known()
    cache.add(value, entry)
    return entry
  })
  t.same(
    values.map(value => kept.indexOf(cache.get(value) as KnownToken /* all were added */)),
    [0, 1, 2, 3, 4, 5, 6]
  )
})

t.test('the cache is bounded by the characters of whole values', async t => {
  const cache = new TokenCache(10_000)
  const values = Array.from(
    { length: 20 },
    (_, at) => `L402 ${'A'.repeat(1000)}${String(at).padStart(16, '0')}:${preimage}`
  )
  for (const value of values) cache.add(value, known())
  t.same(
    values.map(value => cache.get(value) !== undefined).filter(Boolean).length,
    4,
    'each counts 1,086 characters and 1,000 for the entry'
  )
})
