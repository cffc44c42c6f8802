import t from 'tap'
import { keepPrivate } from '../../../src/selling/holding/paid-responses.ts'
import { RouteOffers } from '../../../src/selling/offers/offer.ts'
import { Unavailable } from '../../../src/engine/operations/errors.ts'
import type { Context } from '../../../src/engine/message/context.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { TokenKeyRing } from '../../../src/lightning/l402/root-key.ts'
import { fixture, freshAddress, minted, offer, route, settings } from './fixture.ts'
import { until } from '../../support/until.ts'

/** One client in a place of its own. */
const lone = (merchantId: string | null = null) =>
  [offer({ place: freshAddress(), merchantId }), { clientKey: freshAddress(), digest: null }] as const

t.test('the first verification of each payment calls one function, inside the transaction that records it', async t => {
  const notified: string[] = []
  const f = await fixture(t, {}, async (tx, paid) => {
    await tx`select 1`
    notified.push(...paid.map(({ paymentHash, scheme }) => `${paymentHash} ${scheme}`))
  })
  const [token, single] = [await minted(f), await minted(f)]
  await Promise.all(Array.from({ length: 5 }, () => f.selling.claims.claim(token.paymentHash, 'l402', '7')))
  t.same(notified, [`${token.paymentHash} l402`])
  const leased = await f.selling.claims.lease(single.paymentHash, '7')
  if (leased === null) throw new Error('the lease was refused')
  await f.challenges.leases.release(leased.lease)
  t.ok(await f.selling.claims.lease(single.paymentHash, '7'))
  t.same(notified.slice(1), [`${single.paymentHash} payment`], 'a released payment is not paid a second time')
})

t.test("a challenge of the operator's own notifies no listener, and costs no transaction", async t => {
  const f = await fixture(t, {}, () => Promise.reject(new Error('no listener may be called')))
  const [token, single] = [await minted(f), await minted(f)]
  t.ok(await f.selling.claims.claim(token.paymentHash, 'l402', null))
  t.ok(await f.selling.claims.lease(single.paymentHash, null))
})

t.test('a credential whose response has gone out is redeemed, also while the database write is pending', async t => {
  const f = await fixture(t)
  const challenge = await minted(f)
  const taken = await f.selling.claims.lease(challenge.paymentHash, null)
  if (taken === null) throw new Error('the lease was refused')
  const refused = async () => {
    t.equal(await f.selling.claims.lease(challenge.paymentHash, null), null)
    return f.selling.verifier.fit.taken(await f.selling.claims.find(challenge.paymentHash)).reason
  }
  t.equal(await refused(), 'in-use', 'while nothing has been answered')
  const written = Promise.withResolvers<void>()
  f.watched.slow.set('spend', written.promise)
  t.equal(f.challenges.leases.spend(taken.lease), undefined)
  t.equal(await refused(), 'redeemed', 'the database does not know yet')
  written.resolve()
  await until(() => taken.lease.state === 'spent')
  t.equal(await refused(), 'redeemed', 'and when it does')
})

t.test('when that function fails, nothing has been claimed and the answer is 503', async t => {
  const f = await fixture(t, {}, () => Promise.reject(new Error('no webhook row')))
  const challenge = await minted(f)
  await t.rejects(f.selling.claims.claim(challenge.paymentHash, 'l402', '7'), Unavailable)
  await t.rejects(f.selling.claims.lease(challenge.paymentHash, '7'), Unavailable)
  t.match(await f.selling.claims.find(challenge.paymentHash), { state: 'unspent', scheme: null, paidAt: null })
})

t.test(
  "a challenge that is being made counts once towards its client's cap, also when its row is there already (decision 122)",
  async t => {
    const f = await fixture(t, { maxPerClient: 2 })
    const [at, request] = lone()
    const heard = Promise.withResolvers<void>()
    f.watched.late.set('insert', heard.promise)
    const first = f.selling.minting.mint(at, request)
    const written = async () =>
      (await f.database.sql`select 1 from challenges where client_key = ${request.clientKey}`).length > 0
    await until(() => written())
    f.watched.late.clear()
    const second = f.selling.minting.mint(at, request)
    await f.asked()
    heard.resolve()
    t.not(
      (await second).challenge.paymentHash,
      (await first).challenge.paymentHash,
      'two clients behind one address pay for one each'
    )
    t.equal(f.payee.requests.length, 2)
    t.match(await f.selling.minting.mint(at, request), { again: true }, 'the third is one too many')
  }
)

t.test("a challenge that was made while its client's rows were counted counts too (decision 122)", async t => {
  const f = await fixture(t, { maxPerClient: 1 })
  const [at, request] = lone()
  const counted = Promise.withResolvers<void>()
  f.watched.late.set('outstanding', counted.promise)
  const slow = f.selling.minting.mint(at, request)
  await f.asked()
  f.watched.late.clear()
  const quick = await f.selling.minting.mint(at, request)
  counted.resolve()
  t.match(await slow, { again: true, challenge: { paymentHash: quick.challenge.paymentHash } })
  t.equal(f.payee.requests.length, 1)
})

t.test('a challenge that was made and paid while rows were counted does not count, and is not handed out', async t => {
  const f = await fixture(t, { maxPerClient: 1 })
  const [at, request] = lone()
  const counted = Promise.withResolvers<void>()
  f.watched.late.set('outstanding', counted.promise)
  const slow = f.selling.minting.mint(at, request)
  await f.asked()
  f.watched.late.clear()
  const { challenge } = await f.selling.minting.mint(at, request)
  await f.selling.claims.claim(challenge.paymentHash, 'l402', '7')
  counted.resolve()
  t.match(await slow, { again: false })
  t.equal(f.payee.requests.length, 2)
})

