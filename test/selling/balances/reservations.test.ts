/** What a request reserves, and what is lost where it uses more. */
import { createServer, request as httpRequest, type ServerResponse } from 'node:http'
import { balanceWhen } from './fixture.ts'
import t, { type Test as T } from 'tap'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import { defaultYaml, startGateway, paidFor } from '../../support/gateway.ts'
import { eventually, unshed } from '../../support/gateway-process.ts'
import { serve } from '../../support/serve.ts'

async function openShop(t: T, meter: string, answer: (response: ServerResponse) => void, more = '', path = '/v1/a') {
  let calls = 0
  const upstream = createServer((request, response) => {
    calls++
    request.resume().on('end', () => {
      answer(response)
    })
  })
  const port = await serve(t, upstream)
  const route = `routes:\n  - match: { path: /v1/* }\n    chain: paid\n    upstream: { url: "http://127.0.0.1:${port}"${more} }\n    meter: ${meter}\n`
  const gateway = unshed(await startGateway(t, { yaml: defaultYaml({ replace: [['routes:\n', route]] }) }))
  const authorization = await paidFor(gateway, await gateway.send('POST', path))
  const send = (body: object | string) =>
    gateway.send('POST', path, { headers: { authorization, 'content-type': 'application/json' }, body })
  const reservedMsat = async () => {
    const answer = await gateway.send('GET', '/l402/balance', { headers: { authorization } })
    return (answer.json() as { reservedMsat: number }).reservedMsat
  }
  return {
    gateway,
    authorization,
    send,
    store: new BalanceStore(gateway.database),
    calls: () => calls,
    reservedMsat
  }
}

/** What requests reserve, in units: their upstream reports nothing, so that the reservation is charged. */
async function reservations(t: T, meter: string, prices = '1 msat', path = '/v1/a') {
  const shop = await openShop(
    t,
    `{ bundle: 10000 sats, prices: ${prices}, ${meter} }`,
    response => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    },
    '',
    path
  )
  let spent = 0
  return async (body: object) => {
    const answer = await shop.send(body)
    if (answer.status !== 200) return answer.status
    const before = spent
    spent = await eventually('it is charged', async () => {
      const [one] = await shop.store.list({ skip: 0, take: 1 })
      return one !== undefined && one.spentMsat > before ? one.spentMsat : null
    })
    return spent - before
  }
}

const chat = { messages: [{ role: 'user', content: 'hi' }] }
const ids = [1, 2, 3, 4]

for (const estimate of ['{ json: max_tokens, else: 100 }', '{ else: 100 }'])
  t.test(`a reservation with estimate ${estimate}: the largest limit, times the requested responses`, async t => {
    const reserved = await reservations(t, `usage: openai, estimate: ${estimate}`)
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
  const anthropic = await reservations(t, 'usage: anthropic, estimate: { json: max_length, else: 100 }')
  t.equal(await anthropic({ ...chat, max_tokens: 7 }), 7)
  t.equal(await anthropic({ ...chat, max_tokens: 7, max_length: 30 }), 30)
  t.equal(await anthropic({ ...chat, max_tokens: 7, max_tokens_to_sample: 30 }), 30)
  t.equal(await anthropic({ ...chat, max_tokens: 7, extra_body: { max_tokens: 30 } }), 400)
  t.equal(await anthropic({ ...chat, max_tokens: 7, thinking: { type: 'enabled', budget_tokens: 2000 } }), 2000)
  const own = await reservations(t, 'usage: { json: usage.total }, estimate: { json: [a.most, b], else: 100 }')
  t.equal(await own({ a: { most: 5 }, b: 9, max_tokens: 3000 }), 9)
  t.equal(await own({ max_tokens: 3000 }), 100)
})

t.test("a reservation of Gemini's API: its limit in both spellings, times the candidates", async t => {
  const reserved = await reservations(
    t,
    'usage: gemini, estimate: { else: 100 }',
    '1 msat',
    '/v1/models/m:generateContent'
  )
  const contents = [{ parts: [{ text: 'hi' }] }]
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
    t.equal(await reserved({ contents, ...config }), units, JSON.stringify(config))
})

