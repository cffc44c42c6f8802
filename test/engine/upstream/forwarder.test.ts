import { ProxyScope } from '../../../src/engine/message/proxy-scope.ts'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/engine/operations/errors.ts'
import type { UpstreamTarget } from '../../../src/engine/message/context.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { Forwarder } from '../../../src/engine/upstream/forwarder.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { RawUpstream, type RawRequest } from '../../support/raw-upstream.ts'
import { bodyOf, contextOf, forwarderTo, RecordingResponder, sent, targetOf, upstreamConfig } from './harness.ts'

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na'

/** The header lines of a request as a flat list, names in lower case. */
function lines(request: RawRequest | undefined) {
  // No prototype, so that `__proto__` is a name like any other.
  const out = Object.create(null) as Record<string, string[]>
  for (const line of (request?.head ?? '').split('\r\n').slice(1)) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    out[name] = [...(out[name] ?? []), line.slice(colon + 1).trim()]
  }
  return out
}

interface RequestVector {
  readonly id: string
  readonly clause: string
  readonly send: readonly string[]
  readonly target?: Partial<UpstreamTarget>
  readonly facts?: Parameters<typeof contextOf>[0]
  readonly has?: Readonly<Record<string, readonly string[]>>
  readonly lacks?: readonly string[]
}

const PROXIED = { peerAddress: '10.0.0.9', clientAddress: '198.51.100.4' } as const

