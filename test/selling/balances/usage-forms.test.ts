/** Each way in which an upstream says what was used, as `usage` of a meter names it, and what it is charged then. */
import t, { type Test as T } from 'tap'
import { UsageChunkFilter } from '../../../src/selling/balances/metered-request.ts'
import { EventUsage } from '../../../src/selling/usage/events.ts'
import { OPENAI } from '../../../src/selling/usage/forms.ts'
import type { Answer } from '../../support/gateway.ts'
import { JSON_TYPE, openMetered, STREAM_TYPE } from '../shop.ts'

/** What the upstream says next. */
interface Said {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** The connection closes behind the body. */
  readonly isBroken?: boolean
}

/** Sells by this meter, in bundles of 100 satoshis. */
async function metered(t: T, meter: string, options: Parameters<typeof openMetered>[3] = {}) {
  const shop = await openMetered(t, `bundle: 100 sats, ${meter}`, undefined, { method: 'GET', ...options })
  const ask = async (said: Said, headers: Readonly<Record<string, string>> = {}, at?: string) => {
    shop.upstream.answer = (_request, response) => {
      response.writeHead(said.status ?? 200, { ...JSON_TYPE, ...said.headers })
      if (said.isBroken === true) response.write(said.body, () => response.destroy())
      else response.end(said.body)
    }
    return await shop.ask(null, headers, at)
  }
  const stream = async (body: string) => {
    const { text } = await ask({ headers: STREAM_TYPE, body })
    const data = /event: balance\ndata: (.*)\n\n$/.exec(text)?.[1]
    return { text, told: data === undefined ? null : JSON.parse(data) }
  }
  return { ask, stream, left: async () => (await shop.balance()).balanceMsat, upstream: shop.upstream }
}

const told = (answer: Answer) => [answer.headers['x-charged-msat'], answer.headers['x-balance-msat']]

t.test('a header says it with the head, and what it says badly costs what was reserved', async t => {
  const { ask } = await metered(t, 'prices: 100 msat, usage: { header: X-Usage }, estimate: { else: 9 }')
  const saying = (usage: string, more: Said = {}) => ask({ headers: { 'x-usage': usage }, body: '{}', ...more })
  const forged = { 'x-usage': '7', 'x-charged-msat': '1', 'X-Balance-Msat': '1', 'X-LAST-CHARGED-MSAT': '1' }
  const first = await ask({ headers: forged, body: '{}' })
  t.same(told(first), ['700', '99300'], 'our headers from the upstream are dropped')
  t.equal(first.headers['x-last-charged-msat'], undefined)
  t.same(told(await saying('2.1')), ['300', '99000'], 'a part of a unit is a unit')
  t.same(told(await saying('0')), ['0', '99000'])
  t.same(told(await saying('5', { status: 500 })), ['0', '99000'], 'a fault of the upstream costs nothing')
  for (const usage of ['-5', 'many', '']) {
    t.equal((await saying(usage)).headers['x-charged-msat'], undefined, 'its cost is not known with the head')
    t.equal((await saying('0')).headers['x-last-charged-msat'] ?? '900', '900')
  }
  t.equal(told(await saying('0'))[1], String(99_000 - 3 * 900))
})

t.test('a member reports it: of a JSON response, or of the events of a stream, where the last one counts', async t => {
  const { ask, stream, left, upstream } = await metered(
    t,
    'prices: 100 msat, usage: { json: usage.total }, estimate: { else: 9 }'
  )
  let rest = 100_000
  for (const [msat, body] of [
    [700, '{"usage":{"total":7}}'],
    [300, `{"text":"${'x'.repeat(100_000)}","usage":{"total":"2.5"}}`],
    [900, '{"usage":{"total":-1}}'],
    [900, '{"usage":7}'],
    [900, 'no JSON'],
    [0, '']
  ] as const) {
    await ask({ body }, { range: 'bytes=0-5' })
    t.equal(upstream.headers.range, undefined, 'a part of a response has no usage')
    rest -= msat
    t.equal(told(await ask({ status: 404, body: '{}' }))[1], String(rest), body.slice(-60))
  }
  const events = 'data: {"usage":{"total":1}}\n\ndata: {"text":"a"}\n\ndata: {"usage":{"total":4}}\n\n'
  t.same((await stream(events)).told, { charged_msat: 400, balance_msat: rest - 400 })
  t.same((await stream('data: {"text":"a"}\n\n')).told, { charged_msat: 900, balance_msat: rest - 1300 })
  t.ok((await left()) >= rest - 1300, 'and the ledger knows of no more')
})

