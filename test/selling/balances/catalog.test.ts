/** Prices of models from a price list: what is sold, at what price, and what is refused before an invoice. */
import { readFileSync } from 'node:fs'
import t, { type Test as T } from 'tap'
import { fileURLToPath } from 'node:url'
import { catalogPrices } from '../../../src/engine/checks/catalog.ts'
import { ConfigError } from '../../../src/engine/config/diagnose.ts'
import { loadConfigText } from '../../../src/engine/config/load.ts'
import { knownDecimal } from '../../../src/lightning/money/decimal.ts'
import { Tariff } from '../../../src/selling/usage/tariff.ts'
import { buyKey, openMetered, replies } from '../shop.ts'

const LIST = fileURLToPath(new URL('../usage/vectors/models.json', import.meta.url))
const text = readFileSync(LIST, 'utf8')
/** A dollar is 1,000,000 millisatoshis. */
const RATES = new Map([['USD', knownDecimal('100000')]] as const)

t.test('a price list: models with prices of tokens, by provider and name', async t => {
  t.same(
    [...(catalogPrices(text, {}) ?? [])].map(([name]) => name),
    ['gpt-5-mini', 'gpt-audio', 'claude-sonnet-4-5', 'gemini/gemini-2.5-flash', 'text-embedding-3-small'],
    'none of those that are free, broken, priced by images, or that search for a fee on each request'
  )
  t.same([...(catalogPrices(text, { provider: 'gemini' }) ?? []).keys()], ['gemini-2.5-flash'])
  t.same([...(catalogPrices(text, { models: ['gpt-5-mini', 'x'] }) ?? []).keys()], ['gpt-5-mini'])
  for (const other of ['', '[]', 'null', '<html>']) t.equal(catalogPrices(other, {}), null, other)
})

t.test("a price list: charges are the provider's formula and the markup, to the millisatoshi", async t => {
  const prices = catalogPrices(text, {})
  const cost = (model: string, usage: object, markup = '0') => {
    const found = prices?.get(model)
    if (found === undefined) throw new Error(`no ${model}`)
    return new Tariff(found, 1, markup).cost({ input: 0, output: 0, ...usage }, RATES)
  }
  // 500 × 0.25 + 9500 × 0.025 + 700 × 2 = 1762.5 millionths of a dollar, each a millisatoshi.
  const cached = { input: 10_000, cached: 9500, output: 700 }
  t.equal(cost('gpt-5-mini', cached), 1763)
  t.equal(cost('gpt-5-mini', cached, '5'), Math.ceil(1762.5 * 1.05))
  t.equal(cost('gpt-5-mini', cached, '12.5'), Math.ceil(1762.5 * 1.125))
  const claude = { input: 200_000, cached: 190_000, cacheWrite: 4000, cacheWrite1h: 1000, output: 1000 }
  t.equal(cost('claude-sonnet-4-5', claude), 5000 * 3 + 190_000 * 0.3 + 4000 * 3.75 + 1000 * 6 + 1000 * 15)
  t.equal(
    cost('claude-sonnet-4-5', { ...claude, input: 200_001 }),
    5001 * 6 + 190_000 * 0.6 + 4000 * 3.75 + 1000 * 6 + 1000 * 22.5,
    'the whole of a request above 200,000 tokens has the prices of that tier'
  )
  t.equal(cost('claude-sonnet-4-5', { input: 200_001, search: 2 }), 200_001 * 6 + 20_000, 'and searches their own')
  t.equal(cost('gpt-audio', { input: 100, audio: 80, output: 50, audioOutput: 40 }), 50 + 80 * 32 + 100 + 40 * 64)
  t.equal(cost('gemini/gemini-2.5-flash', { input: 0, output: 100, audioOutput: 40 }), 250, 'speech as other output')
})

/** Sells by a price list, with bundles of 100 satoshis. */
function shop(
  t: T,
  prices: string,
  upstream: object = {},
  { usage = 'openai', ...more }: Parameters<typeof openMetered>[3] & { readonly usage?: string } = {}
) {
  return openMetered(
    t,
    `unit: token, bundle: 100 sats, usage: ${usage}, prices: { catalog: "${LIST}", ${prices} }, estimate: { else: 50 }`,
    replies(upstream),
    { path: '/v1/chat/completions', ...more }
  )
}

