import fc from 'fast-check'
import t from 'tap'
import { comparablePath as comparable } from '../../../src/engine/message/path.ts'
import { matches, priceOf as priceOfProxy, priceOfEither } from '../../../src/payments/proxies/pricing.ts'
import type { ProxyEndpoint } from '../../../src/payments/proxies/schema.ts'

function priceOf(endpoints: readonly ProxyEndpoint[], defaultPriceSats: number, method: string, path: string) {
  return priceOfProxy({ endpoints, defaultPriceSats }, method, path)
}

function endpoint(pathPattern: string, priceSats: number, more: Partial<ProxyEndpoint> = {}): ProxyEndpoint {
  return {
    method: null,
    pathPattern,
    priceSats,
    description: null,
    tokenPath: 'exact',
    tokenValiditySeconds: null,
    ...more
  }
}

t.test('a pattern with a method goes before one without, then the longest, else the default (decision 91)', async t => {
  const endpoints = [
    endpoint('/*', 1),
    endpoint('/a/*', 2),
    endpoint('/a/b/*', 3),
    endpoint('/a/b/c', 4),
    endpoint('/a/*', 5, { method: 'POST' })
  ]
  const cases: Array<[method: string, path: string, price: number]> = [
    ['GET', '/x', 1],
    ['GET', '/a/x', 2],
    ['GET', '/a/b/x', 3],
    ['GET', '/a/b/c', 4],
    ['GET', '/a', 1],
    ['POST', '/a/b/c', 5],
    ['POST', '/x', 1]
  ]
  for (const [method, path, price] of cases)
    t.equal(priceOf(endpoints, 9, method, path).amountSats, price, `${method} ${path}`)
  t.equal(priceOf([], 9, 'GET', '/').amountSats, 9)
  t.same(
    priceOf([endpoint('/free', 0)], 9, 'GET', '/free'),
    { amountSats: 0, price: null, pattern: null, tokenValiditySeconds: null, meter: null },
    '0 is free'
  )
})

t.test('of an exact path and a pattern as long, the exact one has the price', async t => {
  for (const list of [
    [endpoint('/a/*', 1), endpoint('/a/b', 2)],
    [endpoint('/a/b', 2), endpoint('/a/*', 1)]
  ]) {
    t.equal(priceOf(list, 9, 'GET', '/a/b').amountSats, 2)
  }
})

t.test('only an endpoint that sets it sells its whole pattern (decision 114)', async t => {
  t.equal(priceOf([endpoint('/a/*', 1, { tokenPath: 'pattern' })], 9, 'GET', '/a/x').pattern, '/a/*')
  t.equal(priceOf([endpoint('/a/*', 1)], 9, 'GET', '/a/x').pattern, null)
})

t.test(
  'a token is valid for as long as its endpoint says; of two spellings, as the more expensive one says',
  async t => {
    const endpoints = [
      endpoint('/a/*', 5, { tokenValiditySeconds: 60 }),
      endpoint('/b', 7, { tokenValiditySeconds: 90 }),
      endpoint('/c', 3)
    ]
    t.equal(priceOf(endpoints, 9, 'GET', '/a/x').tokenValiditySeconds, 60)
    t.equal(priceOf(endpoints, 9, 'GET', '/c').tokenValiditySeconds, null, 'the proxy says it')
    t.equal(priceOf(endpoints, 9, 'GET', '/elsewhere').tokenValiditySeconds, null)
    t.same(priceOfEither({ endpoints, defaultPriceSats: 1 }, 'GET', '/a//x', '/b'), {
      amountSats: 7,
      price: null,
      pattern: null,
      tokenValiditySeconds: 90,
      meter: null
    })
    t.same(priceOfEither({ endpoints, defaultPriceSats: 1 }, 'GET', '/b', '/c'), {
      amountSats: 7,
      price: null,
      pattern: null,
      tokenValiditySeconds: 90,
      meter: null
    })
  }
)

t.test('/a/* matches paths below /a and not /a itself (decision 114)', async t => {
  t.ok(matches('/a/*', '/a/'))
  t.ok(matches('/a/*', '/a/b/c'))
  t.notOk(matches('/a/*', '/a'))
  t.notOk(matches('/a/*', '/ab'))
  t.ok(matches('/a', '/a'))
  t.notOk(matches('/a', '/a/'))
})

t.test('an encoded spelling of a priced path has its price, and reserved characters stay encoded', async t => {
  t.equal(comparable('/%61%2Fb'), '/a%2Fb')
  t.equal(comparable('/%7euser%2D%5F%2e'), '/~user-_.')
  t.equal(comparable('/%41%5A%30%39'), '/AZ09')
  t.equal(comparable('/%20%3F%23%25'), '/%20%3F%23%25')
  t.equal(priceOf([endpoint('/expensive', 100)], 1, 'GET', comparable('/%65xpensive')).amountSats, 100)
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme-ascii' }), text => {
      const encoded = [...text]
        .map(char => (/[A-Za-z0-9._~-]/.test(char) ? `%${char.charCodeAt(0).toString(16)}` : encodeURIComponent(char)))
        .join('')
      t.equal(
        comparable(encoded),
        encodeURIComponent(text).replaceAll(/[!'()*]/g, char => encodeURIComponent(char))
      )
    }),
    { numRuns: 50 }
  )
})
