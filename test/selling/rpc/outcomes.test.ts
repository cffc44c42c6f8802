/** Outcome of a payment: sold with a result, given back without one, whatever shape the response has. */
import { ManualClock } from '../../support/manual-clock.ts'
import { request } from 'node:http'
import type { ServerResponse } from 'node:http'
import t from 'tap'
import { eventually } from '../../support/gateway-process.ts'
import { challengeOf, openRpcShop, paying, RECEIPT, results, toolCall, type Respond, type Rpc } from './setting.ts'

const json = (response: ServerResponse, body: object | string, status = 200) => {
  response.writeHead(status, { 'Content-Type': 'application/json' })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}
const call = toolCall('cheap')
const ok: Respond = (body, response) => {
  json(response, results(body))
}

t.test('payments and what the server says', async t => {
  const shop = await openRpcShop(t)

  /** Sends a paid call of which the server makes `respond`, then the same once more of which it makes a result. */
  async function twice(respond: Respond) {
    const credential = await shop.buy(call)
    shop.respond = respond
    const first = await shop.post(paying(call, credential))
    shop.respond = ok
    return { first, again: await shop.call(paying(call, credential)) }
  }

  const returned: [string, Respond][] = [
    [
      'a JSON-RPC error',
      (_body, response) => json(response, { jsonrpc: '2.0', id: 1, error: { code: -32000, message: 'no' } })
    ],
    [
      'an error without an id',
      (_body, response) => json(response, { jsonrpc: '2.0', id: null, error: { code: -32700, message: 'no' } })
    ],
    ['a session that is over', (_body, response) => json(response, { error: 'no session' }, 404)],
    ['a fault', (_body, response) => json(response, 'broken', 500)],
    ['a redirect', (_body, response) => response.writeHead(302, { location: '/' }).end()],
    ['an empty response', (_body, response) => json(response, '')],
    ['a connection that breaks', (_body, response) => response.destroy()],
    [
      'a body that breaks off',
      (body, response) => {
        response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '1000' })
        response.write(results(body))
        setImmediate(() => response.destroy())
      }
    ]
  ]
  for (const [name, respond] of returned) {
    t.test(`${name} gives the payment back`, async t => {
      const { first, again } = await twice(respond)
      t.notMatch(first.text, RECEIPT)
      t.match(again, { result: { _meta: { [RECEIPT]: { status: 'success' } } } })
    })
  }

  const sold: [string, Respond][] = [
    ['a result', ok],
    [
      "a tool's own error",
      (_body, response) => json(response, { jsonrpc: '2.0', id: 1, result: { isError: true, content: [] } })
    ],
    [
      'a result under another id',
      (_body, response) => json(response, { jsonrpc: '2.0', id: '1', result: { content: [] } })
    ],
    ['what is no JSON', (_body, response) => json(response, '{"result": here}')],
    [
      'what is no UTF-8',
      (_body, response) => {
        response.writeHead(200, { 'Content-Type': 'application/json' })
        response.end(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]))
      }
    ],
    [
      'a coded body',
      (_body, response) => {
        response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Encoding': 'br' })
        response.end('coded')
      }
    ],
    ['another media type', (_body, response) => response.writeHead(200, { 'Content-Type': 'text/plain' }).end('done')],
    ['202, with its result elsewhere', (_body, response) => response.writeHead(202).end()]
  ]
  for (const [name, respond] of sold) {
    t.test(`${name} is what was paid for`, async t => {
      const { first, again } = await twice(respond)
      t.ok(first.status < 300)
      t.match(again, { error: { code: -32043, data: { failure: { reason: 'redeemed' } } } })
    })
  }

  t.test('the server is asked for an uncompressed body', async t => {
    await twice(ok)
    t.equal(shop.received.at(-1)?.headers['accept-encoding'], 'identity')
  })

  t.test('a result keeps its members and numbers, and an upstream cannot write receipts', async t => {
    const credential = await shop.buy(call)
    const text = `{ "jsonrpc":"2.0", "result":{"n":12345678901234567890,"_meta":{"a":1,"${RECEIPT}":{"status":"forged"}}}, "id":1 }`
    shop.respond = (_body, response) => {
      response.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8', ETag: '"x"' })
      response.end(text)
    }
    const answer = await shop.post(paying(call, credential))
    shop.respond = ok
    t.match(answer.text, '"n":12345678901234567890,"_meta":{"a":1,')
    t.match((answer.json() as Rpc).result?._meta, { a: 1, [RECEIPT]: { status: 'success' } })
    t.notMatch(answer.text, 'forged')
    t.equal(answer.headers['etag'], undefined)
  })

  t.test('a credential in use is refused meanwhile, and a client that left may come again', async t => {
    const credential = await shop.buy(call)
    const held = Promise.withResolvers<ServerResponse>()
    shop.respond = (_body, response) => {
      held.resolve(response)
    }
    const body = JSON.stringify(paying(call, credential))
    const leaving = request(`${shop.gateway.url}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' }
    })
    leaving.on('error', () => {})
    leaving.end(body)
    const response = await held.promise
    t.equal(await shop.failure(JSON.parse(body)), 'in-use')
    const gone = new Promise(resolve => response.on('close', resolve))
    leaving.destroy()
    await gone
    shop.respond = ok
    let again = await shop.call(JSON.parse(body))
    // The payment comes back with a statement at the database.
    for (let tries = 0; tries < 50 && again.result === undefined; tries++) again = await shop.call(JSON.parse(body))
    t.match(again, { result: {} })
  })

  t.test('initialize announces payments', async t => {
    const initialize = { jsonrpc: '2.0', id: 0, method: 'initialize', params: { capabilities: {} } }
    const answer = await shop.post(initialize)
    t.same((answer.json() as Rpc).result?.capabilities, {
      tools: {},
      experimental: { payment: { methods: { lightning: { intents: ['charge'] } } } }
    })
    t.equal(shop.received.at(-1)?.body, JSON.stringify(initialize))
    t.equal(answer.headers['payment-receipt'], undefined)
    t.equal(answer.headers['cache-control'], undefined)
    shop.respond = (_body, response) =>
      json(response, { jsonrpc: '2.0', id: 0, result: { capabilities: { experimental: { other: {} } } } })
    t.same((await shop.call(initialize)).result?.capabilities?.experimental, {
      payment: { methods: { lightning: { intents: ['charge'] } } },
      other: {}
    })
    shop.respond = ok
  })

  t.test('clients that pay in headers are served: the same payment, the same row', async t => {
    const response = await shop.post(call)
    const challenge = challengeOf(response.json() as Rpc)
    const lines = [response.headers['www-authenticate'] ?? []].flat()
    const { invoice, paymentHash } = challenge.request.methodDetails
    const preimage = await shop.gateway.pay(invoice)
    const wire = { ...challenge, request: /request="([^"]+)"/.exec(lines[1] ?? '')?.[1] ?? '' }
    const token = Buffer.from(JSON.stringify({ challenge: wire, payload: { preimage } })).toString('base64url')
    const authorization = `Payment ${token}`
    t.equal(await shop.failure(toolCall('costly'), { authorization }), 'path', 'for no other tool')
    const bought = await shop.post(call, { authorization })
    t.match((bought.json() as Rpc).result?._meta, { [RECEIPT]: { reference: paymentHash, challengeId: challenge.id } })
    t.match(bought.headers['payment-receipt'], /./)
    t.equal(shop.received.at(-1)?.headers.authorization, undefined)
    t.equal(
      await shop.failure(paying(call, { challenge, payload: { preimage } })),
      'redeemed',
      'in the message it is the same payment'
    )
    // The response does not wait for the spend to be written.
    const rows = await eventually('the payment is spent', async () => {
      const found = await shop.gateway.database.sql<{ state: string }[]>`
        select state from challenges where payment_hash = ${paymentHash}`
      return found.every(({ state }) => state === 'spent') ? found : null
    })
    t.equal(rows.length, 1)
  })

  t.test('an L402 token buys its tool until it ends, whatever the arguments, and no other tool', async t => {
    const response = await shop.post(call)
    const challenge = challengeOf(response.json() as Rpc)
    const macaroon = /macaroon="([^"]+)"/.exec([response.headers['www-authenticate'] ?? []].flat()[0] ?? '')?.[1] ?? ''
    const authorization = `L402 ${macaroon}:${await shop.gateway.pay(challenge.request.methodDetails.invoice)}`
    t.match(await shop.call(call, { authorization }), { result: {} })
    const other = await shop.call(toolCall('cheap', 2, { arguments: { text: 'other' } }), { authorization })
    t.match(other, { result: {} })
    t.equal(other.result?._meta, undefined, 'single-use credentials alone have receipts')
    t.equal(await shop.code(toolCall('costly'), { authorization }), -32043)
    t.match(await shop.call(toolCall('open'), { authorization }), { result: {} }, 'and free calls require nothing')
    t.equal(await shop.code(call, { authorization: `L402 ${macaroon}:${'zz'.repeat(32)}` }), -32602, 'malformed')
  })
})

t.test('a tool that says isError gives the payment back where the file says so', async t => {
  const shop = await openRpcShop(t, { prices: 'tools: { cheap: 2 sats }\n          toolErrors: returned' })
  const credential = await shop.buy(call)
  shop.respond = (_body, response) => json(response, { jsonrpc: '2.0', id: 1, result: { isError: true, content: [] } })
  const failed = await shop.call(paying(call, credential))
  t.match(failed, { result: { isError: true } })
  t.equal(failed.result?._meta, undefined)
  shop.respond = ok
  t.match(await shop.call(paying(call, credential)), { result: { _meta: { [RECEIPT]: {} } } })
})

t.test('a message above the limit is forwarded without a receipt', async t => {
  const shop = await openRpcShop(t, { prices: 'tools: { cheap: 2 sats }' })
  const credential = await shop.buy(call)
  const text = JSON.stringify({ jsonrpc: '2.0', id: 1, result: { content: 'x'.repeat(5_000_000) } })
  shop.respond = (_body, response) => json(response, text)
  const answer = await shop.post(paying(call, credential))
  t.equal(answer.text, text)
  t.equal(await shop.code(paying(call, credential)), -32043)
})

t.test('our own faults are -32603 and use nothing up', async t => {
  const shop = await openRpcShop(t)
  const credential = await shop.buy(call)
  const { database } = shop.gateway
  await database.sql`alter table challenges rename to challenges_away`
  const failed = await shop.call(paying(call, credential))
  t.match(failed, { id: 1, error: { code: -32603, data: { httpStatus: 503, retryAfter: 5 } } })
  t.match(await shop.call(call), { error: { code: -32603, data: { httpStatus: 503 } } }, 'no challenge can be made')
  await database.sql`alter table challenges_away rename to challenges`
  t.match(await shop.call(paying(call, credential)), { result: {} })
})

t.test(
  'a price that changed while a buyer paid is taken for as long as priceGrace says, of this tool alone',
  async t => {
    const clock = new ManualClock()
    const shop = await openRpcShop(t, {
      clock,
      prices: 'tools: { cheap: 2 sats, "co*": 4 sats }',
      route: 'priceGrace: 10m'
    })
    const tokenOf = async (name: string) => {
      const response = await shop.post(toolCall(name))
      const macaroon =
        /macaroon="([^"]+)"/.exec([response.headers['www-authenticate'] ?? []].flat()[0] ?? '')?.[1] ?? ''
      const { invoice } = challengeOf(response.json() as Rpc).request.methodDetails
      return `L402 ${macaroon}:${await shop.gateway.pay(invoice)}`
    }
    const [cheap, costly] = [await shop.buy(toolCall('cheap')), await shop.buy(toolCall('costly'))]
    const token = await tokenOf('cheap')
    await shop.reprice('tools: { cheap: 3 sats, "co*": 5 sats }')
    t.match(await shop.call(paying(toolCall('cheap'), cheap)), {
      result: { _meta: { [RECEIPT]: { status: 'success' } } }
    })
    t.match(await shop.call(paying(toolCall('costly'), costly)), { result: {} }, 'by its line in the list')
    t.match(await shop.call(toolCall('cheap'), { authorization: token }), { result: {} })
    const again = await shop.buy(toolCall('cheap'))
    t.equal(again.challenge.request.amount, '3', 'the present price is charged')
    t.equal(await shop.code(paying(toolCall('costly'), again)), -32043, 'no payment buys another tool')
    clock.advance(11 * 60_000)
    // On a connection of its own: those of before have been idle for too long.
    const late = await fetch(`${shop.gateway.url}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: token },
      body: JSON.stringify(toolCall('cheap'))
    })
    t.match(await late.json(), { error: { code: -32043 } }, 'not forever')
  }
)
