import { randomBytes } from 'node:crypto'
import t from 'tap'
import { contentDigest, paymentId } from '../../src/lightning/payment-scheme/payment-challenge.ts'
import { paymentHashOf } from '../../src/lightning/codecs/hmac.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { buy, challengeOf, credentialOf, use } from '../support/gateway.ts'
import { countingUpstream, openShop, refuses, shopYaml, type Expected, type Shop } from './shop.ts'

interface Token {
  challenge: Record<string, string | undefined>
  payload: { preimage: string }
}

function take(credential: string) {
  return JSON.parse(Buffer.from(credential.replace(/^Payment /, ''), 'base64url').toString()) as Token
}

function join(token: unknown) {
  return `Payment ${Buffer.from(JSON.stringify(token)).toString('base64url')}`
}

function requestWith(request: string | undefined, change: (charge: Record<string, unknown>) => void) {
  const charge = JSON.parse(Buffer.from(request ?? '', 'base64url').toString()) as Record<string, unknown>
  change(charge)
  return Buffer.from(JSON.stringify(charge)).toString('base64url')
}

const problem = (slug: string, detail: string | RegExp) => ({ status: 402, problem: slug, body: { detail } })
const notOurs = problem('invalid-challenge', /not one of this server, or it was changed/)
const path = '/paid/item'
const notKnown = { status: 402, body: { error: 'Payment Required' } }

function legacyOf(preimage: string) {
  return `Payment method="lightning", preimage="${preimage}"`
}

