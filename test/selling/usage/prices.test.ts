/** What recorded responses of each API cost, against the formula that its provider publishes. */
import t from 'tap'
import type { PartPrices, UnitPart } from '../../../src/engine/checks/meter.ts'
import { knownDecimal } from '../../../src/lightning/money/decimal.ts'
import { Tariff } from '../../../src/selling/usage/tariff.ts'
import { EventUsage } from '../../../src/selling/usage/events.ts'
import { apiForm } from '../../../src/selling/usage/forms.ts'
import type { Usage } from '../../../src/selling/usage/usage.ts'
import { JsonUsage } from '../../../src/selling/usage/json.ts'

type Api = 'openai' | 'anthropic' | 'gemini'
type Json = Readonly<Record<string, unknown>>

/** Distinct primes, so that no two formulas agree by chance. */
const PRICES = {
  input: 2003,
  output: 8009,
  cached: 211,
  cacheWrite: 2503,
  cacheWrite1h: 4001,
  reasoning: 9001,
  audio: 40_009,
  audioOutput: 80_021,
  search: 10_007
} as const satisfies PartPrices
const PARTS = new Set<UnitPart>(['cached', 'cacheWrite', 'cacheWrite1h', 'reasoning', 'audio', 'audioOutput', 'search'])
const NO_RATES = new Map()
/** Millisatoshis for a million units, rounded up once. */
const upPerMillion = (sum: number) => Math.ceil(sum / 1e6)

function readBody(api: Api, body: unknown) {
  const reader = new JsonUsage(apiForm(api, PARTS))
  reader.chunk(Buffer.from(JSON.stringify(body)))
  return reader.read(true)
}

function readStream(api: Api, events: readonly Json[], isWhole = true, done = '') {
  const reader = new EventUsage(apiForm(api, PARTS), 33)
  const text = events.map(event => `data: ${JSON.stringify(event)}\n\n`).join('') + done
  for (const byte of Buffer.from(text)) reader.chunk(Buffer.from([byte]))
  return reader.read(isWhole)
}

const cost = (usage: Usage | null) => (usage === null ? null : new Tariff(PRICES, 1_000_000).cost(usage, NO_RATES))

/** OpenAI: cached and audio inside the input, reasoning and audio inside the output. */
const openAiCost = (i: number, cached: number, o: number, reasoning: number, audio = 0, spoken = 0) =>
  upPerMillion(
    (i - cached - audio) * PRICES.input +
      cached * PRICES.cached +
      audio * PRICES.audio +
      (o - reasoning - spoken) * PRICES.output +
      reasoning * PRICES.reasoning +
      spoken * PRICES.audioOutput
  )

