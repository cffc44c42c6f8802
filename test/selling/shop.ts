/** A gateway that sells an upstream whose answers are the test's, and a buyer that takes from a balance. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Test as T } from 'tap'
import { addCaveat, decodeMacaroonBase64, encodeMacaroon } from '../../src/lightning/l402/macaroon.ts'
import { decodePaidKey, encodePaidKey } from '../../src/lightning/l402/root-key.ts'
import type { BalanceNow } from '../../src/selling/balances/balance.ts'
import { BalanceStore } from '../../src/selling/balances/store.ts'
import { defaultYaml, paidFor, startGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts'
import { eventually, unshed } from '../support/gateway-process.ts'
import { serve } from '../support/serve.ts'

export type Respond = (request: IncomingMessage, response: ServerResponse) => unknown

export const JSON_TYPE = { 'content-type': 'application/json' }
export const STREAM_TYPE = { 'content-type': 'text/event-stream' }
export const SWITCHING = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'

/** Answers with this body, an object as JSON. */
export function replies(body: string | object, headers: Readonly<Record<string, string>> = JSON_TYPE): Respond {
  return (_request, response) =>
    response.writeHead(200, headers).end(typeof body === 'string' ? body : JSON.stringify(body))
}

/** A server whose answers are decided by the test. */
export interface Upstream {
  readonly url: string
  /** Method and target of each. */
  readonly requests: string[]
  /** Head of the last request. */
  headers: IncomingMessage['headers']
  /** Responses and tunnels that are not over. */
  open: number
  answer: Respond
  upgrade: (socket: Socket, request: IncomingMessage) => unknown
}

export async function startUpstream(t: T, answer?: Respond): Promise<Upstream> {
  const opened = (closing: ServerResponse | Socket): void => {
    upstream.open++
    closing.on('close', () => upstream.open--)
    closing.on('error', () => undefined)
  }
  const server = createServer((request, response) => {
    upstream.requests.push(`${request.method ?? ''} ${request.url ?? ''}`)
    upstream.headers = request.headers
    opened(response)
    request.resume()
    upstream.answer(request, response)
  }).on('upgrade', (request, socket: Socket) => {
    opened(socket)
    upstream.upgrade(socket, request)
  })
  const upstream: Upstream = {
    url: `http://127.0.0.1:${await serve(t, server)}`,
    requests: [],
    headers: {},
    open: 0,
    answer: answer ?? ((request, response) => replies({ served: upstream.requests.length })(request, response)),
    upgrade: socket =>
      socket
        .on('end', () => socket.end())
        .resume()
        .write(SWITCHING)
  }
  return upstream
}

/** The default deployment with a paid route before its own. `upstream` is YAML or an address. */
export function routeYaml(upstream: string, route: string, match = '{ path: /v1/* }'): string {
  const to = upstream.startsWith('{') ? upstream : `{ url: "${upstream}" }`
  const lines = `routes:\n  - match: ${match}\n    chain: paid\n    upstream: ${to}\n    ${route}\n`
  return defaultYaml({ replace: [['routes:\n', lines]] })
}

interface MeteredOptions extends TestGatewayOptions {
  /** Address of another upstream. */
  readonly upstream?: string
  /** Further settings of the upstream. */
  readonly more?: string
  /** Settings of the section `server`. */
  readonly server?: string
  /** In YAML. */
  readonly match?: string
  readonly path?: string
  readonly method?: string
  /** What the 402 is asked for with. */
  readonly body?: object
  readonly scheme?: 'l402' | 'payment'
  /** Buys a key, which pays for every path. */
  readonly keys?: boolean
}

/** Sells by `meter`, members in YAML, and buys a bundle. */
export async function openMetered(
  t: T,
  meter: string,
  answer?: Respond,
  {
    upstream: given,
    more = '',
    server = '',
    match,
    path = '/v1/a',
    method = 'POST',
    body,
    scheme,
    keys = false,
    ...options
  }: MeteredOptions = {}
) {
  const upstream = await startUpstream(t, answer)
  const yaml = routeYaml(
    `{ url: "${given ?? upstream.url}"${more} }`,
    `meter: { ${meter} }\n    keys: ${keys}`,
    match
  ).replace('server:\n', `server:\n  ${server}\n`)
  const gateway = unshed(await startGateway(t, { yaml, ...options }))
  const authorization = keys
    ? `Bearer ${(await buyKey(gateway)).key}`
    : await paidFor(gateway, await gateway.send(method, path, body && { body }), scheme)
  const store = new BalanceStore(gateway.database)
  const when = <R>(what: string, find: (one: BalanceNow) => Promise<R | null> | R | null): Promise<R> =>
    eventually(what, async () => {
      const [one] = await store.list({ skip: 0, take: 1 })
      return one === undefined ? null : await find(one)
    })
  return {
    gateway,
    upstream,
    store,
    authorization,
    /** Sends a paid request. */
    ask: (sent: object | string | null = null, headers: Readonly<Record<string, string>> = {}, at = path) =>
      gateway.send(method, at, { headers: { authorization, ...headers }, body: sent }),
    balance: async () =>
      // As its document says.
      (await gateway.send('GET', '/l402/balance', { headers: { authorization } })).json() as {
        balanceMsat: number
        reservedMsat: number
      },
    /** The last entry of the only balance, once that much is spent of it. */
    spent: (msat: number) =>
      when(`${msat} millisatoshis are spent`, async ({ id, spentMsat }) =>
        spentMsat === msat ? ((await store.entries(id, { skip: 0, take: 1 }))[0] ?? null) : null
      ),
    /** The only balance, once that much of it is reserved. */
    reserved: (msat: number) =>
      when(`${msat} millisatoshis are reserved`, one => (one.reservedMsat === msat ? one : null))
  }
}

export type MeteredShop = Awaited<ReturnType<typeof openMetered>>

/** Buys a key; its `credential` is that of the payment. */
export async function buyKey(gateway: TestGateway, body: object = {}): Promise<{ key: string; credential: string }> {
  const credential = await paidFor(gateway, await gateway.send('POST', '/l402/keys', { body }))
  const bought = await gateway.send('POST', '/l402/keys', { body, headers: { authorization: credential } })
  if (bought.status !== 201) throw new Error(bought.text)
  return { key: (bought.json() as { key: string }).key, credential }
}

/** Narrows a key as its holder does, without the gateway. */
export function narrowed(key: string, ...caveats: string[]): string {
  const { proof, macaroon } = decodePaidKey(key) ?? { proof: '', macaroon: '' }
  return encodePaidKey(
    Buffer.from(proof, 'hex'),
    encodeMacaroon(caveats.reduce(addCaveat, decodeMacaroonBase64(macaroon)))
  )
}