t.test('forged and misused Payment credentials', async t => {
  const shop = await openShop(t)
  const { gateway, upstream } = shop
  const bought = await buy(gateway, path, 'payment')
  const token = take(bought)
  const { preimage } = token.payload
  const own = randomBytes(32).toString('hex')
  const challenge = (change: Record<string, string | undefined>) =>
    join({ ...token, challenge: { ...token.challenge, ...change } })
  const ownRequest = requestWith(token.challenge['request'], charge => {
    charge['methodDetails'] = { ...(charge['methodDetails'] as object), paymentHash: paymentHashOf(own) }
  })
  const cheap = requestWith(token.challenge['request'], charge => {
    charge['amount'] = '1'
  })
  const other = take(await buy(gateway, '/paid/other', 'payment'))

  const rows: Array<[name: string, authorization: string, expected: Expected, at?: string, method?: string]> = [
    ['a token that is no base64url', 'Payment {"challenge":{}}', problem('invalid-challenge', /base64url/)],
    ['nothing after the scheme', 'Payment', problem('invalid-challenge', /base64url/)],
    [
      'a token that holds no JSON',
      `Payment ${Buffer.from('hello').toString('base64url')}`,
      problem('invalid-challenge', /JSON/)
    ],
    ['a token that holds a list', join([token]), problem('invalid-challenge', /JSON object/)],
    ['a token without a challenge', join({ payload: token.payload }), problem('invalid-challenge', /no challenge/)],
    ['a token without a payload', join({ challenge: token.challenge }), problem('verification-failed', /preimage/)],
    ['a token cut short', bought.slice(0, -40), problem('invalid-challenge', /JSON/)],
    ['another id', challenge({ id: randomBytes(32).toString('base64url') }), notOurs],
    ['the id of another challenge', challenge({ id: other.challenge['id'] }), notOurs],
    ['no id', challenge({ id: undefined }), problem('invalid-challenge', /no id/)],
    ['another realm', challenge({ realm: 'elsewhere' }), notOurs],
    ['another method', challenge({ method: 'evm' }), problem('verification-failed', /another payment method/)],
    [
      'another intent',
      challenge({ intent: 'session' }),
      problem('verification-failed', /another payment method or intent/)
    ],
    ['a later expiry', challenge({ expires: '2099-01-01T00:00:00Z' }), notOurs],
    ['an expiry that is no time', challenge({ expires: 'never' }), problem('invalid-challenge', /expires/)],
    ['no expiry', challenge({ expires: undefined }), problem('invalid-challenge', /expires/)],
    ['a smaller amount in the request', challenge({ request: cheap }), notOurs],
    [
      'the same request with its keys in another order',
      challenge({
        request: Buffer.from(
          JSON.stringify(
            Object.fromEntries(
              Object.entries(
                JSON.parse(Buffer.from(token.challenge['request'] ?? '', 'base64url').toString()) as object
              ).toReversed()
            )
          )
        ).toString('base64url')
      }),
      notOurs
    ],
    [
      'another currency',
      challenge({
        request: requestWith(token.challenge['request'], charge => {
          charge['currency'] = 'usd'
        })
      }),
      problem('invalid-challenge', /currency/)
    ],
    [
      'no payment hash',
      challenge({
        request: requestWith(token.challenge['request'], charge => {
          charge['methodDetails'] = {}
        })
      }),
      problem('invalid-challenge', /payment hash/)
    ],
    ['a digest that the challenge does not have', challenge({ digest: contentDigest(Buffer.from('x')) }), notOurs],
    ['an opaque that the challenge does not have', challenge({ opaque: 'x' }), notOurs],
    [
      'an edited echo of the amount',
      challenge({ amount: '1' }),
      problem('invalid-challenge', /amount is not the one that was sent/)
    ],
    [
      'an edited echo of the invoice',
      challenge({ invoice: 'lnbcrt1x' }),
      problem('invalid-challenge', /invoice is not the one that was sent/)
    ],
    [
      'an edited echo of the currency',
      challenge({ currency: 'usd' }),
      problem('invalid-challenge', /currency is not the one that was sent/)
    ],
    [
      'own preimage with own hash',
      join({ challenge: { ...token.challenge, request: ownRequest }, payload: { preimage: own } }),
      notOurs
    ],
    [
      'own preimage with own hash, and an id made with another key',
      join({
        challenge: {
          ...token.challenge,
          request: ownRequest,
          id: paymentId(
            {
              ...(token.challenge as { realm: string; expires: string }),
              method: 'lightning',
              intent: 'charge',
              request: ownRequest,
              digest: null,
              opaque: null
            },
            randomBytes(32)
          )
        },
        payload: { preimage: own }
      }),
      notOurs
    ],
    [
      'another preimage',
      join({ ...token, payload: { preimage: own } }),
      problem('verification-failed', /does not hash/)
    ],
    [
      'the preimage of another payment',
      join({ ...token, payload: other.payload }),
      problem('verification-failed', /does not hash/)
    ],
    [
      'a preimage in upper case',
      join({ ...token, payload: { preimage: preimage.toUpperCase() } }),
      problem('verification-failed', /64 lower-case hex/)
    ],
    [
      'a preimage that is a number',
      join({ ...token, payload: { preimage: 1 } }),
      problem('verification-failed', /64 lower-case hex/)
    ],
    ['another path', bought, problem('verification-failed', /another path/), '/paid/other'],
    ['a path below', bought, problem('verification-failed', /another path/), `${path}/`],
    ['the path with a letter encoded', bought, problem('verification-failed', /another path/), '/paid/it%65m'],
    ['a query', bought, problem('verification-failed', /another query/), `${path}?all=1`],
    ['another method', bought, problem('verification-failed', /GET requests/), path, 'DELETE'],
    ['another route', bought, problem('verification-failed', /another (?:path|service)/), '/l402/test/ping'],
    ['a legacy credential with own preimage', legacyOf(own), notKnown],
    ['a legacy credential on another path', legacyOf(preimage), notKnown, '/paid/other'],
    ['a legacy credential with another query', legacyOf(preimage), notKnown, `${path}?all=1`],
    ['a legacy credential by another method', legacyOf(preimage), notKnown, path, 'PUT'],
    ['a legacy credential for another payment method', `Payment method="evm", preimage="${preimage}"`, notKnown],
    ['a legacy credential without preimage', 'Payment method="lightning"', notKnown],
    [
      'a malformed bearer token is not read as legacy',
      `Payment x=="lightning", preimage="${preimage}"`,
      { status: 402 }
    ]
  ]
  for (const [name, authorization, expected, at = path, method = 'GET'] of rows) {
    await t.test(
      `${name} is refused with ${expected.status}${expected.problem === undefined ? '' : ` ${expected.problem}`}`,
      async t => {
        await refuses(t, shop, name, authorization, expected, at, { method })
      }
    )
  }

  await t.test('after all of this the genuine credential works, once', async t => {
    const before = upstream.hits.length
    const answer = await use(gateway, path, bought)
    t.equal(answer.status, 200, answer.text)
    t.match(JSON.parse(Buffer.from(String(answer.headers['payment-receipt']), 'base64url').toString()), {
      challengeId: token.challenge['id'],
      method: 'lightning',
      reference: paymentHashOf(preimage),
      status: 'success'
    })
    t.equal(answer.headers['cache-control'], 'private')
    t.equal(upstream.hits.length, before + 1)
    for (const again of ['second', 'third']) {
      await refuses(t, shop, again, bought, problem('verification-failed', /already redeemed/))
    }
    const reordered = join({
      payload: token.payload,
      more: true,
      challenge: { ...Object.fromEntries(Object.entries(token.challenge).toReversed()), source: 'x' }
    })
    await refuses(t, shop, 'another spelling of it', reordered, problem('verification-failed', /already redeemed/))
  })
})

