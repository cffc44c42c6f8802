import { Type, type StaticDecode } from 'typebox'
import { fittingItems, mapped, orNull, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { sentPayment, type SentPayment } from '../../provider-calls/pay-once.ts'
import { Hash, Seconds, Whole } from '../../provider-calls/errors.ts'
import type { ChargeState } from '../../provider-calls/provider.ts'

/**
 * Responses of BTCPay's Greenfield API (btcpayserver/btcpayserver, read at 2.4). Invoice amounts are decimal bitcoin
 * strings, node amounts strings of millisatoshis; times are seconds.
 */

export const LIGHTNING = 'BTC-LN'

export const BtcpayId = Type.String({ pattern: '^[A-Za-z0-9]{1,64}$' })
export const BtcpayObject = Type.Object({ id: BtcpayId })

const ErrorBody = Type.Object({
  message: orNull(Text),
  code: orNull(Text),
  missingPermission: orNull(Type.String({ pattern: '^[a-z.]{1,100}$' }))
})

export function btcpayError(body: unknown): StaticDecode<typeof ErrorBody> {
  return readResponse(ErrorBody, body) ?? { message: null, code: null, missingPermission: null }
}

export function btcpayMessage(body: unknown): string | null {
  return btcpayError(Array.isArray(body) ? body[0] : body).message
}

/** A store invoice. `refunded` never; payments say `settledAt`. */
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
    // Expired unpaid, or marked so by its owner.
    case 'Invalid':
      return 'expired'
    default:
      return null
  }
}

export const BtcpayPage = Type.Array(orNull(BtcpayInvoice))

/** Whole satoshis from decimal bitcoin, rounded down; null when invalid. */
const BtcAmount = Type.Decode(Type.Unknown(), value => {
  const text = typeof value === 'number' ? value.toFixed(8) : value
  const [matched, whole = '', rest = ''] =
    /^(\d{1,8})(?:\.(\d{1,28}))?$/.exec(typeof text === 'string' ? text : '') ?? []
  return matched === undefined ? null : Number(whole) * 1e8 + Number(rest.slice(0, 8).padEnd(8, '0'))
})

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
          invoice: method.destination,
          receivedSats: method.paymentMethodPaid,
          /** Time of the last payment; null for none. */
          paidAt: Math.max(0, ...method.payments.map(({ receivedDate }) => receivedDate ?? 0)) || null
        }
)
export type BtcpayMethod = StaticDecode<typeof BtcpayMethod>

export const BtcpayNodeInvoice = mapped(
  Type.Object({
    id: BtcpayId,
    BOLT11: Text,
    status: Type.Enum(['Unpaid', 'Paid', 'Expired']),
    amountReceived: orNull(Whole),
    paidAt: orNull(Seconds)
  }),
  ({ id, BOLT11: invoice, status, amountReceived, paidAt }) => {
    const ours = { Unpaid: 'unpaid', Paid: 'paid', Expired: 'expired' } as const
    const receivedSats = amountReceived === null ? null : Math.floor(amountReceived / 1000)
    return { id, invoice, status: ours[status], receivedSats, paidAt }
  }
)

/** A payment of the store's node. Its end is not reported. */
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