/** What clients send, and what the upstream must and must not see of it. */
const REQUESTS: readonly RequestVector[] = [
  { id: 'host', clause: 'RFC 9110 7.2', send: ['Host', 'gateway.test'], has: { 'x-forwarded-host': ['gateway.test'] } },
  {
    id: 'hop-by-hop',
    clause: 'RFC 9110 7.6.1',
    send: [
      'Connection',
      'close, X-Private',
      'X-Private',
      '1',
      'Keep-Alive',
      'timeout=5',
      'Proxy-Connection',
      'x',
      'Proxy-Authenticate',
      'x',
      'Proxy-Authorization',
      'Basic x',
      'Upgrade',
      'h2c',
      'HTTP2-Settings',
      'x',
      'Trailer',
      'X-Sum',
      'Expect',
      '100-continue',
      'Transfer-Encoding',
      'chunked',
      'X-Public',
      '2'
    ],
    has: { 'x-public': ['2'], connection: ['keep-alive'] },
    lacks: [
      'x-private',
      'keep-alive',
      'proxy-connection',
      'proxy-authenticate',
      'proxy-authorization',
      'upgrade',
      'http2-settings',
      'trailer',
      'expect',
      'transfer-encoding'
    ]
  },
  {
    id: 'connection-twice',
    clause: 'RFC 9110 7.6.1',
    send: ['Connection', 'X-A', 'X-A', '1', 'connection', ' x-b ,', 'X-B', '2'],
    lacks: ['x-a', 'x-b']
  },
  {
    id: 'connection-cannot-strip',
    clause: 'header policy',
    send: ['Connection', 'Via, X-Forwarded-For, Forwarded, X-Correlation-Id, Host, X-Injected'],
    target: { requestHeaders: ['X-Injected', 'key'] },
    has: {
      via: ['1.1 boltgate'],
      'x-forwarded-for': ['203.0.113.7'],
      'x-correlation-id': ['corr-1'],
      'x-injected': ['key']
    }
  },
  {
    id: 'te-trailers',
    clause: 'RFC 9110 10.1.4',
    send: ['TE', 'gzip;q=0.5, Trailers', 'Connection', 'TE'],
    has: { te: ['trailers'] }
  },
  { id: 'te-others', clause: 'RFC 9110 10.1.4', send: ['TE', 'gzip'], lacks: ['te'] },
  {
    id: 'merchant-authorization',
    clause: 'decision 100',
    send: [
      'Authorization',
      'Bearer mine',
      'Authorization',
      'L402 a:b',
      'X-API-Key',
      'bg_x',
      'X-Admin-Key',
      'y',
      'Accept-Payment',
      'x',
      'Macaroon',
      'aa',
      'Grpc-Metadata-Macaroon',
      'bb'
    ],
    lacks: ['authorization', 'x-api-key', 'x-admin-key', 'accept-payment', 'macaroon', 'grpc-metadata-macaroon']
  },
  {
    id: 'operator-authorization',
    clause: 'decision 100',
    target: { untrusted: null },
    send: [
      'Authorization',
      'Bearer mine',
      'authorization',
      'l402 a:b',
      'AUTHORIZATION',
      'LSAT a:b',
      'Authorization',
      'Payment x',
      'Accept-Payment',
      'x',
      'X-API-Key',
      'upstream-key'
    ],
    has: { authorization: ['Bearer mine'], 'x-api-key': ['upstream-key'] },
    lacks: ['accept-payment']
  },
  {
    id: 'operator-macaroon',
    clause: 'decision 100',
    target: { untrusted: null },
    send: [
      'Macaroon',
      '0201036c6e64',
      'Grpc-Metadata-Macaroon',
      `0201${Buffer.from('preimage=00').toString('hex').toUpperCase()}`
    ],
    has: { macaroon: ['0201036c6e64'] },
    lacks: ['grpc-metadata-macaroon']
  },
  {
    id: 'target-authorization',
    clause: 'contract, Reverse proxy',
    target: { requestHeaders: ['Authorization', 'Bearer merchant'] },
    send: ['Authorization', 'Bearer client', 'authorization', 'Bearer client'],
    has: { authorization: ['Bearer merchant'] }
  },
  {
    id: 'forged-own',
    clause: 'header policy',
    send: ['X-L402-Proxy-Id', 'x', 'X-L402-Proxy', 'x', 'Payment-Receipt', 'x', 'X-Correlation-Id', 'forged'],
    has: { 'x-correlation-id': ['corr-1'] },
    lacks: ['x-l402-proxy-id', 'x-l402-proxy', 'payment-receipt']
  },
  {
    id: 'forged-forwarding',
    clause: 'trusted proxies',
    send: [
      'X-Forwarded-For',
      '1.2.3.4',
      'X-Forwarded-Proto',
      'http',
      'X-Forwarded-Host',
      'evil.test',
      'X-Forwarded-Port',
      '1',
      'X-Forwarded-Prefix',
      '/x',
      'X-Real-IP',
      '1.2.3.4',
      'Forwarded',
      'for=1.2.3.4'
    ],
    has: {
      'x-forwarded-for': ['203.0.113.7'],
      'x-forwarded-proto': ['https'],
      'x-forwarded-host': ['gateway.test'],
      forwarded: ['for=203.0.113.7;host="gateway.test";proto=https']
    },
    lacks: ['x-forwarded-port', 'x-forwarded-prefix', 'x-real-ip']
  },
  {
    id: 'trusted-forwarding',
    clause: 'trusted proxies',
    facts: PROXIED,
    send: [
      'X-Forwarded-For',
      '6.6.6.6, 198.51.100.4',
      'X-Forwarded-For',
      '10.0.0.8',
      'X-Forwarded-Host',
      'shop.test',
      'X-Forwarded-Port',
      '443',
      'Forwarded',
      'for=198.51.100.4'
    ],
    has: {
      'x-forwarded-for': ['198.51.100.4, 10.0.0.8, 10.0.0.9'],
      'x-forwarded-host': ['shop.test'],
      'x-forwarded-port': ['443'],
      forwarded: ['for=198.51.100.4, for=10.0.0.9']
    }
  },
  {
    id: 'trusted-forwarding-bare',
    clause: 'trusted proxies',
    facts: PROXIED,
    send: [],
    has: {
      'x-forwarded-for': ['198.51.100.4, 10.0.0.9'],
      forwarded: ['for=198.51.100.4;host="gateway.test";proto=https']
    }
  },
  {
    id: 'ipv6',
    clause: 'RFC 7239 6',
    facts: { peerAddress: '2001:db8::7', clientAddress: '2001:db8::7', secure: false },
    send: [],
    has: {
      'x-forwarded-for': ['2001:db8::7'],
      forwarded: ['for="[2001:db8::7]";host="gateway.test";proto=http'],
      'x-forwarded-proto': ['http']
    }
  },
  {
    id: 'via',
    clause: 'RFC 9110 7.6.3',
    send: ['Via', '1.0 a', 'Via', '1.1 b'],
    has: { via: ['1.0 a, 1.1 b, 1.1 boltgate'] }
  },
  {
    id: 'bytes-kept',
    clause: 'RFC 9110 5.5',
    send: ['X-Name', 'caf\xe9 \xc3\xa9', 'X-Twice', '1', 'x-twice', '2', '__proto__', 'p'],
    has: { 'x-name': ['caf\xe9 \xc3\xa9'], 'x-twice': ['1', '2'] }
  },
  {
    id: 'forged-payment',
    clause: 'header policy',
    target: { untrusted: null },
    send: [
      'X-L402-Payment-Hash',
      'a',
      'x-l402-amount-sats',
      '1',
      'X_L402_Scheme',
      'l402',
      'X-L402_Amount-Sats',
      '1',
      'X-L402-Payment_Hash',
      'a'
    ],
    lacks: [
      'x-l402-payment-hash',
      'x-l402-amount-sats',
      'x-l402-scheme',
      'x_l402_scheme',
      'x-l402_amount-sats',
      'x-l402-payment_hash'
    ]
  },
  {
    id: 'forged-payment-of-merchant',
    clause: 'header policy',
    send: ['X-L402-Payment-Hash', 'a', 'x-l402-amount-sats', '1', 'X-L402-Scheme', 'l402'],
    lacks: ['x-l402-payment-hash', 'x-l402-amount-sats', 'x-l402-scheme']
  },
  {
    id: 'underscores',
    clause: 'RFC 3875 4.1.18',
    target: { requestHeaders: ['Own_Name', 'c'] },
    send: ['X_Forwarded_For', '1.2.3.4', 'User_Id', '1', 'X-Good', 'b'],
    has: { 'x-good': ['b'], own_name: ['c'] },
    lacks: ['x_forwarded_for', 'user_id']
  },
  {
    id: 'no-host',
    clause: 'RFC 9112 3.2',
    facts: { host: '', httpVersion: '1.0' },
    send: [],
    has: { forwarded: ['for=203.0.113.7;proto=https'] },
    lacks: ['x-forwarded-host']
  },
  { id: 'client-version', clause: 'RFC 9110 5', send: ['X-API-Version', '2'], has: { 'x-api-version': ['2'] } }
]