t.test('one payment buys under one scheme only', async t => {
  const shop = await openShop(t)
  const { gateway } = shop
  const otherScheme = {
    status: 401,
    body: { error: 'Unauthorized', message: 'Invalid L402 credential', detail: /already used with the Payment scheme/ },
    l402Error: /Payment scheme/
  }
  const schemes = ['l402', 'payment', 'legacy'] as const
  const expected: Record<(typeof schemes)[number], Expected> = {
    l402: otherScheme,
    payment: problem('verification-failed', /another scheme/),
    legacy: notKnown
  }
  for (const first of schemes) {
    for (const second of schemes) {
      if (first === second) continue
      await t.test(`${first} first, then ${second} is refused`, async t => {
        const unpaid = await gateway.send('GET', path)
        const preimage = await gateway.pay(challengeOf(unpaid, 'l402').parameters.get('invoice') ?? '')
        const credential = {
          l402: credentialOf(challengeOf(unpaid, 'l402'), preimage),
          payment: credentialOf(challengeOf(unpaid, 'payment'), preimage),
          legacy: legacyOf(preimage)
        }
        t.equal((await use(gateway, path, credential[first])).status, 200)
        await refuses(t, shop, second, credential[second], expected[second])
        const again = await use(gateway, path, credential[first])
        t.equal(again.status, first === 'payment' ? 402 : 200, 'the first scheme keeps its own rule')
      })
    }
  }
})

t.test('a body that a challenge was made for', async t => {
  const upstream = await countingUpstream(t)
  const shop = await openShop(t, {
    upstream,
    yaml: shopYaml(upstream.origin, {
      route: `  - { match: { path: /orders/* }, price: 7 sats, chain: limited, upstream: { url: "${upstream.origin}" } }\n`,
      replace: [
        [
          'chains:\n',
          'chains:\n  limited: [ correlation, { throttle: { policy: global } }, body-limit, credential, challenge ]\n'
        ]
      ]
    })
  })
  const { gateway } = shop
  const proxy = await shop.proxy()
  t.equal(
    challengeOf(await gateway.send('POST', '/paid/order', { body: 'x' }), 'payment').parameters.get('digest'),
    undefined,
    'no digest where bodies have no limit (decision 121)'
  )
  for (const [place, at] of [
    ["an operator's route with a limit", '/orders/1'],
    ['a proxy', `${proxy.path}/order`]
  ] as const) {
    for (const method of ['POST', 'PUT', 'PATCH']) {
      await t.test(`${method} to ${place} sells the identical body only`, async t => {
        const body = '{"amount":1}'
        const unpaid = await gateway.send(method, at, { body })
        const challenge = challengeOf(unpaid, 'payment')
        t.equal(challenge.parameters.get('digest'), contentDigest(Buffer.from(body)))
        const preimage = await gateway.pay(challenge.parameters.get('invoice') ?? '')
        const credential = credentialOf(challenge, preimage)
        const token = take(credential)
        const silent = join({ ...token, challenge: { ...token.challenge, digest: undefined } })
        const wrong = contentDigest(Buffer.from('{"amount":1000}'))
        const legacy = legacyOf(preimage)
        const failed = problem('verification-failed', /body is not the one/)
        const rows: Array<[string, string, string, Expected]> = [
          ['another body', credential, '{"amount":1000}', failed],
          ['the same JSON with a space', credential, '{"amount": 1}', failed],
          ['no body', credential, '', failed],
          [
            'another body and its digest',
            join({ ...token, challenge: { ...token.challenge, digest: wrong } }),
            '{"amount":1000}',
            notOurs
          ],
          [
            'the bought body and another digest',
            join({ ...token, challenge: { ...token.challenge, digest: wrong } }),
            body,
            notOurs
          ],
          ['another body without the digest echoed', silent, '{"amount":1000}', failed],
          ['another body under the legacy profile', legacy, '{"amount":1000}', notKnown]
        ]
        for (const [name, authorization, sent, expected] of rows) {
          await refuses(t, shop, name, authorization, expected, at, { method, body: sent })
        }
        const before = upstream.hits.length
        const answer = await gateway.send(method, at, {
          headers: { authorization: method === 'PUT' ? silent : credential },
          body
        })
        t.equal(answer.status, 200, `the bought body: ${answer.text}`)
        t.equal(upstream.hits.length, before + 1)

        const second = challengeOf(await gateway.send(method, at, { body }), 'payment')
        const proof = await gateway.pay(second.parameters.get('invoice') ?? '')
        const headers = { authorization: legacyOf(proof) }
        const statuses: number[] = []
        for (const sent of [body, '{"amount":1000}', body])
          statuses.push((await gateway.send(method, at, { headers, body: sent })).status)
        t.same(statuses, [200, 402, 200], 'the legacy profile sells the identical body only, however often')
      })
    }
  }
})

