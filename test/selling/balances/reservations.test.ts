/** What a request reserves, and what is lost where it uses more. */
import { request as httpRequest } from 'node:http'
import t, { type Test as T } from 'tap'
import { MeterSchema, type MeterConfig } from '../../../src/engine/checks/meter.ts'
import { readConfig } from '../../../src/engine/config/read.ts'
import { harness } from '../../../src/engine/pipeline/harness.ts'
import { definePlugin, Type } from '../../../src/index.ts'
import { FixedPrices } from '../../../src/lightning/money/prices.ts'
import { Meter } from '../../../src/selling/balances/meter.ts'
import { eventually } from '../../support/gateway-process.ts'
import { JSON_TYPE, openMetered, STREAM_TYPE } from '../shop.ts'

/** What requests reserve of a meter in millisatoshis, or the status of their refusal. */
async function reservations(settings: object, prices: unknown = '1 msat') {
  const { value } = readConfig(MeterSchema, { bundle: '10000 sats', prices, ...settings })
  // Loading a file resolves price lists, and none of these has one.
  const meter = new Meter(value as MeterConfig, new FixedPrices())
  const chain = await harness(
    definePlugin({
      name: 'reserves',
      description: 'Answers what is reserved.',
      config: Type.Object({}),
      setup: () => ({
        request: async ctx => ({ status: 200, headers: [], body: String((await meter.begin(ctx)).reservedMsat) })
      })
    })
  )
  return async (body: object, target = '/v1/a', headers = {}) => {
    const request = { method: 'POST', target, headers: { ...JSON_TYPE, ...headers }, body: JSON.stringify(body) }
    const { status, text } = await chain.run(request)
    return status === 200 ? Number(text) : status
  }
}

const chat = { messages: [{ role: 'user', content: 'hi' }] }
const ids = [1, 2, 3, 4]

for (const estimate of [{ json: 'max_tokens', else: 100 }, { else: 100 }])
  t.test(`a reservation with estimate ${JSON.stringify(estimate)}: the largest limit, times the responses`, async t => {
    const reserved = await reservations({ usage: 'openai', estimate })
    for (const [body, units] of [
      [chat, 100],
      [{ ...chat, max_tokens: 7 }, 7],
      [{ ...chat, max_tokens: 1, max_completion_tokens: 2000 }, 2000],
      [{ ...chat, max_tokens: 1, n_predict: 2000 }, 2000],
      [{ ...chat, max_tokens: 7, thinking: { type: 'enabled', budget_tokens: 2000 } }, 2000],
      [{ ...chat, max_tokens: 7, reasoning: { max_tokens: 2000 }, thinking: true }, 2000],
      [{ ...chat, max_tokens: 7, reasoning: { effort: 'high' }, thinking_budget: 2000 }, 2000],
      [{ messages: [], max_tokens: 7, prediction: { type: 'content', content: 'x'.repeat(221) } }, 106],
      [{ ...chat, max_tokens: 7, prediction: null }, 7],
      [{ ...chat, max_output_tokens: 1 }, 100],
      [{ ...chat, n_predict: 1 }, 100],
      [{ ...chat, max_tokens: -1 }, 100],
      [{ ...chat, max_tokens: 0 }, 100],
      [{ ...chat, max_tokens: null }, 100],
      [{ ...chat, max_tokens: -1, max_completion_tokens: 9 }, 9],
      [{ ...chat, max_tokens: -2 }, 400],
      [{ ...chat, max_tokens: '7' }, 400],
      [{ ...chat, max_tokens: 7, n: 3 }, 21],
      [{ prompt: 'a', max_tokens: 7, n: 2, best_of: 5 }, 35],
      [{ prompt: 'a', max_tokens: 7, n: 6, best_of: 5 }, 42],
      [{ prompt: Array.from({ length: 50 }, () => 'x'), max_tokens: 7 }, 350],
      [{ prompt: ['x', 'y'] }, 200],
      [{ prompt: ids, max_tokens: 7 }, 7],
      [{ prompt: [ids, ids, ids], max_tokens: 7, best_of: 2 }, 42],
      [{ prompt: [], max_tokens: 7 }, 7],
      [{ prompt: [{ prompt_string: 'a' }, { prompt_string: 'b' }, 'c'], max_tokens: 7 }, 21],
      [{ prompt: 'a', max_tokens: 7, n_cmpl: 3 }, 21],
      [{ ...chat, max_tokens: 1, extra_body: { max_tokens: 9000 } }, 400],
      [{ ...chat, max_tokens: 7, Extra_Body: { n: 9 } }, 400],
      [{ ...chat, max_tokens: 7, extra_body: {} }, 7],
      [{ ...chat, max_tokens: 1, additional_drop_params: ['max_tokens'] }, 400],
      [{ ...chat, stream: 1 }, 400],
      [{ ...chat, stream: 'true' }, 400],
      [{ ...chat, Stream: true }, 400],
      [{ ...chat, stream: true, stream_options: { include_usage: 0 } }, 400],
      [{ ...chat, stream: true, stream_options: { include_usage: 'false' } }, 400],
      [{ ...chat, stream: true, stream_options: [] }, 400],
      [{ ...chat, stream: false, stream_options: null, max_tokens: 7 }, 7],
      [{ prompt_embeds: ['e', 'e'], max_tokens: 7 }, 21],
      [{ input: 'a', max_output_tokens: 7 }, 7],
      [{ input: 'a', max_tokens: 1 }, 100],
      [
        {
          input: [
            { role: 'user', content: 'a' },
            { role: 'user', content: 'b' }
          ],
          max_output_tokens: 7
        },
        7
      ],
      [{ input: ['a', 'b', 'c'], max_output_tokens: 7 }, 21],
      [{ input: Array.from({ length: 200 }, () => 'embedded') }, 100]
    ] as const)
      t.equal(await reserved(body), units, JSON.stringify(body).slice(0, 90))
  })

