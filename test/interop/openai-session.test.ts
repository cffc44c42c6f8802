/** The client of OpenAI as published, streaming from a route that a prepaid session pays for. */
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { openShop } from '../selling/sessions/fixture.ts'
import type { Respond } from '../selling/shop.ts'

interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string } }[]
}
/** As much of the package as is used; it is installed in a folder of its own, unknown to the type checker. */
interface OpenAiModule {
  readonly default: new (options: object) => {
    readonly chat: {
      readonly completions: {
        create(input: object): Promise<AsyncIterable<Chunk>>
        stream(input: object): { finalContent(): Promise<string | null> }
      }
    }
  }
}

function openAiPath() {
  try {
    return createRequire(new URL('openai/package.json', import.meta.url)).resolve('openai')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') return null
    throw error
  }
}

const path = openAiPath()
const skip = path === null ? 'openai is not installed: run npm ci --prefix test/interop/openai' : false

t.test("OpenAI's client: reads a stream whole that has the session's receipt in it", { skip }, async t => {
  // A path that is computed gives an unknown module; the interface above says what is in it.
  const { default: OpenAi } = (await import(pathToFileURL(path ?? '').href)) as OpenAiModule
  const answer: Respond = (_request, response) => {
    response.setHeader('content-type', 'text/event-stream')
    const chunk = (delta: object, finish: string | null = null) =>
      `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
    response.end(
      chunk({ role: 'assistant', content: '' }) + chunk({ content: 'Hi' }) + chunk({}, 'stop') + 'data: [DONE]\n\n'
    )
  }
  const shop = await openShop(t, undefined, { answer })
  const { bearer } = await shop.open()
  const openai = new OpenAi({
    baseURL: `${shop.gateway.url}/v1`,
    apiKey: 'none',
    maxRetries: 0,
    defaultHeaders: { Authorization: bearer }
  })
  const input = { model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: true }
  let text = ''
  let chunks = 0
  for await (const { choices } of await openai.chat.completions.create(input)) {
    chunks++
    text += choices[0]?.delta.content ?? ''
  }
  t.same([text, chunks], ['Hi', 4], 'three chunks and the receipt')
  t.equal(await openai.chat.completions.stream(input).finalContent(), 'Hi')
})
