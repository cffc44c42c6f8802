import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Test as T } from 'tap'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import { JobTable } from '../../../src/platform/jobs/table.ts'
import { readChallengeLine } from '../../../src/app/commands/mint.ts'
import type { InvoiceNetwork } from '../../../src/lightning/codecs/bolt11.ts'
import { SessionStore, type PrepaidSession } from '../../../src/selling/sessions/store.ts'
import {
  defaultYaml,
  startGateway,
  type Answer,
  type TestGateway,
  type TestGatewayOptions
} from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import type { ManualClock } from '../../support/manual-clock.ts'
import { serve } from '../../support/serve.ts'
import { newInvoice } from '../../support/invoices.ts'

/** What clients echo of a challenge. */
export type Echo = Readonly<Record<string, string>>

/** The challenge of a session in a 402, and what it says. */
export interface SessionOffer {
  readonly challenge: Echo
  readonly request: Readonly<Record<string, string>>
}

/** An invoice that leaves the amount to its payer. */
export function returnInvoice(
  more: { amountMsat?: bigint | null; network?: InvoiceNetwork; at?: number; expirySeconds?: number } = {}
): string {
  return newInvoice({ amountMsat: null, expirySeconds: 30 * 86_400, ...more }).invoice
}

/** Value of Authorization. */
export function token(challenge: object, payload: object): string {
  return `Payment ${Buffer.from(JSON.stringify({ challenge, payload })).toString('base64url')}`
}

/** All challenges of the Payment scheme in a 402, in their order, by intent. */
export function paymentLines(answer: Pick<Answer, 'headers'>): ReadonlyArray<{ intent: string; parameters: Echo }> {
  const lines = answer.headers['www-authenticate'] ?? []
  return (Array.isArray(lines) ? lines : [lines]).flatMap(line => {
    const read = readChallengeLine(line)
    if (read?.scheme !== 'payment') return []
    const parameters = Object.fromEntries(read.parameters)
    return [{ intent: parameters['intent'] ?? '', parameters }]
  })
}

/** The session's challenge of a 402; throws where there is none. */
export function offerOf(answer: Pick<Answer, 'headers' | 'status'>): SessionOffer {
  const line = paymentLines(answer).find(({ intent }) => intent === 'session')
  if (line === undefined) throw new Error(`a ${answer.status} without the challenge of a session`)
  const { parameters } = line
  const request = JSON.parse(Buffer.from(parameters['request'] ?? '', 'base64url').toString()) as Record<string, string>
  return { challenge: parameters, request }
}

/** A server whose answers are decided by the test. */
export interface Upstream {
  readonly url: string
  readonly requests: string[]
  answer: (request: IncomingMessage, response: ServerResponse) => void
}

export async function startUpstream(t: T): Promise<Upstream> {
  const upstream: { url: string; requests: string[]; answer: Upstream['answer'] } = {
    url: '',
    requests: [],
    answer: (_request, response) => {
      response.setHeader('content-type', 'application/json')
      response.end(`{"served":${upstream.requests.length}}`)
    }
  }
  const server = createServer((request, response) => {
    upstream.requests.push(`${request.method ?? ''} ${request.url ?? ''}`)
    request.resume()
    upstream.answer(request, response)
  })
  const port = await serve(t, server)
  upstream.url = `http://127.0.0.1:${port}`
  return upstream
}

/** A gateway that sells sessions at `/v1/*`, for two satoshis a unit. */
export interface Shop {
  readonly gateway: TestGateway
  readonly upstream: Upstream
  readonly store: SessionStore
  readonly balances: BalanceStore
  get(authorization?: string, path?: string, headers?: Record<string, string>): Promise<Answer>
  /** Asks without a credential. */
  ask(path?: string): Promise<SessionOffer>
  /** Pays for a deposit, of which the credentials are not shown yet. */
  deposit(more?: { invoice?: string; path?: string }): Promise<Deposited>
  /** Pays for another deposit; its credential. */
  topUp(sessionId: string): Promise<string>
  /** As `deposit`, and opens a session with it. */
  open(more?: { invoice?: string; path?: string }): Promise<Opened>
}