t.test('a model without a price is refused before the 402, in words', async t => {
  const usage = { prompt_tokens: 10_000, prompt_tokens_details: { cached_tokens: 9500 }, completion_tokens: 700 }
  const prices = 'markup: 5%, models: [ gpt-5-mini, gpt-audio ]'
  const { gateway, ask } = await shop(t, prices, { usage }, { body: { model: 'gpt-5-mini' } })
  const send = (body: object) => gateway.send('POST', '/v1/chat/completions', { body })
  const refused = await send({ model: 'claude-sonnet-4-5' })
  t.equal(refused.status, 400)
  t.match(refused.text, 'must be one of \\"gpt-5-mini\\", \\"gpt-audio\\"')
  t.equal(refused.headers['www-authenticate'], undefined)
  t.equal((await send({})).status, 402, 'a probe gets an invoice')
  t.equal((await gateway.send('HEAD', '/v1/chat/completions')).status, 402)
  const mini = { model: 'gpt-5-mini' }
  t.equal((await ask(mini)).status, 200)
  const surcharged: readonly object[] = [
    { service_tier: 'priority' },
    { service_tier: 'SERVICE_TIER_PRIORITY' },
    { service_tier: 3 },
    { serviceTier: 'priority' },
    { inference_geo: 'us' },
    { speed: 'fast' }
  ]
  for (const surcharge of surcharged)
    t.equal((await ask({ ...mini, ...surcharge })).status, 400, JSON.stringify(surcharge))
  const priority = { 'x-vertex-ai-llm-shared-request-type': 'priority' }
  t.equal((await ask(mini, priority)).status, 400, 'its prices are others')
  for (const same of [{ serviceTier: 'SERVICE_TIER_STANDARD', inference_geo: 'global' }, { speed: 1 }])
    t.equal((await ask({ ...mini, ...same })).status, 200, JSON.stringify(same))
  const next = await ask({ model: 'gpt-audio', service_tier: 'auto' })
  t.equal(next.headers['x-last-charged-msat'], String(Math.ceil(1762.5 * 1.05)))
})

t.test('tools that the provider charges for are refused, those without a fee pass', async t => {
  const mini = { model: 'gpt-5-mini' }
  const usage = { prompt_tokens: 1, completion_tokens: 1 }
  const { ask } = await shop(t, 'models: [ gpt-5-mini ]', { usage }, { path: '/v1/responses', body: mini })
  const send = (body: object) => ask({ ...mini, ...body })
  const tools = (...types: readonly string[]) => ({ tools: types.map(type => ({ type, name: 'a', parameters: {} })) })
  const charged: readonly object[] = [
    ...[
      'web_search',
      'web_search_preview_2025_03_11',
      'file_search',
      'code_interpreter',
      'image_generation',
      'shell'
    ].map(type => tools('function', type)),
    tools('web_search_20250305'),
    { tools: [{ type: 'function', Type: 'web_search' }] },
    { tools: { type: 'web_search' } },
    { tools: ['web_search'] },
    { tools: Array.from({ length: 1025 }, () => ({ type: 'function' })) },
    { web_search_options: {} },
    { tools: [{ googleSearch: {} }] },
    { tools: [{ type: 'function', google_maps: {} }] },
    { tools: [{ enterpriseWebSearch: {} }] },
    { plugins: [{ id: 'web' }] },
    { search_parameters: { mode: 'on' } },
    { enable_search: true }
  ]
  for (const body of charged) t.equal((await send(body)).status, 400, JSON.stringify(body))
  t.match((await send(tools('file_search'))).text, 'the provider charges for \\"file_search\\" beside tokens')
  for (const body of [
    tools('function', 'custom', 'mcp', 'local_shell', 'apply_patch', 'computer_use_preview'),
    { tools: [] },
    { tools: null, plugins: null, enable_search: false },
    { tools: [{ name: 'a', input_schema: { properties: { type: { enum: ['web_search'] } } } }] }
  ])
    t.equal((await send(body)).status, 200, JSON.stringify(body))
})

t.test('keys: a refusal has the shape of the API, so that tools show its words; others get the contract’s', async t => {
  const { gateway, ask } = await shop(t, 'models: [ gpt-5-mini ]', {}, { keys: true })
  const { credential: authorization } = await buyKey(gateway)
  for (const [body, words] of [
    [{ tools: [{ type: 'web_search' }] }, /charges for "web_search"/],
    [{ model: 'other' }, /must be one of "gpt-5-mini"/]
  ] as const) {
    const sent = { model: 'gpt-5-mini', ...body }
    const refused = await ask(sent)
    t.equal(refused.status, 400)
    t.match(refused.json(), { error: { type: 'invalid_request_error', message: words } })
    t.match((await ask(sent, { authorization })).json(), { error: 'Price unknown', message: words })
  }
})

