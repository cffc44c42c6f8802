/** Plain JSON-RPC 2.0: methods by name, what is said of payments at the root of messages. */
import t from 'tap'
import { challengeOf, CREDENTIAL, openRpcShop, RECEIPT } from './setting.ts'

const prices = `protocol: json-rpc
          methods: { eth_call: 1 sat, "debug_*": 50 sats, debug_version: 0, "a b": 3 sats }`

t.test('plain JSON-RPC', async t => {
  const shop = await openRpcShop(t, { prices })
  const { received } = shop
  const call = { jsonrpc: '2.0', id: 'x', method: 'eth_call', params: [{ to: '0x1' }, 'latest'] }
  const paying = (credential: unknown, message: object = call) => ({
    ...message,
    _meta: { [CREDENTIAL]: credential }
  })

  t.test('a method is bought by its name and parameters, and the receipt is at the root', async t => {
    const credential = await shop.buy(call)
    t.equal(credential.challenge.request.amount, '1')
    t.equal(await shop.failure(paying(credential, { ...call, params: [{ to: '0x2' }, 'latest'] })), 'digest')
    t.equal(await shop.failure(paying(credential, { ...call, method: 'debug_trace' })), 'path')
    const response = await shop.call(paying(credential))
    t.match(response, { id: 'x', _meta: { [RECEIPT]: { status: 'success', challengeId: credential.challenge.id } } })
    t.equal(response.result?._meta, undefined)
    t.equal(received.at(-1)?.body, JSON.stringify({ ...call, _meta: {} }))
    t.equal(await shop.code(paying(credential)), -32043)
  })

  t.test('a result that is no object has its receipt, too', async t => {
    const credential = await shop.buy(call)
    shop.respond = (_body, response) => {
      response.setHeader('Content-Type', 'application/json')
      response.end('{"jsonrpc":"2.0","id":"x","result":"0x0"}')
    }
    const response = await shop.call(paying(credential))
    t.match(response, { result: '0x0', _meta: { [RECEIPT]: { status: 'success' } } })
  })

  t.test('the longest beginning names the price, what is written out goes before it, and the rest is free', async t => {
    const of = (method: string) => shop.call({ jsonrpc: '2.0', id: 1, method })
    t.equal(challengeOf(await of('debug_trace')).request.amount, '50')
    t.equal(challengeOf(await of('a b')).request.amount, '3')
    t.equal((await of('debug_version')).error, undefined)
    t.equal((await of('eth_blockNumber')).error, undefined)
    t.equal((await of('initialize')).result?.capabilities, undefined, 'MCP has no meaning here')
  })

  t.test('a priced notification is dropped, and a batch of those has no response', async t => {
    const before = received.length
    const { id: _none, ...note } = call
    for (const body of [note, [note, note]]) {
      const answer = await shop.post(body)
      t.equal(answer.status, 204)
      t.equal(answer.text, '')
    }
    t.equal(received.length, before)
  })

  t.test('nothing comes in but by POST', async t => {
    const before = received.length
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE'])
      t.equal((await shop.gateway.send(method, '/mcp?method=eth_call')).status, 405, method)
    t.equal(received.length, before)
  })
})