t.test('a Payment credential after what it was bought for has changed', async t => {
  const clock = new ManualClock()
  const shop = await openShop(t, { clock })
  const { gateway, upstream } = shop

  await t.test('an old price is payment-insufficient, on a route and on a proxy', async t => {
    const authorization = await buy(gateway, path, 'payment')
    await gateway.reload(shopYaml(upstream.origin, { price: 8 }))
    await refuses(t, shop, 'route', authorization, problem('payment-insufficient', /7 satoshis; the price is 8/))
    await gateway.reload(shopYaml(upstream.origin, { price: 6 }))
    await refuses(t, shop, 'cheaper now', authorization, problem('payment-insufficient', /7 satoshis; the price is 6/))
    await gateway.reload(shopYaml(upstream.origin))
    const proxy = await shop.proxy()
    const there = await buy(gateway, `${proxy.path}/a`, 'payment')
    const legacy = legacyOf(take(await buy(gateway, `${proxy.path}/a`, 'payment')).payload.preimage)
    t.equal((await use(gateway, `${proxy.path}/a`, legacy)).status, 200)
    await gateway.merchantSend('PUT', `/api/proxy/${proxy.id}`, { defaultPriceSats: 9 })
    await refuses(
      t,
      shop,
      'proxy',
      there,
      problem('payment-insufficient', /5 satoshis; the price is 9/),
      `${proxy.path}/a`
    )
    await refuses(
      t,
      shop,
      'legacy, known',
      legacy,
      { status: 402, body: { error: 'Payment Required', l402: { amount_sats: 9 } } },
      `${proxy.path}/a`
    )
  })

  await t.test('a disabled scheme is method-unsupported, and L402 continues', async t => {
    const modern = await buy(gateway, path, 'payment')
    const classic = await buy(gateway, path)
    const before = upstream.hits.length
    await gateway.reload(
      shopYaml(upstream.origin, { replace: [['mode: development', 'payment: { schemes: [l402] }\nmode: development']] })
    )
    const answer = await use(gateway, path, modern)
    t.equal(answer.status, 402)
    t.match(answer.json(), { type: 'https://paymentauth.org/problems/method-unsupported', status: 402 })
    t.match(answer.headers['www-authenticate'], /^L402 /)
    t.equal(upstream.hits.length, before)
    t.equal((await use(gateway, path, classic)).status, 200)
    await gateway.reload(
      shopYaml(upstream.origin, {
        replace: [['mode: development', 'payment: { schemes: [payment] }\nmode: development']]
      })
    )
    const refusedClassic = await use(gateway, path, classic)
    t.equal(refusedClassic.status, 401)
    t.match(refusedClassic.headers['x-l402-error'], /not enabled/)
    await gateway.reload(shopYaml(upstream.origin))
    t.equal((await use(gateway, path, modern)).status, 200, 'nothing was used up')
  })

  await t.test('an expired one is refused from the second after its expiry; legacy too', async t => {
    const modern = await buy(gateway, path, 'payment')
    const unused = await buy(gateway, path, 'payment')
    const legacy = legacyOf(take(await buy(gateway, path, 'payment')).payload.preimage)
    t.equal((await use(gateway, path, legacy)).status, 200)
    clock.advance(600_000)
    t.equal((await shop.alone('GET', path, { authorization: modern })).status, 200, 'the last moment')
    t.equal((await shop.alone('GET', path, { authorization: legacy })).status, 200, 'the last moment, repeated')
    clock.advance(1_000)
    await refuses(t, shop, 'modern', unused, problem('verification-failed', /expired/), path, { isAlone: true })
    await refuses(t, shop, 'legacy', legacy, notKnown, path, {
      isAlone: true
    })
  })
})

