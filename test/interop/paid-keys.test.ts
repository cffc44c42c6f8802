/** The clients of OpenAI and Anthropic as published, with a base URL and a paid key alone. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { json } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { startModelServer } from '../fakes/model.ts'
import { defaultYaml, startGateway, type TestGateway, paidFor } from '../support/gateway.ts'
import { serve } from '../support/serve.ts'

/** As much of the packages as is used; they are installed in a folder of their own, unknown to the type checker. */
interface ClientModule {
  readonly default: new (options: {
    readonly baseURL: string
    readonly apiKey: string
    readonly maxRetries: number
  }) => {
    readonly chat: { readonly completions: { create(input: object): Promise<AsyncIterable<unknown>> } }
    readonly messages: { create(input: object): Promise<{ readonly content: unknown }> }
  }
}

/** What a coding tool sent, but for its key. */
interface Recorded {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: { readonly max_tokens: number }
}

const own = createRequire(new URL('openai/package.json', import.meta.url))

function pathOf(name: string) {
  try {
    return own.resolve(name)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') return null
    throw error
  }
}

async function clientOf(path: string | null) {
  // A path that is computed gives an unknown module; the interface above says what is in it.
  return (await import(pathToFileURL(path ?? '').href)) as ClientModule
}

function route(path: string, url: string, usage: string) {
  return `routes:
  - match: { path: ${path}, method: POST }
    chain: paid
    upstream: { url: "${url}" }
    meter: { unit: token, bundle: 40 sats, prices: { input: 20 msat, output: 20 msat }, usage: ${usage}, estimate: { input: 10, else: 20 } }
    keys: true
`
}

async function buyKey(gateway: TestGateway, amount: number) {
  const authorization = await paidFor(gateway, await gateway.send('POST', '/l402/keys', { body: { amount } }))
  const bought = await gateway.send('POST', '/l402/keys', { headers: { authorization } })
  return (bought.json() as { key: string }).key
}

async function refusal(call: Promise<unknown>) {
  try {
    await call
  } catch (error) {
    if (error instanceof Error && 'status' in error) return { status: error.status, message: error.message }
    throw error
  }
  throw new Error('the call was not refused')
}

const openai = pathOf('openai')
const anthropic = pathOf('@anthropic-ai/sdk')
const skip = openai === null || anthropic === null ? 'run npm ci --prefix test/interop/openai' : false

t.test("paid keys: OpenAI's client streams with one, and shows why it is refused", { skip }, async t => {
  const { default: OpenAi } = await clientOf(openai)
  const model = await startModelServer(t)
  const yaml = defaultYaml({ replace: [['routes:\n', route('/v1/chat/completions', model.url, 'openai')]] })
  const gateway = await startGateway(t, { yaml })
  const key = await buyKey(gateway, 2)
  const client = new OpenAi({ baseURL: `${gateway.url}/v1`, apiKey: key, maxRetries: 0 })
  const input = { model: 'small', max_tokens: 20, messages: [{ role: 'user', content: 'Hello' }] }
  let pieces = 0
  for await (const piece of await client.chat.completions.create({ ...input, stream: true }))
    if (piece !== null) pieces++
  t.ok(pieces > 0, 'a stream')
  let last = { status: 0 as unknown, message: '' }
  for (let call = 0; call < 20 && last.status !== 402; call++)
    last = await refusal(
      client.chat.completions.create(input).then(() => Promise.reject(Object.assign(new Error(), { status: 200 })))
    )
  t.equal(last.status, 402)
  t.match(last.message, /balance.*used up.*\/l402\/keys/s)
  const wrong = new OpenAi({ baseURL: `${gateway.url}/v1`, apiKey: `${key.slice(0, -4)}AAAA`, maxRetries: 0 })
  t.match(await refusal(wrong.chat.completions.create(input)), { status: 401, message: /Invalid macaroon signature/ })
})

t.test("paid keys: Anthropic's client sends one as x-api-key, and shows why it is refused", { skip }, async t => {
  const { default: Anthropic } = await clientOf(anthropic)
  const upstream = createServer((request, response) => {
    request.resume().on('end', () => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify({
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          model: 'small',
          content: [{ type: 'text', text: 'Hello!' }],
          stop_reason: 'end_turn',
          usage: { input_tokens: 30, output_tokens: 20 }
        })
      )
    })
  })
  const url = `http://127.0.0.1:${await serve(t, upstream)}`
  const yaml = defaultYaml({ replace: [['routes:\n', route('/v1/messages', url, 'anthropic')]] })
  const gateway = await startGateway(t, { yaml })
  const client = new Anthropic({ baseURL: gateway.url, apiKey: await buyKey(gateway, 1), maxRetries: 0 })
  const input = { model: 'small', max_tokens: 20, messages: [{ role: 'user', content: 'Hello' }] }
  t.match(await client.messages.create(input), { content: [{ text: 'Hello!' }] })
  t.match(await refusal(client.messages.create(input)), { status: 402, message: /insufficient_quota.*used up/s })
})

t.test(
  'paid keys: a coding tool, whose request was recorded, streams with one and gets words that it shows',
  async t => {
    const { method, path, headers, body } = JSON.parse(
      readFileSync(new URL('qwen-code.json', import.meta.url), 'utf8')
    ) as Recorded
    const received: Array<{ readonly headers: string; readonly body: unknown }> = []
    const upstream = createServer((request, response) => {
      const answer = async () => {
        received.push({ headers: JSON.stringify(request.headers), body: await json(request) })
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        const usage = { prompt_tokens: 30, completion_tokens: 20 }
        for (const event of [{ choices: [{ index: 0, delta: { content: 'Hello!' } }] }, { choices: [], usage }])
          response.write(`data: ${JSON.stringify(event)}\n\n`)
        response.end('data: [DONE]\n\n')
      }
      void answer()
    })
    const url = `http://127.0.0.1:${await serve(t, upstream)}`
    const gateway = await startGateway(t, {
      yaml: defaultYaml({ replace: [['routes:\n', route('/v1/chat/completions', url, 'openai')]] })
    })
    const ask = (key: Readonly<Record<string, string>>) =>
      gateway.send(method, path, { headers: { ...headers, ...key }, body })
    // It reserves for as many tokens as the tool allows the model.
    const key = await buyKey(gateway, Math.ceil((body.max_tokens * 20 + 3_000) / 1000))
    for (const spelling of [
      { authorization: `Bearer ${key}` },
      { 'x-api-key': key },
      { authorization: `Bearer ${key}`, 'x-api-key': key }
    ]) {
      const answer = await ask(spelling)
      t.equal(answer.status, 200, answer.text)
      t.match(answer.text, 'data: [DONE]')
    }
    t.notMatch(received, [{ headers: /bg_/ }], 'the upstream never sees the key')
    t.same(received[0]?.body, body, 'and the body unchanged')
    const refused = await ask({ authorization: `Bearer ${key}` })
    t.equal(refused.status, 402)
    t.match(refused.json(), { error: { type: 'insufficient_quota', message: /used up.*\/l402\/keys/s } })
    t.equal(received.length, 3)
  }
)
