import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { Test as T } from 'tap'
import { Merchants } from '../../src/accounts/merchants/service.ts'
import { MerchantStore } from '../../src/accounts/merchants/store.ts'
import { TokenKeyRing } from '../../src/lightning/l402/root-key.ts'
import { systemClock } from '../../src/platform/system/clock.ts'
import { KeyRing, Sealer, Secret } from '../../src/platform/keys/secrets.ts'
import {
  defaultYaml,
  startGateway,
  type Answer,
  type TestGateway,
  type TestGatewayOptions
} from '../support/gateway.ts'
import { RawClient, type RawResponse } from '../support/raw-client.ts'
import { serve } from '../support/serve.ts'

/** An HTTP server of the test's own that notes every request it is given. */
export interface CountingUpstream {
  readonly origin: string
  readonly port: number
  /** Method and target of every request, in order. */
  readonly hits: string[]
  readonly requests: IncomingMessage[]
}

/** Starts an upstream; it says `sold` unless given another response. */
export async function countingUpstream(
  t: T,
  answer: RequestListener = (_req, res) => {
    res.end('sold')
  }
): Promise<CountingUpstream> {
  const hits: string[] = []
  const requests: IncomingMessage[] = []
  const server = createServer((req, res) => {
    hits.push(`${req.method} ${req.url}`)
    requests.push(req)
    answer(req, res)
  })
  const port = await serve(t, server)
  return { origin: `http://127.0.0.1:${port}`, port, hits, requests }
}

/** The default deployment, selling `/paid/*` of an upstream for `price` satoshis. */
export function shopYaml(
  origin: string,
  more: {
    readonly price?: number
    readonly route?: string
    readonly replace?: ReadonlyArray<readonly [string, string]>
    readonly policies?: string
  } = {}
): string {
  const route = `routes:\n  - match: { path: /paid/* }\n    price: ${more.price ?? 7} sats\n    chain: paid\n    upstream: { url: "${origin}" }\n${more.route ?? ''}`
  return defaultYaml({
    replace: [['routes:\n', route], ...(more.replace ?? [])],
    ...(more.policies === undefined ? {} : { policies: more.policies })
  })
}

/** A gateway in front of a counting upstream, with the keys that it signs with. */
export interface Shop {
  readonly gateway: TestGateway
  readonly upstream: CountingUpstream
  readonly master: string
  /** The gateway's own root keys, to make tokens that only a defect of ours could issue. */
  readonly keys: TokenKeyRing
  readonly merchants: Merchants
  /** Makes a second account that can sell, and answers its API key. */
  otherMerchant(): Promise<{ readonly id: number; readonly apiKey: string }>
  /** Puts a merchant's proxy in front of the upstream; answers its path, `/l402/proxy/<id>`. */
  proxy(settings?: object, apiKey?: string): Promise<{ readonly id: string; readonly path: string }>
  /**
   * One request with the target exactly as written, on a connection of its own: none of the client's own is kept or
   * reused.
   */
  alone(method: string, target: string, headers?: Readonly<Record<string, string>>, body?: string): Promise<Answer>
  /** One request byte for byte as written, on a connection of its own. */
  raw(lines: readonly string[], body?: string | Uint8Array): Promise<RawResponse>
}

