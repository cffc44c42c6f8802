import * as fc from 'fast-check'
import t from 'tap'
import { apertureRefusal } from '../../../src/lightning/l402/aperture-tokens.ts'
import {
  checkGrant,
  checkGrantTimes,
  exactPath,
  issueCaveats,
  pathCovers,
  readGrant,
  serviceCaveat
} from '../../../src/lightning/l402/caveats.ts'
import type { GrantRequirement, GrantTerms } from '../../../src/lightning/l402/caveats.ts'

const PREIMAGE = 'ab'.repeat(32)
const TERMS: GrantTerms = {
  service: serviceCaveat('weather'),
  path: '/l402/proxy/weather/now',
  wildcard: false,
  merchantId: '7',
  chargeId: 'sbx_1',
  amountSats: 10,
  expires: 2000
}
const NEEDED: GrantRequirement = {
  service: 'weather:0',
  path: '/l402/proxy/weather/now',
  merchantId: '7',
  chargeId: 'sbx_1',
  amountSats: 10
}

const grantOf = (caveats: string[]) =>
  readGrant(
    caveats.map(caveat => Buffer.from(caveat)),
    PREIMAGE
  )
const check = (caveats: string[], needed: Partial<GrantRequirement> = {}, now = 1000) =>
  checkGrant(grantOf(caveats), { ...NEEDED, ...needed }, now)
const issued = (terms: Partial<GrantTerms> = {}) => issueCaveats({ ...TERMS, ...terms })
const without = (name: string) => issued().filter(caveat => !caveat.startsWith(`${name}=`))

t.test("caveats are issued in the contract's order, and accepted for the same request", async t => {
  t.same(issued(), [
    'services=weather:0',
    'path=/l402/proxy/weather/now',
    'merchant_id=7',
    'charge_id=sbx_1',
    'amount_sats=10',
    'expires=2000'
  ])
  t.same(issued({ merchantId: null }), [
    'services=weather:0',
    'path=/l402/proxy/weather/now',
    'charge_id=sbx_1',
    'amount_sats=10',
    'expires=2000'
  ])
  t.equal(check(issued()), null)
  t.equal(check(issued({ merchantId: null }), { merchantId: null }), null)
  t.equal(check(issued(), { chargeId: null }), null, 'the charge is compared only when it is known')
  t.throws(() => issued({ amountSats: 1.5 }), RangeError)
  for (const expires of [Number.NaN, -1]) t.throws(() => issued({ expires }), RangeError)
})

t.test('the three merchant texts are said exactly, with 403', async t => {
  const say = (message: string) => ({ status: 403, caveat: 'merchant_id', message })
  t.same(check(issued(), { merchantId: '8' }), say('Token not valid for this merchant'))
  t.same(check(issued(), { merchantId: null }), say('Token requires merchant context but none was provided'))
  t.same(check(issued({ merchantId: null })), say('Token missing required merchant_id caveat'))
})

t.test('an expired token is a 403, and the last second is still valid', async t => {
  t.equal(check(issued(), {}, 2000), null)
  t.match(check(issued(), {}, 2000.001), { status: 403, caveat: 'expires', expires: 2000 })
})

t.test('another path is a 403 that names both paths', async t => {
  t.match(check(issued(), { path: '/l402/proxy/weather/other' }), {
    status: 403,
    allowed: '/l402/proxy/weather/now',
    requested: '/l402/proxy/weather/other'
  })
  t.match(check(issued(), { path: '/l402/proxy/weather/NOW' }), { caveat: 'path' })
})

t.test('a wildcard covers what starts with its prefix, not the prefix without its slash', async t => {
  t.ok(pathCovers('/a/*', '/a/'))
  t.ok(pathCovers('/a/*', '/a/b/c'))
  t.notOk(pathCovers('/a/*', '/a'))
  t.notOk(pathCovers('/a/*', '/ab'))
  t.notOk(pathCovers('/a*', '/ab'), 'only /* is a wildcard')
  t.notOk(pathCovers('/a/*/c', '/a/b/c'))
  t.ok(pathCovers('/*', '/anything'))
  t.equal(check(issued({ path: '/l402/proxy/weather/*', wildcard: true })), null)
})

t.test('asking for a path that ends in a star does not buy a wildcard', async t => {
  const caveats = issued({ path: '/l402/proxy/weather/*' })
  t.equal(caveats[1], 'path=/l402/proxy/weather/%2A')
  t.equal(check(caveats, { path: '/l402/proxy/weather/*' }), null, 'the requested path is served')
  t.match(check(caveats), { status: 403, caveat: 'path' }, 'a path below it is not')
  t.equal(exactPath('/a/*b'), '/a/*b')
})