/** The status of the error that a call throws or rejects with; null when it does not. */
async function statusOf(run: () => void | Promise<void>) {
  try {
    await run()
    return null
  } catch (error) {
    return error instanceof GatewayError ? error.status : 0
  }
}

async function setup(t: Test, answer = ANSWER) {
  const upstream = await RawUpstream.serve(answer).listen()
  const forwarder = forwarderTo(t, upstream)
  return { upstream, forwarder }
}

t.test('requests of clients reach the upstream as the rules say', async t => {
  const { upstream, forwarder } = await setup(t)
  for (const vector of REQUESTS) {
    const responder = new RecordingResponder()
    void forwarder.forward(
      contextOf({ ...vector.facts, headers: [...vector.send] }),
      responder,
      targetOf(upstream.origin, vector.target)
    )
    await responder.done
    t.equal(responder.status, 200, `${vector.id}: answered`)
    const sent = lines(upstream.requests.at(-1))
    t.same(sent['host'], [`127.0.0.1:${upstream.port}`], `${vector.id}: one Host, the upstream's`)
    for (const [name, values] of Object.entries(vector.has ?? {}))
      t.same(sent[name], values, `${vector.id}: ${name} (${vector.clause})`)
    for (const name of vector.lacks ?? []) t.equal(sent[name], undefined, `${vector.id}: no ${name} (${vector.clause})`)
  }
})

t.test('the upstream receives what was paid, whatever the client claims or names in Connection', async t => {
  const { upstream, forwarder } = await setup(t)
  for (const untrusted of [null, new ProxyScope('p-1', '/l402/proxy/p-1')]) {
    const ctx = contextOf({
      headers: [
        'X-L402-Payment-Hash',
        'forged',
        'X-L402-Amount-Sats',
        '9',
        'Connection',
        'X-L402-Scheme, X-L402-Payment-Hash'
      ]
    })
    ctx.payment = { scheme: 'payment', paymentHash: 'ab'.repeat(32), amountSats: 21 }
    const responder = new RecordingResponder()
    void forwarder.forward(ctx, responder, targetOf(upstream.origin, { untrusted }))
    await responder.done
    t.match(lines(upstream.requests.at(-1)), {
      'x-l402-payment-hash': ['ab'.repeat(32)],
      'x-l402-amount-sats': ['21'],
      'x-l402-scheme': ['payment']
    })
  }
})

