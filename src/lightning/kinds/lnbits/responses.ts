import { Type, type StaticDecode } from 'typebox'
import { mapped, orNull, readResponse, SafeInteger, Text } from '../../../engine/formats/response-schema.ts'
import { nothingReceived } from '../../provider-calls/lightning-charge.ts'
import { sentPayment, type SentPayment } from '../../provider-calls/pay-once.ts'
import { Hash } from '../../provider-calls/errors.ts'
import type { ChargeState } from '../../provider-calls/provider.ts'

/**
 * Responses of LNbits (lnbits/lnbits, tried at 1.6). Amounts are millisatoshis, negative when outgoing; times are UTC
 * without a zone. They hold preimages of unpaid invoices, which are never read.
 */

/** Validation errors put a list in `detail`. */
const ErrorBody = Type.Object({
  detail: orNull(Type.Union([Text, Type.Array(Type.Unknown())])),
  error: orNull(Text)
})

export function lnbitsMessage(body: unknown): string | null {
  const { detail = null, error = null } = readResponse(ErrorBody, body) ?? {}
  if (typeof detail === 'string') return detail
  return readResponse(Type.Object({ msg: Text }), detail?.[0])?.msg ?? error
}

export const LnbitsPayment = mapped(
  Type.Object({
    payment_hash: Hash,
    bolt11: orNull(Text),
    payment_request: orNull(Text),
    amount: SafeInteger,
    fee: orNull(SafeInteger),
    status: Type.Enum(['pending', 'success', 'failed']),
    updated_at: Type.Unknown(),
    time: Type.Unknown()
  }),
  ({ payment_hash, bolt11, payment_request, amount, fee, status, updated_at, time }) => ({
    paymentHash: payment_hash,
    invoice: bolt11 ?? payment_request,
    amountMsat: amount,
    feeMsat: Math.abs(fee ?? 0),
    status,
    /** Last change. */
    updatedAt: timeOf(updated_at ?? time)
  })
)
export type LnbitsPayment = StaticDecode<typeof LnbitsPayment>

/** Without `details` the look-up is the public one, so the key had no effect. `paid` is authoritative. */
export const LnbitsLookUp = mapped(
  Type.Object({ paid: Type.Boolean(), details: Type.Unknown() }),
  ({ paid, details }) => {
    if (details === undefined || details === null) return 'keyless' as const
    const payment = readResponse(LnbitsPayment, details)
    return payment === null || !paid ? payment : { ...payment, status: 'success' as const }
  }
)

/** A page of payments; unusable items are null and still count. */
export const LnbitsPage = Type.Object({ data: Type.Array(orNull(LnbitsPayment)) })

export const LnbitsWallet = Type.Object({ balance: Type.Number(), id: orNull(Text) })

/** A charge's status. LNbits has no partial payments. */
export function lnbitsState({ status, amountMsat, updatedAt }: LnbitsPayment): ChargeState {
  return status === 'success'
    ? { status: 'paid', receivedSats: Math.floor(amountMsat / 1000), settledAt: updatedAt }
    : nothingReceived(status === 'pending' ? 'unpaid' : 'expired')
}

/** A payout's status. The fee of a pending one is only the reserve. */
export function lnbitsPayout({ paymentHash, status, feeMsat, updatedAt }: LnbitsPayment): SentPayment {
  const ours = { success: 'confirmed', pending: 'processing', failed: 'failed' } as const
  return sentPayment(paymentHash, ours[status], Math.ceil(feeMsat / 1000), updatedAt, 'LNbits')
}

/** Milliseconds since the epoch, from an ISO time (UTC without a zone) or seconds. */
function timeOf(value: unknown): number | null {
  if (typeof value === 'number') return Number.isFinite(value) && value > 0 ? Math.floor(value) * 1000 : null
  if (typeof value !== 'string') return null
  const at = Date.parse(/(?:z|[+-]\d\d:?\d\d)$/i.test(value) ? value : `${value.replace(' ', 'T')}Z`)
  return Number.isFinite(at) ? at : null
}