t.test('service, price and charge are 401s', async t => {
  t.match(check(issued(), { service: 'weather:1' }), { status: 401, caveat: 'services' })
  t.match(check(issued(), { amountSats: 11 }), { status: 401, caveat: 'amount_sats' })
  t.match(
    check(issued(), { amountSats: 9 }),
    { status: 401, caveat: 'amount_sats' },
    'a price that fell is another price too'
  )
  t.match(check(issued(), { chargeId: 'sbx_2' }), { status: 401, caveat: 'charge_id' })
})

t.test('a required caveat that is missing fails', async t => {
  for (const name of ['services', 'path', 'charge_id', 'amount_sats', 'expires'])
    t.match(check(without(name)), { status: 401, caveat: name }, name)
  t.match(check(without('merchant_id')), { status: 403, caveat: 'merchant_id' })
  t.match(check([]), { status: 403, caveat: 'merchant_id' })
  t.match(check([], { merchantId: null }), { status: 401, caveat: 'expires' })
})

t.test('the first failure in the agreed order wins', async t => {
  const wrong: [string, string][] = [
    ['merchant_id', 'merchant_id=8'],
    ['expires', 'expires=1'],
    ['path', 'path=/x'],
    ['services', 'services=x:0'],
    ['amount_sats', 'amount_sats=1'],
    ['charge_id', 'charge_id=x'],
    ['unknown', 'colour=red']
  ]
  for (let first = 0; first < wrong.length; first++) {
    const names = wrong.slice(first).map(([name]) => name)
    const caveats = [
      ...issued().filter(caveat => !names.some(name => caveat.startsWith(`${name}=`))),
      ...wrong.slice(first).map(([, caveat]) => caveat)
    ]
    t.equal(check(caveats.toReversed())?.caveat, wrong[first]?.[0])
  }
})

t.test('an unknown caveat fails, however it is written', async t => {
  for (const caveat of [
    'colour=red',
    'account',
    '',
    '=x',
    'path =/x',
    ' path=/x',
    'PATH=/x',
    'services_capabilities=add',
    'é=1'
  ]) {
    t.match(check([...issued(), caveat]), { status: 401, caveat: 'unknown' }, JSON.stringify(caveat))
  }
  const broken = readGrant([...issued().map(caveat => Buffer.from(caveat)), Buffer.of(0xff, 0x3d)], PREIMAGE)
  t.match(checkGrant(broken, NEEDED, 1000), { status: 401, caveat: 'unknown' })
  t.match(check([...issued(), 'a\r\nb=1']), { message: 'Unknown caveat: a??b' }, 'nothing can break out of a header')
})

t.test('a preimage caveat holds when it repeats the presented preimage', async t => {
  t.equal(check([...issued(), `preimage=${PREIMAGE}`]), null)
  t.match(check([...issued(), `preimage=${'cd'.repeat(32)}`]), { status: 401, caveat: 'unknown' })
  t.match(check([...issued(), `preimage=${PREIMAGE}`, 'preimage=']), { status: 401 })
})

t.test('repeated caveats may narrow', async t => {
  const wide = issued({ path: '/l402/proxy/weather/*', wildcard: true })
  t.equal(check([...wide, ...wide]), null, 'equal')
  t.equal(check([...wide, 'path=/l402/proxy/weather/now']), null)
  t.match(check([...wide, 'path=/l402/proxy/weather/then']), { caveat: 'path', allowed: '/l402/proxy/weather/then' })
  t.equal(check([...wide, 'path=/l402/proxy/weather/n/*'], { path: '/l402/proxy/weather/n/x' }), null)
  t.match(check([...issued(), 'expires=1500'], {}, 1600), { caveat: 'expires', status: 403 })
})

t.test('a repeated caveat that widens or differs fails, even where the first would have held', async t => {
  const wide = issued({ path: '/l402/proxy/weather/*', wildcard: true })
  for (const [name = '', caveat = ''] of [
    ['expires', 'expires=3000'],
    ['merchant_id', 'merchant_id=8'],
    ['services', 'services=weather:1'],
    ['amount_sats', 'amount_sats=1'],
    ['charge_id', 'charge_id=y'],
    ['path', 'path=/l402/proxy/*'],
    ['path', 'path=/other']
  ])
    t.match(check([...wide, caveat]), { status: 401, caveat: name }, caveat)
  t.match(check([...issued(), 'path=/l402/proxy/weather/*']), { status: 401, caveat: 'path' })
  t.match(check([...issued(), 'merchant_id=8'], { merchantId: '8' }), { status: 401, caveat: 'merchant_id' })
})