t.test('bodies go up whole: collected, streamed with a length, and streamed without one', async t => {
  const { upstream, forwarder } = await setup(t)
  const big = 'x'.repeat(300_000)
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'GET']) {
    for (const [kind, body, length, headers] of [
      ['collected', 'hello', 5, ['Content-Length', '5']],
      ['collected from chunks', 'hello', null, ['Transfer-Encoding', 'chunked']],
      [
        'length',
        Readable.from([Buffer.from('hel'), Buffer.from('lo')], { objectMode: false }),
        5,
        ['Content-Length', '5']
      ],
      [
        'chunked',
        Readable.from([Buffer.from('hel'), Buffer.from('lo')], { objectMode: false }),
        null,
        ['Transfer-Encoding', 'chunked']
      ],
      [
        'large',
        Readable.from([Buffer.from(big)], { objectMode: false }),
        big.length,
        ['Content-Length', String(big.length)]
      ]
    ] as const) {
      const responder = new RecordingResponder()
      void forwarder.forward(
        contextOf({ method, headers: ['Host', 'x', ...headers], body: bodyOf(body, length) }),
        responder,
        targetOf(upstream.origin)
      )
      await responder.done
      t.equal(responder.status, 200, `${method} ${kind}`)
      const request = upstream.requests.at(-1)
      t.equal(request?.body.toString(), kind === 'large' ? big : 'hello', `${method} ${kind}: body`)
      const sent = lines(request)
      t.equal(
        (sent['content-length'] ?? []).length + (sent['transfer-encoding'] ?? []).length,
        1,
        `${method} ${kind}: framed in one way`
      )
    }
  }
})

t.test('a client that sends fast is held back by an upstream that does not read', async t => {
  const upstream = await new RawUpstream(connection => {
    connection.socket.pause()
  }).listen()
  const forwarder = forwarderTo(t, upstream)
  const count = { produced: 0 }
  const body = new Readable({
    read() {
      count.produced += 65536
      this.push(Buffer.alloc(65536))
    }
  })
  const responder = sent(forwarder, targetOf(upstream.origin), { method: 'POST', body: bodyOf(body) })
  let before = -1
  while (before !== count.produced || count.produced === 0) {
    before = count.produced
    for (let turn = 0; turn < 200; turn++) await setImmediate()
  }
  t.ok(count.produced < 64 * 1024 * 1024, `the body stopped at ${count.produced} bytes`)
  responder.leave()
  upstream.connections[0]?.socket.resume()
  await upstream.connections[0]?.closed
  t.equal(forwarder.load.requests, 0, 'leaving in the middle of the upload affects no other request')
})

t.test('the path is forwarded byte for byte', async t => {
  const { upstream, forwarder } = await setup(t)
  for (const path of ['/a%2Fb/%2e%2E/c?x=1&y=%20&x=2', '/\xc3\xa9', '//double', '/?', '/a;b=c', '/\'"<>{}|^`']) {
    const responder = sent(forwarder, targetOf(upstream.origin, { path }))
    await responder.done
    t.equal(upstream.requests.at(-1)?.head.split('\r\n')[0], `GET ${path} HTTP/1.1`)
  }
})

t.test('a request that loops repeatedly is stopped', async t => {
  const { upstream, forwarder } = await setup(t)
  for (const [passes, expected] of [
    [7, null],
    [8, 502],
    [500, 502]
  ] as const) {
    const headers = Array.from({ length: passes }, () => ['Via', '1.1 boltgate']).flat()
    const responder = new RecordingResponder()
    const status = await statusOf(() => forwarder.forward(contextOf({ headers }), responder, targetOf(upstream.origin)))
    t.equal(status, expected, `${passes} passes before this one`)
    if (status === null) await responder.done
  }
  t.equal(upstream.requests.length, 1)
})

t.test('twice as many refused requests as connections cost no slot', async t => {
  const { upstream, forwarder } = await setup(t)
  const route = await forwarder.open(upstreamConfig(upstream.origin, { connections: 2 }))
  for (let turn = 0; turn < 3; turn++) {
    for (const path of ['*', 'no-slash', '/a b']) {
      const responder = sent(forwarder, route, { target: path })
      t.equal(responder.failure?.status, 400, `path ${path}`)
    }
    for (const [name, value] of [
      ['Connection', 'close'],
      ['Keep-Alive', 'x'],
      ['Transfer-Encoding', 'chunked'],
      ['Upgrade', 'x'],
      ['Expect', '100-continue'],
      ['Host', 'b'],
      ['X-Bad', 'a\nb'],
      ['bad name', 'x'],
      ['Content-Length', 'x']
    ] as const) {
      const responder = new RecordingResponder()
      responder.hook = out => {
        out.headers.append(name, value)
      }
      void forwarder.forwardTo(contextOf(), responder, route)
      t.equal(responder.failure?.status, 500, `${name} from a plugin`)
    }
  }
  const responders = Array.from({ length: 8 }, () => new RecordingResponder())
  for (const [at, responder] of responders.entries())
    void forwarder.forwardTo(contextOf({ clientAddress: `203.0.113.${at}` }), responder, route)
  await Promise.all(
    responders.map(async responder => {
      await responder.done
    })
  )
  t.ok(
    responders.every(responder => responder.status === 200),
    'valid requests are served'
  )
  t.equal(upstream.connections.length, 2, 'over both connections')
})

