import { randomBytes } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import net from 'node:net'
import t, { type Test as T } from 'tap'
import { buy, challengeOf, credentialOf, type Answer, type TestGateway, use } from '../support/gateway.ts'
import { temporaryFolder } from '../support/database.ts'
import {
  eventually,
  freshPostgres,
  freshRedis,
  spawnGateway,
  unshed,
  wellFormedRefusal
} from '../support/gateway-process.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { RawClient } from '../support/raw-client.ts'
import { countingUpstream, openShop, shopYaml } from '../security/shop.ts'

const REDEMPTIONS = 2_000
const path = '/paid/item'

type Gateway = Pick<TestGateway, 'send'>

/** Shows one credential many times concurrently to all gateways, and checks that it was accepted once. */
async function race(
  t: T,
  gateways: readonly Gateway[],
  credential: string,
  hits: readonly string[],
  refusals: readonly number[]
) {
  const before = hits.length
  const answers = await Promise.all(
    Array.from({ length: REDEMPTIONS }, (_, index) => {
      const gateway = gateways[index % gateways.length]
      if (gateway === undefined) throw new Error('there is at least one gateway')
      return use(gateway, path, credential)
    })
  )
  const counts = new Map<number, number>()
  for (const { status } of answers) counts.set(status, (counts.get(status) ?? 0) + 1)
  const found = JSON.stringify([...counts])
  t.equal(counts.get(200), 1, `exactly one is delivered: ${found}`)
  t.equal(hits.length, before + 1, 'one request reached the upstream')
  t.same(
    [...counts.keys()].filter(status => status !== 200 && !refusals.includes(status)),
    [],
    `every other is refused with ${refusals.join(' or ')}: ${found}`
  )
  const others = answers.filter(answer => answer.status !== 200)
  t.same(
    others.filter(answer => !wellFormedRefusal(answer)),
    [],
    'a client can recover from every refusal'
  )
  t.notOk(
    others.some(answer => answer.headers['payment-receipt'] !== undefined),
    'one receipt'
  )
  t.ok(
    others
      .filter(answer => answer.status === 402)
      .every(answer => (answer.json() as { type: string }).type.endsWith('/verification-failed')),
    'the problem says why'
  )
  t.match(answers.find(answer => answer.status === 200)?.headers, { 'payment-receipt': String })
  return counts
}

t.test(
  '2,000 concurrent redemptions of one Payment credential over the embedded database: one is delivered',
  async t => {
    // No time passes, so that a slow machine is no overload.
    const { gateway, upstream } = await openShop(t, { clock: new ManualClock() })
    await race(t, [gateway], await buy(gateway, path, 'payment'), upstream.hits, [402])
  }
)

t.test("at a client's cap on open invoices in a place, the refusals are 429 with Retry-After", async t => {
  const upstream = await countingUpstream(t)
  const { gateway } = await openShop(t, {
    upstream,
    clock: new ManualClock(),
    yaml: shopYaml(upstream.origin, {
      replace: [['mode: development', 'payment: { maxOutstanding: { address: 3 } }\nmode: development']]
    })
  })
  const credential = await buy(gateway, path, 'payment')
  for (let other = 0; other < 12; other++) t.equal((await gateway.send('GET', `${path}?other=${other}`)).status, 402)
  const counts = await race(t, [gateway], credential, upstream.hits, [429])
  t.equal(counts.get(429), REDEMPTIONS - 1)
})

t.test('2,000 concurrent redemptions at two gateways over PostgreSQL and Redis: one is delivered', async t => {
  const database = await freshPostgres(t)
  const redis = await freshRedis(t)
  if (database === null || redis === null) return
  const upstream = await countingUpstream(t)
  const yaml = shopYaml(upstream.origin)
  const data = temporaryFolder(t)
  const env = { DATABASE_URL: database, REDIS_URL: redis, BOLTGATE_SECRET: randomBytes(32).toString('hex') }
  const first = await spawnGateway(t, { yaml, env, data })
  const second = await spawnGateway(t, { yaml, env, data })
  const gateways = [first, second].map(unshed)
  await race(t, gateways, await buy(first, path, 'payment'), upstream.hits, [402])
  await race(t, gateways, await buy(second, path, 'payment'), upstream.hits, [402])
  const classic = await buy(first, path)
  for (const gateway of [first, second])
    t.equal((await use(gateway, path, classic)).status, 200, 'a classic token works at both')
})

