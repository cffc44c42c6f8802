import t from 'tap'
import auth from '../../plugins/auth.ts'
import { MemoryState, StateUnavailable, type Merchants, type Sessions, type State } from '../../src/index.ts'
import { harness, type HarnessRequest } from '../../src/engine/pipeline/harness.ts'
import { AdminKey } from '../../src/accounts/merchants/admin-key.ts'
import { AuthThrottle } from '../../src/accounts/merchants/auth-throttle.ts'
import { Unavailable } from '../../src/engine/operations/errors.ts'
import { Secret } from '../../src/platform/keys/secrets.ts'
import { aMerchant } from '../accounts/merchants/a-merchant.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { principalOfKey } from '../../src/accounts/merchants/principal.ts'

const goodKey = 'the right merchant key'
const readingKey = 'a key that only reads'
const adminText = 'the admin key'
const acme = aMerchant()

async function setUp(
  config: { as: 'merchant' | 'admin'; optional?: boolean; forwardKey?: boolean },
  different: { state?: State; adminKey?: string | null; byApiKey?: (key: string) => Promise<typeof acme | null> } = {}
) {
  const clock = new ManualClock()
  const looked: string[] = []
  const state = different.state ?? new MemoryState(clock)
  const find = different.byApiKey ?? (async key => (key === goodKey || key === readingKey ? acme : null))
  // Only what the plugin calls.
  const merchants = {
    holderOf: async (key: string) => {
      looked.push(key)
      const merchant = await find(key)
      return merchant === null ? null : { merchant, keyId: merchant.keyId, isReadOnly: key === readingKey }
    }
  } as unknown as Merchants
  const admin = different.adminKey === undefined ? adminText : different.adminKey
  const chain = await harness([{ plugin: auth, config }], {
    services: {
      clock,
      merchants,
      adminKey: new AdminKey(admin === null ? null : new Secret(admin)),
      authThrottle: new AuthThrottle(state, clock),
      // No session.
      sessions: { tokenOf: () => null } as unknown as Sessions
    }
  })
  return { clock, looked, state, chain }
}

const withKey = (key: string, more: Partial<HarnessRequest> = {}) => ({
  headers: { 'X-API-Key': key },
  ...more
})

t.test('a right key sets the merchant as principal', async t => {
  const { chain } = await setUp({ as: 'merchant' })
  const { status, ctx } = await chain.run(withKey(goodKey))
  t.equal(status, 200)
  t.same(ctx.principal, principalOfKey(acme))
  t.same((await chain.run(withKey(readingKey))).ctx.principal, principalOfKey(acme, acme.keyId, 'viewer'))
  for (let n = 0; n < 40; n++) t.equal((await chain.run(withKey(goodKey))).status, 200, 'which counts as no failure')
})

t.test('the required key is not forwarded to the upstream, unless that is set', async t => {
  const sent = async (config: Parameters<typeof setUp>[0], key: string) => {
    const { upstream, status } = await (await setUp(config)).chain.run(withKey(key))
    t.equal(status, 200)
    return upstream?.headers.get('x-api-key')
  }
  t.equal(await sent({ as: 'merchant' }, goodKey), undefined)
  t.equal(await sent({ as: 'merchant', optional: true }, goodKey), undefined)
  t.equal(await sent({ as: 'admin' }, adminText), undefined)
  t.equal(await sent({ as: 'merchant', forwardKey: true }, goodKey), goodKey)
})

const MISSING: readonly [number, string] = [
  401,
  '{"error":"API key required","message":"Send the API key in the header X-API-Key."}'
]
const INVALID: readonly [number, string] = [
  401,
  '{"error":"Invalid API key","message":"The API key in the header X-API-Key is not valid."}'
]
const UNSET: readonly [number, string] = [500, '{"error":"Server configuration error"}']