for (const cached of [0, 9500]) {
  t.test(`${cached / 100} % cached: OpenAI chat`, async t => {
    const usage = {
      prompt_tokens: 10_000,
      completion_tokens: 700,
      total_tokens: 10_700,
      prompt_tokens_details: { cached_tokens: cached, audio_tokens: 0 },
      completion_tokens_details: {
        reasoning_tokens: 448,
        audio_tokens: 0,
        accepted_prediction_tokens: 0,
        rejected_prediction_tokens: 0
      }
    }
    const chunk = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'gpt-5-mini' }
    const events = [
      { ...chunk, choices: [{ index: 0, delta: { role: 'assistant', content: '' } }], usage: null },
      { ...chunk, choices: [{ index: 0, delta: { content: 'Hi' } }], usage: null },
      { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: null },
      { ...chunk, choices: [], usage }
    ]
    const expected = openAiCost(10_000, cached, 700, 448)
    t.equal(cost(readStream('openai', events, true, 'data: [DONE]\n\n')), expected)
    t.equal(cost(readBody('openai', { object: 'chat.completion', choices: [{ message: {} }], usage })), expected)
    const deepSeek = {
      prompt_tokens: 10_000,
      completion_tokens: 700,
      total_tokens: 10_700,
      prompt_cache_hit_tokens: cached,
      prompt_cache_miss_tokens: 10_000 - cached,
      completion_tokens_details: { reasoning_tokens: 448 }
    }
    t.equal(cost(readBody('openai', { choices: [{}], usage: deepSeek })), expected, 'DeepSeek')
    const xAi = { ...usage, completion_tokens: 252 }
    t.equal(
      cost(readBody('openai', { choices: [{}], usage: xAi })),
      expected,
      'xAI counts reasoning in the total alone'
    )
    const spoken = {
      ...usage,
      prompt_tokens_details: { cached_tokens: cached, audio_tokens: 300 },
      completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 500 }
    }
    t.equal(cost(readBody('openai', { usage: spoken })), openAiCost(10_000, cached, 700, 0, 300, 500), 'audio')
  })

  t.test(`${cached / 100} % cached: OpenAI Responses`, async t => {
    const usage = {
      input_tokens: 10_000,
      input_tokens_details: { cached_tokens: cached },
      output_tokens: 700,
      output_tokens_details: { reasoning_tokens: 448 },
      total_tokens: 10_700
    }
    const response = { id: 'resp_1', object: 'response', error: null, instructions: 'i'.repeat(20_000) }
    const events = [
      { type: 'response.created', response: { ...response, status: 'in_progress', usage: null } },
      { type: 'response.output_text.delta', delta: 'Hi' },
      { type: 'response.completed', response: { ...response, status: 'completed', usage } }
    ]
    const expected = openAiCost(10_000, cached, 700, 448)
    t.equal(cost(readStream('openai', events)), expected)
    t.equal(cost(readBody('openai', { ...response, status: 'completed', usage })), expected)
  })

  t.test(`${cached / 100} % cached: Anthropic`, async t => {
    const usage = {
      input_tokens: 100,
      cache_creation_input_tokens: 400,
      cache_read_input_tokens: cached,
      cache_creation: { ephemeral_5m_input_tokens: 150, ephemeral_1h_input_tokens: 250 },
      output_tokens: 700
    }
    const { cache_creation: _each, ...running } = usage
    const events = [
      { type: 'message_start', message: { type: 'message', usage: { ...usage, output_tokens: 1 } } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: running },
      { type: 'message_stop' }
    ]
    const expected = upPerMillion(
      100 * PRICES.input +
        cached * PRICES.cached +
        150 * PRICES.cacheWrite +
        250 * PRICES.cacheWrite1h +
        700 * PRICES.output
    )
    t.equal(cost(readStream('anthropic', events)), expected)
    t.equal(cost(readStream('anthropic', events, false)), expected, 'a client may leave on the last event')
    t.equal(cost(readBody('anthropic', { type: 'message', usage })), expected)
    const lowered: Json[] = events.map(event => event)
    lowered.splice(2, 1, {
      type: 'message_delta',
      usage: { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 700 }
    })
    t.equal(cost(readStream('anthropic', lowered)), expected, 'no total is taken back')
  })

  t.test(`${cached / 100} % cached: Gemini`, async t => {
    const candidate = { content: { parts: [{ text: 'Hi' }], role: 'model' }, index: 0 }
    const usageMetadata = {
      promptTokenCount: 10_000,
      candidatesTokenCount: 252,
      thoughtsTokenCount: 448,
      toolUsePromptTokenCount: 90,
      totalTokenCount: 10_790,
      ...(cached === 0 ? {} : { cachedContentTokenCount: cached }),
      promptTokensDetails: [
        { modality: 'TEXT', tokenCount: 9600 },
        { modality: 'AUDIO', tokenCount: 400 }
      ],
      ...(cached === 0
        ? {}
        : {
            cacheTokensDetails: [
              { modality: 'TEXT', tokenCount: 9300 },
              { modality: 'AUDIO', tokenCount: 200 }
            ]
          })
    }
    const first = { candidates: [candidate], usageMetadata: { promptTokenCount: 10_000, totalTokenCount: 10_000 } }
    const last = { candidates: [{ ...candidate, finishReason: 'STOP' }], usageMetadata, modelVersion: 'gemini' }
    const freshAudio = cached === 0 ? 400 : 200
    const expected = upPerMillion(
      (10_090 - cached - freshAudio) * PRICES.input +
        cached * PRICES.cached +
        freshAudio * PRICES.audio +
        252 * PRICES.output +
        448 * PRICES.reasoning
    )
    t.equal(cost(readStream('gemini', [first, last])), expected)
    t.equal(cost(readStream('gemini', [first, last], false)), expected, 'a client may leave on the last event')
    t.equal(cost(readBody('gemini', last)), expected)
    t.equal(cost(readBody('gemini', [first, last])), expected, 'a list, as streams are without alt=sse')
  })
}