t.test('Payment credentials of one seller at another', async t => {
  const shop = await openShop(t)
  const { gateway } = shop
  const other = await shop.otherMerchant()
  const mine = await shop.proxy()
  const sibling = await shop.proxy()
  const theirs = await shop.proxy({}, other.apiKey)
  const places: Record<string, string> = {
    operator: path,
    ping: '/l402/test/ping',
    mine: `${mine.path}/item`,
    sibling: `${sibling.path}/item`,
    theirs: `${theirs.path}/item`
  }
  const bought: Record<string, string> = {}
  for (const [name, at] of Object.entries(places)) bought[name] = await buy(gateway, at, 'payment')
  for (const [from, authorization] of Object.entries(bought)) {
    for (const [to, at] of Object.entries(places)) {
      if (from === to) continue
      const sameSeller =
        (from === 'mine' || from === 'sibling') === (to === 'mine' || to === 'sibling') &&
        (from === 'theirs') === (to === 'theirs')
      const detail = sameSeller ? /another (?:service|path)/ : /belongs to another merchant/
      await t.test(`bought at ${from}, shown at ${to}: ${detail}`, async t => {
        await refuses(t, shop, to, authorization, problem('verification-failed', detail), at)
        const legacy = legacyOf(take(authorization).payload.preimage)
        await refuses(t, shop, 'legacy', legacy, notKnown, at)
      })
    }
  }
  for (const [name, at] of Object.entries(places)) {
    t.equal((await use(gateway, at, bought[name] ?? '')).status, 200, `${name} works where it was bought`)
  }
})

/** Both lines of Authorization as they are, which no client library would send. */
async function withLines(shop: Shop, lines: readonly string[]) {
  return await shop.raw([
    `GET ${path} HTTP/1.1`,
    'Host: shop',
    ...lines.map(line => `Authorization: ${line}`),
    'Connection: close'
  ])
}

t.test('more than one Authorization line', async t => {
  const shop = await openShop(t)
  const { gateway, upstream } = shop
  const classic = await buy(gateway, path)
  const second = await buy(gateway, path)
  const modern = await buy(gateway, path, 'payment')
  const rows: Array<[string, string[], number]> = [
    ['two L402 credentials that differ', [classic, second], 400],
    ['L402 and Payment', [classic, modern], 400],
    ['Payment and L402', [modern, classic], 400],
    ['Payment twice', [modern, modern], 400],
    ['Payment in both profiles', [modern, legacyOf(take(modern).payload.preimage)], 400],
    ['two other schemes', ['Bearer a', 'Basic b'], 400],
    ['an L402 credential and one cut short', [classic, classic.slice(0, -1)], 400],
    ['two credentials in one line', [`${classic}, ${modern}`], 400],
    ['a Bearer alone', ['Bearer abc'], 402]
  ]
  for (const [name, lines, status] of rows) {
    await t.test(`${name}: ${status}`, async t => {
      const answer = await withLines(shop, lines)
      t.equal(answer.status, status, answer.body)
      t.equal(upstream.hits.length, 0, 'nothing reached the upstream')
    })
  }
  t.equal(
    (await withLines(shop, [classic.replace('L402', 'LSAT'), classic])).status,
    200,
    'LSAT and L402 with the same token count as one'
  )
  t.equal((await withLines(shop, [classic, 'Bearer abc'])).status, 200, 'an unrelated Bearer may be beside it')
  t.equal(upstream.hits.length, 2)
  t.notOk(
    upstream.requests.some(request => /L402|LSAT|Payment/i.test(request.headers.authorization ?? '')),
    'no payment credential went upstream'
  )
})