t.test('a missing key, an invalid one and one that nothing can match have the texts of the contract', async t => {
  const merchant = await setUp({ as: 'merchant' })
  const admin = await setUp({ as: 'admin' })
  const rows = [
    ...[{}, withKey(''), withKey('  ')].map(request => [merchant, request, MISSING] as const),
    ...[withKey('wrong'), withKey(adminText), { headers: ['X-API-Key', goodKey, 'X-API-Key', goodKey] }].map(
      request => [merchant, request, INVALID] as const
    ),
    ...['wrong', goodKey].map(key => [admin, withKey(key), INVALID] as const)
  ]
  for (const adminKey of [null, ''])
    for (const request of [{}, withKey('x'), withKey('')])
      rows.push([await setUp({ as: 'admin' }, { adminKey }), request, UNSET])
  for (const [{ chain }, request, [status, text]] of rows) {
    const result = await chain.run(request)
    t.same([result.status, result.text, result.upstream, result.ctx.principal], [status, text, null, null])
  }
  t.same(merchant.looked, ['wrong', adminText, `${goodKey}, ${goodKey}`])
})

t.test('optional: no key passes without a principal, a wrong one does not', async t => {
  const { chain } = await setUp({ as: 'admin', optional: true })
  const none = await chain.run()
  t.equal(none.status, 200)
  t.equal(none.ctx.principal, null)
  t.equal((await chain.run(withKey('wrong'))).status, 401)
  t.match((await chain.run(withKey(adminText))).ctx.principal, { kind: 'admin' })
})

t.test('auth: keyless requests of other sites do not lock their visitor out, wrong keys of theirs do', async t => {
  for (const as of ['merchant', 'admin'] as const) {
    const { chain } = await setUp({ as })
    const right = withKey(as === 'merchant' ? goodKey : adminText)
    for (const headers of [
      { 'Sec-Fetch-Site': 'cross-site' },
      { 'Sec-Fetch-Site': 'same-site', Origin: 'https://other.example.com' },
      { Origin: 'http://evil.example' },
      { Origin: 'null' }
    ])
      for (let i = 0; i < 25; i++) t.equal((await chain.run({ headers })).status, 401)
    t.equal((await chain.run(right)).status, 200)
    for (let i = 0; i < 21; i++)
      t.equal((await chain.run({ headers: { 'Sec-Fetch-Site': 'cross-site', 'X-API-Key': 'wrong' } })).status, 401)
    t.equal((await chain.run(right)).status, 429)
  }
})

t.test('of 100 concurrent wrong keys no more than 21 learn that they are wrong', async t => {
  const { chain } = await setUp({ as: 'merchant' })
  const results = await Promise.all(Array.from({ length: 100 }, (_, n) => chain.run(withKey(`wrong ${n}`))))
  const verdicts = results.filter(result => result.status === 401).length
  t.equal(verdicts, 21)
  t.equal(results.filter(result => result.status === 429).length, 79)
})

t.test('database down: 503 with Retry-After, never 401, and not counted as a failure', async t => {
  let isDown = true
  const { chain } = await setUp(
    { as: 'merchant' },
    {
      byApiKey: async () => {
        if (isDown) throw new Unavailable('Service unavailable', 'Accounts cannot be looked up at the moment.')
        return acme
      }
    }
  )
  for (let n = 0; n < 30; n++) {
    const result = await chain.run(withKey(goodKey))
    t.equal(result.status, 503)
    t.equal(result.headers.get('retry-after'), '5')
  }
  isDown = false
  t.equal((await chain.run(withKey(goodKey))).status, 200)
})

t.test('state down: each process counts alone, so right keys pass and guessing stays throttled', async t => {
  const refuse = (): Promise<never> => Promise.reject(new StateUnavailable('for the test'))
  // Only what the throttle calls.
  const state = { blockedFor: refuse, recordFailure: refuse } as unknown as State
  const { chain } = await setUp({ as: 'merchant' }, { state })
  t.equal((await chain.run(withKey(goodKey))).status, 200)
  for (let n = 0; n < 21; n++) t.equal((await chain.run(withKey('wrong'))).status, 401)
  t.equal((await chain.run(withKey(goodKey))).status, 429)
})