t.test('merchants may not lead the gateway into its own network', async t => {
  const upstream = await RawUpstream.serve(ANSWER).listen()
  const forwarder = new Forwarder({ clock: systemClock, production: true, resolve: async () => ['127.0.0.1'] })
  t.teardown(async () => {
    await forwarder.close()
    await upstream.close()
  })
  for (const host of ['127.0.0.1', 'localhost', 'rebound.example.com', '[::1]', '[::ffff:7f00:1]', '169.254.169.254']) {
    const responder = sent(forwarder, targetOf(`https://${host}:${upstream.port}`))
    await responder.done
    t.equal(responder.failure?.status, 502, host)
    t.equal(responder.failure?.members?.['message'], 'The upstream address is not allowed.', host)
    t.same(Object.keys(responder.failure?.members ?? {}), ['error', 'message', 'proxy_id', 'details'])
  }
  t.equal(upstream.connections.length, 0)
})

t.test('an upgrade becomes a tunnel with clean headers, to a checked address', async t => {
  const forwarder = new Forwarder({
    clock: systemClock,
    production: true,
    resolve: async name => (name === 'good.example.com' ? ['93.184.215.14'] : ['10.0.0.1'])
  })
  t.teardown(async () => {
    await forwarder.close()
  })
  const headers = [
    'Host',
    'gateway.test',
    'Connection',
    'Upgrade, X-Private',
    'Upgrade',
    'websocket',
    'Sec-WebSocket-Key',
    'k',
    'X-Private',
    '1',
    'Authorization',
    'L402 a:b'
  ]
  const responder = new RecordingResponder()
  await forwarder.forward(
    contextOf({ upgrade: 'websocket', headers }),
    responder,
    targetOf('https://good.example.com', { path: '/ws?a=1' })
  )
  t.equal(responder.tunnelled?.origin, 'https://good.example.com')
  t.equal(responder.tunnelled?.path, '/ws?a=1')
  t.equal(responder.tunnelled?.address, '93.184.215.14')
  const names = (responder.tunnelled?.headers ?? []).filter((_, at) => at % 2 === 0).map(name => name.toLowerCase())
  t.ok(names.includes('sec-websocket-key'))
  t.same(responder.tunnelled?.headers.slice(0, 2), ['Host', 'good.example.com'])
  for (const name of ['connection', 'upgrade', 'x-private', 'authorization']) t.notOk(names.includes(name), name)
  t.equal(
    await statusOf(() =>
      forwarder.forward(
        contextOf({ upgrade: 'websocket', headers }),
        new RecordingResponder(),
        targetOf('https://bad.example.com')
      )
    ),
    502
  )
  const route = await forwarder.open(upstreamConfig('http://10.0.0.5:8080'))
  const own = new RecordingResponder()
  await forwarder.forwardTo(contextOf({ upgrade: 'websocket', headers }), own, route)
  t.equal(own.tunnelled?.address, null, "an operator's own address is not checked")
})

t.test('pools are shared by generations, kept while held, and closed when unused', async t => {
  const upstream = await RawUpstream.serve(ANSWER).listen()
  const clock = new ManualClock()
  const forwarder = new Forwarder({ clock, production: false, poolIdle: 10_000, poolCap: 3 })
  t.teardown(async () => {
    await forwarder.close()
    await upstream.close()
  })
  const first = await forwarder.open(upstreamConfig(upstream.origin))
  const second = await forwarder.open(upstreamConfig(upstream.origin, { headers: { 'X-A': '1' }, timeout: 1 }))
  const other = await forwarder.open(upstreamConfig(upstream.origin, { connections: 1 }))
  t.equal(first.upstream, second.upstream, 'the same settings share connections')
  t.not(first.upstream, other.upstream)
  other.release()
  const responder = sent(forwarder, first)
  await responder.done
  for (let tenant = 0; tenant < 10; tenant++) {
    const responder = new RecordingResponder()
    void forwarder.forward(contextOf(), responder, targetOf(upstream.origin, { tenant: String(tenant) }))
    await responder.done
    t.equal(responder.status, 200)
  }
  t.equal(forwarder.load.pools, 3, 'the cap holds')
  first.release()
  first.release()
  clock.advance(60_000)
  t.equal(forwarder.load.pools, 1, 'only what is held stays')
  const again = sent(forwarder, second)
  await again.done
  t.equal(again.status, 200)
  second.release()
  clock.advance(60_000)
  t.equal(forwarder.load.pools, 0)
})