t.test('one payment is spent once over three schemes at two gateways over PostgreSQL and Redis', async t => {
  const database = await freshPostgres(t)
  const redis = await freshRedis(t)
  if (database === null || redis === null) return
  const upstream = await countingUpstream(t)
  const yaml = shopYaml(upstream.origin, {
    replace: [['mode: development', 'payment: { schemes: [ l402, payment, x402 ] }\nmode: development']]
  })
  const env = {
    DATABASE_URL: database,
    REDIS_URL: redis,
    BOLTGATE_SECRET: randomBytes(32).toString('hex'),
    PUBLIC_URL: 'http://shop.example'
  }
  const data = temporaryFolder(t)
  const first = await spawnGateway(t, { yaml, env, data })
  const gateways = [first, await spawnGateway(t, { yaml, env, data })].map(unshed)
  const host = 'shop.example'
  const challenges: Answer[] = []
  // Before any race: the many refusals of one use up the client's open invoices.
  while (challenges.length < 6) challenges.push(await first.send('GET', path, { headers: { host } }))
  for (const [round, unpaid] of challenges.entries()) {
    const required = JSON.parse(Buffer.from(String(unpaid.headers['payment-required']), 'base64').toString()) as {
      accepts: [{ extra: { invoice: string } }]
    } // What the gateway under test wrote.
    const [accepted] = required.accepts
    const preimage = await first.pay(accepted.extra.invoice)
    const x402 = Buffer.from(JSON.stringify({ x402Version: 2, accepted, payload: { preimage } })).toString('base64')
    const credentials = [
      { 'payment-signature': x402 },
      { authorization: credentialOf(challengeOf(unpaid, 'payment'), preimage) },
      // A token is good until it expires and may win each race, so half of them are without it.
      ...(round % 2 === 0 ? [] : [{ authorization: credentialOf(challengeOf(unpaid, 'l402'), preimage) }])
    ]
    const before = upstream.hits.length
    const bought = new Map<number, number>()
    await Promise.all(
      Array.from({ length: 30 }, async (_, index) => {
        const scheme = (index + (round >> 1)) % credentials.length
        const gateway = gateways[Math.floor(index / credentials.length) % 2]
        const answer = await gateway?.send('GET', path, { headers: { host, ...credentials[scheme] } })
        if (answer?.status === 200) bought.set(scheme, (bought.get(scheme) ?? 0) + 1)
      })
    )
    const found = JSON.stringify([...bought])
    t.equal(bought.size, 1, `round ${round}: one scheme bought: ${found}`)
    const [[scheme, times] = [0, 0]] = bought
    if (scheme !== 2) t.equal(times, 1, `round ${round}: ${found}`)
    t.equal(upstream.hits.length, before + times, 'no other request reached the upstream')
  }
})

/** A shop whose upstream answers as the test wants at the moment. */
async function moodyShop(t: T, more: { route?: string } = {}) {
  let mood: RequestListener = (_req, res) => {
    res.end('sold')
  }
  const upstream = await countingUpstream(t, (req, res) => {
    mood(req, res)
  })
  const yaml = shopYaml(upstream.origin, {
    route: `  - { match: { path: /slow/* }, price: 7 sats, chain: paid, upstream: { url: "${upstream.origin}", timeout: 200ms } }\n  - { match: { path: /fussy/* }, price: 7 sats, chain: paid, upstream: { url: "${upstream.origin}" }, releaseOn: [ 4xx, 5xx ] }\n  - { match: { path: /kept/* }, price: 7 sats, chain: paid, upstream: { url: "${upstream.origin}" }, releaseOn: [ 4xx ] }\n${more.route ?? ''}`
  })
  const shop = await openShop(t, { upstream, yaml })
  return {
    ...shop,
    become(next: RequestListener) {
      mood = next
    }
  }
}

const sold: RequestListener = (_req, res) => {
  res.end('sold')
}

