import { randomBytes } from 'node:crypto'
import t from 'tap'
import { ChallengeStore } from '../../src/selling/holding/store.ts'
import { openTestDatabase } from '../support/database.ts'
import { buy, challengeOf, credentialOf, use } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import { countingUpstream, openShop, shopYaml, type Shop } from './shop.ts'

async function produce({ gateway }: Shop, resource: string) {
  const answer = await gateway.merchantSend('POST', '/api/l402/challenges', { resource, priceSats: 5 })
  t.equal(answer.status, 200, answer.text)
  const { macaroon, invoice, paymentHash, mppChallenge } = answer.json() as Record<
    'macaroon' | 'invoice' | 'paymentHash' | 'mppChallenge',
    string
  >
  const preimage = await gateway.pay(invoice)
  const payment = challengeOf({ ...answer, headers: { 'www-authenticate': mppChallenge } }, 'payment')
  return {
    macaroon,
    preimage,
    paymentHash,
    l402: `L402 ${macaroon}:${preimage}`,
    payment: credentialOf(payment, preimage)
  }
}

t.test(
  'a revoked credential is refused, in every scheme, known or not, and sold again where only a payment was revoked',
  async t => {
    const shop = await openShop(t)
    const { gateway, upstream } = shop
    const store = new ChallengeStore(gateway.database)
    const proxy = await shop.proxy()
    const other = await shop.proxy()
    const hashOf = (authorization: string) =>
      use(gateway, '/api/l402/status', authorization).then(
        answer => (answer.json() as { paymentHash: string }).paymentHash
      )
    const refusedSoon = async (what: string, path: string, authorization: string) => {
      await eventually(what, async () => {
        const before = upstream.hits.length
        const answer = await use(gateway, path, authorization)
        if (answer.status === 200) return null
        t.ok([401, 402, 403].includes(answer.status), `${what}: ${answer.status} ${answer.text.slice(0, 120)}`)
        t.equal(answer.headers['payment-receipt'], undefined)
        t.equal(upstream.hits.length, before, `${what}: nothing upstream`)
        return true
      })
    }
    for (const [kind, path] of [
      ['a route', '/paid/item'],
      ['a proxy', `${proxy.path}/a`],
      ['the ping', '/l402/test/ping']
    ] as const) {
      await t.test(`one payment of ${kind}`, async () => {
        const known = await buy(gateway, path)
        t.equal((await use(gateway, path, known)).status, 200)
        await store.revoke({ kind: 'payment', id: await hashOf(known) }, Date.now())
        await refusedSoon(`the known token of ${kind}`, path, known)
        const unused = await buy(gateway, path)
        const single = await gateway.send('GET', path)
        const challenge = challengeOf(single, 'payment')
        const preimage = await gateway.pay(challenge.parameters.get('invoice') ?? '')
        const hash = (single.json() as { l402: { payment_hash: string } }).l402.payment_hash
        const last = await buy(gateway, path)
        t.equal((await use(gateway, path, last)).status, 200)
        // The list is read whole: when the last one is refused, those before it are known too.
        for (const id of [await hashOf(unused), hash, await hashOf(last)])
          await store.revoke({ kind: 'payment', id }, Date.now())
        await refusedSoon('the last', path, last)
        await refusedSoon(`an unused token of ${kind}`, path, unused)
        await refusedSoon(`a Payment credential of ${kind}`, path, credentialOf(challenge, preimage))
        await refusedSoon(`a legacy credential of ${kind}`, path, `Payment method="lightning", preimage="${preimage}"`)
        t.equal((await use(gateway, path, await buy(gateway, path))).status, 200, 'another payment is valid')
      })
    }
    await t.test('everything of a proxy, and then of its merchant', async t => {
      const there = await buy(gateway, `${proxy.path}/a`)
      const elsewhere = await buy(gateway, `${other.path}/a`)
      const operator = await buy(gateway, '/paid/item')
      const produced = await produce(shop, '/r/1')
      await store.revoke({ kind: 'proxy', id: proxy.id }, Date.now())
      await refusedSoon('a token of the proxy', `${proxy.path}/a`, there)
      t.equal((await use(gateway, `${other.path}/a`, elsewhere)).status, 200, 'the other proxy sells on')
      await store.revoke({ kind: 'merchant', id: String(gateway.merchant.id) }, Date.now())
      await refusedSoon('a token of the merchant', `${other.path}/a`, elsewhere)
      for (const [path, body] of [
        ['/api/l402/challenges/verify', { macaroon: produced.macaroon, preimage: produced.preimage }],
        [
          '/api/l402/challenges/verify-credential',
          { credential: produced.payment.slice('Payment '.length), resource: '/r/1' }
        ]
      ] as const) {
        const answer = await gateway.merchantSend('POST', path, body)
        t.notMatch(answer.json(), { valid: true }, `${path}: ${answer.text.slice(0, 200)}`)
      }
      t.equal((await use(gateway, '/paid/item', operator)).status, 200, "the operator's own is not the merchant's")
    })
  }
)