t.test("Gemini's other methods: are refused, since they report no usage", async t => {
  for (const path of ['/v1/models/m:batchGenerateContent', '/v1/models/m%3AgenerateContent', '/v1/a']) {
    const reserved = await reservations(t, 'usage: gemini, estimate: { else: 100 }', '1 msat', path)
    t.equal(await reserved({}), 400, path)
  }
})

t.test("Gemini's parameters that hide its usage: are refused, in every spelling", async t => {
  const path = '/v1/models/m:streamGenerateContent'
  const shop = await openShop(
    t,
    '{ bundle: 10000 sats, prices: 1 msat, usage: gemini, estimate: { else: 100 } }',
    response => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('[]')
    },
    '',
    path
  )
  const status = async (query: string, headers = {}): Promise<number> =>
    (
      await shop.gateway.send('POST', `${path}${query}`, {
        headers: { authorization: shop.authorization, 'content-type': 'application/json', ...headers },
        body: '{}'
      })
    ).status
  for (const query of ['', '?alt=sse', '?alt=json', '?key=k&prettyPrint=false&%24alt=sse'])
    t.equal(await status(query), 200, query)
  const paid = shop.calls()
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
    t.equal(await status(query), 400, query)
  t.equal(await status('', { 'x-goog-fieldmask': 'candidates' }), 400)
  t.equal(shop.calls(), paid)
  for (const usage of ['openai', 'anthropic']) {
    const reserved = await reservations(t, `usage: ${usage}, estimate: { else: 100 }`, '1 msat', '/v1/a?fields=choices')
    t.equal(await reserved({}), 400, `${usage}: Google serves this form too`)
  }
})

t.test('batches: are refused, since they report no usage', async t => {
  for (const [usage, body] of [
    ['anthropic', { requests: [{ custom_id: 'a', params: { max_tokens: 9000 } }] }],
    ['openai', { input_file_id: 'file-1', endpoint: '/v1/chat/completions', completion_window: '24h' }],
    ['openai', { training_file: 'file-1', model: 'm' }]
  ] as const) {
    const reserved = await reservations(t, `usage: ${usage}, estimate: { else: 100 }`)
    t.equal(await reserved(body), 400, JSON.stringify(body))
    t.equal(await reserved({ ...chat, max_tokens: 7 }), 7)
  }
})

t.test('a reservation: the most that the units can cost', async t => {
  const prices = '{ input: 2 msat, cached: 1 msat, cacheWrite1h: 4 msat, output: 10 msat, reasoning: 30 msat }'
  const reserved = await reservations(t, 'usage: anthropic, estimate: { input: 100, else: 5 }', prices)
  t.equal(await reserved({ ...chat, max_tokens: 7 }), 100 * 4 + 7 * 30)
})

t.test('the input of a request: one unit for three bytes of text, and for two bytes of token ids', async t => {
  const reserved = await reservations(t, 'usage: openai, estimate: { else: 0 }', '{ input: 1 msat, output: 0 msat }')
  const ids = { prompt: Array.from({ length: 300 }, () => 5) }
  t.equal(await reserved(ids), Math.ceil(JSON.stringify(ids).length / 2))
  const input = { input: ids.prompt }
  t.equal(await reserved(input), Math.ceil(JSON.stringify(input).length / 2))
  const text = { prompt: 'x'.repeat(600) }
  t.equal(await reserved(text), Math.ceil(JSON.stringify(text).length / 3))
})

