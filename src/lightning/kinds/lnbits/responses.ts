import { Type, type StaticDecode } from 'typebox'
import { mapped, orNull, readResponse, SafeInteger, Text } from '../../../engine/formats/response-schema.ts'
import { nothingReceived } from '../../provider-calls/lightning-charge.ts'
import { sentPayment, type SentPayment } from '../../provider-calls/pay-once.ts'
import { Hash } from '../../provider-calls/responses.ts'
import type { ChargeState } from '../../providers/provider.ts'

/*
 * Responses of LNbits (lnbits/lnbits, tried at 1.6). Amounts are millisatoshis, negative where they go out; times have no
 * zone and are UTC. Preimages of invoices that nobody has paid stand in them: nothing here reads those.
 */

/** Of a bad body `detail` is a list of faults. */
const ErrorBody = Type.Object({
  detail: orNull(Type.Union([Text, Type.Array(Type.Unknown())])),
  error: orNull(Text)
})

/** What an error of LNbits says; null when its body says nothing. */
export function lnbitsMessage(body: unknown): string | null {
  const { detail = null, error = null } = readResponse(ErrorBody, body) ?? {}
  if (typeof detail === 'string') return detail
  return readResponse(Type.Object({ msg: Text }), detail?.[0])?.msg ?? error
}

/** A payment of a wallet, in or out, as it is listed and as a new one is answered. */
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
    /** BOLT 11; null where the response has none. */
    invoice: bolt11 ?? payment_request,
    /** Below 0 where it goes out. */
    amountMsat: amount,
    feeMsat: Math.abs(fee ?? 0),
    status,
    /** When it last changed, in milliseconds since the epoch. */
    updatedAt: timeOf(updated_at ?? time)
  })
)
export type LnbitsPayment = StaticDecode<typeof LnbitsPayment>

/** Without `details` a look-up tells what it tells anybody, so that the key counted for nothing. `paid` is the truth. */
export const LnbitsLookUp = mapped(
  Type.Object({ paid: Type.Boolean(), details: Type.Unknown() }),
  ({ paid, details }) => {
    if (details === undefined || details === null) return 'keyless' as const
    const payment = readResponse(LnbitsPayment, details)
    return payment === null || !paid ? payment : { ...payment, status: 'success' as const }
  }
)

/** A page of payments; null in place of what cannot be used, which counts too. */
export const LnbitsPage = Type.Object({ data: Type.Array(orNull(LnbitsPayment)) })

/** The wallet of a key; only an admin key is told its id. */
export const LnbitsWallet = Type.Object({ balance: Type.Number(), id: orNull(Text) })

/** How a charge stands, from its payment. LNbits knows no part of an amount. */
export function lnbitsState({ status, amountMsat, updatedAt }: LnbitsPayment): ChargeState {
  return status === 'success'
    ? { status: 'paid', receivedSats: Math.floor(amountMsat / 1000), settledAt: updatedAt }
    : nothingReceived(status === 'pending' ? 'unpaid' : 'expired')
}

/** How a payout stands, from its payment. The fee of one under way is only what is held back for it. */
export function lnbitsPayout({ paymentHash, status, feeMsat, updatedAt }: LnbitsPayment): SentPayment {
  const ours = { success: 'confirmed', pending: 'processing', failed: 'failed' } as const
  return sentPayment(paymentHash, ours[status], Math.ceil(feeMsat / 1000), updatedAt, 'LNbits')
}

/** Milliseconds since the epoch of an ISO time, which is UTC where it has no zone, or of seconds. */
function timeOf(value: unknown): number | null {
  if (typeof value === 'number') return Number.isFinite(value) && value > 0 ? Math.floor(value) * 1000 : null
  if (typeof value !== 'string') return null
  const at = Date.parse(/(?:z|[+-]\d\d:?\d\d)$/i.test(value) ? value : `${value.replace(' ', 'T')}Z`)
  return Number.isFinite(at) ? at : null
}