t.test('a value that cannot be read fails', async t => {
  for (const caveat of [
    'expires=',
    'expires=1e3',
    'expires=-1',
    'expires=0x10',
    'expires= 1',
    'amount_sats=010',
    'amount_sats=10.0',
    'path=',
    'services=',
    'merchant_id=',
    'price=',
    `expires=${'9'.repeat(30)}`
  ]) {
    t.match(check([...issued(), caveat]), { status: 401, caveat: caveat.slice(0, caveat.indexOf('=')) }, caveat)
  }
})

t.test('standing checks expiry and soundness only', async t => {
  const standing = (caveats: string[], now = 1000) => checkGrantTimes(grantOf(caveats), now)
  t.equal(standing(issued({ path: '/elsewhere', merchantId: '99' })), null)
  t.match(standing(issued(), 2001), { status: 403, caveat: 'expires' })
  t.match(standing(without('expires')), { caveat: 'expires' })
  t.match(standing([...issued(), 'colour=red']), { caveat: 'unknown' })
  for (const caveat of ['path=/x', 'merchant_id=8', 'amount_sats=1'])
    t.match(standing([...issued(), caveat]), { status: 401 }, caveat)
})

t.test('adding caveats never turns a refusal into an acceptance', async () => {
  const name = fc.constantFrom(
    'services',
    'path',
    'merchant_id',
    'charge_id',
    'amount_sats',
    'expires',
    'preimage',
    'x'
  )
  const value = fc.constantFrom(
    'weather:0',
    '/l402/proxy/weather/now',
    '/l402/*',
    '/*',
    '7',
    '8',
    'sbx_1',
    '10',
    '2000',
    '3000',
    '1',
    '',
    PREIMAGE
  )
  const caveat = fc.tuple(name, value).map(pair => pair.join('='))
  fc.assert(
    fc.property(
      fc.array(caveat, { maxLength: 8 }),
      caveat,
      fc.subarray(issued()),
      fc.integer({ min: 0, max: 4000 }),
      (base, extra, start, now) => {
        const before = checkGrant(grantOf([...start, ...base]), NEEDED, now)
        const after = checkGrant(grantOf([...start, ...base, extra]), NEEDED, now)
        // A required caveat that was missing is the one thing that more caveats can fix, and only the signer's first
        // six count as ours: tokens without them are never issued.
        return before === null || after !== null || before.message.startsWith('Token missing required')
      }
    ),
    { numRuns: 2000 }
  )
})

t.test('no bytes make the reader throw', async () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 10 }),
      bytes => checkGrant(readGrant(bytes, PREIMAGE), NEEDED, 1000) !== null
    ),
    { numRuns: 500 }
  )
})

t.test('two long lists in caveats are compared in linear time', t => {
  const names = (prefix: string) => Array.from({ length: 8_000 }, (_, at) => `${prefix}${at}`)
  // The least of several: this process may be collecting garbage.
  const leastOf = (run: () => void) =>
    Math.min(
      ...Array.from({ length: 8 }, () => {
        const before = process.cpuUsage().user
        run()
        return process.cpuUsage().user - before
      })
    )
  const models = (...lists: string[][]) => grantOf(lists.map(list => `model=${list.join(',')}`)).limits?.models?.length
  const services = (...lists: string[][]) =>
    apertureRefusal(
      {
        location: '',
        identifier: Buffer.alloc(0),
        signature: Buffer.alloc(32),
        caveats: lists.map(list => Buffer.from(`services=${list.join(',')}`))
      },
      'a0',
      '/',
      0
    )?.message
  t.equal(models(names('a'), names('b')), 0)
  t.equal(services(names('a'), names('a').toReversed()), undefined)
  for (const read of [models, services]) {
    const one = leastOf(() => read(names('a')))
    const two = leastOf(() => read(names('a'), names('a').toReversed()))
    // Quadratic time took 83 ms, and some machines count CPU in steps of 4 ms.
    t.ok(two < 30 * one + 20_000, `${two} µs, and ${one} µs for one list`)
  }
  t.end()
})
