/** MCP over streamable HTTP, with JSON responses: each rule of the payment transport, and the ways round it. */
import t from 'tap'
import { canonicalize } from '../../../src/lightning/payment-scheme/jcs.ts'
import { challengeOf, CREDENTIAL, openRpcShop, paying, RECEIPT, toolCall, type Rpc } from './setting.ts'

t.test('calls of an MCP server', async t => {
  const shop = await openRpcShop(t)
  const { received } = shop

  t.test('an unpaid call gets its price inside the message, with status 200', async t => {
    const before = received.length
    const answer = await shop.post(toolCall('cheap', 7))
    t.equal(answer.status, 200)
    t.equal(answer.headers['content-type'], 'application/json')
    t.equal(answer.headers['cache-control'], 'no-store')
    const response = answer.json() as Rpc
    t.match(response, {
      jsonrpc: '2.0',
      id: 7,
      error: {
        code: -32042,
        message: 'Payment Required',
        data: {
          httpStatus: 402,
          problem: { type: 'https://paymentauth.org/problems/payment-required' }
        }
      }
    })
    const challenge = challengeOf(response)
    t.match(challenge, {
      id: /^[A-Za-z0-9_-]{43}$/,
      method: 'lightning',
      intent: 'charge',
      expires: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
      digest: /^sha-256=:/,
      request: { amount: '2', currency: 'sat', methodDetails: { invoice: /^lnbcrt/, network: 'regtest' } }
    })
    const lines = [answer.headers['www-authenticate'] ?? []].flat()
    t.match(lines[0], /^L402 macaroon="/, 'clients that pay in headers find the same challenge there')
    const inHeader = /request="([^"]+)"/.exec(lines[1] ?? '')?.[1] ?? ''
    t.equal(
      Buffer.from(inHeader, 'base64url').toString(),
      canonicalize(JSON.parse(JSON.stringify(challenge.request)) as object as never),
      'the request is the canonical text of the object'
    )
    t.match(lines[1], `id="${challenge.id}"`)
    t.equal(received.length, before, 'the server is not called')
  })

  t.test('a paid call is forwarded without its credential, and its result has the receipt', async t => {
    const call = toolCall('cheap')
    const credential = await shop.buy(call)
    const answer = await shop.post(paying(call, credential, { progressToken: 5 }))
    const response = answer.json() as Rpc
    t.match(response.result?._meta?.[RECEIPT], {
      status: 'success',
      method: 'lightning',
      timestamp: /Z$/,
      reference: credential.challenge.request.methodDetails.paymentHash,
      challengeId: credential.challenge.id
    })
    t.equal(received.at(-1)?.body, JSON.stringify({ ...call, params: { ...call.params, _meta: { progressToken: 5 } } }))
    t.notOk(received.at(-1)?.body.includes(credential.payload.preimage))
    t.equal(answer.headers['cache-control'], 'private')
    t.match(answer.headers['payment-receipt'], /./, 'and the header that HTTP clients look for')
    t.equal(answer.headers['content-length'], String(Buffer.byteLength(answer.text)))

    const again = await shop.call(paying(call, credential))
    t.match(
      again,
      { error: { code: -32043, data: { httpStatus: 402, failure: { reason: 'redeemed', detail: /already/ } } } },
      'once'
    )
    t.not(challengeOf(again).id, credential.challenge.id, 'with a fresh challenge')
    t.equal(again.result, undefined)
  })

  t.test('a credential may be at the root, and any order of members is the same call', async t => {
    const credential = await shop.buy(toolCall('cheap'))
    const { challenge, payload } = credential
    const turned = {
      payload,
      challenge: Object.fromEntries(Object.entries(challenge).toReversed()),
      source: 'did:key:z6Mk'
    }
    const text = `{"_meta":{"${CREDENTIAL}":${JSON.stringify(turned)}},"params":{"arguments":{"te\\u0078t": "hi"},"name":"cheap"},"method":"tools/call","id":"x","jsonrpc":"2.0"}`
    t.match(await shop.call(text), { id: 'x', result: { _meta: { [RECEIPT]: { status: 'success' } } } })
    t.equal(
      received.at(-1)?.body,
      '{"_meta":{},"params":{"arguments":{"te\\u0078t": "hi"},"name":"cheap"},"method":"tools/call","id":"x","jsonrpc":"2.0"}'
    )
  })

  t.test('a payment buys the call it was made for, and no other', async t => {
    const call = toolCall('cheap')
    const credential = await shop.buy(call)
    for (const [message, reason] of [
      [toolCall('costly'), 'path'],
      [toolCall('cheap', 1, { arguments: { text: 'other' } }), 'digest'],
      [toolCall('cheap', 1, { arguments: { text: 'hi', n: 7 } }), 'digest'],
      [{ jsonrpc: '2.0' as const, id: 1, method: 'prompts/get', params: { name: 'cheap' } }, 'path']
    ] as const) {
      const response = await shop.call(paying(message, credential))
      t.match(response, { error: { code: -32043, data: { failure: { reason } } } }, JSON.stringify(message))
    }
    t.match(await shop.call(paying(call, credential)), { result: {} }, 'and is still valid for that')
  })

  t.test('numbers that no double holds are distinguished', async t => {
    const text = (n: string, meta = ''): string =>
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cheap","arguments":{"n":${n}}${meta}}}`
    const one = '12345678901234567890'
    const credential = await shop.pay(challengeOf(await shop.call(text(one))))
    const meta = `,"_meta":{"${CREDENTIAL}":${JSON.stringify(credential)}}`
    t.equal(await shop.code(text('12345678901234567891', meta)), -32043)
    t.match(await shop.call(text(one, meta)), { result: {} })
    t.match(received.at(-1)?.body, one, 'and are forwarded as written')
  })

  t.test('free calls are forwarded byte for byte', async t => {
    const texts = [
      '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
      ' {"id" : 18446744073709551616, "jsonrpc":"2.0","method":"tools/call","params":{"name":"open","n":1.0}}\n',
      '{"jsonrpc":"2.0","method":"notifications/initialized"}',
      '{"jsonrpc":"2.0","id":null,"method":"ping"}',
      '{"jsonrpc":"2.0","id":3,"result":{"roots":[]}}',
      '{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"demo://free/1"}}',
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"unknown"}}',
      '[]',
      '[{"jsonrpc":"2.0","id":1,"method":"ping"}, {"jsonrpc":"2.0","id":2,"method":"ping"}]'
    ]
    for (const text of texts) {
      const answer = await shop.post(text, { 'mcp-session-id': 's1', 'mcp-protocol-version': '2025-06-18' })
      t.equal(answer.status, 200)
      t.equal(received.at(-1)?.body, text)
      t.match(received.at(-1)?.headers, { 'mcp-session-id': 's1', 'mcp-protocol-version': '2025-06-18' })
      t.notMatch(answer.text, RECEIPT)
    }
  })

  t.test('a credential on what costs nothing is ignored, and kept here', async t => {
    const free = paying(toolCall('open'), { challenge: {}, payload: { preimage: 'secret' } })
    const response = await shop.call(free)
    t.ok(response.result)
    t.equal(response.result?._meta, undefined, 'no receipt for what was not paid')
    t.notMatch(received.at(-1)?.body, 'secret')
  })

  t.test('malformed credentials are -32602', async t => {
    const { challenge, payload } = await shop.buy(toolCall('cheap'))
    const cases: [string, unknown][] = [
      ['no object', 'token'],
      ['no challenge', { payload }],
      ['no payload', { challenge }],
      ['a preimage in capitals', { challenge, payload: { preimage: 'A'.repeat(64) } }],
      ['no request', { challenge: { ...challenge, request: 5 }, payload }],
      ['another method', { challenge: { ...challenge, method: 'tempo' }, payload }]
    ]
    for (const [name, credential] of cases)
      t.match(await shop.call(paying(toolCall('cheap'), credential)), { id: 1, error: { code: -32602 } }, name)
    t.match(
      await shop.call({
        ...paying(toolCall('cheap'), { challenge, payload }),
        _meta: { [CREDENTIAL]: { challenge, payload: { preimage: '0'.repeat(64) } } }
      }),
      { error: { code: -32602, message: /two different/ } },
      'two of them'
    )
    t.match(
      await shop.call(paying(toolCall('cheap'), { challenge, payload }), { authorization: 'Payment abcd' }),
      { error: { code: -32602, message: /headers/ } },
      'one more in the headers'
    )
    t.match(await shop.call(paying(toolCall('cheap'), { challenge, payload })), { result: {} }, 'none used it up')
  })

  t.test('edited and wrong credentials are -32043 with a fresh challenge', async t => {
    const { challenge, payload } = await shop.buy(toolCall('cheap'))
    const { request } = challenge
    const cases: [string, unknown][] = [
      ['an edited amount', { challenge: { ...challenge, request: { ...request, amount: '1' } }, payload }],
      ['an edited digest', { challenge: { ...challenge, digest: `sha-256=:${'A'.repeat(43)}=:` }, payload }],
      ['another preimage', { challenge, payload: { preimage: 'ab'.repeat(32) } }]
    ]
    for (const [name, credential] of cases) {
      const response = await shop.call(paying(toolCall('cheap'), credential))
      t.match(response, { error: { code: -32043, data: { failure: { reason: /./, detail: /./ } } } }, name)
      t.ok(challengeOf(response), name)
    }
    const { digest: _left, ...bare } = challenge
    t.match(
      await shop.call(paying(toolCall('cheap'), { challenge: bare, payload })),
      { result: {} },
      'a digest that was not echoed is taken from the row'
    )
  })

  t.test('resources and prompts have prices too, and no form of a URI is cheaper than another', async t => {
    const read = (uri: string): object => ({ jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri } })
    for (const uri of [
      'demo://paid/1',
      'DEMO://paid/1',
      'demo://paid/x/../1',
      'demo://paid/%31',
      'demo://%70aid/1',
      ' demo://paid/1',
      'demo://pa\tid/1'
    ]) {
      t.equal(await shop.code(read(uri)), -32042, JSON.stringify(uri))
    }
    t.equal(challengeOf(await shop.call(read('demo://paid/1'))).request.amount, '3')
    const prompt = { jsonrpc: '2.0' as const, id: 1, method: 'prompts/get', params: { name: 'anything' } }
    t.equal(challengeOf(await shop.call(prompt)).request.amount, '4')
    const call = { ...prompt, params: { name: 'anything' } }
    t.match(await shop.call(paying(call, await shop.buy(call))), { result: { _meta: { [RECEIPT]: {} } } })
  })

  t.test('a message that two readers could read differently is refused and never forwarded', async t => {
    const before = received.length
    const call = '"method":"tools/call","params":{"name":"cheap"}'
    const cases: [string, string, number][] = [
      ['a method twice', `{"jsonrpc":"2.0","id":1,"method":"ping",${call}}`, -32600],
      ['a method twice, escaped', `{"jsonrpc":"2.0","id":1,"m\\u0065thod":"ping",${call}}`, -32600],
      ['params twice', `{"jsonrpc":"2.0","id":1,${call},"params":{"name":"open"}}`, -32600],
      [
        'a name twice',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open","name":"costly"}}',
        -32600
      ],
      [
        'a name twice in arguments',
        '{"id":1,"method":"tools/call","params":{"name":"open","arguments":{"a":1,"a":2}}}',
        -32600
      ],
      ['another case', '{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}', -32600],
      [
        'a long s',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open"},"param\u017f":{"name":"costly"}}',
        -32600
      ],
      [
        'another case of the name',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open","Name":"costly"}}',
        -32602
      ],
      ['a prototype', `{"jsonrpc":"2.0","id":1,"method":"ping","__proto__":{${call}}}`, -32600],
      ['a prototype of params', '{"id":1,"method":"tools/call","params":{"__proto__":{"name":"costly"}}}', -32600],
      ['no name', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', -32602],
      ['an unknown name', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["costly"]}}', -32602],
      ['params in a list', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["costly"]}', -32602],
      ['a method in a list', '{"jsonrpc":"2.0","id":1,"method":["tools/call"],"params":{"name":"costly"}}', -32600],
      [
        'half a surrogate',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"costly","arguments":{"a":"\\ud800"}}}',
        -32602
      ],
      ['a byte order mark', `\ufeff{"jsonrpc":"2.0","id":1,${call}}`, -32700],
      ['more behind it', `{"jsonrpc":"2.0","id":1,"method":"ping"}{${call}}`, -32700],
      ['no JSON', `{"jsonrpc":"2.0",id:1,${call}}`, -32700],
      ['nothing', '', -32700],
      ['a string', '"tools/call"', -32600],
      ['many levels', `{"id":1,"method":"ping","params":${'['.repeat(70)}${']'.repeat(70)}}`, -32600],
      ...['null', 'true', '1.5', '1e2', '12345678901234567890', '[1]', '{}', '-0'].map(
        (id): [string, string, number] => [`an id that is ${id}`, `{"jsonrpc":"2.0","id":${id},${call}}`, -32600]
      )
    ]
    for (const [name, text, code] of cases) t.match(await shop.call(text), { error: { code } }, name)
    const call1 = JSON.stringify(toolCall('costly'))
    for (const headers of [
      { 'content-encoding': 'gzip' },
      { 'content-type': 'application/json; charset=utf-7' },
      { 'content-type': 'application/json; charset=utf-8; charset=utf-7' },
      { 'content-type': 'application/json; charset="utf-16le"' }
    ])
      t.equal(await shop.code(call1, headers), -32600, JSON.stringify(headers))
    t.equal(await shop.code(Buffer.from([0x7b, 0xff, 0x7d]).toString('latin1')), -32700)
    t.equal(received.length, before)
  })

  t.test('headers that repeat the message must say the same', async t => {
    const before = received.length
    const name64 = `=?base64?${Buffer.from('open').toString('base64')}?=`
    const open = toolCall('open')
    for (const headers of [
      { 'mcp-method': 'tools/call', 'mcp-name': 'costly' },
      { 'mcp-method': 'tools/list' },
      { 'mcp-method': 'tools/call', 'mcp-name': `=?base64?${Buffer.from('costly').toString('base64')}?=` }
    ])
      t.equal(await shop.code(open, headers), -32600, JSON.stringify(headers))
    t.equal(await shop.code([open], { 'mcp-method': 'tools/call' }), -32600)
    t.equal(received.length, before)
    for (const name of ['open', name64])
      t.ok((await shop.call(open, { 'mcp-method': 'tools/call', 'mcp-name': name })).result, name)
  })

  t.test('a name that no challenge has room for is refused', async t => {
    const prompt = { jsonrpc: '2.0', id: 1, method: 'prompts/get' }
    t.equal(await shop.code({ ...prompt, params: { name: 'ü'.repeat(200) } }), -32602)
    const response = await shop.call({ ...prompt, params: { name: 'x'.repeat(700) } })
    t.match(response, { error: { code: -32042 } })
  })

  t.test('priced notifications are dropped', async t => {
    const before = received.length
    const { params } = toolCall('costly')
    const answer = await shop.post({ jsonrpc: '2.0', method: 'tools/call', params })
    t.equal(answer.status, 202)
    t.equal(answer.text, '')
    t.equal(received.length, before)
  })

  t.test('the streams of sessions and their ends pass, and nothing else comes in beside POST', async t => {
    shop.respond = (_body, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Mcp-Session-Id': 's2' })
      response.end('id: 1\ndata: {"jsonrpc":"2.0","method":"notifications/x"}\n\n')
    }
    const got = await shop.gateway.send('GET', '/mcp', {
      headers: { accept: 'text/event-stream', 'mcp-session-id': 's2', 'last-event-id': '4' }
    })
    t.match(received.at(-1), { method: 'GET', headers: { 'mcp-session-id': 's2', 'last-event-id': '4' } })
    t.equal(got.text, 'id: 1\ndata: {"jsonrpc":"2.0","method":"notifications/x"}\n\n')
    t.equal(got.headers['mcp-session-id'], 's2')
    t.equal((await shop.gateway.send('DELETE', '/mcp', { headers: { 'mcp-session-id': 's2' } })).status, 200)
    t.equal(received.at(-1)?.method, 'DELETE')
    const before = received.length
    for (const method of ['PUT', 'PATCH', 'QUERY'])
      t.equal((await shop.gateway.send(method, '/mcp', { body: '{}' })).status, 405, method)
    t.equal((await shop.gateway.send('DELETE', '/mcp', { body: JSON.stringify(toolCall('costly')) })).status, 400)
    t.equal(received.length, before)
  })
})

