import tap from 'tap'
import { withPrevious } from '../../../src/payments/proxies/pricing.ts'
import type { PreviousPrices } from '../../../src/payments/proxies/schema.ts'

type Prices = Parameters<typeof withPrevious>[1]

function prices(defaultPriceSats: number, endpoints = 0) {
  return {
    defaultPriceSats,
    endpoints: Array.from({ length: endpoints }, (_, at) => ({
      method: null,
      pathPattern: `/${'a'.repeat(490)}${at}`,
      priceSats: defaultPriceSats,
      tokenPath: 'exact' as const
    }))
  }
}

/** The list after one change a millisecond, from each of `steps` to the next. */
function changed(steps: readonly Prices[]) {
  return steps.reduce<readonly PreviousPrices[]>(
    (former, step, at) => (at === 0 ? former : withPrevious(former, steps[at - 1] ?? step, step, at)),
    []
  )
}

tap.test(
  'a proxy of long lists whose prices change without end stays small: every process reads it again every four seconds',
  async t => {
    const former = changed(Array.from({ length: 60 }, (_, at) => prices(at + 1, 100)))
    t.ok(JSON.stringify(former).length < 300_000, `${JSON.stringify(former).length} characters`)
    t.same(
      former.map(({ defaultPriceSats }) => defaultPriceSats),
      [59, 58, 57, 56],
      'the latest are kept'
    )
  }
)

tap.test('of short lists the last 50 changes are kept, and of one that is larger than all the last', async t => {
  t.equal(changed(Array.from({ length: 60 }, (_, at) => prices(at + 1, 3))).length, 50)
  t.equal(withPrevious([], prices(1, 600), prices(2), 1).length, 1)
})

tap.test('prices that go back and forth push no others out', async t => {
  const former = changed([prices(5), ...Array.from({ length: 100 }, (_, at) => prices(at % 2 === 0 ? 10 : 20))])
  t.same(
    former.map(({ defaultPriceSats, until }) => [defaultPriceSats, until]),
    [
      [10, 100],
      [20, 99],
      [5, 1]
    ],
    'each is listed once, with the last time it was asked'
  )
})
