/** An API of models whose servers fail one after the other; each request is charged by the one that served it. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import t, { type Test as T } from 'tap'
import { decodeReceipt } from '../../../src/lightning/payment-scheme/payment-credential.ts'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import { startModelServer, startTroubledModel, type ModelServer } from '../../fakes/model.ts'
import { buy, loadText, startGateway, type TestGateway, paidFor } from '../../support/gateway.ts'
import { serve } from '../../support/serve.ts'
import { buyKey, narrowed, routeYaml } from '../shop.ts'
import { balanceWhen } from './fixture.ts'

const METER =
  'meter: { unit: token, bundle: 100 sats, prices: { by: { json: model }, of: { small: { input: 2 msat, output: 8 msat }, large: { input: 20 msat, output: 80 msat }, "a/tiny": { input: 1 msat, output: 1 msat } }, else: refuse }, usage: openai, estimate: { json: max_tokens, else: 100 } }'

function yaml(upstream: string, keys = false) {
  const plain = `  - match: { path: /plain/* }\n    chain: paid\n    price: 5 sats\n    upstream: ${upstream}`
  return routeYaml(upstream, `keys: ${keys}\n    ${METER}\n${plain}`)
}

async function openShop(t: T, upstream: string, keys = false) {
  const gateway = await startGateway(t, { yaml: yaml(upstream, keys) })
  const chat = (authorization = '', more: object = {}) =>
    gateway.send('POST', '/v1/chat/completions', {
      headers: authorization === '' ? {} : { authorization },
      body: { messages: [{ role: 'user', content: 'hello' }], max_tokens: 20, model: 'small', ...more }
    })
  const authorization = await paidFor(gateway, await chat(), 'payment')
  const store = new BalanceStore(gateway.database)
  const spent = (msat: number) => balanceWhen(`${msat} millisatoshis are spent`, store, one => one.spentMsat === msat)
  return { gateway, chat, authorization, spent, paid: (more?: object) => chat(authorization, more) }
}

/** A payment for one request of `/plain/item`, and what it gets. */
async function plain(gateway: TestGateway) {
  const authorization = await buy(gateway, '/plain/item', 'payment')
  return () => gateway.send('GET', '/plain/item', { headers: { authorization } })
}

/** Where nothing listens. */
async function dead(t: T) {
  const server = createServer()
  const port = await serve(t, server)
  server.close()
  await once(server, 'close')
  return `http://127.0.0.1:${port}`
}

const priced = (call: ModelServer['calls'][number] | undefined, input: number, output: number) =>
  (call?.prompt ?? 0) * input + (call?.completion ?? 0) * output

t.test('fallback: POST goes past a dead server and one that limits, at the price of the model that served', async t => {
  const limiting = await startTroubledModel(t, 'limit')
  const good = await startModelServer(t)
  const shop = await openShop(
    t,
    `{ url: "${await dead(t)}", headers: { X-Key: first }, fallback: [{ url: "${limiting.url}", model: large, headers: { X-Key: second } }, { url: "${good.url}", model: a/tiny }] }`
  )
  const answer = await shop.paid()
  t.equal(answer.status, 200)
  t.equal(answer.headers['x-fallback'], 'a/tiny')
  t.equal(limiting.requests[0]?.headers['x-key'], 'second', 'each server gets its own headers')
  t.match(JSON.parse(limiting.requests[0]?.body ?? ''), { model: 'large', max_tokens: 20 })
  t.equal(good.calls[0]?.model, 'a/tiny')
  const cost = priced(good.calls[0], 1, 1)
  t.ok(cost > 0)
  await shop.spent(cost)
  const streamed = await shop.paid({ stream: true })
  t.match(streamed.text, /"charged_msat":/)
  await shop.spent(cost + priced(good.calls[1], 1, 1))
  const receipt = decodeReceipt(String(answer.headers['payment-receipt']))
  t.equal(receipt?.status, 'success')
  t.match(JSON.parse(Buffer.from(String(answer.headers['payment-receipt']), 'base64url').toString()), {
    fallback: 'a/tiny'
  })
})

