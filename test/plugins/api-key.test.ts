import { createHash } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose'
import t from 'tap'
import apiKey from '../../plugins/api-key.ts'
import { AuthThrottle } from '../../src/accounts/merchants/auth-throttle.ts'
import { harness } from '../../src/engine/pipeline/harness.ts'
import type { Challenges, OutboundCall, RouteInfo } from '../../src/index.ts'
import { temporaryFolder } from '../support/database.ts'
import { testServices } from '../support/plugin-harness.ts'

const KEY = 'sk_0123456789abcdef0123456789abcdef'
const SHA256 = createHash('sha256').update(KEY).digest('hex')
const JWT = { jwks: 'https://id.example/keys', issuer: 'https://id.example', audience: 'api' }

/** The plugin in a chain whose end is the upstream. Only what it calls is there. */
async function build(config: object, outbound: OutboundCall = () => Promise.reject(new Error('not called'))) {
  const services = testServices()
  const challenges = { routeOffers: () => ({ at: (_ctx: unknown, amountSats: number) => ({ amountSats }) }) }
  const chain = await harness([{ plugin: apiKey, config }], {
    services: {
      ...services,
      challenges: challenges as unknown as Challenges,
      authThrottle: new AuthThrottle(services.state, services.clock),
      outbound
    },
    route: { config: { upstream: { kind: 'url', url: 'http://up.example' } } as unknown as RouteInfo['config'] }
  })
  return { ...services, chain }
}

const bearer = (key: string) => ({ headers: { Authorization: `Bearer ${key}` } })

t.test('a valid key is free, is the principal, and stays here', async t => {
  const { chain, metrics } = await build({ keys: [{ name: 'alice', sha256: SHA256 }] })
  for (const scheme of ['Bearer ', 'bearer ', 'BEARER  ', 'Bearer\t']) {
    const { status, ctx, upstream } = await chain.run({ headers: { Authorization: scheme + KEY } })
    t.equal(status, 200, JSON.stringify(scheme))
    t.same(ctx.principal, { kind: 'subscriber', id: 'alice' })
    t.equal(ctx.offer?.amountSats, 0)
    t.equal(upstream?.headers.get('authorization'), undefined)
  }
  t.match(await metrics.render(), 'boltgate_api_key_requests_total{key="alice"} 4')
})

t.test('a key is sent on where that is set, and an own key of the upstream stays', async t => {
  const config = { keys: [{ name: 'alice', sha256: SHA256 }], header: 'x-api-key' }
  for (const forward of [false, true]) {
    const { chain } = await build({ ...config, forward })
    const { ctx, upstream } = await chain.run({ headers: { 'X-API-Key': KEY } })
    t.equal(ctx.principal?.id, 'alice')
    t.equal(upstream?.headers.get('x-api-key'), forward ? KEY : undefined)
  }
})

t.test('a bad key is 401, and many of one address 429', async t => {
  const { chain, clock } = await build({ keys: [{ name: 'alice', sha256: SHA256 }] })
  for (const key of ['', 'x', `${KEY}x`, SHA256, KEY.toUpperCase(), 'a.b.c', 'x'.repeat(20_000)]) {
    const { status, headers, upstream } = await chain.run(bearer(key))
    t.equal(status, 401, key.slice(0, 40))
    t.match(headers.get('www-authenticate'), /^Bearer/)
    t.equal(headers.get('cache-control'), 'no-store')
    t.equal(upstream, null)
  }
  for (let guess = 0; guess < 20; guess++) await chain.run(bearer(`guess ${guess}`))
  t.equal((await chain.run(bearer(KEY))).status, 429, 'without a verdict')
  clock.advance(61_000)
  t.equal((await chain.run(bearer(KEY))).status, 200)
})

t.test('a request without a key continues to the 402, with its payment', async t => {
  const { chain } = await build({ keys: [{ name: 'alice', sha256: SHA256 }] })
  const paid = `bg_${'A'.repeat(200)}`
  for (const headers of [
    {},
    { Authorization: '' },
    { Authorization: 'L402 a:b' },
    { Authorization: 'Payment e30' },
    { Authorization: `Bearer ${paid}` },
    { Authorization: 'Basic dXNlcjpwYXNz' },
    { 'X-API-Key': 'of the upstream' }
  ]) {
    const { ctx, status } = await chain.run({ headers })
    t.equal(status, 200)
    t.equal(ctx.principal, null, JSON.stringify(headers).slice(0, 60))
    t.equal(ctx.offer, null, 'its price applies')
  }
})

