import * as fc from 'fast-check'
import t from 'tap'
import { canonicalize, JcsError } from '../../../src/lightning/payment-scheme/jcs.ts'
import type { JcsValue } from '../../../src/lightning/payment-scheme/jcs.ts'

t.test('the example of RFC 8785, 3.2.2 is written as the RFC writes it', async t => {
  const value: JcsValue = {
    numbers: JSON.parse('[333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001]') as JcsValue, // JSON.parse has no better type
    string: "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\u0022/",
    literals: [null, true, false]
  }
  t.equal(
    canonicalize(value),
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
  )
})

t.test('members are sorted by UTF-16 code units, as in RFC 8785, 3.2.3', async t => {
  const value = {
    '\u20ac': 'Euro Sign',
    '\r': 'Carriage Return',
    '\ufb33': 'Hebrew Letter Dalet With Dagesh',
    '1': 'One',
    '\ud83d\ude00': 'Emoji: Grinning Face',
    '\u0080': 'Control',
    '\u00f6': 'Latin Small Letter O With Diaeresis'
  }
  t.same(
    [...canonicalize(value).matchAll(/:"([^"]*)"/g)].map(match => match[1]),
    [
      'Carriage Return',
      'One',
      'Control',
      'Latin Small Letter O With Diaeresis',
      'Euro Sign',
      'Emoji: Grinning Face',
      'Hebrew Letter Dalet With Dagesh'
    ]
  )
})

t.test('the numbers of RFC 8785, appendix B', async t => {
  const numbers: [number, string][] = [
    [0, '0'],
    [-0, '0'],
    [5e-324, '5e-324'],
    [-5e-324, '-5e-324'],
    [1.7976931348623157e308, '1.7976931348623157e+308'],
    [9007199254740992, '9007199254740992'],
    [295147905179352830000, '295147905179352830000'],
    [9.999999999999997e22, '9.999999999999997e+22'],
    [1e23, '1e+23'],
    [1e21, '1e+21'],
    [0.000001, '0.000001'],
    [9.999999999999997e-7, '9.999999999999997e-7'],
    [333333333.3333332, '333333333.3333332']
  ]
  for (const [value, text] of numbers) t.equal(canonicalize(value), text)
  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) t.throws(() => canonicalize(bad), JcsError)
})

t.test('input that is not I-JSON is refused', async t => {
  t.throws(() => canonicalize('\ud800'), JcsError)
  t.throws(() => canonicalize({ '\udead': 1 }), JcsError)
  // Values that TypeScript forbids and a plain JavaScript caller could still pass.
  for (const bad of [undefined, 1n, { a: undefined }, () => 1])
    t.throws(() => canonicalize(bad as unknown as JcsValue), JcsError)
})

t.test('it is JSON of the same value, and the order of members does not matter', async t => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'grapheme' }), value => {
      const text = canonicalize(value as JcsValue) // fast-check's type of the same thing
      t.same(JSON.parse(text), JSON.parse(JSON.stringify(value)))
      return canonicalize(JSON.parse(text) as JcsValue) === text // JSON.parse has no better type
    }),
    { numRuns: 200 }
  )
  t.equal(canonicalize({ b: 1, a: { d: 2, c: 3 } }), canonicalize({ a: { c: 3, d: 2 }, b: 1 }))
})
