import fc from 'fast-check'
import t from 'tap'
import { knownDecimal, plainText, type Decimal } from '../../../src/lightning/money/decimal.ts'
import { agree, median } from '../../../src/lightning/money/feed.ts'

const of = (...prices: string[]) => prices.map(price => ({ price: knownDecimal(price) }))
const shown = (price: Decimal | null) => (price === null ? null : plainText(price))
const texts = (answers: ReadonlyArray<{ readonly price: Decimal }>) => answers.map(({ price }) => plainText(price))

t.test('the median of at least two, exactly', async t => {
  t.equal(shown(agree(of()).price), null)
  t.equal(shown(agree(of('100')).price), null, 'one source is no price')
  t.equal(shown(agree(of('100', '101')).price), '100.5')
  t.equal(shown(agree(of('100.01', '100.02')).price), '100.015')
  t.equal(shown(agree(of('101', '100', '100.5')).price), '100.5')
  t.equal(shown(agree(of('101', '100', '100.5', '100.25')).price), '100.375')
})

t.test('prices more than 2 % from the median are refused, and two must remain', async t => {
  const one = agree(of('100', '100', '150', '101'))
  t.same(texts(one.outliers), ['150'])
  t.equal(shown(one.price), '100')
  const edge = agree(of('100', '100', '102', '98'))
  t.same(edge.outliers, [], '2 % is not more than 2 %')
  t.same(texts(agree(of('100', '100', '102.000001')).outliers), ['102.000001'])
  t.same(texts(agree(of('100', '100', '97.999999')).outliers), ['97.999999'])
  t.equal(shown(agree(of('100', '110')).price), null, 'two that contradict each other are both refused')
  t.equal(shown(agree(of('100', '110', '120')).price), null)
  t.equal(shown(agree(of('100', '104')).price), '102', 'each is within 2 % of the middle')
})

const prices = fc.array(
  fc
    .tuple(fc.bigInt({ min: 1n, max: 10n ** 12n }), fc.integer({ min: 0, max: 6 }))
    .map(([digits, places]) => ({ price: { digits, places } })),
  { maxLength: 9 }
)
const scaled = ({ price: { digits, places } }: { readonly price: Decimal }) => digits * 10n ** BigInt(12 - places)

t.test('property: the median is between the least and the greatest, in any order', async () => {
  fc.assert(
    fc.property(prices, fc.integer({ min: 0, max: 8 }), (answers, turn) => {
      const found = median(answers.map(({ price }) => price))
      const turned = median([...answers.slice(turn), ...answers.slice(0, turn)].map(({ price }) => price))
      if (found === null) return answers.length < 2 && turned === null
      const all = answers.map(scaled)
      const value = scaled({ price: found })
      const below = all.filter(one => one <= value).length
      const above = all.filter(one => one >= value).length
      return (
        plainText(found) === plainText(turned ?? { digits: 0n, places: 0 }) &&
        below * 2 >= all.length &&
        above * 2 >= all.length
      )
    })
  )
})

t.test('property: one liar among four never moves the price out of what the honest say', async () => {
  const honest = fc.array(fc.bigInt({ min: 10_000_000n, max: 10_100_000n }), { minLength: 3, maxLength: 3 })
  fc.assert(
    fc.property(honest, fc.bigInt({ min: 1n, max: 10n ** 12n }), (said, lie) => {
      const { price } = agree([...said, lie].map(digits => ({ price: { digits, places: 2 } })))
      if (price === null) return false
      const value = scaled({ price })
      const least = said.reduce((a, b) => (a < b ? a : b)) * 10n ** 10n
      const most = said.reduce((a, b) => (a > b ? a : b)) * 10n ** 10n
      return value >= least && value <= most
    })
  )
})