/** A deposit that was paid, with the values of Authorization for its session. */
export interface Deposited {
  readonly id: string
  readonly preimage: string
  readonly open: string
  readonly bearer: string
  readonly close: string
}

/** The session that it opened. */
export interface Opened extends Deposited {
  readonly answer: Answer
}

export function sessionYaml(
  url: string,
  route = 'price: 2 sats\n    sessions: { deposit: 100 sats, idle: 5m, unit: chunk }'
): string {
  return defaultYaml({
    replace: [
      [
        'routes:\n',
        `routes:\n  - match: { path: /v1/* }\n    chain: paid\n    upstream: { url: "${url}" }\n    ${route}\n`
      ]
    ]
  })
}

export async function openShop(
  t: T,
  route?: string,
  options: TestGatewayOptions & { readonly upstream?: Upstream } = {}
): Promise<Shop> {
  const upstream = options.upstream ?? (await startUpstream(t))
  const gateway = await startGateway(t, { ...options, yaml: options.yaml ?? sessionYaml(upstream.url, route) })
  const get: Shop['get'] = (authorization, path = '/v1/a', headers = {}) =>
    gateway.send('GET', path, {
      headers: { ...(authorization === undefined ? {} : { authorization }), ...headers }
    })
  const ask: Shop['ask'] = async path => offerOf(await get(undefined, path))
  const deposit: Shop['deposit'] = async ({
    invoice = returnInvoice({ at: options.clock?.now() ?? Date.now() }),
    path
  } = {}) => {
    const { challenge, request } = await ask(path)
    const preimage = await gateway.pay(request['depositInvoice'] ?? '')
    const id = request['paymentHash'] ?? ''
    const proof = { sessionId: id, preimage }
    return {
      id,
      preimage,
      open: token(challenge, { action: 'open', preimage, returnInvoice: invoice }),
      bearer: token(challenge, { action: 'bearer', ...proof }),
      close: token(challenge, { action: 'close', ...proof })
    }
  }
  return {
    gateway,
    upstream,
    store: new SessionStore(gateway.database),
    balances: new BalanceStore(gateway.database),
    get,
    ask,
    deposit,
    topUp: async sessionId => {
      const { challenge, request } = await ask()
      const topUpPreimage = await gateway.pay(request['depositInvoice'] ?? '')
      return token(challenge, { action: 'topUp', sessionId, topUpPreimage })
    },
    open: async more => {
      const deposited = await deposit(more)
      return { ...deposited, answer: await get(deposited.open, more?.path) }
    }
  }
}

/** What the gateway counted of sessions and of deposits that paid challenges; zeros are left out. */
export async function countedOf({ gateway }: Shop): Promise<string[]> {
  const { text } = await gateway.adminSend('GET', '/metrics')
  return text.split('\n').filter(line => /^boltgate_(?:session|payments_total|satoshis_earned).* [1-9]/.test(line))
}

/** The receipt of an answer. */
export function receiptOf(answer: Answer): unknown {
  const value = answer.headers['payment-receipt']
  return typeof value === 'string' ? JSON.parse(Buffer.from(value, 'base64url').toString()) : null
}

/**
 * The session as it is once the gateway has closed it after its idle time and paid it back. Time is paused while it is
 * paid: a gateway that finds a minute gone between its row and its request sends nothing.
 */
export async function paidBackAtRest(
  { store, gateway }: Shop,
  clock: ManualClock,
  id: string
): Promise<PrepaidSession> {
  await eventually('no gateway holds a part of it', async () => {
    clock.advance(1_000)
    return (await store.find(id))?.heldMsat === 0 ? true : null
  })
  clock.advance(400_000)
  const jobs = new JobTable(gateway.database)
  return await eventually('it is closed and paid back', async () => {
    await jobs.bringForward('sessions-close')
    const session = await store.find(id)
    return session?.refundStatus === 'confirmed' ? session : null
  })
}