t.test("a reservation of Anthropic's API, and of one with a limit of its own", async t => {
  const anthropic = await reservations({ usage: 'anthropic', estimate: { json: 'max_length', else: 100 } })
  for (const [limits, units] of [
    [{}, 7],
    [{ max_length: 30 }, 30],
    [{ max_tokens_to_sample: 30 }, 30],
    [{ extra_body: { max_tokens: 30 } }, 400],
    [{ thinking: { type: 'enabled', budget_tokens: 2000 } }, 2000]
  ] as const)
    t.equal(await anthropic({ ...chat, max_tokens: 7, ...limits }), units, JSON.stringify(limits))
  const own = await reservations({ usage: { json: 'usage.total' }, estimate: { json: ['a.most', 'b'], else: 100 } })
  t.equal(await own({ a: { most: 5 }, b: 9, max_tokens: 3000 }), 9)
  t.equal(await own({ max_tokens: 3000 }), 100)
})

t.test("a reservation of Gemini's API: its limit in both spellings, times the candidates", async t => {
  const reserved = await reservations({ usage: 'gemini', estimate: { else: 100 } })
  const contents = [{ parts: [{ text: 'hi' }] }]
  const path = '/v1/models/m:generateContent'
  for (const [config, units] of [
    [{}, 100],
    [{ generationConfig: { maxOutputTokens: 7 } }, 7],
    [{ generation_config: { max_output_tokens: 7 } }, 7],
    [{ generationConfig: { maxOutputTokens: 1, max_output_tokens: 2000 } }, 2000],
    [{ generationConfig: { maxOutputTokens: 1 }, generation_config: { maxOutputTokens: 2000 } }, 2000],
    [{ generationConfig: { maxOutputTokens: 7, candidateCount: 3 } }, 21],
    [{ generationConfig: { maxOutputTokens: 7, candidate_count: 4 } }, 28],
    [{ generationConfig: { candidateCount: 2 } }, 200],
    [{ generationConfig: { maxOutputTokens: 7, thinkingConfig: { thinkingBudget: 2000 } } }, 2000],
    [{ generationConfig: { maxOutputTokens: 7, thinkingConfig: { thinkingBudget: -1 } } }, 7],
    [{ generationConfig: { maxOutputTokens: '7' } }, 400],
    [{ generationConfig: { MaxOutputTokens: 7 } }, 400],
    [{ generationConfig: [{ maxOutputTokens: 7 }] }, 400]
  ] as const)
    t.equal(await reserved({ contents, ...config }, path), units, JSON.stringify(config))
  for (const other of ['/v1/models/m:batchGenerateContent', '/v1/models/m%3AgenerateContent', '/v1/a'])
    t.equal(await reserved({}, other), 400, `${other} reports no usage`)
})

t.test("Gemini's parameters that hide its usage: are refused, in every spelling", async t => {
  const path = '/v1/models/m:streamGenerateContent'
  const reserved = await reservations({ usage: 'gemini', estimate: { else: 100 } })
  for (const query of ['', '?alt=sse', '?alt=json', '?key=k&prettyPrint=false&%24alt=sse'])
    t.equal(await reserved({}, path + query), 100, query)
  for (const query of [
    '?fields=candidates',
    '?%66ields=candidates',
    '?$fields=candidates',
    '?%24fields=candidates',
    '?callback=f',
    '?$callback=f',
    '?alt=proto',
    '?$alt=media',
    '?alt=sse&alt=proto',
    '?Fields=candidates'
  ])
    t.equal(await reserved({}, path + query), 400, query)
  t.equal(await reserved({}, path, { 'x-goog-fieldmask': 'candidates' }), 400)
  for (const usage of ['openai', 'anthropic']) {
    const other = await reservations({ usage })
    t.equal(await other({}, '/v1/a?fields=choices'), 400, `${usage}: Google serves this form too`)
  }
})

t.test('batches: are refused, since they report no usage', async t => {
  for (const [usage, body] of [
    ['anthropic', { requests: [{ custom_id: 'a', params: { max_tokens: 9000 } }] }],
    ['openai', { input_file_id: 'file-1', endpoint: '/v1/chat/completions', completion_window: '24h' }],
    ['openai', { training_file: 'file-1', model: 'm' }]
  ] as const)
    t.equal(await (await reservations({ usage }))(body), 400, JSON.stringify(body))
})

