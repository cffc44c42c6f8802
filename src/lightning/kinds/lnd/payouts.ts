import { fitting, readResponse } from '../../../engine/formats/response-schema.ts'
import {
  PayoutUncertain,
  ProviderRefused,
  ProviderUnavailable,
  unusableResponse,
  requireResponse
} from '../../provider-calls/errors.ts'
import {
  CODE_UNAVAILABLE,
  LndPayment,
  LndTransactions,
  readFault,
  SentCoins,
  type WalletTransaction
} from './responses.ts'
import { ask, isUnknown, ok } from './calls.ts'
import type { CallProvider, ProviderResponse, ProviderCall } from '../../provider-calls/provider-call.ts'
import {
  unproven,
  secondsToPay,
  type PayableInvoice,
  type Sending,
  type SentPayment
} from '../../provider-calls/pay-once.ts'
import type { LightningSend } from '../../provider-calls/wallet-provider.ts'
import type { Charge, Payout, PayoutRequest } from '../../provider-calls/provider.ts'

/** Blocks until expected confirmation. */
const TARGET_BLOCKS = 6

/** Above every height: confirmed transactions are below it, unconfirmed above. */
const NO_BLOCK = 2_147_483_647
const PAGE = 100
const MAX_PAGES = 50
/** Older transactions are not searched for a payout. */
const LOOK_BACK = 60 * 24 * 3_600_000

/** Statuses with which lnd refuses before sending. */
const NOES = [400, 404, 409, 412]

export async function sendOverLightning(
  call: CallProvider,
  { invoice, isAmountless, amountSats, feeLimitSats }: LightningSend,
  timeout: number
): Promise<Sending> {
  const response = await ask(call, {
    method: 'POST',
    path: '/v2/router/send',
    body: {
      payment_request: invoice,
      ...(isAmountless ? { amt: String(amountSats) } : {}),
      timeout_seconds: secondsToPay(timeout),
      fee_limit_sat: String(feeLimitSats),
      no_inflight_updates: true
    },
    scope: 'offchain:write',
    accepts: NOES
  })
  const payment = response.status < 400 ? readResponse(LndPayment, response.body) : null
  if (payment !== null) return { outcome: 'sent', payment }
  const error = unsent(response)
  return error instanceof ProviderRefused
    ? { outcome: 'refused', message: error.message, isBefore: true }
    : { outcome: 'unclear', cause: error.cause }
}

export async function findLightningPayout(
  { paymentHash }: Pick<PayableInvoice, 'paymentHash'>,
  call: CallProvider
): Promise<SentPayment | null> {
  // URL-safe, with the padding that Node omits and lnd requires.
  const name = Buffer.from(paymentHash, 'hex').toString('base64').replaceAll('+', '-').replaceAll('/', '_')
  // Open while the payment is pending; its first line is the current state.
  const response = await ask(call, {
    method: 'GET',
    path: `/v2/router/track/${name}?no_inflight_updates=false`,
    scope: 'offchain:read',
    accepts: [404],
    firstLine: true
  })
  if (isUnknown(response)) return null
  const payment = requireResponse(LndPayment, ok(response).body)
  if (payment.payout.payoutId !== paymentHash) throw unusableResponse('a payment of another hash')
  return payment
}

/**
 * Sends to an address; lnd would send twice: our reference is the label to find a transaction
 * by.
 * @throws ProviderRefused when lnd could not send, PayoutUncertain when its response was lost
 */
export async function sendOverChain(
  call: CallProvider,
  request: PayoutRequest,
  address: string,
  now: number
): Promise<Payout> {
  const label = labelOf(request)
  const known = (await unconfirmed(call, label)) ?? (await confirmed(call, label, now, 1)).found
  if (known !== null) return payoutOf(known)
  const response = await send(call, {
    method: 'POST',
    path: '/v1/transactions',
    body: { addr: address, amount: String(request.amountSats), target_conf: TARGET_BLOCKS, label },
    scope: 'onchain:write'
  })
  const hash = response.status < 400 ? (readResponse(SentCoins, response.body)?.txid ?? null) : null
  if (hash === null) {
    const sent = await unconfirmed(call, label).catch((error: unknown) => {
      throw new PayoutUncertain(error)
    })
    if (sent === null) throw unsent(response)
    return payoutOf(sent)
  }
  // Sent, even if the fee look-up fails and it stays 0 (decision 61).
  const sent = await unconfirmed(call, label).catch(() => null)
  return payoutOf(sent ?? { transactionHash: hash, label, feeSats: 0, at: null })
}