t.test('requests that cost more than they reserve: no more than 16 of one balance are lost', async t => {
  const gate = Promise.withResolvers<void>()
  const shop = await openShop(
    t,
    '{ unit: token, bundle: 200 sats, prices: 1 sat, usage: openai, estimate: { else: 1 } }',
    response => {
      // An image that is not in the body: 160 tokens go in.
      void gate.promise.then(() =>
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end('{"usage":{"prompt_tokens":0,"completion_tokens":160}}')
      )
    }
  )
  const answers = Array.from({ length: 60 }, () => shop.send({ ...chat, max_tokens: 1 }))
  // All of them have reserved, so that the first response leaves too little for the next.
  const early = Promise.race(answers).then(({ status, text }) => {
    throw new Error(`answered before the upstream was: ${status} ${text}`)
  })
  early.catch(() => undefined)
  const inFlight = eventually('16 are in flight', async () =>
    shop.calls() >= 16 && (await shop.reservedMsat()) === 60_000 ? true : null
  )
  await Promise.race([inFlight, early])
  gate.resolve()
  const statuses = (await Promise.all(answers)).map(({ status }) => status)
  const served = statuses.filter(status => status === 200).length
  t.equal(served, shop.calls())
  t.ok(served - 1 <= 16, `${served} of 60 were served, of which the balance paid one`)
  t.equal(statuses.filter(status => status === 402).length, 60 - served, 'the others get a 402 for another balance')
  const [one] = await shop.store.list({ skip: 0, take: 1 })
  t.ok((one?.spentMsat ?? 0) <= 200_000)
  await eventually('nothing is reserved', async () => ((await shop.reservedMsat()) === 0 ? true : null))
})

t.test('a stream that is larger than the gateway passes on: costs its reservation', async t => {
  const event = `data: {"choices":[{"delta":{"content":"${'x'.repeat(500)}"}}]}\n\n`
  const read = Promise.withResolvers<void>()
  const shop = await openShop(
    t,
    '{ bundle: 200 sats, prices: 1 sat, usage: openai, estimate: { else: 9 } }',
    response => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(event)
      void read.promise.then(() => response.end(event.repeat(40)))
    },
    ', responseLimit: 4000'
  )
  const { authorization, gateway } = shop
  const sent = httpRequest(`${gateway.url}/v1/a`, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json' }
  })
  const broken = new Promise(resolve => {
    sent.on('error', resolve)
    sent.on('response', response => {
      response.on('data', () => {
        read.resolve()
      })
      response.on('error', resolve)
    })
  })
  sent.end(JSON.stringify({ ...chat, stream: true }))
  await broken
  await balanceWhen('it is charged', shop.store, one => one.spentMsat >= 9_000)
})

t.test('a client that leaves while its request waits: gives its reservation back', async t => {
  const gate = Promise.withResolvers<void>()
  const shop = await openShop(
    t,
    '{ unit: token, bundle: 200 sats, prices: 1 sat, usage: openai, estimate: { else: 1 } }',
    response => {
      void gate.promise.then(() =>
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end('{"usage":{"prompt_tokens":0,"completion_tokens":1}}')
      )
    }
  )
  const answers = Array.from({ length: 16 }, () => shop.send(chat))
  await eventually('16 are in flight', async () => (shop.calls() >= 16 ? true : null))
  const { reservedMsat } = shop
  const leaving = httpRequest(`${shop.gateway.url}/v1/a`, {
    method: 'POST',
    agent: false,
    headers: { authorization: shop.authorization, 'content-type': 'application/json' }
  })
  leaving.on('error', () => undefined)
  leaving.end('{}')
  await eventually('the 17th waits', async () => ((await reservedMsat()) === 17_000 ? true : null))
  const closed = new Promise(resolve => leaving.on('close', resolve))
  // A client that only ends its side may still read.
  leaving.socket?.resetAndDestroy()
  await closed
  // The gateway notices before it answers other connections.
  for (let time = 0; time < 3; time++) await reservedMsat()
  gate.resolve()
  await Promise.all(answers)
  await eventually('nothing is reserved', async () => ((await reservedMsat()) === 0 ? true : null))
  t.equal(shop.calls(), 16)
  t.equal((await shop.send(chat)).status, 200)
})