t.test('a key beside a payment is 400', async t => {
  const { chain } = await build({ keys: [{ name: 'alice', sha256: SHA256 }], header: 'x-api-key' })
  for (const other of [
    ['Authorization', 'L402 a:b'],
    ['Payment-Authorization', 'Payment e30'],
    ['PAYMENT-SIGNATURE', 'e30'],
    ['Macaroon', 'ab']
  ])
    t.equal((await chain.run({ headers: ['X-API-Key', KEY, ...other] })).status, 400)
})

t.test('a keys file is read again after a change, and a bad one changes nothing', async t => {
  const file = join(temporaryFolder(t), 'keys.txt')
  writeFileSync(file, `# subscribers\n\nalice ${SHA256}\n`)
  const { chain, clock, lines } = await build({ file })
  t.equal((await chain.run(bearer(KEY))).ctx.principal?.id, 'alice')
  writeFileSync(file, `bob of the sales team ${SHA256}\n`)
  clock.advance(1_001)
  t.equal((await chain.run(bearer(KEY))).ctx.principal?.id, 'alice')
  t.match(lines.at(-1), { level: 'error', message: /former keys stay/ })
  writeFileSync(file, `bob\t${SHA256}\r\n`)
  clock.advance(1_001)
  t.equal((await chain.run(bearer(KEY))).ctx.principal?.id, 'bob')
  rmSync(file)
  clock.advance(1_001)
  t.equal((await chain.run(bearer(KEY))).status, 200)
  writeFileSync(file, '')
  clock.advance(1_001)
  t.equal((await chain.run(bearer(KEY))).status, 401, 'withdrawn')
})

t.test('settings that would admit no client or every client are refused', async t => {
  await t.rejects(build({}), /needs keys, a file, jwt or certificates/)
  await t.rejects(build({ keys: [{ name: 'a', sha256: KEY }] }))
  await t.rejects(build({ jwt: { ...JWT, algorithms: ['HS256'] } }))
  await t.rejects(build({ jwt: { ...JWT, algorithms: ['none'] } }))
})

interface Provider {
  readonly call: OutboundCall
  readonly calls: string[]
  answer: { status: number; keys: object[] } | Error
  token(claims?: object, header?: object): Promise<string>
}

const NOW = Date.parse('2026-11-21T00:00:00.000Z') / 1000

async function provider(kid = 'one', alg = 'ES256') {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true })
  const calls: string[] = []
  const made: Provider = {
    calls,
    answer: { status: 200, keys: [{ ...(await exportJWK(publicKey)), kid }] },
    async call({ url }) {
      calls.push(url)
      if (made.answer instanceof Error) throw made.answer
      const { status, keys } = made.answer
      return { status, body: Buffer.from(JSON.stringify({ keys })) }
    },
    token: (claims = {}, header = {}) =>
      new SignJWT({ sub: 'carol', iss: JWT.issuer, aud: JWT.audience, exp: NOW + 300, ...claims })
        .setProtectedHeader({ alg, kid, ...header })
        .sign(privateKey)
  }
  return made
}

async function withTokens(config: object = {}) {
  const identity = await provider()
  return { identity, ...(await build({ jwt: { ...JWT, ...config } }, identity.call)) }
}

t.test('a token of the identity provider passes by its subject', async t => {
  const { chain, identity } = await withTokens({ claims: { plan: 'pro', groups: 'api' } })
  const token = await identity.token({ plan: 'pro', groups: ['staff', 'api'] })
  for (let turn = 0; turn < 3; turn++) {
    const { status, ctx, upstream } = await chain.run(bearer(token))
    t.equal(status, 200)
    t.same(ctx.principal, { kind: 'subscriber', id: 'jwt:carol' })
    t.equal(upstream?.headers.get('authorization'), undefined)
  }
  t.same(identity.calls, [JWT.jwks], 'keys are fetched once')
  for (const claims of [{}, { plan: 'free', groups: ['api'] }, { plan: 'pro', groups: ['staff'] }])
    t.equal((await chain.run(bearer(await identity.token(claims)))).status, 401)
})