/**
 * The transaction of a payout; null for none.
 * @throws ProviderUnavailable when the wallet has more recent transactions than are searched
 */
export async function findChainPayout(call: CallProvider, request: PayoutRequest, now: number): Promise<Payout | null> {
  const label = labelOf(request)
  const found = await unconfirmed(call, label)
  if (found !== null) return payoutOf(found)
  const search = await confirmed(call, label, now, MAX_PAGES)
  if (search.found !== null) return payoutOf(search.found)
  if (!search.isComplete)
    throw new ProviderUnavailable('The lnd node has too many transactions to look through for the refund.', 60)
  return null
}

function labelOf({ reference }: PayoutRequest): string {
  return `boltgate:${reference}`
}

function payoutOf({ transactionHash, feeSats, at }: WalletTransaction): Payout {
  return { payoutId: transactionHash, status: 'confirmed', feeSats, transactionHash, processedAt: at }
}

/** Errors that prove nothing was sent pass unchanged. */
async function send(call: CallProvider, wanted: ProviderCall): Promise<ProviderResponse> {
  return await ask(call, { ...wanted, accepts: NOES }).catch(unproven)
}

/** After lnd itself refused, an unknown payment means nothing was sent. */
function unsent({ status, body, said }: ProviderResponse): ProviderRefused | PayoutUncertain {
  const fault = status < 400 ? null : readFault(body)
  if (fault === null || fault.code === CODE_UNAVAILABLE)
    return new PayoutUncertain(unusableResponse(`status ${status} without a result`))
  return new ProviderRefused(
    'request',
    said === null ? 'The node did not send the payment.' : `The node did not send the payment: ${said}`
  )
}

async function transactions(call: CallProvider, query: string): Promise<readonly WalletTransaction[]> {
  const { body } = ok(await ask(call, { method: 'GET', path: `/v1/transactions?${query}`, scope: 'onchain:read' }))
  return fitting(requireResponse(LndTransactions, body).transactions)
}

async function unconfirmed(call: CallProvider, label: string): Promise<WalletTransaction | null> {
  const found = await transactions(call, `start_height=${NO_BLOCK}&end_height=-1`)
  return found.find(one => one.label === label) ?? null
}

async function confirmed(
  call: CallProvider,
  label: string,
  now: number,
  pages: number
): Promise<{ readonly found: WalletTransaction | null; readonly isComplete: boolean }> {
  for (let page = 0; page < pages; page++) {
    const list = await transactions(
      call,
      `start_height=${NO_BLOCK}&end_height=1&index_offset=${page * PAGE}&max_transactions=${PAGE}`
    )
    const found = list.find(one => one.label === label) ?? null
    // A build without pagination returns all.
    const isComplete = list.length !== PAGE || list.some(({ at }) => at !== null && at < now - LOOK_BACK)
    if (found !== null || isComplete) return { found, isComplete: true }
  }
  return { found: null, isComplete: false }
}

/**
 * Payout permissions the macaroon lacks. lnd 0.20 rejects a payout without a destination only after checking the
 * macaroon. `charge` is an unpaid one.
 */
export async function missingForPayouts(
  call: CallProvider,
  charge: Charge
): Promise<{ readonly lightning: readonly string[]; readonly chain: readonly string[] }> {
  const lacks = async (probe: () => Promise<unknown>): Promise<string[]> => {
    try {
      await probe()
      return []
    } catch (error) {
      if (error instanceof ProviderRefused && error.scope !== null) return [error.scope]
      throw error
    }
  }
  const nothing = (path: string, scope: string) => () =>
    ask(call, { method: 'POST', path, body: {}, scope, accepts: NOES })
  return {
    lightning: [
      ...(await lacks(() => findLightningPayout(charge, call))),
      ...(await lacks(nothing('/v2/router/send', 'offchain:write')))
    ],
    chain: [
      ...(await lacks(() => unconfirmed(call, ''))),
      ...(await lacks(nothing('/v1/transactions', 'onchain:write')))
    ]
  }
}
