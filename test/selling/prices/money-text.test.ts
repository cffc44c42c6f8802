import t from 'tap'
import { readMoney } from '../../../src/engine/checks/money-text.ts'
import { FineMoney, Money } from '../../../src/engine/config/units.ts'
import { readConfig } from '../../../src/engine/config/read.ts'
import { isMoreFiat } from '../../../src/lightning/money/prices.ts'

t.test('money is read exactly, and fiat has one spelling', async t => {
  for (const [text, money] of [
    ['10 sats', { msat: 10_000 }],
    ['1sat', { msat: 1000 }],
    ['1500 msat', { msat: 1500 }],
    ['0 sats', { msat: 0 }],
    ['$0.002', { fiat: 'USD 0.002' }],
    ['$0.0020', { fiat: 'USD 0.002' }],
    ['0.01 EUR', { fiat: 'EUR 0.01' }],
    ['0.01EUR', { fiat: 'EUR 0.01' }],
    ['GBP 007.50', { fiat: 'GBP 7.5' }],
    ['£2', { fiat: 'GBP 2' }],
    ['$1000000', { fiat: 'USD 1000000' }]
  ] as const)
    t.strictSame(readMoney(text), money, text)
  for (const text of [
    '',
    '$',
    '$0',
    '$0.00',
    '$-1',
    '-1 sats',
    '1.5 sats',
    '$1e3',
    '$1,000',
    '$1000000.01',
    '$0.0000000000001',
    '1 CHF',
    '1 usd',
    '$1 USD',
    '$1 EUR',
    'USD 1 EUR',
    '9999999999999999 sats',
    '1 btc'
  ])
    t.equal(readMoney(text), undefined, text)
})

t.test('a price is whole satoshis, rounded up; what costs parts of one keeps them', async t => {
  const price = (given: unknown) => readConfig(Money({ maximum: 1000 }), given).value
  t.equal(price('1 msat'), 1)
  t.equal(price('1500 msat'), 2)
  t.equal(price('2000 msat'), 2)
  t.equal(price(25), 25)
  t.equal(price('$0.002'), 'USD 0.002')
  t.equal(price('1001 sats'), undefined)
  t.equal(price('USD 1'), 'USD 1')
  const fine = (given: unknown) => readConfig(FineMoney(), given).value
  t.equal(fine('2 msat'), 2)
  t.equal(fine('1 sat'), 1000)
  t.equal(fine('$0.000002'), 'USD 0.000002')
  t.equal(fine(2), undefined, 'a bare number does not say of what')
})

t.test('fiat is compared within one currency', async t => {
  t.ok(isMoreFiat('USD 0.1', 'USD 0.09'))
  t.notOk(isMoreFiat('USD 0.1', 'USD 0.1'))
  t.notOk(isMoreFiat('EUR 9', 'USD 1'))
})
