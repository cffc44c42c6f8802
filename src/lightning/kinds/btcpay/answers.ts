import { jsonHash, jsonList, jsonMembers, jsonText, jsonWhole } from '../../provider-calls/json-members.ts'
import type { SentPayment } from '../../provider-calls/pay-once.ts'
import type { ChargeState } from '../../providers/provider.ts'

/**
 * Reads what BTCPay's Greenfield API answers (btcpayserver/btcpayserver, read at 2.4). Amounts of invoices are decimal
 * texts in bitcoin, those of its Lightning node texts of millisatoshis; times are seconds.
 */

/** The way of paying whose invoices these are. */
export const LIGHTNING = 'BTC-LN'

/** What an error of BTCPay says; null when its body says nothing. */
export function btcpayMessage(body: unknown): string | null {
  // Of a bad body it is a list of faults.
  const error = jsonMembers(body) ?? jsonMembers(jsonList(body)[0])
  return jsonText(error?.['message'])
}

/** The code of an error; null for what is none. */
export function btcpayCode(body: unknown): string | null {
  return jsonText(jsonMembers(body)?.['code'])
}

/** The permission that an answer of status 403 misses; null when it does not say. */
export function missingPermission(body: unknown): string | null {
  const permission = jsonText(jsonMembers(body)?.['missingPermission'])
  return permission !== null && /^[a-z.]{1,100}$/.test(permission) ? permission : null
}

/** An id as BTCPay gives it to invoices and webhooks: letters and digits. */
export const BTCPAY_ID = /^[A-Za-z0-9]{1,64}$/

/** The id in an answer; null when there is none. */
export function btcpayId(body: unknown): string | null {
  const id = jsonText(jsonMembers(body)?.['id'])
  return id !== null && BTCPAY_ID.test(id) ? id : null
}

/** An invoice of a store. */
export interface BtcpayInvoice {
  readonly id: string
  /** `refunded` never; `settledAt` stands with its payments. */
  readonly status: ChargeState['status']
  readonly checkoutUrl: string | null
}

/** An invoice; null when it cannot be used. */
export function readBtcpayInvoice(body: unknown): BtcpayInvoice | null {
  const invoice = jsonMembers(body)
  const id = btcpayId(body)
  const status = statusOf(invoice?.['status'], invoice?.['additionalStatus'])
  return id === null || status === null ? null : { id, status, checkoutUrl: jsonText(invoice?.['checkoutLink']) }
}

function statusOf(status: unknown, additional: unknown): ChargeState['status'] | null {
  switch (status) {
    case 'New':
      return additional === 'PaidPartial' ? 'underpaid' : 'unpaid'
    case 'Processing':
      return 'processing'
    case 'Settled':
      return 'paid'
    case 'Expired':
      return additional === 'PaidPartial' ? 'underpaid' : additional === 'PaidLate' ? 'paid' : 'expired'
    // Nothing came in time, or its owner has marked it so.
    case 'Invalid':
      return 'expired'
    default:
      return null
  }
}

/** A page of invoices; null when it is none. `count` also counts what cannot be used. */
export function readBtcpayPage(
  body: unknown
): { readonly invoices: readonly BtcpayInvoice[]; readonly count: number } | null {
  if (!Array.isArray(body)) return null
  return {
    invoices: jsonList(body)
      .map(readBtcpayInvoice)
      .filter(one => one !== null),
    count: body.length
  }
}

/** How an invoice is paid over Lightning. */
export interface BtcpayMethod {
  /** BOLT 11; null while there is none. */
  readonly invoice: string | null
  readonly receivedSats: number | null
  /** When the last payment came, in milliseconds since the epoch; null where none has. */
  readonly paidAt: number | null
}

/** The answer to `…/payment-methods`; null where Lightning is none of them. */
export function readBtcpayMethod(body: unknown): BtcpayMethod | null {
  const method = jsonList(body)
    .map(jsonMembers)
    .find(one => one?.['paymentMethodId'] === LIGHTNING)
  if (method === null || method === undefined) return null
  const times = jsonList(method['payments']).map(payment => jsonWhole(jsonMembers(payment)?.['receivedDate']))
  const last = Math.max(0, ...times)
  return {
    invoice: jsonText(method['destination']),
    receivedSats: satsOf(method['paymentMethodPaid']),
    paidAt: last === 0 ? null : last * 1000
  }
}

/** A payment of the store's node; null when it is of another hash or cannot be used. */
export function readBtcpayPayment(body: unknown, paymentHash: string): SentPayment | null {
  const payment = jsonMembers(body)
  if (payment === null || jsonHash(payment['paymentHash']) !== paymentHash) return null
  const status = payoutStatus(payment['status'])
  if (status === null) return null
  const createdAt = jsonWhole(payment['createdAt'])
  return {
    payout: {
      payoutId: paymentHash,
      status,
      feeSats: status === 'confirmed' ? Math.ceil(jsonWhole(payment['feeAmount']) / 1000) : 0,
      transactionHash: null,
      // When it ended is not said.
      processedAt: status === 'processing' || createdAt === 0 ? null : createdAt * 1000
    },
    reason: status === 'failed' ? 'The Lightning node of the BTCPay store could not pay the Lightning invoice.' : null
  }
}

function payoutStatus(status: unknown): 'confirmed' | 'processing' | 'failed' | null {
  switch (status) {
    case 'Complete':
      return 'confirmed'
    case 'Pending':
    case 'Unknown':
      return 'processing'
    case 'Failed':
      return 'failed'
    default:
      return null
  }
}

/** Bitcoin as a decimal text, of whole satoshis. */
export function btcOf(sats: number): string {
  const digits = String(sats).padStart(9, '0')
  return `${digits.slice(0, -8)}.${digits.slice(-8)}`
}

/** Whole satoshis of bitcoin as a decimal text or number, rounded down; null for what is none. */
function satsOf(value: unknown): number | null {
  const text = typeof value === 'number' ? value.toFixed(8) : jsonText(value)
  const [matched, whole = '', rest = ''] = /^(\d{1,8})(?:\.(\d{1,28}))?$/.exec(text ?? '') ?? []
  return matched === undefined ? null : Number(whole) * 1e8 + Number(rest.slice(0, 8).padEnd(8, '0'))
}