t.test('Gemini: tools are members in two spellings, and grounding is refused', async t => {
  const { ask: send } = await shop(
    t,
    'provider: gemini',
    { usageMetadata: { promptTokenCount: 1, totalTokenCount: 2 } },
    {
      usage: 'gemini',
      match: '{ path: "/v1beta/models/:model" }',
      path: '/v1beta/models/gemini-2.5-flash:generateContent'
    }
  )
  for (const name of ['googleSearch', 'google_search', 'googleMaps', 'google_search_retrieval', 'file_search'])
    t.equal((await send({ tools: [{ functionDeclarations: [] }, { [name]: {} }] })).status, 400, name)
  for (const name of ['function_declarations', 'functionDeclarations', 'codeExecution', 'url_context'])
    t.equal((await send({ tools: [{ [name]: {} }] })).status, 200, name)
  const many = Object.fromEntries(Array.from({ length: 32_769 }, (_, index) => [`a${index}`, 1]))
  t.equal((await send({ tools: [many] })).status, 400, 'more members than are read')
})

t.test('web searches of Claude are reserved by `max_uses` and charged by its count, with the markup', async t => {
  const usage = { input_tokens: 100, output_tokens: 10, server_tool_use: { web_search_requests: 2 } }
  const model = { model: 'claude-sonnet-4-5' }
  const { ask } = await shop(
    t,
    'markup: 5%, models: [ claude-sonnet-4-5 ]',
    { type: 'message', usage },
    { usage: 'anthropic', path: '/v1/messages', body: model }
  )
  const send = (body: object) => ask({ ...model, ...body })
  const search = (max_uses?: number) => ({
    max_tokens: 10,
    tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses }]
  })
  // A cent is 10,000 millisatoshis, and the bundle 100,000.
  t.equal((await send(search(9))).status, 200)
  const next = await send({ max_tokens: 10 })
  t.equal(next.headers['x-last-charged-msat'], String(Math.ceil((100 * 3 + 10 * 15 + 2 * 10_000) * 1.05)))
  t.match((await send(search())).text, 'This request may use up to 105385', 'ten are reserved without a limit')
  t.equal((await send(search(9))).status, 402, 'no longer covered')
  t.equal((await send({ tools: [{ type: 'code_execution_20250825', name: 'code_execution' }] })).status, 400)
})

t.test('GET …/models: lists what is sold with prices, for nothing, and without the upstream', async t => {
  const { gateway, ask } = await shop(
    t,
    'markup: 5%, models: [ gpt-5-mini ]',
    { data: ['not sold'] },
    { method: 'GET', path: '/v1/models', keys: true }
  )
  const answer = await gateway.send('GET', '/v1/models')
  t.equal(answer.status, 200)
  t.match(answer.json(), {
    object: 'list',
    data: [
      {
        id: 'gpt-5-mini',
        object: 'model',
        pricing: { per: 1, input: 'USD 0.0000002625', output: 'USD 0.0000021', cached: 'USD 0.00000002625' }
      }
    ]
  })
  t.equal((await gateway.send('POST', '/v1/models', { body: {} })).status, 402)
  t.match((await ask()).json(), { object: 'list' })
  const any = await shop(t, 'else: 1 msat')
  t.equal(
    (await any.gateway.send('GET', '/v1/models')).status,
    402,
    'where any model is sold, the list is the upstream’s'
  )
})

t.test('the configuration: what is wrong with a price list', async t => {
  const folder = t.testdir({ 'models.json': text, 'other.json': '{"a":1}', 'broken.json': '{' })
  const load = async (meter: string) => {
    const yaml = `routes:\n  - match: { path: /v1/* }\n    chain: paid\n    upstream: { url: "http://127.0.0.1:1" }\n    meter: { bundle: 1 sat, usage: openai, ${meter} }\nchains: { paid: [ credential, challenge, meter, forward ] }\n`
    try {
      const { routes } = await loadConfigText(`${folder}/gateway.yaml`, yaml, {})
      return routes[0]?.meter?.catalog?.catalog ?? ''
    } catch (error) {
      if (error instanceof ConfigError) return error.problems.map(({ message }) => message).join('; ')
      throw error
    }
  }
  t.equal(await load('prices: { catalog: models.json }'), `${folder}/models.json`, 'relative to the file')
  for (const [prices, expected, more = ''] of [
    ['missing.json', /cannot be read \(ENOENT\).*boltgate prices update/],
    ['other.json', /no model with prices/],
    ['broken.json', /no model with prices/],
    ['models.json, provider: nowhere', /of the provider "nowhere"/],
    ['models.json, models: [ gpt-5-mni ]', /"gpt-5-mni".*gpt-5-mini/],
    ['models.json, markup: 5', /percentage/],
    ['models.json', /delete per/, 'per: 1000, ']
  ] as const)
    t.match(await load(`${more}prices: { catalog: ${prices} }`), expected, prices)
})
