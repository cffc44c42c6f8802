import { Type } from 'typebox'
import { orNull, part, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { headerKeyFault } from '../../provider-calls/address-key.ts'
import { noBudget, NO_LIMIT, type CallLimits } from '../../provider-calls/budgets.ts'
import { requireResponse, ProviderNotificationError, unusableResponse } from '../../provider-calls/errors.ts'
import { lightningCharge, nothingReceived } from '../../provider-calls/lightning-charge.ts'
import { isSigned, parseNotification, requireSubject } from '../../provider-calls/notifications.ts'
import { ProviderHttp, type CallProvider } from '../../provider-calls/provider-call.ts'
import type { Charge, ChargeRequest, ChargeState, Provider } from '../../provider-calls/provider.ts'
import { walletProvider } from '../../provider-calls/wallet-provider.ts'
import type { KindOptions, ProviderKind } from '../kind.ts'
import { StrikePayouts, shortened } from './payouts.ts'
import {
  btcAmount,
  chargeState,
  ReceivePage,
  ReceiveRequest,
  strikeErrorMessage,
  StrikeId,
  type Receive
} from './responses.ts'

const STRIKE_LIVE = 'https://api.strike.me'
const CREATE = 'partner.receive-request.create'
const READ = 'partner.receive-request.read'
/** The limit on all receiving: 1,000 calls in 10 minutes per address, then an hour's lock-out. */
const RECEIVING = 'others'
const PAGE = 100
const EVENT_TYPES = ['receive-request.receive-pending', 'receive-request.receive-completed']

const StrikeEvent = Type.Object({ eventType: orNull(Type.String()), data: part({ entityId: orNull(StrikeId) }) })

/**
 * Strike (`https://api.strike.me/v1`): receive requests with Lightning invoices, payment quotes for refunds. A charge
 * is a receive request. Its state is in its receives, found by the request's id, since a payment between Strike users
 * has no hash.
 *
 * No on-chain address is requested: money that arrives hours after a small challenge's invoice expired would belong to
 * nothing.
 *
 * Limits by our address are shared: after a 429 no account calls under that limit until it ends.
 *
 * Known gaps; never tried live:
 * - the order of the receives list is undocumented: both are handled;
 * - receives between Strike users may be in another currency; they count as paid in full;
 * - whether such a payer gets the preimage that L402 needs is unknown;
 * - the longest `expiryInSeconds`, and whether fiat invoices are shortened, is unknown: the invoice decides;
 * - that `data.entityId` is the receive request's id has one third-party source;
 * - `POST /v1/subscriptions` has no idempotency: a lost response leaves a subscription with an unknown secret;
 * - payouts use the bitcoin balance; accounts in another currency lack funds;
 * - after a lost execution response, a payout not found by quote id stays unknown rather than being sent twice (look
 *   it up in Strike's dashboard);
 * - the travel-rule member `beneficiary` is not sent; Strike refuses accounts that need it.
 */
function open({ url, timeout, clock, budget = noBudget('strike', clock) }: KindOptions): Provider {
  const http = new ProviderHttp({
    // A trailing `/v1` is optional.
    url: (url ?? STRIKE_LIVE).replace(/\/v1\/?$/, ''),
    timeout,
    clock,
    budget,
    authorize: key => ({ authorization: `Bearer ${key}` }),
    messageOf: strikeErrorMessage
  })
  const payouts = new StrikePayouts()
  return walletProvider('strike', http, {
    notifies: true,
    payout: { lightning: true, chain: true },
    createCharge: (request, call) => createRequest(call, btcAmount(request.amountSats), request, request.amountSats),
    createFiatCharge: ({ amount, currency, ...request }, call) =>
      createRequest(call, { amount, currency }, request, null),
    isChargeId: text => readResponse(StrikeId, text) !== null,
    lookUp: (chargeId, call) => lookUp(call, chargeId),
    payouts: {
      create: (request, call) => payouts.create(call, request),
      lookUp: (request, payoutId, call) => payouts.lookUp(call, request, payoutId)
    },
    /** Profile, list, an invoice of one satoshi (contract, Validation rules; decision 70). */
    checkKey: async call => {
      // Merchants' scopes do not cover the profile, and the reference dropped it: only a 401 counts.
      await call({ method: 'GET', path: '/v1/accounts/profile', accepts: [403, 404], sharedLimit: RECEIVING })
      await call({ method: 'GET', path: '/v1/receive-requests?$top=1', scope: READ, sharedLimit: RECEIVING })
      const request = { description: 'Test of the provider key', expirySeconds: 60 }
      const { network } = await createRequest(call, btcAmount(1), request, 1)
      return {
        isValid: true,
        message: 'The provider accepts this key, and it can create and read receive requests.',
        network
      }
    },
    /** Events are account-wide; other kinds are null. Signed with HMAC-SHA256 over the bytes, in hex of either case. */
    readNotification: (headers, body) => {
      const { eventType, data } = parseNotification(StrikeEvent, body)
      if (eventType === null) throw new ProviderNotificationError('The notification names no event type.')
      if (!eventType.startsWith('receive-request.')) return null
      const signature = headers.get('x-webhook-signature')?.trim() ?? ''
      return {
        chargeId: requireSubject(data?.entityId ?? null, 'receive request'),
        verify: secret => isSigned(body, signature, secret)
      }
    },
    /**
     * The account's last 100 receives, in one call, or two when the list is oldest first. Receives not over Lightning
     * omit the requested amount. It is not looked up: unrelated income could exhaust a limit that locks our address out.
     */
    listSettled: async ({ since }, call) => {
      const asOf = clock.now()
      const newest = await newestReceives(call)
      const recent = newest.filter(receive => receive.state === 'COMPLETED' && timeOf(receive) >= since)
      const settled = [...Map.groupBy(recent, receive => receive.receiveRequestId)].map(([chargeId, receives]) => {
        const requested = requestedAmount(receives)
        return {
          chargeId,
          state: requested === undefined ? null : chargeState(receives, requested),
          at: Math.max(...receives.map(timeOf))
        }
      })
      const charges = settled
        .toSorted((one, other) => other.at - one.at)
        .map(({ chargeId, state }) => ({ chargeId, state }))
      // A full list that starts after the requested time may be truncated.
      const isWhole = newest.length < PAGE || newest.some(receive => timeOf(receive) < since)
      return { charges, reach: isWhole ? 'whole' : 'newest', asOf, position: null }
    },
    subscribe: async (webhookUrl, secret, call) => {
      const response = await call({
        method: 'POST',
        path: '/v1/subscriptions',
        body: { webhookUrl, webhookVersion: 'v1', secret: secret.reveal(), enabled: true, eventTypes: EVENT_TYPES },
        scope: 'partner.webhooks.manage',
        sharedLimit: RECEIVING
      })
      return requireResponse(Type.Object({ id: Text }), response.body).id
    }
  })
}

/** `amountSats`: the invoice's amount; null where Strike converts. */
async function createRequest(
  call: CallProvider,
  amount: { readonly amount: string; readonly currency: string },
  request: Omit<ChargeRequest, 'amountSats'>,
  amountSats: number | null
): Promise<Charge> {
  const description = shortened(request.description)
  const described = description === '' ? {} : { description }
  const response = await call({
    method: 'POST',
    path: '/v1/receive-requests',
    body: {
      bolt11: {
        amount,
        ...(request.hashed === undefined ? described : { descriptionHash: request.hashed.hash }),
        expiryInSeconds: request.expirySeconds
      }
    },
    scope: CREATE,
    sharedLimit: RECEIVING
  })
  const created = requireResponse(ReceiveRequest, response.body)
  if (readResponse(StrikeId, created.id) === null) throw unusableResponse('a receive request without id')
  return { ...lightningCharge(created.invoice, created.paymentHash, amountSats), chargeId: created.id }
}

async function lookUp(call: CallProvider, id: string): Promise<ChargeState | null> {
  const response = await call({
    method: 'GET',
    path: `/v1/receive-requests/${id}/receives?$top=${PAGE}`,
    scope: READ,
    accepts: [404],
    sharedLimit: RECEIVING
  })
  if (response.status === 404) return null
  const { items } = pageOf(response.body)
  if (items.length === 0) return nothingReceived('unpaid')
  const paid = requestedAmount(items)
  return chargeState(items, paid === undefined ? await pendingAmount(call, id) : paid)
}

async function pendingAmount(call: CallProvider, id: string): Promise<bigint | null> {
  const response = await call({
    method: 'GET',
    path: `/v1/receive-requests/${id}`,
    scope: READ,
    sharedLimit: RECEIVING
  })
  return requireResponse(ReceiveRequest, response.body).requestedMsat
}

/** Millisatoshis requested by the paid invoice; undefined without a Lightning payment. */
function requestedAmount(receives: readonly Receive[]): bigint | null | undefined {
  return receives.find(({ lightning }) => lightning !== null && lightning.invoice !== null)?.lightning?.invoice
    ?.amountMsat
}

async function newestReceives(call: CallProvider): Promise<readonly Receive[]> {
  const read = async (skip: number): Promise<ReceivePage> =>
    pageOf(
      (
        await call({
          method: 'GET',
          path: `/v1/receive-requests/receives?$top=${PAGE}${skip === 0 ? '' : `&$skip=${skip}`}`,
          scope: READ,
          sharedLimit: RECEIVING
        })
      ).body
    )
  const page = await read(0)
  const isOldestFirst = (page.items[0]?.created ?? 0) < (page.items.at(-1)?.created ?? 0)
  return isOldestFirst && page.total !== null && page.total > PAGE ? (await read(page.total - PAGE)).items : page.items
}

/** Completion time; without one it counts as news. */
function timeOf({ completed, created }: Receive): number {
  return completed ?? created ?? Infinity
}

function pageOf(body: unknown): ReceivePage {
  return requireResponse(ReceivePage, Array.isArray(body) ? { items: body } : body)
}

const LIVE_HOST = new URL(STRIKE_LIVE).host
const TEST_HOST = 'api.dev.strike.me'

const hostOf = (url: string | null): string => (url === null ? LIVE_HOST : new URL(url).host)

/**
 * Limits by our address: 1,000 calls in 10 minutes, then an hour's lock-out (test host: 350), and 250 quotes a minute
 * (90). A bucket yields at most its burst plus ten minutes of its rate in ten minutes.
 */
function limits(url: string | null, perMinute: number | null): CallLimits {
  const own = perMinute === null ? null : { burst: perMinute, perMinute }
  const host = hostOf(url)
  // Another host is not Strike, so its limits do not apply.
  if (host !== LIVE_HOST && host !== TEST_HOST)
    return { ofAddress: own === null ? {} : { others: own }, ofAccount: NO_LIMIT }
  const isLive = host === LIVE_HOST
  const others = own ?? (isLive ? { burst: 100, perMinute: 85 } : { burst: 35, perMinute: 30 })
  const quotes = isLive ? { burst: 40, perMinute: 200 } : { burst: 15, perMinute: 70 }
  return { ofAddress: { others, 'payment quotes': quotes, executions: quotes }, ofAccount: NO_LIMIT }
}

export const strike: ProviderKind = {
  name: 'strike',
  isSandbox: false,
  calls: {
    address: STRIKE_LIVE,
    counted: 'address',
    limits,
    // A fifth of the lock-out limit: charges and look-ups count too.
    polling: url => ({ perMinute: hostOf(url) === LIVE_HOST ? 20 : 7, isShared: true, costs: { list: 2, lookUp: 2 } })
  },
  scopes: [
    { scope: 'partner.receive-request.create', purpose: 'Make invoices' },
    { scope: 'partner.receive-request.read', purpose: 'See whether invoices were paid' },
    { scope: 'partner.webhooks.manage', purpose: 'Be notified of payments; without it they are polled' },
    { scope: 'partner.payment-quote.lightning.create', purpose: 'Refunds to Lightning invoices' },
    { scope: 'partner.payment-quote.onchain.create', purpose: 'Refunds to Bitcoin addresses' },
    { scope: 'partner.payment-quote.execute', purpose: 'Refunds' },
    { scope: 'partner.payment.read', purpose: 'See what became of refunds' }
  ],
  hashesDescriptions: 'shared',
  about: 'account at Strike',
  keyHint: 'An API key of your Strike account, from dashboard.strike.me.',
  keyFault: headerKeyFault,
  open
}