t.test('a reservation: the most that the units can cost', async t => {
  const prices = { input: '2 msat', cached: '1 msat', cacheWrite1h: '4 msat', output: '10 msat', reasoning: '30 msat' }
  const reserved = await reservations({ usage: 'anthropic', estimate: { input: 100, else: 5 } }, prices)
  t.equal(await reserved({ ...chat, max_tokens: 7 }), 100 * 4 + 7 * 30)
})

t.test('the input of a request: one unit for three bytes of text, and for two bytes of token ids', async t => {
  const prices = { input: '1 msat', output: '0 msat' }
  const reserved = await reservations({ usage: 'openai', estimate: { else: 0 } }, prices)
  const list = Array.from({ length: 300 }, () => 5)
  for (const [body, bytes] of [
    [{ prompt: list }, 2],
    [{ input: list }, 2],
    [{ prompt: 'x'.repeat(600) }, 3]
  ] as const)
    t.equal(await reserved(body), Math.ceil(JSON.stringify(body).length / bytes))
})

const ONE_TOKEN = 'unit: token, bundle: 200 sats, prices: 1 sat, usage: openai, estimate: { else: 1 }'

/** A shop whose upstream answers that so many tokens came out, once it is let. */
async function gated(t: T, completion_tokens: number) {
  const gate = Promise.withResolvers<void>()
  const answer = JSON.stringify({ usage: { prompt_tokens: 0, completion_tokens } })
  const shop = await openMetered(t, ONE_TOKEN, (_request, response) =>
    gate.promise.then(() => response.writeHead(200, JSON_TYPE).end(answer))
  )
  return { ...shop, calls: () => shop.upstream.requests.length, open: gate.resolve }
}

t.test('requests that cost more than they reserve: no more than 16 of one balance are lost', async t => {
  // An image that is not in the body: 160 tokens go in.
  const shop = await gated(t, 160)
  const answers = Array.from({ length: 60 }, () => shop.ask({ ...chat, max_tokens: 1 }))
  // All of them have reserved, so that the first response leaves too little for the next.
  const early = Promise.race(answers).then(({ status, text }) => {
    throw new Error(`answered before the upstream was: ${status} ${text}`)
  })
  early.catch(() => undefined)
  const inFlight = eventually('16 are in flight', async () =>
    shop.calls() >= 16 && (await shop.balance()).reservedMsat === 60_000 ? true : null
  )
  await Promise.race([inFlight, early])
  shop.open()
  const statuses = (await Promise.all(answers)).map(({ status }) => status)
  const served = statuses.filter(status => status === 200).length
  t.equal(served, shop.calls())
  t.ok(served - 1 <= 16, `${served} of 60 were served, of which the balance paid one`)
  t.equal(statuses.filter(status => status === 402).length, 60 - served, 'the others get a 402 for another balance')
  t.ok((await shop.reserved(0)).spentMsat <= 200_000)
})

t.test('a stream that is larger than the gateway passes on: costs its reservation', async t => {
  const event = `data: {"choices":[{"delta":{"content":"${'x'.repeat(500)}"}}]}\n\n`
  const read = Promise.withResolvers<void>()
  const { authorization, gateway, spent } = await openMetered(
    t,
    'bundle: 200 sats, prices: 1 sat, usage: openai, estimate: { else: 9 }',
    (_request, response) => {
      response.writeHead(200, STREAM_TYPE).write(event)
      void read.promise.then(() => response.end(event.repeat(40)))
    },
    { more: ', responseLimit: 4000' }
  )
  const sent = httpRequest(`${gateway.url}/v1/a`, { method: 'POST', headers: { authorization, ...JSON_TYPE } })
  const broken = new Promise(resolve => {
    sent.on('error', resolve)
    sent.on('response', response => {
      response.on('data', read.resolve)
      response.on('error', resolve)
    })
  })
  sent.end(JSON.stringify({ ...chat, stream: true }))
  await broken
  await spent(9_000)
})

t.test('a client that leaves while its request waits: gives its reservation back', async t => {
  const shop = await gated(t, 1)
  const answers = Array.from({ length: 16 }, () => shop.ask(chat))
  await eventually('16 are in flight', async () => (shop.calls() >= 16 ? true : null))
  const leaving = httpRequest(`${shop.gateway.url}/v1/a`, {
    method: 'POST',
    agent: false,
    headers: { authorization: shop.authorization, ...JSON_TYPE }
  })
  leaving.on('error', () => undefined)
  leaving.end('{}')
  await eventually('the 17th waits', async () => ((await shop.balance()).reservedMsat === 17_000 ? true : null))
  const closed = new Promise(resolve => leaving.on('close', resolve))
  // A client that only ends its side may still read.
  leaving.socket?.resetAndDestroy()
  await closed
  // The gateway notices before it answers other connections.
  for (let time = 0; time < 3; time++) await shop.balance()
  shop.open()
  await Promise.all(answers)
  await shop.reserved(0)
  t.equal(shop.calls(), 16)
  t.equal((await shop.ask(chat)).status, 200)
})