t.test("how an upstream's response changes a Payment credential", async t => {
  const shop = await moodyShop(t)
  const { gateway, become } = shop
  const proxy = await shop.proxy()
  const status =
    (code: number): RequestListener =>
    (_req, res) => {
      res.statusCode = code
      res.end('no')
    }
  const rows: Array<[name: string, at: string, mood: RequestListener, answer: number, retry: number]> = [
    [
      'dies before its first byte',
      '/paid/item',
      req => {
        req.socket.resetAndDestroy()
      },
      502,
      200
    ],
    [
      'closes before its first byte',
      '/paid/item',
      req => {
        req.socket.end()
      },
      502,
      200
    ],
    [
      'dies before its first byte, behind a proxy',
      `${proxy.path}/item`,
      req => {
        req.socket.resetAndDestroy()
      },
      502,
      200
    ],
    [
      'dies inside its head',
      '/paid/item',
      req => {
        req.socket.write('HTTP/1.1 200 OK\r\nContent-Le')
        req.socket.end()
      },
      502,
      200
    ],
    [
      'answers what is no HTTP',
      '/paid/item',
      req => {
        req.socket.end('SSH-2.0-x\r\n')
      },
      502,
      200
    ],
    ['answers not in time', '/slow/item', () => {}, 504, 200],
    ['answers 500', '/paid/item', status(500), 500, 200],
    ['answers 503', '/paid/item', status(503), 503, 200],
    ['answers 502 behind a proxy', `${proxy.path}/item`, status(502), 502, 200],
    ['answers 404', '/paid/item', status(404), 404, 402],
    ['answers 400 behind a proxy', `${proxy.path}/item`, status(400), 400, 402],
    ['answers 204', '/paid/item', status(204), 204, 402],
    [
      'redirects',
      '/paid/item',
      (_req, res) => {
        res.writeHead(302, { location: 'https://example.com/' }).end()
      },
      302,
      402
    ],
    ['answers 404 where 4xx are released', '/fussy/item', status(404), 404, 200],
    ['answers 500 where 4xx and 5xx are released', '/fussy/item', status(500), 500, 200],
    ['answers 200 where 4xx are released', '/fussy/item', status(200), 200, 402],
    ['answers 500 where only 4xx are released', '/kept/item', status(500), 500, 402],
    [
      'dies before its first byte where only 4xx are released',
      '/kept/item',
      req => {
        req.socket.resetAndDestroy()
      },
      502,
      200
    ]
  ]
  for (const [name, at, mood, answer, retry] of rows) {
    await t.test(
      `an upstream that ${name}: ${answer}, and the credential is ${retry === 200 ? 'good again' : 'spent'}`,
      async t => {
        const authorization = await buy(gateway, at, 'payment')
        become(mood)
        const first = await use(gateway, at, authorization)
        t.equal(first.status, answer, first.text)
        t.equal(first.headers['payment-receipt'] !== undefined, answer >= 200 && answer < 300, 'a receipt on 2xx only')
        t.equal(first.headers['www-authenticate'], undefined, 'never a new price for a fault')
        become(sold)
        const second = await use(gateway, at, authorization)
        t.equal(second.status, retry, `immediately afterwards: ${second.text}`)
        if (retry === 200) {
          t.ok(second.headers['payment-receipt'], 'with its receipt')
          t.equal((await use(gateway, at, authorization)).status, 402, 'and then it is spent')
        }
      }
    )
  }

  await t.test('an upstream that is missing: 502, and the credential is valid once it is back', async t => {
    const server = createServer((_req, res) => {
      res.end('back')
    })
    const port = await new Promise<number>(resolve => {
      server.listen(0, '127.0.0.1', () => {
        resolve((server.address() as net.AddressInfo) /* TCP */.port)
      })
    })
    const away = await shop.proxy({ targetBaseUrl: `http://127.0.0.1:${port}` })
    const authorization = await buy(gateway, `${away.path}/x`, 'payment')
    await new Promise<void>(resolve => {
      server.close(() => {
        resolve()
      })
    })
    const first = await use(gateway, `${away.path}/x`, authorization)
    t.equal(first.status, 502)
    t.match(first.json(), { error: String, message: String, proxy_id: away.id, details: 'connection refused' })
    await new Promise<void>(resolve => {
      server.listen(port, '127.0.0.1', () => {
        resolve()
      })
    })
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    t.equal((await use(gateway, `${away.path}/x`, authorization)).text, 'back')
  })

  await t.test('a client that leaves before the head: the credential is valid again', async t => {
    const authorization = await buy(gateway, '/paid/item', 'payment')
    const arrived = Promise.withResolvers<void>()
    const aborted = Promise.withResolvers<void>()
    become(req => {
      req.socket.on('close', () => {
        aborted.resolve()
      })
      arrived.resolve()
    })
    const client = await RawClient.connect(Number(new URL(gateway.url).port))
    client.send(`GET /paid/item HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n\r\n`)
    await arrived.promise
    const meanwhile = await use(gateway, '/paid/item', authorization)
    t.equal(meanwhile.status, 402, 'in use meanwhile')
    t.match(meanwhile.json(), { detail: /being redeemed by another request/ })
    client.close()
    await aborted.promise
    become(sold)
    await eventually(
      'the credential works again',
      async () => (await use(gateway, '/paid/item', authorization)).status === 200
    )
    t.equal((await use(gateway, '/paid/item', authorization)).status, 402)
  })

  await t.test('a client that leaves shortly before the head: the credential is valid again, each time', async () => {
    for (const wait of [2, 5, 10, 20, 30, 40]) {
      const authorization = await buy(gateway, '/paid/item', 'payment')
      const arrived = Promise.withResolvers<void>()
      const left = Promise.withResolvers<void>()
      become(async (_req, res) => {
        arrived.resolve()
        await left.promise
        res.end('sold')
      })
      const client = await RawClient.connect(Number(new URL(gateway.url).port))
      client.send(`GET /paid/item HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n\r\n`)
      await arrived.promise
      client.close()
      // The FIN must reach the gateway before the upstream's head does.
      setTimeout(left.resolve, wait)
      await left.promise
      become(sold)
      await eventually('the credential works again', async () => {
        const { status, json } = await use(gateway, '/paid/item', authorization)
        if (status === 402 && !/being redeemed/.test(JSON.stringify(json())))
          throw new Error('not spent by any request')
        return status === 200
      })
    }
  })

  await t.test('a client that leaves while the body streams has had its answer: spent', async t => {
    const authorization = await buy(gateway, '/paid/item', 'payment')
    const closed = Promise.withResolvers<void>()
    become((req, res) => {
      res.write('begun')
      req.socket.on('close', () => {
        closed.resolve()
      })
    })
    const client = await RawClient.connect(Number(new URL(gateway.url).port))
    client.send(`GET /paid/item HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n\r\n`)
    await client.until('begun')
    client.close()
    await closed.promise
    become(sold)
    t.equal((await use(gateway, '/paid/item', authorization)).status, 402)
  })

  await t.test('fifty clients that leave together, and the retry, deliver once', async t => {
    const authorization = await buy(gateway, '/paid/item', 'payment')
    const before = shop.upstream.hits.length
    become((_req, res) => {
      setImmediate(() => {
        res.end('sold')
      })
    })
    const clients = await Promise.all(
      Array.from({ length: 50 }, () => RawClient.connect(Number(new URL(gateway.url).port)))
    )
    for (const client of clients)
      client.send(`GET /paid/item HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n\r\n`)
    for (const [index, client] of clients.entries()) if (index % 2 === 0) client.close()
    const kept: Array<Pick<Answer, 'status'>> = await Promise.all(
      clients.filter((_, index) => index % 2 === 1).map(client => client.response())
    )
    for (const client of clients) client.close()
    const delivered = kept.filter(answer => answer.status === 200).length
    t.ok(delivered <= 1, 'never two deliveries')
    become(sold)
    // A client that left may still hold the lease. Then its request ends: given back, or delivered to a socket that
    // had not been seen to close.
    const settled = await eventually('no request holds the credential', async () => {
      const answer = await use(gateway, '/paid/item', authorization)
      return answer.status === 402 && /being redeemed/.test(answer.text) ? null : answer.status
    })
    t.ok(delivered === 1 ? settled === 402 : settled === 200 || settled === 402, 'delivered once at most')
    t.ok(shop.upstream.hits.length > before)
    t.equal((await use(gateway, '/paid/item', authorization)).status, 402, 'spent in the end')
  })
})