t.test('prices in fiat are converted when the challenge is made, and tell of themselves', async t => {
  const shop = await openRpcShop(t, {
    prices: `tools: { dollar: $0.01, euro: 0.02 EUR, cheap: 2 sats }
          resources: { "demo://a/*": $0.01, "demo://a/b/*": $0.05, "demo://a/c/*": 7 sats }`
  })
  const call = toolCall('dollar')
  const challenge = challengeOf(await shop.call(call))
  t.match(challenge.request, { amount: /^[1-9][0-9]*$/, currency: 'sat' })
  const credential = await shop.pay(challenge)
  t.equal(await shop.code(paying(toolCall('euro'), credential)), -32043)
  t.match(await shop.call(paying(call, credential)), { result: { _meta: { [RECEIPT]: { status: 'success' } } } })
  const read = (uri: string): Promise<Rpc> =>
    shop.call({ jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri } })
  const amountOf = async (uri: string): Promise<number> => Number(challengeOf(await read(uri)).request.amount)
  t.ok((await amountOf('demo://a/b/1')) > (await amountOf('demo://a/1')))
  t.equal(await amountOf('demo://a/x/../b/1'), await amountOf('demo://a/b/1'), 'the more expensive spelling')
  t.equal(await amountOf('demo://A/b/1'), await amountOf('demo://a/b/1'), 'a host in capitals is the same host')
  t.match(await read('demo://a/x/../c/1'), { error: { code: -32602, message: /different currencies/ } })
  const { endpoints } = (await shop.gateway.send('GET', '/api/l402/pricing')).json() as { endpoints: object[] }
  t.match(endpoints[0], { priceSats: 'varies', price: 'USD 0.01', description: 'tools/call dollar: Tools' })
  t.match((await shop.gateway.send('GET', '/llms.txt')).text, 'tools/call dollar USD 0.01, tools/call euro EUR 0.02')
})