/** Starts a shop. */
export async function openShop(
  t: T,
  options: TestGatewayOptions & { readonly upstream?: CountingUpstream; readonly master?: string } = {}
): Promise<Shop> {
  const upstream = options.upstream ?? (await countingUpstream(t))
  const master = options.master ?? randomBytes(32).toString('hex')
  const gateway = await startGateway(t, {
    ...options,
    yaml: options.yaml ?? shopYaml(upstream.origin),
    env: { BOLTGATE_SECRET: master, ...options.env }
  })
  const merchants = new Merchants({
    store: new MerchantStore(gateway.database),
    sealer: new Sealer(new KeyRing(new Secret(master), [])),
    clock: options.clock ?? systemClock,
    plans: () => ({
      free: { endpoints: 3, challengesPerMonth: 200, maxPriceSats: 1000, webhookEndpoints: 1 },
      individual: { webhookEndpoints: 5 },
      l402: { webhookEndpoints: 5 }
    })
  })
  const port = Number(new URL(gateway.url).port)
  const raw: Shop['raw'] = async (lines, body) => {
    const client = await RawClient.connect(port)
    try {
      client.send(`${lines.join('\r\n')}\r\n\r\n`)
      if (body !== undefined) client.send(body)
      return await client.response(lines[0]?.split(' ')[0] ?? 'GET')
    } finally {
      client.close()
    }
  }
  return {
    gateway,
    upstream,
    master,
    keys: new TokenKeyRing(Buffer.from(master)),
    merchants,
    async otherMerchant() {
      const { merchant, apiKey } = await merchants.create({
        name: 'Other',
        email: `other-${randomBytes(4).toString('hex')}@example.com`,
        tier: 'individual',
        flags: { l402Enabled: true },
        primaryApiKey: new Secret('sandbox-other-key')
      })
      return { id: merchant.id, apiKey: apiKey.reveal() }
    },
    async proxy(settings = {}, apiKey = gateway.merchant.apiKey) {
      const answer = await gateway.send('POST', '/api/proxy', {
        headers: { 'x-api-key': apiKey },
        body: { name: 'Shop', targetBaseUrl: upstream.origin, defaultPriceSats: 5, ...settings }
      })
      if (answer.status !== 201) throw new Error(`no proxy: ${answer.status} ${answer.text}`)
      const { proxyId } = answer.json() as { proxyId: string }
      return { id: proxyId, path: `/l402/proxy/${proxyId}` }
    },
    raw,
    async alone(method, target, headers = {}, body = '') {
      const length = body === '' ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
      const answer = await raw(
        [
          `${method} ${target} HTTP/1.1`,
          `Host: 127.0.0.1:${port}`,
          ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
          ...length
        ],
        Buffer.from(body)
      )
      return answerOf(answer)
    }
  }
}

/** An answer from the wire in the shape of the client's. */
export function answerOf(raw: RawResponse): Answer {
  const headers: Record<string, string | string[]> = {}
  for (let at = 0; at < raw.headers.length; at += 2) {
    const name = raw.headers[at]?.toLowerCase() ?? ''
    const value = raw.headers[at + 1] ?? ''
    const before = headers[name]
    headers[name] = before === undefined ? value : [before, value].flat()
  }
  return { status: raw.status, headers, text: raw.body, json: () => JSON.parse(raw.body) as unknown }
}

/** What a refusal must look like. */
export interface Expected {
  readonly status: number
  /** Members of the JSON body. */
  readonly body?: object
  /** X-L402-Error; null when it must not be there. */
  readonly l402Error?: string | RegExp | null
  /** The last part of a problem's type. */
  readonly problem?: string
  /** A fresh challenge for both schemes. */
  readonly challenges?: boolean
}

/** Shows a credential, and checks the answer against what the contract says, and that nothing reached the upstream. */
export async function refuses(
  t: T,
  { gateway, upstream, alone }: Pick<Shop, 'gateway' | 'upstream' | 'alone'>,
  name: string,
  authorization: string,
  expected: Expected,
  at = '/paid/item',
  { method = 'GET', body, isAlone = false }: { method?: string; body?: string; isAlone?: boolean } = {}
): Promise<void> {
  const before = upstream.hits.length
  const answer = isAlone
    ? await alone(method, at, { authorization })
    : await gateway.send(method, at, { headers: { authorization }, ...(body === undefined ? {} : { body }) })
  t.equal(answer.status, expected.status, `${name}: status (${answer.text.slice(0, 200)})`)
  if (expected.body !== undefined) t.match(answer.json(), expected.body, `${name}: body`)
  if (expected.l402Error === null) t.equal(answer.headers['x-l402-error'], undefined, `${name}: no X-L402-Error`)
  else if (expected.l402Error !== undefined)
    t.match(answer.headers['x-l402-error'], expected.l402Error, `${name}: X-L402-Error`)
  if (expected.problem !== undefined) {
    t.match(answer.headers['content-type'], /^application\/problem\+json/, `${name}: a problem`)
    t.match(
      answer.json(),
      { type: `https://paymentauth.org/problems/${expected.problem}`, status: expected.status },
      `${name}: its type`
    )
  }
  if (answer.status === 402) {
    const lines = [answer.headers['www-authenticate'] ?? []].flat()
    const order = !/problem/.test(String(answer.headers['content-type']))
      ? [/^L402 macaroon="/, /^Payment id="/]
      : [/^Payment id="/, /^L402 macaroon="/]
    t.match(lines, order, `${name}: a fresh challenge for each scheme, first for the one that was tried`)
    t.equal(answer.headers['cache-control'], 'no-store', `${name}: not stored`)
  } else if (expected.challenges !== true) {
    t.equal(answer.headers['www-authenticate'], undefined, `${name}: no challenge, since no client pays on it`)
  }
  t.equal(answer.headers['x-l402-proxy'], undefined, `${name}: says nothing of an upstream`)
  t.equal(upstream.hits.length, before, `${name}: nothing reached the upstream`)
}
