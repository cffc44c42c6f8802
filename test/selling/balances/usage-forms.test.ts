/** Each way in which an upstream says what was used, as `usage` of a meter names it, and what it is charged then. */
import { createServer, type IncomingHttpHeaders } from 'node:http'
import t, { type Test as T } from 'tap'
import { UsageChunkFilter } from '../../../src/selling/balances/metered-request.ts'
import { EventUsage } from '../../../src/selling/usage/events.ts'
import { OPENAI } from '../../../src/selling/usage/forms.ts'
import { defaultYaml, startGateway, type Answer, paidFor } from '../../support/gateway.ts'
import { serve } from '../../support/serve.ts'

/** What the upstream says next: its status, its headers, and its body in one piece. */
interface Said {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string
  /** The connection closes behind the body. */
  readonly isBroken?: boolean
}

const JSON_TYPE = { 'content-type': 'application/json' }
const STREAM = { 'content-type': 'text/event-stream' }

/** Sells `/v1/*` with this meter; `charged` returns what a response cost in millisatoshis, and what is left behind it. */
async function metered(t: T, meter: string, match = '/v1/*', method = 'GET', path = '/v1/a') {
  let says: Said = { body: '' }
  let received: IncomingHttpHeaders = {}
  const upstream = createServer((request, response) => {
    received = request.headers
    response.writeHead(says.status ?? 200, { ...JSON_TYPE, ...says.headers })
    if (says.isBroken === true) response.write(says.body, () => response.destroy())
    else response.end(says.body)
  })
  const port = await serve(t, upstream)
  const route = `routes:\n  - match: { path: "${match}" }\n    chain: paid\n    upstream: { url: "http://127.0.0.1:${port}" }\n    meter: ${meter}\n    keys: true\n`
  const gateway = await startGateway(t, { yaml: defaultYaml({ replace: [['routes:\n', route]] }) })
  const paid = await paidFor(gateway, await gateway.send('POST', '/l402/keys'))
  const bought = await gateway.send('POST', '/l402/keys', { headers: { authorization: paid } })
  const authorization = `Bearer ${(bought.json() as { key: string }).key}`
  const ask = async (next: Said, headers: Readonly<Record<string, string>> = {}, at = path) => {
    says = next
    return await gateway.send(method, at, { headers: { authorization, ...headers } })
  }
  const left = async () =>
    ((await gateway.send('GET', '/l402/balance', { headers: { authorization } })).json() as { balanceMsat: number })
      .balanceMsat
  return { ask, left, headers: () => received }
}

/** What the last event of a stream says that it cost. */
function streamed(answer: Answer) {
  const data = /event: balance\ndata: (.*)\n\n$/.exec(answer.text)?.[1]
  return data === undefined ? null : JSON.parse(data)
}

const told = (answer: Answer) => [answer.headers['x-charged-msat'], answer.headers['x-balance-msat']]

t.test('a header says it with the head, and what it says badly costs what was reserved', async t => {
  const { ask } = await metered(
    t,
    '{ bundle: 100 sats, prices: 100 msat, usage: { header: X-Usage }, estimate: { else: 9 } }'
  )
  const saying = (usage: string, more: Partial<Said> = {}) =>
    ask({ headers: { 'x-usage': usage }, body: '{}', ...more })
  const forged = { 'x-usage': '7', 'x-charged-msat': '1', 'X-Balance-Msat': '1', 'X-LAST-CHARGED-MSAT': '1' }
  const first = await ask({ headers: forged, body: '{}' })
  t.same(told(first), ['700', '99300'], 'our headers from the upstream are dropped')
  t.equal(first.headers['x-last-charged-msat'], undefined)
  t.same(told(await saying('2.1')), ['300', '99000'], 'a part of a unit is a unit')
  t.same(told(await saying('0')), ['0', '99000'])
  t.same(told(await saying('5', { status: 500 })), ['0', '99000'], 'a fault of the upstream costs nothing')
  for (const usage of ['-5', 'many', '']) {
    t.equal((await saying(usage)).headers['x-charged-msat'], undefined, 'its cost is not known with the head')
    const next = await saying('0')
    t.equal(next.headers['x-last-charged-msat'] ?? '900', '900')
  }
  t.equal(told(await saying('0'))[1], String(99_000 - 3 * 900))
})

t.test('a member reports it: of a JSON response, or of the events of a stream, where the last one counts', async t => {
  const { ask, left } = await metered(
    t,
    '{ bundle: 100 sats, prices: 100 msat, usage: { json: usage.total }, estimate: { else: 9 } }'
  )
  let rest = 100_000
  const costs = async (msat: number, body: string) => {
    await ask({ body })
    rest -= msat
    t.equal(told(await ask({ status: 404, body: '{}' }))[1], String(rest), body.slice(-60))
  }
  await costs(700, '{"usage":{"total":7}}')
  await costs(300, `{"text":"${'x'.repeat(100_000)}","usage":{"total":"2.5"}}`)
  await costs(900, '{"usage":{"total":-1}}')
  await costs(900, '{"usage":7}')
  await costs(900, 'no JSON')
  await costs(0, '')
  const answer = await ask({
    headers: STREAM,
    body: 'data: {"usage":{"total":1}}\n\ndata: {"text":"a"}\n\ndata: {"usage":{"total":4}}\n\n'
  })
  t.same(streamed(answer), { charged_msat: 400, balance_msat: rest - 400 })
  t.same(streamed(await ask({ headers: STREAM, body: 'data: {"text":"a"}\n\n' })), {
    charged_msat: 900,
    balance_msat: rest - 1300
  })
  t.ok((await left()) >= rest - 1300, 'and the ledger knows of no more')
})

