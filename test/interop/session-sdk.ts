/** What SDKs of other hands for sessions of the Payment scheme have in common, and the life of a session with them. */
import type { Test as T } from 'tap'
import { returnInvoice, type Shop } from '../selling/sessions/fixture.ts'

/** As mppx gives it. */
export type Fetch = (input: string, init?: RequestInit) => Promise<Response>

/** A client's session, as Spark's and Amboss' SDKs have it. */
export interface SdkSession {
  topUp(fetch: Fetch, url: string): Promise<Response>
  close(fetch: Fetch, url: string): Promise<Response>
  getSession(): { readonly sessionId: string } | null
}

/** mppx, as both SDKs are used with it. */
export interface SdkMppx {
  create(options: { readonly methods: readonly object[]; readonly polyfill: false }): { fetch: Fetch }
}

/** A wallet over the sandbox, which each SDK's own interface is laid on. */
export interface SdkWallet {
  /** What was paid, in its order. */
  readonly paid: string[]
  /** Pays, and answers the preimage. */
  pay(invoice: string): Promise<string>
  /** An invoice without an amount. */
  receive(expirySeconds: number): string
}

/** Ten requests for two satoshis, out of a deposit of twenty. */
export const SDK_ROUTE = 'price: 2 sats\n    sessions: { deposit: 20 sats, idle: 5m }'

export function sdkWallet(shop: Shop): SdkWallet {
  const paid: string[] = []
  return {
    paid,
    pay: async invoice => {
      paid.push(invoice)
      return await shop.gateway.pay(invoice)
    },
    receive: expirySeconds => returnInvoice({ expirySeconds })
  }
}

/** Opens, uses, tops up and closes a session at a route of `SDK_ROUTE`. */
export async function sessionLife(
  t: T,
  shop: Shop,
  { session, fetch, paid, steps }: { session: SdkSession; fetch: Fetch; paid: string[]; steps: string[] }
): Promise<void> {
  const url = `${shop.gateway.url}/v1/a`
  for (let time = 0; time < 10; time++) t.equal((await fetch(url)).status, 200)
  t.equal(paid.length, 1, 'one deposit pays for ten requests')
  const { sessionId = '' } = session.getSession() ?? {}
  t.equal((await fetch(url)).status, 402, 'the balance is used up')
  const toppedUp = await session.topUp(fetch, url)
  t.equal(toppedUp.status, 200)
  t.same(await toppedUp.json(), { status: 'ok' })
  for (let time = 0; time < 3; time++) t.equal((await fetch(url)).status, 200)
  const closed = await session.close(fetch, url)
  t.equal(closed.status, 200)
  t.same(await closed.json(), { status: 'closed', refundSats: 14, refundStatus: 'succeeded' })
  t.equal(session.getSession(), null)
  t.equal(paid.length, 2)
  t.same(steps.slice(0, 2), ['opening', 'bearer'])
  t.equal(shop.upstream.requests.length, 13)
  t.match(await shop.store.find(sessionId), {
    depositedMsat: 40_000,
    spentMsat: 26_000,
    refundedMsat: 14_000,
    refundStatus: 'confirmed'
  })
}
