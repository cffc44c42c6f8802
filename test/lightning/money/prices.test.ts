import fc from 'fast-check'
import t from 'tap'
import { knownDecimal, plainText } from '../../../src/lightning/money/decimal.ts'
import { atPrice, FixedPrices, NoPrices, satoshisOf } from '../../../src/lightning/money/prices.ts'

const prices = new FixedPrices({ USD: '50000', EUR: '30000', GBP: '33333.33' })

t.test('fiat becomes satoshis up to the next whole one, at least 1 (decision 47)', async t => {
  t.equal(await prices.satoshis('USD', '1'), 2000)
  t.equal(await prices.satoshis('USD', '0.01'), 20)
  t.equal(await prices.satoshis('EUR', '1'), 3334, '3333.33…')
  t.equal(await prices.satoshis('GBP', '1'), 3001, '3000.0003')
  t.equal(await new FixedPrices({ USD: '100000000000', EUR: '1', GBP: '1' }).satoshis('USD', '0.01'), 1)
  t.equal(await prices.satoshis('USD', '100000000'), 200_000_000_000)
})

t.test('bitcoin needs no price: 0.00000001 BTC is one satoshi (contract, Payment)', async t => {
  const none = new NoPrices()
  t.equal(await satoshisOf(none, 'BTC', '0.00000001'), 1)
  t.equal(await satoshisOf(none, 'BTC', '1'), 100_000_000)
  t.equal(await satoshisOf(none, 'BTC', '20999999.97690001'), 2_099_999_997_690_001)
  t.equal(await satoshisOf(prices, 'USD', '1'), 2000)
})

t.test('property: the merchant is never short, and never gets a satoshi more than that takes', async () => {
  const amounts = fc
    .bigInt({ min: 1n, max: 10_000_000_000n })
    .map(cents => knownDecimal(plainText({ digits: cents, places: 2 })))
  const each = fc
    .bigInt({ min: 1n, max: 10n ** 10n })
    .map(cents => knownDecimal(plainText({ digits: cents, places: 2 })))
  fc.assert(
    fc.property(amounts, each, (amount, price) => {
      const satoshis = BigInt(atPrice(amount, price))
      // Worth of `count` satoshis, and the amount, in the same tiny units.
      const worth = (count: bigint) => count * price.digits * 10n ** BigInt(amount.places)
      const asked = amount.digits * 10n ** BigInt(price.places + 8)
      // Beyond the safe integers the number of satoshis itself is no longer exact; no such price exists.
      return satoshis > 2n ** 53n || (worth(satoshis) >= asked && (satoshis === 1n || worth(satoshis - 1n) < asked))
    })
  )
})

t.test('a price that is no decimal above 0 is refused when it is set', async t => {
  for (const USD of ['0', '-1', 'x', '']) t.throws(() => new FixedPrices({ USD, EUR: '1', GBP: '1' }), TypeError)
})
