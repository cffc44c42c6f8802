import { Type } from 'typebox'
import { mapped, orNull, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { nothingReceived } from '../../provider-calls/lightning-charge.ts'
import { sentPayment, type SentPayment } from '../../provider-calls/pay-once.ts'
import { Hash, Whole } from '../../provider-calls/errors.ts'

/**
 * Responses of phoenixd (ACINQ/phoenixd, Api.kt at 0.8). Amounts are satoshis, fees millisatoshis, times milliseconds;
 * null members are omitted. Look-ups hold preimages, also of unpaid invoices, which are never read.
 */

const Time = Type.Decode(Whole, value => value || null)

export const PhoenixdInvoice = Type.Object({ serialized: Text, paymentHash: Hash })

export const PhoenixdIncoming = mapped(
  Type.Object({
    paymentHash: Hash,
    isPaid: Type.Boolean(),
    isExpired: Type.Unknown(),
    receivedSat: Whole,
    requestedSat: Whole,
    completedAt: Time
  }),
  ({ paymentHash, isPaid, isExpired, receivedSat, requestedSat, completedAt }) => ({
    paymentHash,
    // `isExpired` may be set on a paid one. `receivedSat` is after phoenixd's channel fee: the payer paid at least the
    // requested amount.
    state: isPaid
      ? { status: 'paid' as const, receivedSats: Math.max(receivedSat, requestedSat), settledAt: completedAt }
      : nothingReceived(isExpired === true ? 'expired' : 'unpaid')
  })
)

/** A page of payments; items not over Lightning or unusable are null and still count. */
export const PhoenixdPage = Type.Array(orNull(PhoenixdIncoming))

const Outgoing = Type.Object({
  paymentId: Text,
  paymentHash: Type.Unknown(),
  isPaid: Type.Boolean(),
  fees: Whole,
  completedAt: Time
})

/** Response to `GET /payments/outgoingbyhash/{hash}`; null when unusable. */
export function readOutgoing(body: unknown, hash: string): SentPayment | null {
  const payment = readResponse(Outgoing, body)
  if (payment?.paymentHash !== hash) return null
  const { paymentId, isPaid, completedAt, fees } = payment
  const status = isPaid ? 'confirmed' : completedAt === null ? 'processing' : 'failed'
  return sentPayment(paymentId, status, Math.ceil(fees / 1000), completedAt, 'phoenixd')
}

const PayResponse = Type.Object({
  type: Type.Enum(['payment_sent', 'payment_failed']),
  paymentHash: Type.Unknown(),
  paymentId: orNull(Text),
  reason: orNull(Text),
  routingFeeSat: Whole
})

export function readPayResponse(
  body: unknown,
  hash: string
): { readonly failure: string } | { readonly payoutId: string; readonly feeSats: number } | null {
  const paid = readResponse(PayResponse, body)
  if (paid?.paymentHash !== hash) return null
  if (paid.type === 'payment_failed') return { failure: paid.reason ?? 'phoenixd could not pay the Lightning invoice.' }
  return paid.paymentId === null ? null : { payoutId: paid.paymentId, feeSats: paid.routingFeeSat }
}

export const PhoenixdInfo = Type.Object({
  nodeId: Text,
  channels: orNull(Type.Array(Type.Unknown())),
  chain: orNull(Text)
})