t.test('tokens that prove nothing are 401', async t => {
  const { chain, identity, clock } = await withTokens()
  const good = await identity.token()
  const [head = '', body = '', signature = ''] = good.split('.')
  const other = await provider()
  const secret = Buffer.from(JSON.stringify(identity.answer))
  const claims = { sub: 'carol', iss: JWT.issuer, aud: JWT.audience, exp: NOW + 300 }
  const forged = Buffer.from(JSON.stringify({ ...claims, sub: 'root' })).toString('base64url')
  const tokens: Record<string, string> = {
    'another key under the same id': await other.token(),
    'a changed body': `${head}.${forged}.${signature}`,
    'no signature': `${head}.${body}.`,
    none: new UnsecuredJWT(claims).encode(),
    'HS256 with the public key': await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', kid: 'one' })
      .sign(secret),
    'another issuer': await identity.token({ iss: 'https://evil.example' }),
    'another audience': await identity.token({ aud: 'other' }),
    expired: await identity.token({ exp: NOW - 1 }),
    'not yet': await identity.token({ nbf: NOW + 60 }),
    'no end': await identity.token({ exp: undefined }),
    'no subject': await identity.token({ sub: undefined }),
    'a long subject': await identity.token({ sub: 'x'.repeat(201) }),
    'an unknown critical header': await identity
      .token({}, { crit: ['x'], x: 1 })
      .catch(() => `${head}x.${body}.${signature}`)
  }
  for (const [what, token] of Object.entries(tokens)) {
    t.equal((await chain.run({ ...bearer(token), clientAddress: '198.51.100.1' })).status, 401, what)
  }
  t.equal((await chain.run(bearer(good))).status, 200)
  clock.advance(301_000)
  t.equal((await chain.run(bearer(good))).status, 401, 'the clock of the gateway counts')
  const unwanted = await build({ jwt: { ...JWT, algorithms: ['RS256'] } }, identity.call)
  t.equal((await unwanted.chain.run(bearer(good))).status, 401, 'an algorithm that is not listed')
})

t.test('a key set that cannot be had is 503; one that is known stays for an hour', async t => {
  const { chain, identity, clock, lines } = await withTokens()
  const { answer } = identity
  const token = await identity.token({ exp: NOW + 86_400 })
  for (const wrong of [new Error('connection refused'), { status: 500, keys: [] }]) {
    identity.answer = wrong
    t.equal((await chain.run(bearer(token))).status, 503)
    clock.advance(31_000)
  }
  identity.answer = answer
  t.equal((await chain.run(bearer(token))).status, 200)
  identity.answer = new Error('connection refused')
  clock.advance(601_000)
  t.equal((await chain.run(bearer(token))).status, 200)
  t.match(lines.at(-1), { level: 'warn', message: /former keys stay/ })
  clock.advance(3_600_000)
  t.equal((await chain.run(bearer(token))).status, 503)
  identity.answer = answer
  clock.advance(31_000)
  t.equal((await chain.run(bearer(token))).status, 200)
})

t.test('a rotated key is found, and made-up ids fetch nothing more than once in 30 seconds', async t => {
  const { chain, identity, clock } = await withTokens()
  t.equal((await chain.run(bearer(await identity.token()))).status, 200)
  const next = await provider('two')
  identity.answer = next.answer
  clock.advance(31_000)
  t.equal((await chain.run(bearer(await next.token()))).status, 200)
  t.equal(identity.calls.length, 2)
  for (let id = 0; id < 10; id++)
    t.equal((await chain.run(bearer(await identity.token({}, { kid: `made up ${id}` })))).status, 401)
  t.equal(identity.calls.length, 2)
})

t.test('many requests that begin together fetch the key set once', async t => {
  const { chain, identity } = await withTokens()
  const token = await identity.token()
  const all = await Promise.all(Array.from({ length: 10 }, () => chain.run(bearer(token))))
  t.same(new Set(all.map(({ status }) => status)), new Set([200]))
  t.equal(identity.calls.length, 1)
})
