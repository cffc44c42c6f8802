import { createHash } from 'node:crypto'
import * as fc from 'fast-check'
import t from 'tap'
import { challengeSchemes, paymentPreference } from '../../../src/selling/offers/accept-payment.ts'
import {
  contentDigest,
  digestMatches,
  parseContentDigest
} from '../../../src/lightning/payment-scheme/content-digest.ts'
import { formatTimestamp, parseTimestamp } from '../../../src/lightning/codecs/timestamp.ts'

t.test('the digest of RFC 9530, appendix B', async t => {
  const body = Buffer.from('{"hello": "world"}\n')
  t.equal(contentDigest(body), 'sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:')
  t.ok(digestMatches('sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:', body))
  t.notOk(digestMatches('sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:', Buffer.from('{"hello": "world"}')))
})

t.test('other algorithms beside sha-256 are passed over', async t => {
  const body = Buffer.from('body')
  const ours = contentDigest(body)
  const sha512 = `sha-512=:${createHash('sha512').update(body).digest('base64')}:`
  for (const text of [
    `${sha512}, ${ours}`,
    `${ours},${sha512}`,
    ` ${ours} `,
    `${ours};q=1 ; a`,
    `${contentDigest(Buffer.from('x'))}, ${ours}`
  ])
    t.ok(digestMatches(text, body), text)
  t.equal(parseContentDigest(sha512), null)
})

t.test('a malformed digest is none', async t => {
  for (const text of [
    '',
    'sha-256',
    'sha-256=abc',
    'sha-256=::',
    'sha-256=:AAAA:',
    'SHA-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:',
    'sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU:',
    'sha-256=:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=:',
    `${contentDigest(Buffer.alloc(0))},`,
    ...[';!a', ';a=é', ';a= ', ';a!'].map(parameters => `${contentDigest(Buffer.alloc(0))}${parameters}x`),
    'x'.repeat(5000)
  ]) {
    t.equal(parseContentDigest(text), null, text.slice(0, 60))
  }
  fc.assert(fc.property(fc.string(), text => parseContentDigest(text) === null))
  fc.assert(fc.property(fc.uint8Array(), body => digestMatches(contentDigest(body), body)))
})

t.test('Accept-Payment: the most specific range decides', async t => {
  const cases: [string | null, string][] = [
    [null, 'neutral'],
    ['', 'neutral'],
    ['lightning/charge', 'prefer'],
    ['lightning/*', 'prefer'],
    ['LIGHTNING/Charge', 'prefer'],
    ['*/*', 'neutral'],
    ['*/charge', 'neutral'],
    ['lightning/charge;q=0', 'suppress'],
    ['lightning/charge;q=0.000', 'suppress'],
    ['lightning/charge; q=0', 'suppress'],
    ['*/*;q=0', 'suppress'],
    ['*/charge;q=0', 'suppress'],
    ['lightning/charge;q=0, */*', 'suppress'],
    ['lightning/charge, */*;q=0', 'prefer'],
    ['lightning/*;q=0, lightning/charge;q=0.1', 'prefer'],
    ['*/charge;q=0, */*', 'suppress'],
    ['lightning/charge;q=0, lightning/charge', 'prefer'],
    ['card/charge', 'neutral'],
    ['card/charge;q=0', 'neutral'],
    ['lightning/session;q=0', 'neutral'],
    ['lightning/charge;q=0;x="a"', 'suppress'],
    [', lightning/charge;q=0 ,', 'suppress'],
    ['lightning', 'neutral'],
    ['lightning/charge;q=0, ???', 'neutral'],
    ['lightning/charge;q=2', 'neutral'],
    ['lightning/charge;q=-0', 'neutral'],
    ['lightning/charge;q=', 'neutral'],
    ['lightning/charge;q=0.0001', 'neutral'],
    [`lightning/charge;q=0,${' '.repeat(3000)}`, 'neutral']
  ]
  for (const [value, expected] of cases) t.equal(paymentPreference(value), expected, String(value).slice(0, 60))
})

t.test('schemes keep their configured order unless the client says otherwise, and one always remains', async t => {
  const both = ['l402', 'payment'] as const
  t.same(challengeSchemes(both, null), both)
  t.same(challengeSchemes(both, 'lightning/charge'), ['payment', 'l402'])
  t.same(challengeSchemes(both, 'lightning/charge;q=0'), ['l402'])
  t.same(challengeSchemes(both, 'nonsense'), both)
  t.same(challengeSchemes(['payment', 'l402'], '*/*'), ['payment', 'l402'])
  t.same(challengeSchemes(['payment'], 'lightning/charge;q=0'), ['payment'])
  t.same(challengeSchemes(['l402'], 'lightning/charge'), ['l402'])
})

t.test('timestamps are whole seconds in UTC and come back', async t => {
  t.equal(formatTimestamp(1_800_000_000), '2027-01-15T08:00:00Z')
  for (const bad of [1.5, Number.NaN, 1e12]) t.throws(() => formatTimestamp(bad), RangeError)
  t.equal(parseTimestamp('2027-01-15T08:00:00.999Z'), 1_800_000_000)
  for (const bad of [
    '',
    '2027-01-15',
    '2027-01-15t08:00:00z',
    '2027-01-15T08:00:00+00:00',
    '2027-02-29T00:00:00Z',
    '2027-13-01T00:00:00Z',
    '2027-01-01T24:00:00Z',
    '2027-01-01T00:60:00Z',
    ' 2027-01-15T08:00:00Z'
  ]) {
    t.equal(parseTimestamp(bad), null, bad)
  }
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 253_402_300_799 }),
      seconds => parseTimestamp(formatTimestamp(seconds)) === seconds
    )
  )
})