t.test('a token of a former key is valid while the key is listed, and refused once it is removed', async t => {
  const database = await openTestDatabase(t)
  const upstream = await countingUpstream(t)
  const [old, next] = [randomBytes(32).toString('hex'), randomBytes(32).toString('hex')]
  const open = (master: string, previous: readonly string[]) =>
    openShop(t, {
      database,
      upstream,
      master,
      yaml: shopYaml(upstream.origin, {
        replace: [['secrets:\n', `secrets:\n  previous: ${JSON.stringify(previous)}\n`]]
      })
    })
  const path = '/paid/item'
  const first = await open(old, [])
  const tokens = [
    await buy(first.gateway, path),
    await buy(first.gateway, path, 'payment'),
    await buy(first.gateway, path, 'payment')
  ] as const
  t.equal((await use(first.gateway, path, tokens[0])).status, 200)
  await first.gateway.close()
  const second = await open(next, [old])
  for (const authorization of tokens.slice(0, 2))
    t.equal((await use(second.gateway, path, authorization)).status, 200, 'the former key is listed')
  const newer = await buy(second.gateway, path)
  await second.gateway.close()
  const third = await open(next, [])
  const before = upstream.hits.length
  const classic = await use(third.gateway, path, tokens[0])
  t.equal(classic.status, 401, classic.text)
  const single = await use(third.gateway, path, tokens[2])
  t.equal(single.status, 402, single.text)
  t.equal(upstream.hits.length, before)
  t.equal((await use(third.gateway, path, newer)).status, 200)
})

t.test("a producer's token buys nothing at a proxy or a route, and theirs nothing at a producer", async t => {
  const shop = await openShop(t)
  const { gateway, upstream } = shop
  const proxy = await shop.proxy()
  const places = [`${proxy.path}/a`, '/paid/item', '/l402/test/ping']
  const before = upstream.hits.length
  for (const path of places) {
    const produced = await produce(shop, path)
    for (const authorization of [
      produced.l402,
      produced.payment,
      `Payment method="lightning", preimage="${produced.preimage}"`
    ]) {
      const answer = await use(gateway, path, authorization)
      t.ok([401, 402, 403].includes(answer.status), `${path}: ${answer.status} ${answer.text.slice(0, 150)}`)
    }
    const verdict = await gateway.merchantSend('POST', '/api/l402/challenges/verify', {
      macaroon: produced.macaroon,
      preimage: produced.preimage
    })
    t.match(verdict.json(), { valid: true }, 'it is valid at its own place')
  }
  t.equal(upstream.hits.length, before)
  for (const path of places) {
    const classic = await buy(gateway, path)
    const [macaroon = '', preimage = ''] = classic.slice('L402 '.length).split(':')
    const token = await gateway.merchantSend('POST', '/api/l402/challenges/verify', { macaroon, preimage })
    t.notMatch(token.json(), { valid: true }, `a token of ${path}: ${token.text.slice(0, 150)}`)
    const single = await buy(gateway, path, 'payment')
    const credential = await gateway.merchantSend('POST', '/api/l402/challenges/verify-credential', {
      credential: single.slice('Payment '.length),
      resource: path
    })
    t.notMatch(credential.json(), { valid: true }, `a credential of ${path}: ${credential.text.slice(0, 150)}`)
    t.equal((await use(gateway, path, single)).status, 200, 'and asking has not used it up')
  }
})
