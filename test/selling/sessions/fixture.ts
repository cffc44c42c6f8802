import type { Test as T } from 'tap'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import { JobTable } from '../../../src/platform/jobs/table.ts'
import { readChallengeLine } from '../../../src/app/commands/mint.ts'
import type { InvoiceNetwork } from '../../../src/lightning/codecs/bolt11.ts'
import { SessionStore, type PrepaidSession } from '../../../src/selling/sessions/store.ts'
import { startGateway, type Answer, type TestGatewayOptions } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import type { ManualClock } from '../../support/manual-clock.ts'
import { newInvoice } from '../../support/invoices.ts'
import { routeYaml, startUpstream, type Respond } from '../shop.ts'

/** What clients echo of a challenge. */
export type Echo = Readonly<Record<string, string>>

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
export function offerOf(answer: Pick<Answer, 'headers' | 'status'>) {
  const line = paymentLines(answer).find(({ intent }) => intent === 'session')
  if (line === undefined) throw new Error(`a ${answer.status} without the challenge of a session`)
  const { parameters } = line
  const request = JSON.parse(Buffer.from(parameters['request'] ?? '', 'base64url').toString()) as Record<string, string>
  return { challenge: parameters, request }
}

const ROUTE = 'price: 2 sats\n    sessions: { deposit: 100 sats, idle: 5m, unit: chunk }'

interface ShopOptions extends TestGatewayOptions {
  readonly answer?: Respond
  /** Address of another upstream. */
  readonly upstream?: string
}

/** A gateway that sells sessions at `/v1/*`, for two satoshis a unit unless `route` says otherwise. */
export async function openShop(t: T, route = ROUTE, { answer, upstream: other, ...options }: ShopOptions = {}) {
  const upstream = await startUpstream(t, answer)
  const gateway = await startGateway(t, { yaml: routeYaml(other ?? upstream.url, route), ...options })
  const get = (authorization?: string, path = '/v1/a', headers: Readonly<Record<string, string>> = {}) =>
    gateway.send('GET', path, {
      headers: { ...(authorization === undefined ? {} : { authorization }), ...headers }
    })
  /** Asks without a credential. */
  const ask = async (path?: string) => offerOf(await get(undefined, path))
  /** Pays for a deposit, of which the credentials are not shown yet. */
  const pay = async (path?: string) => {
    const { challenge, request } = await ask(path)
    return {
      challenge,
      id: request['paymentHash'] ?? '',
      preimage: await gateway.pay(request['depositInvoice'] ?? '')
    }
  }
  /** The values of Authorization for the session of a paid deposit. */
  const deposit = async ({
    invoice = returnInvoice({ at: options.clock?.now() ?? Date.now() }),
    path
  }: { invoice?: string; path?: string } = {}) => {
    const { challenge, id, preimage } = await pay(path)
    const proof = { sessionId: id, preimage }
    const closeBy = (by: object = challenge, more: object = {}) => token(by, { action: 'close', ...proof, ...more })
    return {
      id,
      preimage,
      challenge,
      invoice,
      open: token(challenge, { action: 'open', preimage, returnInvoice: invoice }),
      bearer: token(challenge, { action: 'bearer', ...proof }),
      close: closeBy(),
      closeBy
    }
  }
  return {
    gateway,
    upstream,
    store: new SessionStore(gateway.database),
    balances: new BalanceStore(gateway.database),
    get,
    ask,
    pay,
    deposit,
    /** As `deposit`, and opens a session with it. */
    open: async (more?: Parameters<typeof deposit>[0]) => {
      const deposited = await deposit(more)
      return { ...deposited, answer: await get(deposited.open, more?.path) }
    },
    /** Pays for another deposit; its credential. */
    topUp: async (sessionId: string) => {
      const { challenge, preimage: topUpPreimage } = await pay()
      return token(challenge, { action: 'topUp', sessionId, topUpPreimage })
    },
    /** Name of the problem that a credential is refused with, or the status of a response without one. */
    problem: async (authorization: string, path?: string) => {
      const answer = await get(authorization, path)
      if (answer.status !== 402) return answer.status
      return (answer.json() as { type: string }).type.replace('https://paymentauth.org/problems/lightning/', '')
    },
    /** What a close is answered with. */
    refund: async (close: string, path?: string) => {
      const { refundSats, refundStatus } = (await get(close, path)).json() as Record<string, unknown>
      return [refundSats, refundStatus]
    }
  }
}

export type Shop = Awaited<ReturnType<typeof openShop>>

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