t.test('fallback: without one the price is that of the own model', async t => {
  const good = await startModelServer(t)
  const shop = await openShop(t, `{ url: "${good.url}", fallback: [{ url: "${await dead(t)}", model: large }] }`)
  const answer = await shop.paid()
  t.equal(answer.headers['x-fallback'], undefined)
  t.equal(good.calls[0]?.model, 'small')
  await shop.spent(priced(good.calls[0], 2, 8))
})

t.test('fallback: the most expensive possible cost is reserved', async t => {
  const good = await startModelServer(t)
  const shop = await openShop(t, `{ url: "${good.url}", fallback: [{ url: "${good.url}", model: large }] }`)
  // 100,000 msat are enough for 5,000 tokens of small, and for 1,250 of large.
  const refused = await shop.paid({ max_tokens: 5000 })
  t.equal(refused.status, 400)
  t.match(refused.json(), { error: 'Beyond a balance' })
  t.equal((await shop.paid({ max_tokens: 1000 })).status, 200)
})

t.test('fallback: without a usage report the reservation of the model that served is charged', async t => {
  const good = await startModelServer(t)
  const messages = [{ role: 'user', content: 'silent' }]
  const shop = await openShop(t, `{ url: "${good.url}", fallback: [{ url: "${good.url}", model: large }] }`)
  const { text } = await shop.paid({ messages, max_tokens: 20 })
  t.match(text, /chat.completion/)
  const input = Math.ceil(Buffer.byteLength(JSON.stringify({ messages, max_tokens: 20, model: 'small' })) / 3)
  await shop.spent(input * 2 + 20 * 8)
})

async function boughtKey(gateway: TestGateway) {
  const { key } = await buyKey(gateway)
  return (...caveats: string[]) => `Bearer ${narrowed(key, ...caveats)}`
}

t.test('fallback: a key narrowed to models is not served by another', async t => {
  const good = await startModelServer(t)
  const upstream = `{ url: "${await dead(t)}", fallback: [{ url: "${good.url}", model: large }, { url: "${good.url}", model: a/tiny }] }`
  const shop = await openShop(t, upstream, true)
  const limited = await boughtKey(shop.gateway)
  t.equal((await shop.chat(limited('model=small'))).status, 502)
  t.equal(good.calls.length, 0)
  const allowed = await shop.chat(limited('model=small,a/tiny'))
  t.equal(allowed.headers['x-fallback'], 'a/tiny', 'past one that is not allowed')
  t.equal(good.calls[0]?.model, 'a/tiny')
})

t.test('fallback: a key narrowed to models reserves nothing for one that it excludes', async t => {
  const good = await startModelServer(t)
  const shop = await openShop(t, `{ url: "${good.url}", fallback: [{ url: "${good.url}", model: large }] }`, true)
  const limited = await boughtKey(shop.gateway)
  // 5,000 tokens cost 40,000 msat of small and 400,000 of large; the balance has 100,000.
  const requests = { max_tokens: 5000 }
  t.equal((await shop.chat(limited('model=small'), requests)).status, 200)
  t.equal((await shop.chat(limited('model=small', 'budget_msat=50000'), requests)).status, 200, 'nor of its budget')
  t.equal(
    (await shop.chat(limited('model=small,large', 'budget_msat=50000'), requests)).status,
    402,
    'large is allowed'
  )
  t.equal((await shop.chat(limited('model=small,large', 'budget_msat=50000'), { max_tokens: 1000 })).status, 403)
})

t.test('fallback: a POST is not repeated where the server may have served it, and nothing is charged', async t => {
  const good = await startModelServer(t)
  for (const trouble of ['hang', 'fail'] as const) {
    const troubled = await startTroubledModel(t, trouble)
    const shop = await openShop(
      t,
      `{ url: "${troubled.url}", timeout: 200ms, fallback: [{ url: "${good.url}", model: large }] }`
    )
    const answer = await shop.paid().catch(() => null)
    t.notOk(answer?.status === 200 && answer.text !== '', trouble)
    t.equal(good.calls.length, 0, trouble)
    t.equal(troubled.requests.length, 1)
    await shop.spent(0)
  }
})

