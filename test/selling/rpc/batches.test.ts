/** Batches, judged call by call. */
import t from 'tap'
import { CREDENTIAL, openRpcShop, paying, RECEIPT, results, toolCall, type Rpc } from './setting.ts'

const list = (id: number) => ({ jsonrpc: '2.0', id, method: 'tools/list' })
const note = { jsonrpc: '2.0', method: 'notifications/progress', params: {} }

t.test('batches', async t => {
  const shop = await openRpcShop(t)
  const { received } = shop
  const batch = async (messages: readonly unknown[]) => (await shop.post(messages)).json() as Rpc[]
  const found = (all: readonly Rpc[], id: number) => all.find(message => message.id === id)

  t.test('free and paid calls pass, unpaid ones get a challenge, in one list', async t => {
    const paid = toolCall('cheap', 2)
    const credential = await shop.buy(paid)
    const all = await batch([list(1), paying(paid, credential), toolCall('costly', 3), note, list(4)])
    t.equal(all.length, 4)
    t.ok(found(all, 1)?.result)
    t.match(found(all, 2)?.result?._meta?.[RECEIPT], { challengeId: credential.challenge.id })
    t.match(found(all, 3)?.error, { code: -32042, data: { challenges: [{ request: { amount: '50' } }] } })
    t.ok(found(all, 4)?.result)
    t.equal(found(all, 1)?.result?._meta, undefined)
    const sent = JSON.parse(received.at(-1)?.body ?? '') as Rpc[]
    t.same(
      sent.map(({ id, method }) => id ?? method),
      [1, 2, 'notifications/progress', 4]
    )
    t.notMatch(received.at(-1)?.body, CREDENTIAL)
  })

  t.test('all unpaid: the server is not called, and each has a challenge of its own', async t => {
    const before = received.length
    const all = await batch([toolCall('cheap', 1), toolCall('costly', 2)])
    t.equal(received.length, before)
    t.same(
      all.map(({ id, error }) => [id, error?.code]),
      [
        [1, -32042],
        [2, -32042]
      ]
    )
    t.not(all[0]?.error?.data?.challenges?.[0]?.id, all[1]?.error?.data?.challenges?.[0]?.id)
  })

  t.test('a batch of one has a list for a response', async t => {
    t.equal((await batch([toolCall('cheap', 1)])).length, 1)
    const paid = toolCall('cheap', 2)
    const all = await batch([paying(paid, await shop.buy(paid))])
    t.match(all, [{ id: 2, result: { _meta: { [RECEIPT]: {} } } }])
  })

  t.test('one credential pays for one call of two', async t => {
    const credential = await shop.buy(toolCall('cheap', 1))
    const all = await batch([paying(toolCall('cheap', 1), credential), paying(toolCall('cheap', 2), credential)])
    t.same(all.map(({ error }) => error?.code).sort(), [-32043, undefined])
    t.equal((JSON.parse(received.at(-1)?.body ?? '') as Rpc[]).length, 1)
  })

  t.test('each payment has its own fate', async t => {
    const [one, two] = [toolCall('cheap', 1), toolCall('cheap', 2)]
    const [first, second] = [await shop.buy(one), await shop.buy(two)]
    shop.respond = (body, response) => {
      response.setHeader('Content-Type', 'application/json')
      const [good] = JSON.parse(results(body)) as object[]
      response.end(JSON.stringify([{ jsonrpc: '2.0', id: 2, error: { code: -32000, message: 'no' } }, good]))
    }
    const all = await batch([paying(one, first), paying(two, second)])
    shop.respond = (body, response) => {
      response.setHeader('Content-Type', 'application/json')
      response.end(results(body))
    }
    t.match(found(all, 1)?.result?._meta, { [RECEIPT]: {} })
    t.equal(found(all, 2)?.error?.code, -32000)
    t.equal(await shop.code(paying(one, first)), -32043)
    t.match(await shop.call(paying(two, second)), { result: {} })
  })

  t.test('a remainder without requests has no response but ours', async t => {
    shop.respond = (_body, response) => {
      response.writeHead(202).end()
    }
    const answer = await shop.post([note, toolCall('cheap', 5)])
    t.equal(answer.status, 200)
    t.equal(answer.headers['content-type'], 'application/json')
    t.match(answer.json(), [{ id: 5, error: { code: -32042 } }])
    t.same(JSON.parse(received.at(-1)?.body ?? ''), [note])
  })

  t.test('in an event stream ours are events, too', async t => {
    const paid = toolCall('cheap', 2)
    const credential = await shop.buy(paid)
    shop.respond = (body, response) => {
      response.setHeader('Content-Type', 'text/event-stream')
      for (const each of JSON.parse(results(body)) as object[]) response.write(`data: ${JSON.stringify(each)}\n\n`)
      response.end()
    }
    const { text } = await shop.post([list(1), paying(paid, credential), toolCall('costly', 3)])
    const all = text
      .trim()
      .split('\n\n')
      .map(event => JSON.parse(event.replace(/^data: /, '')) as Rpc)
    t.same(all.map(({ id }) => id).sort(), [1, 2, 3])
    t.match(found(all, 2)?.result?._meta, { [RECEIPT]: {} })
    t.equal(found(all, 3)?.error?.code, -32042)
  })

  t.test('an ambiguous or oversized batch is refused whole', async t => {
    const before = received.length
    t.match(await shop.call([toolCall('cheap', 1), list(1)]), { id: null, error: { code: -32600, message: /id 1/ } })
    t.equal(await shop.code([toolCall('cheap', 'a'), toolCall('costly', 'a')]), -32600)
    t.match(await shop.call(Array.from({ length: 33 }, (_, id) => toolCall('cheap', id))), {
      error: { code: -32600, message: /at most 32/ }
    })
    t.equal(received.length, before)
  })

  t.test('a refused message is answered beside the others', async t => {
    shop.respond = (body, response) => {
      response.setHeader('Content-Type', 'application/json')
      response.end(results(body))
    }
    const all = await batch([list(1), { id: 2, method: 'tools/call', params: {} }, 7])
    t.match(found(all, 2)?.error, { code: -32602 })
    t.equal(all.find(({ id }) => id === null)?.error?.code, -32600)
    t.ok(found(all, 1)?.result)
  })
})