t.test('a challenge that was revoked while it was made is not handed out to later requests', async t => {
  const f = await fixture(t, { maxPerClient: 1 })
  const merchantId = freshAddress()
  const [at, request] = lone(merchantId)
  const inserted = Promise.withResolvers<void>()
  f.watched.late.set('insert', inserted.promise)
  const early = f.selling.minting.mint(at, request)
  await until(() => f.watched.calls.includes('insert'))
  await f.asked()
  f.watched.late.clear()
  await f.selling.revocations.revoke('merchant', merchantId)
  f.clock.advance(1)
  const later = f.selling.minting.mint(at, request)
  for (let time = 0; time < 5; time++) await f.asked()
  inserted.resolve()
  await early
  t.notOk(f.selling.revocations.covers((await later).challenge))
})

t.test('a token that was being verified while its keys were dropped is not remembered', async t => {
  const f = await fixture(t)
  const challenge = await minted(f)
  const authorization = `L402 ${challenge.macaroon}:${f.payee.pay(challenge.invoice)}`
  // No more of it is asked for.
  const ctx = { headers: { pairs: ['Authorization', authorization] } } as unknown as Context
  const claimed = Promise.withResolvers<void>()
  f.watched.late.set('claim', claimed.promise)
  const early = f.selling.verifier.verify(ctx, offer())
  await f.asked()
  const next = Buffer.from('the next master secret, thirty-two bytes at least')
  f.selling.configure({ settings, keys: new TokenKeyRing(next) })
  claimed.resolve()
  t.match(await early, { kind: 'paid' }, 'it was in flight')
  t.match(await f.selling.verifier.verify(ctx, offer()), { status: 401 })
})

t.test("old rows are deleted when they cannot be used any more, and producers' are kept", async t => {
  const f = await fixture(t)
  const day = 86_400_000
  const [unpaid, long, paid, stranded, producer] = [
    await minted(f),
    await minted(f, { tokenValiditySeconds: 10 * 86_400 }),
    await minted(f),
    await minted(f),
    await minted(f, { source: 'producer', merchantId: '5' })
  ]
  const { sql } = f.database
  const now = f.clock.now()
  const lease = { paymentHash: stranded.paymentHash, leaseId: 'dead', gateway: 'dead', until: now + 25_000, now }
  await f.selling.challengeStore.lease(sql, lease)
  await f.selling.claims.claim(paid.paymentHash, 'l402', '7')
  const left = async () =>
    (
      await Promise.all([unpaid, long, paid, stranded, producer].map(row => f.selling.claims.find(row.paymentHash)))
    ).map(row => row !== null)
  f.clock.advance(day)
  await f.selling.upkeep.purge()
  t.same(await left(), [true, true, true, true, true])
  f.clock.advance(3_600_001)
  await f.selling.upkeep.purge()
  t.same(await left(), [false, true, true, true, true], 'unpaid, a day after invoice and token ended')
  f.clock.advance(30 * day)
  await f.selling.upkeep.purge()
  t.same(await left(), [false, false, false, false, true], 'leases of a dead gateway, too')
})

t.test('paid answers are kept out of shared caches', async t => {
  const cases: ReadonlyArray<readonly [string | null, string]> = [
    [null, 'private'],
    ['public, max-age=60', 'private, max-age=60'],
    ['s-maxage=600, max-age=60', 'private, max-age=60'],
    ['no-store', 'no-store'],
    ['public, no-store', 'no-store'],
    ['must-understand, no-store, max-age=60', 'no-store, max-age=60'],
    ['private="set-cookie, x", max-age=1', 'private, max-age=1'],
    ['private', 'private'],
    ['no-cache="a, b"', 'private, no-cache="a, b"']
  ]
  for (const [before, after] of cases) {
    const headers = new HeaderList(before === null ? [] : ['cache-control', before])
    keepPrivate(headers)
    t.same(headers.all('cache-control'), [after], before ?? 'none')
  }
  const twice = new HeaderList(['Cache-Control', 'public', 'Cache-Control', 's-maxage=9'])
  keepPrivate(twice)
  t.same(twice.all('cache-control'), ['private'], 'several lines are one')
})

t.test(
  'headers for shared caches only are removed from a paid response, since they override Cache-Control',
  async t => {
    const headers = new HeaderList([
      'X-Accel-Expires',
      '600',
      'Cache-Control',
      'max-age=60',
      'CDN-Cache-Control',
      'public, max-age=600',
      'Cloudflare-CDN-Cache-Control',
      'max-age=600',
      'Akamai-Cache-Control',
      'max-age=600',
      'surrogate-control',
      'max-age=600',
      'Edge-Control',
      'cache-maxage=600',
      'X-Accel-Buffering',
      'no'
    ])
    keepPrivate(headers)
    t.same(headers.pairs, ['Cache-Control', 'private, max-age=60', 'X-Accel-Buffering', 'no'])
  }
)

t.test("a route's pattern is sold only where a caveat can say it", async t => {
  const f = await fixture(t)
  const path = (paths: string[]) => {
    const offers = new RouteOffers(route({ tokenPath: 'pattern', match: { path: paths } }), settings)
    // Only what an offer reads.
    return offers.at({ path: '/v1/x', method: 'GET', query: '' } as Parameters<typeof offers.at>[0], 10)
  }
  t.match(path(['/v1/*']), { tokenPath: '/v1/*', wildcard: true })
  t.match(path(['/v1/:id']), { tokenPath: '/v1/x', wildcard: false })
  t.match(path(['/v1/*', '/v2/*']), { tokenPath: '/v1/x', wildcard: false })
  t.equal(f.challenges.routeOffers(route()).at({ path: '/a/*', method: 'GET', query: '' } as never, 10).wildcard, false)
})
