import * as fc from 'fast-check'
import t from 'tap'
import { challengeSchemes, paymentPreference } from '../../../src/selling/offers/accept-payment.ts'
import { contentDigest } from '../../../src/lightning/payment-scheme/payment-challenge.ts'
import { formatTimestamp, parseTimestamp } from '../../../src/lightning/codecs/timestamp.ts'

t.test('the digest of RFC 9530, appendix B', async t => {
  const body = Buffer.from('{"hello": "world"}\n')
  t.equal(contentDigest(body), 'sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:')
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