t.test(
  'web searches: Anthropic, OpenRouter and LiteLLM report them, and each has its price whatever `per` says',
  async t => {
    const usage = { input_tokens: 105, output_tokens: 640, server_tool_use: { web_search_requests: 0 } }
    const events = [
      { type: 'message_start', message: { type: 'message', usage: { ...usage, output_tokens: 3 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'server_tool_use', name: 'web_search' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Hi' } },
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn' },
        usage: { ...usage, input_tokens: 6039, server_tool_use: { web_search_requests: 3, web_fetch_requests: 1 } }
      },
      { type: 'message_stop' }
    ]
    const expected = upPerMillion(6039 * PRICES.input + 640 * PRICES.output) + 3 * PRICES.search
    t.equal(cost(readStream('anthropic', events)), expected)
    const whole = { ...usage, input_tokens: 6039, server_tool_use: { web_search_requests: 3 } }
    t.equal(cost(readBody('anthropic', { type: 'message', usage: whole })), expected)
    t.equal(cost(readBody('openai', { choices: [{}], usage: whole })), expected, 'OpenRouter')
    const lite = {
      prompt_tokens: 6039,
      completion_tokens: 640,
      prompt_tokens_details: { web_search_requests: 3 }
    }
    t.equal(cost(readBody('openai', { choices: [{}], usage: lite })), expected, 'LiteLLM')
  }
)

t.test('Gemini: a refused prompt costs its input, a failure what was delivered', async t => {
  const usageMetadata = { promptTokenCount: 9, totalTokenCount: 9 }
  t.same(readBody('gemini', { promptFeedback: { blockReason: 'SAFETY' }, usageMetadata }), { input: 9, output: 0 })
  const error = { error: { code: 503, message: 'overloaded', status: 'UNAVAILABLE' } }
  t.same(readStream('gemini', [error]), { input: 0, output: 0 })
  t.same(readBody('gemini', [error]), { input: 0, output: 0 })
  const text = { candidates: [{ content: { parts: [{ text: 'a' }] } }], usageMetadata }
  t.same(readStream('gemini', [text, text, error]), { input: 9, output: 2 })
})

t.test('a route reads only the parts that it prices', async t => {
  t.equal(apiForm('openai', new Set()).counts.length, 5)
  t.equal(apiForm('openai', new Set(['cached'])).counts.length, 6)
  const reader = new JsonUsage(apiForm('openai', new Set<UnitPart>(['reasoning'])))
  const usage = {
    prompt_tokens: 9,
    completion_tokens: 7,
    prompt_tokens_details: { cached_tokens: 8 },
    completion_tokens_details: { reasoning_tokens: 5 }
  }
  reader.chunk(Buffer.from(JSON.stringify({ usage })))
  t.same(reader.read(true), { input: 9, output: 7, reasoning: 5 })
})

t.test('prices: parts without one cost as their whole, and are cut at it', async t => {
  const tariff = new Tariff({ input: 10, output: 100, cached: 1 }, 1)
  t.equal(tariff.cost({ input: 10, output: 1, cached: 8, audio: 5, reasoning: 1 }, NO_RATES), 20 + 8 + 100)
  t.equal(tariff.cost({ input: 10, output: 0, cached: 80 }, NO_RATES), 10, 'no more is cached than went in')
  const written = new Tariff({ input: 10, output: 100, cacheWrite: 12, audio: 50 }, 1)
  t.equal(written.cost({ input: 10, output: 2, cacheWrite1h: 10, audioOutput: 2 }, NO_RATES), 120 + 100)
  t.equal(written.most({ input: 10, output: 2 }, NO_RATES), 120 + 200, 'the most expensive is reserved')
})

t.test('fiat prices: one exact sum, rounded up once, in any mix of currencies', async t => {
  const rates = new Map([
    ['USD', knownDecimal('100000')],
    ['EUR', knownDecimal('92000.5')]
  ] as const)
  const cheap = { input: 'USD 0.3', output: 'USD 1.1', cached: 'USD 0.03' } as const
  // 500 × 0.3 + 9500 × 0.03 + 700 × 1.1 = 1205 dollars of a million units: 1205 msat at 100,000 dollars.
  t.equal(new Tariff(cheap, 1_000_000).cost({ input: 10_000, output: 700, cached: 9500 }, rates), 1205)
  // Each part alone would be rounded up to 1.
  t.equal(new Tariff(cheap, 1_000_000).cost({ input: 1, output: 1, cached: 1 }, rates), 2)
  const mixed = new Tariff({ input: 'USD 1', output: 'EUR 1', cached: 3 }, 1_000_000)
  // 1 msat of dollars, 1.0869… of euros and 3 millionths.
  t.equal(mixed.cost({ input: 2, output: 1, cached: 1 }, rates), 3)
  t.equal(new Tariff(3, 1_000_000_000).cost({ input: 0, output: 1_000_000_000_000_001 }, NO_RATES), 3_000_001)
  t.equal(new Tariff(1e12, 1e9).cost({ input: 0, output: 1e12 + 1 }, NO_RATES), 1e15 + 1000, 'beyond safe integers')
})