t.test("Gemini's API: the model is in the path, and cached tokens have their price", async t => {
  const { ask } = await metered(
    t,
    '{ unit: token, bundle: 100 sats, prices: { by: { path: model }, of: { gemini-flash: { input: 10 msat, cached: 1 msat, output: 100 msat } } }, usage: gemini, estimate: { else: 50 } }',
    '/v1beta/models/:model',
    'POST',
    '/v1beta/models/gemini-flash:streamGenerateContent'
  )
  const body = [
    { candidates: [{ content: { parts: [{ text: 'Hi' }] } }], usageMetadata: { promptTokenCount: 100 } },
    {
      candidates: [{ content: { parts: [{ text: '!' }] }, finishReason: 'STOP' }],
      usageMetadata: {
        promptTokenCount: 100,
        cachedContentTokenCount: 95,
        candidatesTokenCount: 3,
        thoughtsTokenCount: 2,
        totalTokenCount: 105
      }
    }
  ]
    .map(event => `data: ${JSON.stringify(event)}\r\n\r\n`)
    .join('')
  // 5 × 10 + 95 × 1 + 5 × 100
  t.same(streamed(await ask({ headers: STREAM, body })), { charged_msat: 645, balance_msat: 99_355 })
  const json = await ask({ body: '{}' }, {}, '/v1beta/models/gemini-flash:generateContent')
  t.equal(json.status, 200)
  t.equal(json.headers['x-last-charged-msat'], '645')
  for (const other of ['gemini-pro:generateContent', 'gemini-flash:a:b', 'gemini-flash%3Bx:generateContent'])
    t.equal((await ask({ body: '{}' }, {}, `/v1beta/models/${other}`)).status, 400, other)
})

t.test('a 200 that reports an error costs what was delivered', async t => {
  const { ask } = await metered(
    t,
    '{ unit: token, bundle: 100 sats, prices: { input: 10 msat, output: 100 msat }, usage: openai, estimate: { input: 5, else: 50 } }'
  )
  const failed = 'data: {"error":{"code":502,"message":"no"},"choices":[]}\n\ndata: [DONE]\n\n'
  t.same(streamed(await ask({ headers: STREAM, body: failed })), { charged_msat: 0, balance_msat: 100_000 })
  await ask({ body: '{"error":{"code":502,"message":"no"}}' })
  const events = 'data: {"choices":[{"delta":{"content":"a"}}]}\r\r'.repeat(3)
  t.same(streamed(await ask({ headers: STREAM, body: events + failed })), { charged_msat: 350, balance_msat: 99_650 })
})

t.test(
  'a stream whose last event has no blank line: gets no event of ours, which would become a part of it',
  async t => {
    const { ask } = await metered(
      t,
      '{ unit: token, bundle: 100 sats, prices: { input: 1 msat, output: 10 msat }, usage: openai, estimate: { else: 9000 } }'
    )
    const body = 'data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":5,"completion_tokens":7}}'
    for (const end of ['', '\n', '\r\n']) t.equal((await ask({ headers: STREAM, body: body + end })).text, body + end)
    t.same(streamed(await ask({ headers: STREAM, body: `${body}\n\n` })), { charged_msat: 75, balance_msat: 99_700 })
  }
)

for (const [usage, left, what] of [
  ['requests', 100_000, 'nothing'],
  ['{ header: x-usage }', 100_000, 'nothing'],
  ['bytes', 100_000 - 20_000, 'the bytes that came']
] as const)
  t.test(`usage ${usage}: a response that its upstream breaks off costs ${what}`, async t => {
    const { ask, left: rest } = await metered(
      t,
      `{ bundle: 100 sats, prices: 1 msat, usage: ${usage}, estimate: { else: 1 } }`
    )
    const body = 'x'.repeat(20_000)
    await t.rejects(ask({ headers: { 'content-length': '50000', 'x-usage': '1' }, body, isBroken: true }))
    const charged = told(await ask({ status: 404, body: '{}' }))
    t.equal(charged[1], String(left))
    t.equal(await rest(), left)
  })

t.test('a stream without an event costs nothing', async t => {
  const { ask } = await metered(
    t,
    '{ unit: token, bundle: 100 sats, prices: { input: 1 msat, output: 10 msat }, usage: openai, estimate: { else: 9000 } }'
  )
  for (const body of [': PROCESSING\n\n: PROCESSING\n\n', ': PROCESSING\n\ndata: [DONE]\n\n', 'event: x\n\n'])
    t.match(streamed(await ask({ headers: STREAM, body })), { charged_msat: 0 })
})

t.test('a part of a response is not requested where the whole of it reports its usage', async t => {
  const { ask, headers } = await metered(
    t,
    '{ bundle: 100 sats, prices: 100 msat, usage: { json: usage.total }, estimate: { else: 1 } }'
  )
  await ask({ body: '{"usage":{"total":7}}' }, { range: 'bytes=0-5' })
  t.equal(headers().range, undefined)
})

t.test('a compressed stream is charged its reservation, and gets no event of ours', async t => {
  const { ask } = await metered(t, '{ bundle: 100 sats, prices: 100 msat, usage: bytes, estimate: { else: 1 } }')
  const answer = await ask({
    headers: { ...STREAM, 'content-encoding': 'gzip', 'transfer-encoding': 'chunked' },
    body: 'no gzip'
  })
  t.equal(answer.text, 'no gzip')
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
  const prices = '{ input: 100 msat, output: 400 msat }'
  const { ask, left } = await metered(
    t,
    `{ bundle: 100 sats, prices: ${prices}, usage: openai, estimate: { else: 9 } }`
  )
  for (const [total, expected] of [
    [5, 98_000],
    [50, 94_400]
  ] as const) {
    await ask({ body: JSON.stringify({ usage: { total_tokens: total } }) })
    t.equal(await left(), expected)
  }
})
