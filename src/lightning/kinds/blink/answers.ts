import {
  jsonHash,
  jsonList,
  jsonMembers,
  jsonText,
  jsonWhole,
  type JsonMembers
} from '../../provider-calls/json-members.ts'
import type { SentPayment } from '../../provider-calls/pay-once.ts'
import type { ChargeState, SettledCharge } from '../../providers/provider.ts'

/** Reads what Blink's operations answer. Amounts are satoshis, negative where they go out; times are seconds. */

/** The id of the wallet in bitcoin; null where the account has none. */
export function readBtcWallet(data: unknown): string | null {
  const account = jsonMembers(jsonMembers(jsonMembers(data)?.['me'])?.['defaultAccount'])
  const wallet = jsonList(account?.['wallets'])
    .map(jsonMembers)
    .find(one => one?.['walletCurrency'] === 'BTC')
  return jsonText(wallet?.['id'])
}

/** The wallet that an operation asked for; null where it is missing. */
export function readWallet(data: unknown): JsonMembers | null {
  return jsonMembers(jsonMembers(jsonMembers(jsonMembers(data)?.['me'])?.['defaultAccount'])?.['walletById'])
}

/** Scopes of a key; none where they are missing. */
export function readScopes(data: unknown): readonly string[] {
  const scopes = jsonList(jsonMembers(jsonMembers(data)?.['authorization'])?.['scopes'])
  return scopes.filter(one => typeof one === 'string')
}

/** The invoice of a payload; null when there is none. */
export function readBlinkInvoice(
  payload: JsonMembers
): { readonly invoice: string; readonly paymentHash: string } | null {
  const made = jsonMembers(payload['invoice'])
  const invoice = jsonText(made?.['paymentRequest'])
  const paymentHash = jsonHash(made?.['paymentHash'])
  return invoice === null || paymentHash === null ? null : { invoice, paymentHash }
}

interface Transaction {
  readonly isIncoming: boolean
  readonly status: 'SUCCESS' | 'PENDING' | 'FAILURE'
  readonly amountSats: number
  readonly feeSats: number
  /** Milliseconds since the epoch; null where it is missing. */
  readonly at: number | null
  /** Null where it was not paid by an invoice. */
  readonly paymentHash: string | null
}

function readTransaction(value: unknown): Transaction | null {
  const read = jsonMembers(value)
  const status = read?.['status']
  if (read === null || (status !== 'SUCCESS' && status !== 'PENDING' && status !== 'FAILURE')) return null
  const at = jsonWhole(read['createdAt'])
  return {
    isIncoming: read['direction'] === 'RECEIVE',
    status,
    amountSats: sats(read['settlementAmount']),
    feeSats: sats(read['settlementFee']),
    at: at === 0 ? null : at * 1000,
    paymentHash: jsonHash(jsonMembers(read['initiationVia'])?.['paymentHash'])
  }
}

function transactionsOf(value: unknown): Transaction[] {
  return jsonList(value)
    .map(readTransaction)
    .filter(one => one !== null)
}

/** How a charge stands; null when it cannot be used. `now` in milliseconds, for one that is paid and does not say when. */
export function readBlinkState(wallet: JsonMembers, now: number): ChargeState | null {
  switch (jsonMembers(wallet['invoiceByPaymentHash'])?.['paymentStatus']) {
    case 'PAID': {
      const came = transactionsOf(wallet['transactionsByPaymentHash']).find(one => one.isIncoming)
      return { status: 'paid', receivedSats: came?.amountSats ?? null, settledAt: came?.at ?? now }
    }
    case 'PENDING':
      return { status: 'unpaid', receivedSats: 0, settledAt: null }
    case 'EXPIRED':
      return { status: 'expired', receivedSats: 0, settledAt: null }
    default:
      return null
  }
}

/** What was sent for one invoice, of several attempts the best; null where there was none. */
export function readBlinkPayment(wallet: JsonMembers, paymentHash: string): SentPayment | null {
  const sent = transactionsOf(wallet['transactionsByPaymentHash']).filter(one => !one.isIncoming)
  const best =
    sent.find(({ status }) => status === 'SUCCESS') ?? sent.find(({ status }) => status === 'PENDING') ?? sent[0]
  if (best === undefined) return null
  const { status, at, feeSats } = best
  return {
    payout: {
      payoutId: paymentHash,
      status: status === 'SUCCESS' ? 'confirmed' : status === 'PENDING' ? 'processing' : 'failed',
      feeSats: status === 'SUCCESS' ? feeSats : 0,
      transactionHash: null,
      processedAt: status === 'PENDING' ? null : at
    },
    reason: status === 'FAILURE' ? 'Blink could not pay the Lightning invoice.' : null
  }
}

/** A page of transactions, newest first; null when it is none. */
export function readBlinkPage(wallet: JsonMembers): {
  readonly charges: readonly SettledCharge[]
  /** When the oldest of the page was; null where it has none. */
  readonly oldest: number | null
  /** Where the next page begins; null at the end. */
  readonly next: string | null
} | null {
  const connection = jsonMembers(wallet['transactions'])
  if (connection === null) return null
  const transactions = transactionsOf(jsonList(connection['edges']).map(edge => jsonMembers(edge)?.['node']))
  const info = jsonMembers(connection['pageInfo'])
  const charges: SettledCharge[] = []
  for (const { isIncoming, status, paymentHash, amountSats, at } of transactions)
    if (isIncoming && status === 'SUCCESS' && paymentHash !== null)
      charges.push({ chargeId: paymentHash, state: { status: 'paid', receivedSats: amountSats, settledAt: at } })
  return {
    charges,
    oldest: transactions.at(-1)?.at ?? null,
    next: info?.['hasNextPage'] === true ? jsonText(info['endCursor']) : null
  }
}

/** Satoshis without their sign; 0 for what is none. */
function sats(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? Math.ceil(Math.abs(value)) : 0
}