t.test("Gemini's API: the model is in the path, and cached tokens have their price", async t => {
  const models = '/v1beta/models/'
  const { ask, stream } = await metered(
    t,
    'unit: token, prices: { by: { path: model }, of: { gemini-flash: { input: 10 msat, cached: 1 msat, output: 100 msat } } }, usage: gemini, estimate: { else: 50 }',
    {
      keys: true,
      match: `{ path: "${models}:model" }`,
      method: 'POST',
      path: `${models}gemini-flash:streamGenerateContent`
    }
  )
  const usage = {
    promptTokenCount: 100,
    cachedContentTokenCount: 95,
    candidatesTokenCount: 3,
    thoughtsTokenCount: 2,
    totalTokenCount: 105
  }
  const events = [
    { candidates: [{ content: { parts: [{ text: 'Hi' }] } }], usageMetadata: { promptTokenCount: 100 } },
    { candidates: [{ content: { parts: [{ text: '!' }] }, finishReason: 'STOP' }], usageMetadata: usage }
  ]
  // 5 × 10 + 95 × 1 + 5 × 100
  t.same((await stream(events.map(event => `data: ${JSON.stringify(event)}\r\n\r\n`).join(''))).told, {
    charged_msat: 645,
    balance_msat: 99_355
  })
  const json = await ask({ body: '{}' }, {}, `${models}gemini-flash:generateContent`)
  t.equal(json.status, 200)
  t.equal(json.headers['x-last-charged-msat'], '645')
  for (const other of ['gemini-pro:generateContent', 'gemini-flash:a:b', 'gemini-flash%3Bx:generateContent'])
    t.equal((await ask({ body: '{}' }, {}, models + other)).status, 400, other)
})

t.test('a stream costs what was delivered where it reports an error, and nothing without an event', async t => {
  const { ask, stream } = await metered(
    t,
    'unit: token, prices: { input: 10 msat, output: 100 msat }, usage: openai, estimate: { input: 5, else: 50 }'
  )
  const failed = 'data: {"error":{"code":502,"message":"no"},"choices":[]}\n\ndata: [DONE]\n\n'
  for (const free of [failed, ': PROCESSING\n\n: PROCESSING\n\n', ': PROCESSING\n\ndata: [DONE]\n\n', 'event: x\n\n'])
    t.same((await stream(free)).told, { charged_msat: 0, balance_msat: 100_000 }, free)
  await ask({ body: '{"error":{"code":502,"message":"no"}}' })
  const events = 'data: {"choices":[{"delta":{"content":"a"}}]}\r\r'.repeat(3)
  t.same((await stream(events + failed)).told, { charged_msat: 350, balance_msat: 99_650 })
  const last = 'data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":5,"completion_tokens":7}}'
  for (const end of ['', '\n', '\r\n'])
    t.equal((await stream(last + end)).text, last + end, 'our event would become a part of one without a blank line')
  t.same((await stream(`${last}\n\n`)).told, { charged_msat: 750, balance_msat: 99_650 - 4 * 750 })
})

for (const [usage, left, what] of [
  ['requests', 100_000, 'nothing'],
  ['{ header: x-usage }', 100_000, 'nothing'],
  ['bytes', 100_000 - 20_000, 'the bytes that came']
] as const)
  t.test(`usage ${usage}: a response that its upstream breaks off costs ${what}`, async t => {
    const { ask, left: rest } = await metered(t, `prices: 1 msat, usage: ${usage}, estimate: { else: 1 }`)
    const body = 'x'.repeat(20_000)
    await t.rejects(ask({ headers: { 'content-length': '50000', 'x-usage': '1' }, body, isBroken: true }))
    t.equal(told(await ask({ status: 404, body: '{}' }))[1], String(left))
    t.equal(await rest(), left)
  })

t.test('bytes: are charged with the head where their length is known', async t => {
  const { ask } = await metered(t, 'prices: 3 msat, per: 2, usage: bytes, estimate: { else: 1 }')
  t.same(told(await ask({ body: 'x'.repeat(301), headers: { 'content-length': '301' } })), ['452', '99548'])
  const length = { status: 304, headers: { 'content-length': '5000', etag: '"1"' } }
  t.equal(told(await ask(length))[0], '0', 'a 304 has none')
  const zipped = { ...STREAM_TYPE, 'content-encoding': 'gzip', 'transfer-encoding': 'chunked' }
  t.equal((await ask({ headers: zipped, body: 'no gzip' })).text, 'no gzip', 'a coded stream gets no event of ours')
})

t.test('a usage event that is too long to be held back passes whole, and the next one does not', async t => {
  const reader = new EventUsage(OPENAI, 0)
  let out = ''
  const filter = new UsageChunkFilter(
    reader,
    bytes => {
      reader.chunk(bytes)
    },
    bytes => {
      out += Buffer.from(bytes).toString()
    }
  )
  const report = (more = '') => `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}${more}}\n\n`
  const long = report(`,"x":"${'x'.repeat(40_000)}"`)
  for (let at = 0; at < long.length; at += 5_000) void filter.write(Buffer.from(long.slice(at, at + 5_000)))
  for (const event of [report(), 'data: [DONE]\n\n']) void filter.write(Buffer.from(event))
  filter.end()
  t.equal(out, `${long}data: [DONE]\n\n`)
})

t.test('a total alone costs the higher of both prices, and no more than was reserved', async t => {
  const { ask, left } = await metered(
    t,
    'prices: { input: 100 msat, output: 400 msat }, usage: openai, estimate: { else: 9 }'
  )
  for (const [total, expected] of [
    [5, 98_000],
    [50, 94_400]
  ] as const) {
    await ask({ body: JSON.stringify({ usage: { total_tokens: total } }) })
    t.equal(await left(), expected)
  }
})
