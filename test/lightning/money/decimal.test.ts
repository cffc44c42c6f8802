import fc from 'fast-check'
import fastJson from 'fast-json-stringify'
import t from 'tap'
import { inUnits, jsonNumber, knownDecimal, plainText, readDecimal } from '../../../src/lightning/money/decimal.ts'

const plain = (given: number | string) => {
  const value = readDecimal(given)
  return value === null ? null : plainText(value)
}

t.test(
  'numbers of JSON bodies are read exactly, exponents too, and written plainly without trailing zeros (decisions 4 and 8)',
  async t => {
    const rows: Array<[given: number | string, text: string]> = [
      [0, '0'],
      [-0, '0'],
      [0.1, '0.1'],
      [0.3, '0.3'],
      [1e-8, '0.00000001'],
      [1.5e-7, '0.00000015'],
      [49.9, '49.9'],
      [100, '100'],
      [1e21, '1000000000000000000000'],
      [20999999.97690001, '20999999.97690001'],
      [99999999.99, '99999999.99'],
      [-2.5, '-2.5'],
      [Number('0.00000001'), '0.00000001'],
      [Number('4.35'), '4.35'],
      ['0.10', '0.1'],
      ['00012.500', '12.5'],
      ['1e-8', '0.00000001'],
      ['1E2', '100'],
      ['1.25e+1', '12.5'],
      ['-0', '0'],
      ['-0.00', '0'],
      ['0e9', '0'],
      ['100.00', '100'],
      ['0.000000000000000000000000000001', '0.000000000000000000000000000001'],
      ['123456789012345678901234567890.12', '123456789012345678901234567890.12']
    ]
    for (const [given, text] of rows) t.equal(plain(given), text, `${typeof given} ${String(given)}`)
  }
)

t.test('only decimal numbers are read, and huge exponents cost nothing', async t => {
  for (const given of [
    '',
    ' ',
    '1 ',
    ' 1',
    '+1',
    '.5',
    '5.',
    '1,5',
    '1_000',
    '0x10',
    'NaN',
    'Infinity',
    '1e',
    '1e5.5',
    '--1',
    '١',
    '1\n',
    '1e99999',
    '1e401',
    '1e-401',
    '9'.repeat(101)
  ]) {
    t.equal(plain(given), null, JSON.stringify(given))
  }
  for (const given of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
    t.equal(plain(given), null, String(given))
})

const decimals = fc
  .tuple(fc.bigInt({ min: -(10n ** 24n), max: 10n ** 24n }), fc.integer({ min: 0, max: 30 }))
  .map(([digits, places]) => ({ digits, places }))

t.test('property: a written decimal reads as the same value, and has neither exponent nor trailing zero', async () => {
  fc.assert(
    fc.property(decimals, value => {
      const text = plainText(value)
      const again = knownDecimal(text)
      return (
        again.digits * 10n ** BigInt(value.places) === value.digits * 10n ** BigInt(again.places) &&
        /^-?(?:0|[1-9]\d*)(?:\.\d*[1-9])?$/.test(text) &&
        text !== '-0'
      )
    })
  )
})

t.test('property: every satoshi and every cent that JSON.parse reads is written unchanged', async () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2_100_000_000_000_000n }), satoshis => {
      const text = plainText({ digits: satoshis, places: 8 })
      return plain(JSON.parse(text) as number) === text && inUnits(knownDecimal(text), 8) === satoshis
    }),
    { numRuns: 1000 }
  )
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10_000_000_000n }), cents => {
      const text = plainText({ digits: cents, places: 2 })
      return plain(JSON.parse(text) as number) === text && inUnits(knownDecimal(text), 2) === cents
    }),
    { numRuns: 1000 }
  )
})

t.test('property: any double is read as the number that it prints', async () => {
  fc.assert(
    fc.property(
      fc.double({ noNaN: true, noDefaultInfinity: true, min: 1e-300, max: 1e300 }),
      number => Number(plain(number)) === number
    )
  )
})

t.test('units of a decimal with more places are refused and never rounded', async t => {
  t.equal(inUnits(knownDecimal('0.1'), 8), 10_000_000n)
  t.equal(inUnits({ digits: 1000n, places: 3 }, 0), 1n, 'zeros at the end are no places')
  t.throws(() => inUnits(knownDecimal('0.005'), 2), RangeError)
  t.throws(() => knownDecimal('x'), TypeError)
})

t.test('a decimal survives the writer of answers under an open schema (decision 8)', async t => {
  const write = fastJson({ type: 'object', properties: { amount: { description: 'open' }, other: { type: 'string' } } })
  for (const text of ['0.00000001', '0', '49.9', '100000000', '20999999.97690001']) {
    t.equal(write({ amount: jsonNumber(text), other: 'x' }), `{"amount":${text},"other":"x"}`)
  }
  t.equal(JSON.stringify(jsonNumber('1.500')), '1.5')
  t.throws(() => jsonNumber('1e-8x'), TypeError)
})
