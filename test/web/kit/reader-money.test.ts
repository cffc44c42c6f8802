import t from 'tap'
import { ManualClock } from '../../support/manual-clock.ts'
import { knownDecimal } from '../../../src/lightning/money/decimal.ts'
import { readerCurrency, readersWorth, worthText } from '../../../src/web/kit/reader-money.ts'

t.test('a reader counts in the money of the first language', async t => {
  for (const [languages, currency] of [
    ['de-AT,en;q=0.5', 'EUR'],
    ['de', 'EUR'],
    ['en-GB', 'GBP'],
    ['en', 'USD'],
    ['sr-Latn-ME', 'EUR'],
    [' fr-FR ; q=1', 'EUR'],
    ['de-CH,en-US', null],
    ['ja', null],
    ['*', null],
    ['', null],
    ['en_US', null],
    ['x'.repeat(100), null],
    ['en-US-'.repeat(50), null],
    ['aaa-bbbbbbbbb', null]
  ] as const)
    t.equal(readerCurrency(languages), currency, languages)
})

t.test('nothing has no value beside it', async t => {
  const prices = { quote: () => Promise.reject(new Error('no rate is asked for')) }
  t.equal(await readersWorth({ clock: new ManualClock(), prices }, 0, 'en'), null)
})

t.test('the value of satoshis is exact to the nearest hundredth', async t => {
  for (const [satoshis, price, text] of [
    [1, '100000', 'less than $0.01'],
    [5, '100000', '≈ $0.01'],
    [4, '100000', 'less than $0.01'],
    [15, '100000', '≈ $0.02'],
    [14, '100000', '≈ $0.01'],
    [100_000_000, '98765.432109876', '≈ $98,765.43'],
    [100_000_000, '98765.435', '≈ $98,765.44'],
    [2_100_000_000_000_000, '100000.00', '≈ $2,100,000,000,000.00']
  ] as const)
    t.equal(worthText(satoshis, 'USD', knownDecimal(price)), text, `${satoshis} at ${price}`)
})
