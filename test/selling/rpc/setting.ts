/** A gateway that sells calls, the JSON-RPC server behind it, and a buyer that pays at the sandbox. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Test as T } from 'tap'
import type { ManualClock } from '../../support/manual-clock.ts'
import { defaultYaml, startGateway, type Answer, type TestGateway } from '../../support/gateway.ts'
import { serve } from '../../support/serve.ts'

/** A message as tests look into it. */
export interface Rpc {
  readonly jsonrpc?: string
  readonly id?: string | number | null
  readonly method?: string
  readonly params?: { readonly name?: string; readonly _meta?: Readonly<Record<string, unknown>> }
  readonly result?: {
    readonly resultType?: string
    readonly isError?: boolean
    readonly structuredContent?: unknown
    readonly content?: ReadonlyArray<{ readonly type: string; readonly text?: string }>
    readonly paymentRequired?: unknown
    readonly said?: unknown
    readonly capabilities?: { readonly experimental?: unknown; readonly tools?: unknown; readonly extensions?: unknown }
    readonly _meta?: Readonly<Record<string, unknown>>
  }
  readonly error?: { readonly code: number; readonly message: string; readonly data?: ErrorData }
  readonly _meta?: Readonly<Record<string, unknown>>
}

/** What an error says of payment. */
export interface ErrorData {
  readonly httpStatus: number
  readonly retryAfter?: number
  readonly challenges?: readonly Challenge[]
  readonly failure?: { readonly reason: string; readonly detail: string }
  readonly problem?: { readonly type: string; readonly challengeId?: string }
}

export interface Challenge {
  readonly id: string
  readonly realm: string
  readonly method: string
  readonly intent: string
  readonly request: {
    readonly amount: string
    readonly currency: string
    readonly methodDetails: { readonly invoice: string; readonly network: string; readonly paymentHash: string }
  }
  readonly expires: string
  readonly digest?: string
}

/** A request as the server received it. */
export interface Received {
  readonly method: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export type Respond = (body: string, response: ServerResponse, request: IncomingMessage) => void | Promise<void>

export interface RpcShop {
  readonly gateway: TestGateway
  readonly received: Received[]
  /** What the server does with its next requests; it echoes by default. */
  respond: Respond
  /** Sends a message, a list of them, or text; the body of the response as JSON. */
  post(message: unknown, headers?: Readonly<Record<string, string>>): Promise<Answer>
  /** The same, with one response expected. */
  call(message: unknown, headers?: Readonly<Record<string, string>>): Promise<Rpc>
  /** Code of the error that a message is answered with; undefined for a result. */
  code(message: unknown, headers?: Readonly<Record<string, string>>): Promise<number | undefined>
  /** Why the credential of a message is refused with -32043; its code for another error. */
  failure(message: unknown, headers?: Readonly<Record<string, string>>): Promise<string | number | undefined>
  /** Asks for a call, pays for it, and gives the credential. */
  buy(message: object): Promise<Credential>
  pay(challenge: Challenge): Promise<Credential>
  /** Other prices, by a reload. */
  reprice(prices: string): Promise<void>
}

export interface Credential {
  readonly challenge: Challenge
  readonly payload: { readonly preimage: string }
}

export const CREDENTIAL = 'org.paymentauth/credential'
export const RECEIPT = 'org.paymentauth/receipt'

/** A request as tests send it. */
export interface Call {
  readonly jsonrpc: '2.0'
  readonly id: string | number
  readonly method: string
  readonly params: object
}

/** A call of a tool. */
export function toolCall(name: string, id: string | number = 1, more: object = {}): Call {
  return { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: { text: 'hi' }, ...more } }
}

/** The same message with a credential in `params._meta`. */
export function paying(message: Call, credential: unknown, more: object = {}): object {
  return { ...message, params: { ...message.params, _meta: { ...more, [CREDENTIAL]: credential } } }
}

/** A result for each request of a body: what it was asked. */
export function results(body: string): string {
  const parsed = JSON.parse(body) as Rpc | Rpc[]
  const each = (message: Rpc) => ({
    jsonrpc: '2.0',
    id: message.id,
    result:
      message.method === 'initialize'
        ? { capabilities: { tools: {} }, serverInfo: { name: 'echo' } }
        : { said: message.params ?? null, content: [] }
  })
  return JSON.stringify(Array.isArray(parsed) ? parsed.filter(({ id }) => id !== undefined).map(each) : each(parsed))
}

const echo: Respond = (body, response) => {
  response.setHeader('Content-Type', 'application/json')
  response.end(results(body))
}

const PRICES = `tools: { cheap: 2 sats, costly: 50 sats, open: 0 }
          resources: { "demo://paid/*": 3 sats }
          prompts: { "*": 4 sats }`

/** Starts the shop; it closes with the test. `prices` are lines of YAML, `route` members of the route. */
export async function openRpcShop(
  t: T,
  {
    prices = PRICES,
    route = '',
    payment = '',
    clock,
    env = {}
  }: {
    prices?: string
    route?: string
    payment?: string
    clock?: ManualClock
    env?: Readonly<Record<string, string>>
  } = {}
): Promise<RpcShop> {
  const received: Received[] = []
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    request.setEncoding('utf8')
    let body = ''
    for await (const piece of request) body += String(piece)
    received.push({ method: request.method ?? '', headers: request.headers, body })
    await shop.respond(body, response, request)
  }
  const server = createServer((request, response) => {
    void take(request, response)
  })
  const port = await serve(t, server)
  const yaml = (listed: string) =>
    defaultYaml({
      replace: [
        [
          'chains:\n',
          `${payment}chains:
  calls:
    - correlation
    - access-log
    - throttle: { policy: global }
    - body-limit
    - mcp:
          ${listed}
`
        ],
        [
          'routes:\n',
          `routes:
  - match: { path: /mcp }
    name: tools
    description: Tools
    chain: calls
    upstream: { url: "http://127.0.0.1:${port}" }
    ${route}
`
        ]
      ]
    })
  const gateway = await startGateway(t, { yaml: yaml(prices), env, ...(clock === undefined ? {} : { clock }) })
  const post: RpcShop['post'] = (message, headers = {}) =>
    gateway.send('POST', '/mcp', {
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers
      },
      body: typeof message === 'string' ? message : JSON.stringify(message)
    })
  const shop: RpcShop = {
    gateway,
    received,
    respond: echo,
    post,
    call: async (message, headers) => (await post(message, headers)).json() as Rpc,
    code: async (message, headers) => (await shop.call(message, headers)).error?.code,
    failure: async (message, headers) => {
      const { error } = await shop.call(message, headers)
      return error?.code === -32043 ? error.data?.failure?.reason : error?.code
    },
    pay: async challenge => ({
      challenge,
      payload: { preimage: await gateway.pay(challenge.request.methodDetails.invoice) }
    }),
    reprice: listed => gateway.reload(yaml(listed)),
    async buy(message) {
      return shop.pay(challengeOf(await shop.call(message)))
    }
  }
  return shop
}

/** The challenge of a response that asks for payment. */
export function challengeOf(response: Rpc): Challenge {
  const challenge = response.error?.data?.challenges?.[0]
  if (challenge === undefined) throw new Error(`no challenge: ${JSON.stringify(response)}`)
  return challenge
}
