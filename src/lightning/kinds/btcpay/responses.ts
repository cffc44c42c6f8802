import { Type, type StaticDecode } from 'typebox'
import { fittingItems, mapped, orNull, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { sentPayment, type SentPayment } from '../../provider-calls/pay-once.ts'
import { Hash, Seconds, Whole } from '../../provider-calls/responses.ts'
import type { ChargeState } from '../../providers/provider.ts'

/*
 * Responses of BTCPay's Greenfield API (btcpayserver/btcpayserver, read at 2.4). Amounts of invoices are decimal texts in
 * bitcoin, those of its Lightning node texts of millisatoshis; times are seconds.
 */

/** The way of paying whose invoices these are. */
export const LIGHTNING = 'BTC-LN'

/** An id as BTCPay gives it to invoices and webhooks: letters and digits. */
export const BtcpayId = Type.String({ pattern: '^[A-Za-z0-9]{1,64}$' })
export const BtcpayObject = Type.Object({ id: BtcpayId })

const ErrorBody = Type.Object({
  message: orNull(Text),
  code: orNull(Text),
  missingPermission: orNull(Type.String({ pattern: '^[a-z.]{1,100}$' }))
})

/** An error of BTCPay; what it does not say is null. */
export function btcpayError(body: unknown): StaticDecode<typeof ErrorBody> {
  return readResponse(ErrorBody, body) ?? { message: null, code: null, missingPermission: null }
}

/** What an error of BTCPay says; null when its body says nothing. Of a bad body it is a list of faults. */
export function btcpayMessage(body: unknown): string | null {
  return btcpayError(Array.isArray(body) ? body[0] : body).message
}

/** An invoice of a store. `refunded` never; `settledAt` stands with its payments. */
export const BtcpayInvoice = mapped(
  Type.Object({
    id: BtcpayId,
    status: Type.Unknown(),
    additionalStatus: Type.Unknown(),
    checkoutLink: orNull(Text)
  }),
  ({ id, status, additionalStatus, checkoutLink }) => {
    const ours = statusOf(status, additionalStatus)
    return ours === null ? null : { id, status: ours, checkoutUrl: checkoutLink }
  }
)

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

/** A page of invoices; null in place of what cannot be used, which counts too. */
export const BtcpayPage = Type.Array(orNull(BtcpayInvoice))

/** Whole satoshis of bitcoin as a decimal text or number, rounded down; null for what is none. */
const BtcAmount = Type.Decode(Type.Unknown(), value => {
  const text = typeof value === 'number' ? value.toFixed(8) : value
  const [matched, whole = '', rest = ''] =
    /^(\d{1,8})(?:\.(\d{1,28}))?$/.exec(typeof text === 'string' ? text : '') ?? []
  return matched === undefined ? null : Number(whole) * 1e8 + Number(rest.slice(0, 8).padEnd(8, '0'))
})

/** How an invoice is paid over Lightning, of all its payment methods. */
export const BtcpayMethod = mapped(
  fittingItems(
    Type.Object({
      paymentMethodId: Type.Literal(LIGHTNING),
      destination: orNull(Text),
      paymentMethodPaid: BtcAmount,
      payments: fittingItems(Type.Object({ receivedDate: Seconds }))
    })
  ),
  ([method]) =>
    method === undefined
      ? null
      : {
          /** BOLT 11; null while there is none. */
          invoice: method.destination,
          receivedSats: method.paymentMethodPaid,
          /** When the last payment came, in milliseconds since the epoch; null where none has. */
          paidAt: Math.max(0, ...method.payments.map(({ receivedDate }) => receivedDate ?? 0)) || null
        }
)
export type BtcpayMethod = StaticDecode<typeof BtcpayMethod>

/** A payment of the store's node. When it ended is not said. */
export const BtcpayPayment = mapped(
  Type.Object({
    paymentHash: Hash,
    status: Type.Enum(['Complete', 'Pending', 'Unknown', 'Failed']),
    feeAmount: Whole,
    createdAt: Seconds
  }),
  ({ paymentHash, status, feeAmount, createdAt }): SentPayment => {
    const ours = { Complete: 'confirmed', Pending: 'processing', Unknown: 'processing', Failed: 'failed' } as const
    const by = 'The Lightning node of the BTCPay store'
    return sentPayment(paymentHash, ours[status], Math.ceil(feeAmount / 1000), createdAt, by)
  }
)
