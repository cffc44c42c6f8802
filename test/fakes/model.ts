/** A server that speaks OpenAI's chat completions, JSON and streamed, and counts usage independently. */
import { setTimeout, setImmediate } from 'node:timers/promises'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import type { Test as T } from 'tap'
import { serve } from '../support/serve.ts'

/** What the server counts of one request. */
export interface ModelCall {
  /** Correlation id that the gateway sent on, or none. */
  readonly request: string
  readonly model: string
  readonly prompt: number
  readonly completion: number
  readonly acceptEncoding: string | undefined
}

/** The server under test's feet. */
export interface ModelServer {
  readonly url: string
  readonly calls: ModelCall[]
  /** Requests are answered once it has resolved. */
  gate: Promise<void>
  /** Milliseconds that each answer takes at most, by chance. */
  pause: number
}

interface ChatInput {
  readonly model: string
  readonly messages: ReadonlyArray<{ readonly content: string }>
  readonly max_tokens?: number
  readonly stream?: boolean
  readonly stream_options?: { readonly include_usage?: boolean }
}

async function jsonOf(request: IncomingMessage): Promise<ChatInput> {
  request.setEncoding('utf8')
  let text = ''
  for await (const piece of request) text += String(piece)
  // Tests send what the type says.
  return JSON.parse(text) as ChatInput
}

/**
 * Begins it. The first message selects special behavior: `fail` answers 500, `refuse` 400, `silent` says
 * no usage, `empty` nothing at all, `break` ends in the middle, `hang` stops in the middle, `gzip` compresses, `long`
 * has a completion of 40 KiB, `deaf` has 100 tokens whatever was asked for.
 */
export async function startModelServer(t: T): Promise<ModelServer> {
  const calls: ModelCall[] = []
  const model: ModelServer = { url: '', calls, gate: Promise.resolve(), pause: 0 }
  const server = createServer((request, response) => {
    void answer(request, response, model)
  })
  // On a machine that stalls for seconds a request would meet the end of its idle connection.
  server.keepAliveTimeout = 0
  return Object.assign(model, { url: `http://127.0.0.1:${await serve(t, server)}` })
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { calls, gate, pause }: ModelServer
): Promise<void> {
  // `boltgate init` calls the upstream that it is given.
  if (request.method !== 'POST') {
    response.writeHead(404).end()
    return
  }
  const input = await jsonOf(request)
  await gate
  if (pause > 0) await setTimeout(Math.random() * pause)
  const said = input.messages[0]?.content ?? ''
  if (said === 'fail' || said === 'refuse') {
    response
      .writeHead(said === 'fail' ? 500 : 400, { 'content-type': 'application/json' })
      .end('{"error":{"message":"no"}}')
    return
  }
  if (said === 'empty') {
    response.writeHead(200, { 'content-length': '0' }).end()
    return
  }
  const prompt = input.messages.reduce((sum, { content }) => sum + content.length, 0)
  const completion = said === 'deaf' ? 100 : Math.min(input.max_tokens ?? 4096, 5 + (calls.length % 7))
  calls.push({
    request: String(request.headers['x-correlation-id'] ?? ''),
    model: input.model,
    prompt,
    completion,
    acceptEncoding: request.headers['accept-encoding']
  })
  const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  const common = { id: `chatcmpl-${calls.length}`, created: 0, model: input.model }
  if (input.stream === true) {
    await stream(
      response,
      said,
      { ...common, object: 'chat.completion.chunk' },
      completion,
      input.stream_options?.include_usage === true && said !== 'silent' ? usage : null
    )
    return
  }
  const content = said === 'long' ? 'usage": {"x":1} "usage"'.repeat(2_000) : 'x '.repeat(completion)
  const body = JSON.stringify({
    ...common,
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    ...(said === 'silent' ? {} : { usage }),
    system_fingerprint: 'fp'
  })
  if (said === 'gzip') {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(gzipSync(body))
    return
  }
  response
    .writeHead(200, { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) })
    .end(body)
}

async function stream(
  response: ServerResponse,
  said: string,
  common: object,
  completion: number,
  usage: object | null
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = (data: object): void => {
    response.write(`data: ${JSON.stringify(data)}\n\n`)
  }
  for (let token = 0; token < completion; token++) {
    send({ ...common, choices: [{ index: 0, delta: { content: 'x ' }, finish_reason: null }], usage: null })
    if (token === 1 && said === 'hang') return
    if (token === 1 && said === 'break') {
      await setImmediate()
      response.destroy()
      return
    }
  }
  if (usage !== null) send({ ...common, choices: [], usage })
  response.end('data: [DONE]\n\n')
}

export interface TroubledModel {
  readonly url: string
  readonly requests: Array<{ readonly headers: IncomingHttpHeaders; readonly body: string }>
}

/** A server that always limits (429), fails (500), hangs after the head of its response, or has no trouble. */
export async function startTroubledModel(t: T, trouble: 'limit' | 'fail' | 'hang' | 'none'): Promise<TroubledModel> {
  const requests: TroubledModel['requests'] = []
  const server = createServer(async (request, response) => {
    request.setEncoding('utf8')
    let body = ''
    for await (const piece of request) body += String(piece)
    requests.push({ headers: request.headers, body })
    if (trouble === 'none') response.end(`served ${request.url}`)
    else if (trouble === 'hang') response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    else response.writeHead(trouble === 'limit' ? 429 : 500, { 'retry-after': '7' }).end('{"error":{"message":"no"}}')
  })
  return { url: `http://127.0.0.1:${await serve(t, server)}`, requests }
}