t.test('fallback: a GET continues after a 5xx, and after a head without a body', async t => {
  const good = await startTroubledModel(t, 'none')
  for (const trouble of ['hang', 'fail', 'limit'] as const) {
    const troubled = await startTroubledModel(t, trouble)
    const upstream = `{ url: "${troubled.url}", timeout: 200ms, fallback: [{ url: "${good.url}/other" }] }`
    const ask = await plain((await openShop(t, upstream)).gateway)
    const answer = await ask()
    t.equal(answer.text, 'served /other/plain/item', trouble)
    t.equal(answer.headers['x-fallback'], '1')
    t.equal(troubled.requests.length, 1)
    t.equal((await ask()).status, 402)
  }
})

t.test('fallback: a credential for one request comes back once where every server fails', async t => {
  const hanging = await startTroubledModel(t, 'hang')
  const failing = await startTroubledModel(t, 'fail')
  const { gateway } = await openShop(
    t,
    `{ url: "${hanging.url}", timeout: 200ms, fallback: [{ url: "${failing.url}" }] }`
  )
  const item = await plain(gateway)
  const ask = async () => (await item()).status
  t.equal(await ask(), 500)
  t.strictSame([hanging.requests.length, failing.requests.length], [1, 1])
  t.strictSame((await Promise.all([ask(), ask(), ask()])).sort(), [402, 402, 500], 'it pays for one at a time')
  t.equal(await ask(), 500, 'and is not spent')
})

t.test('fallback: `on` names what leads there', async t => {
  const good = await startTroubledModel(t, 'none')
  const limiting = await startTroubledModel(t, 'limit')
  const { gateway } = await openShop(t, `{ url: "${limiting.url}", on: connect, fallback: [{ url: "${good.url}" }] }`)
  t.equal((await (await plain(gateway))()).status, 429)
  t.equal(good.requests.length, 0)
})

t.test('fallback: a dead server is left out, and nothing is sold once the fallbacks are down too', async t => {
  const good = await startModelServer(t)
  const upstream = `{ url: "${await dead(t)}", fallback: [{ url: "${good.url}", model: large }, { url: "${await dead(t)}" }] }`
  const shop = await openShop(t, upstream)
  for (let request = 0; request < 12; request++) t.equal((await shop.paid()).status, 200)
  t.equal((await shop.chat()).status, 402, 'is sold')
  const { text } = await shop.gateway.adminSend('GET', '/metrics')
  const attempts = [...text.matchAll(/^boltgate_upstream_attempts_total\{.*origin="(.*)"\} (\d+)$/gm)]
  t.equal(attempts.find(([, origin]) => origin === good.url)?.[2], '12')
  t.equal(
    attempts.find(([, origin]) => origin !== good.url)?.[2],
    '5',
    'the dead server was tried until it was left out'
  )
  const alone = await openShop(t, `{ url: "${await dead(t)}", fallback: [{ url: "${await dead(t)}" }] }`)
  for (let request = 0; request < 5; request++) t.equal((await alone.paid()).status, 502)
  const answer = await alone.chat()
  t.equal(answer.status, 503)
  t.ok(Number(answer.headers['retry-after']) > 0)
  await alone.spent(0)
})

t.test('check: a fallback whose model has no price, and `on` without a fallback', async t => {
  for (const [upstream, message] of [
    [
      '{ url: "http://a.example", fallback: [{ url: "http://b.example", model: huge }] }',
      /found a fallback with the model "huge", which has no price; allowed: a model of meter.prices/
    ],
    ['{ url: "http://a.example", on: [connect, 429] }', /found on beside url; allowed: on only beside fallback/]
  ] as const)
    await t.rejects(loadText(yaml(upstream), {}), { message })
})
