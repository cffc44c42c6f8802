import { Type, type StaticDecode } from 'typebox'
import { mapped, orNull, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { nothingReceived } from '../../provider-calls/lightning-charge.ts'
import { sentPayment, type SentPayment } from '../../provider-calls/pay-once.ts'
import { Hash, JsonRecord, wholeOf } from '../../provider-calls/errors.ts'

/**
 * Responses of Core Lightning's RPC over clnrest (docs.corelightning.org). Amounts are millisatoshis, times seconds.
 * Some hold preimages of paid invoices, which are never read.
 */

const BY = 'The node'

/** Versions before 23.05 write millisatoshis as text ending in `msat`. */
const Msat = Type.Decode(Type.Unknown(), value =>
  wholeOf(typeof value === 'string' ? value.replace(/msat$/, '') : value)
)

/** Milliseconds since the epoch, from seconds with an optional fraction; null where absent. */
const Time = Type.Decode(
  Type.Unknown(),
  value => wholeOf(typeof value === 'number' ? Math.floor(value) : value) * 1000 || null
)

const ClnFault = Type.Object({ code: Type.Number(), message: orNull(Text) })

export function readClnFault(body: unknown): { readonly code: number; readonly message: string } | null {
  const fault = readResponse(ClnFault, body)
  return fault === null ? null : { code: fault.code, message: fault.message ?? '' }
}

/** Response to `invoice`, and an item of `listinvoices`. Warnings explain why payments may fail. */
export const ClnInvoice = mapped(JsonRecord, body => {
  const created = readResponse(Type.Object({ bolt11: Text, payment_hash: Hash }), body)
  if (created === null) return null
  const warnings = Object.entries(body).flatMap(([name, value]) =>
    name.startsWith('warning_') && typeof value === 'string' && value !== '' ? [value] : []
  )
  return { invoice: created.bolt11, paymentHash: created.payment_hash, warnings }
})
export type ClnInvoice = StaticDecode<typeof ClnInvoice>

/** An item of `listinvoices`, and the response to `waitanyinvoice`. */
export const ClnInvoiceState = mapped(
  Type.Object({
    payment_hash: Hash,
    status: Type.Enum(['unpaid', 'paid', 'expired']),
    pay_index: Type.Unknown(),
    amount_received_msat: Msat,
    paid_at: Time
  }),
  ({ payment_hash, status, pay_index, amount_received_msat, paid_at }) => ({
    paymentHash: payment_hash,
    /** The node's count of paid invoices at this payment; 0 while unpaid. */
    payIndex: wholeOf(pay_index),
    state:
      status === 'paid'
        ? { status, receivedSats: Math.floor(amount_received_msat / 1000), settledAt: paid_at }
        : nothingReceived(status)
  })
)
export type ClnInvoiceState = StaticDecode<typeof ClnInvoiceState>

export const ClnInvoices = Type.Object({ invoices: Type.Array(Type.Unknown()) })

export const ClnInfo = Type.Object({ network: Text })

const Attempt = Type.Object({
  payment_hash: Type.Unknown(),
  status: Type.Unknown(),
  amount_sent_msat: Msat,
  amount_msat: Msat,
  created_at: Time,
  completed_at: Time
})
const ClnPays = Type.Object({ pays: Type.Array(Attempt) })

/** Response to `listpays` of one hash: its best attempt; null for none, undefined when unusable. */
export function readClnPays(body: unknown, paymentHash: string): SentPayment | null | undefined {
  const attempts = readResponse(ClnPays, body)?.pays
  if (attempts === undefined || attempts.some(one => one.payment_hash !== paymentHash)) return undefined
  const known = (wanted: string) => attempts.findLast(({ status }) => status === wanted)
  const complete = known('complete')
  if (complete !== undefined) return sentPayment(paymentHash, 'confirmed', feeOf(complete), complete.completed_at, BY)
  if (known('pending') !== undefined) return sentPayment(paymentHash, 'processing', 0, null, BY)
  const failed = known('failed')
  if (failed === undefined) return attempts.length === 0 ? null : undefined
  return sentPayment(paymentHash, 'failed', 0, failed.completed_at ?? failed.created_at, BY)
}

const ClnPaid = Type.Object({
  payment_preimage: Hash,
  status: Type.Unknown(),
  amount_sent_msat: Msat,
  amount_msat: Msat
})

/** Response to `xpay`, or to `pay`, which has a status; null unless certainly paid. */
export function readClnPaid(body: unknown, paymentHash: string, now: number): SentPayment | null {
  const paid = readResponse(ClnPaid, body)
  return paid !== null && (paid.status === undefined || paid.status === 'complete')
    ? sentPayment(paymentHash, 'confirmed', feeOf(paid), now, BY)
    : null
}

function feeOf({
  amount_sent_msat: sent,
  amount_msat: amount
}: {
  readonly amount_sent_msat: number
  readonly amount_msat: number
}): number {
  return amount === 0 ? 0 : Math.max(0, Math.ceil((sent - amount) / 1000))
}
