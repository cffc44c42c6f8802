import { pageQuery } from '../../engine/operations/keyset.ts'
import { PLAIN_EMAIL } from '../payments/creator.ts'
import { Type, type Static } from 'typebox'
import { iso, isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import {
  REFUND_STATUSES,
  REFUND_TYPES,
  isUnknownToProvider,
  type RefundStatus,
  type RefundType
} from '../../lightning/providers/payout-states.ts'
import { amount, integer, moment, optional, text, type RecordOf } from '../../platform/database/rows.ts'
import { LINE, TEXT, nullableText } from '../../engine/formats/text-patterns.ts'

export const refundFields = {
  /** 15 random digits (decision 10); also our reference at the provider. */
  refundId: text(),
  merchantId: integer(),
  invoiceId: text(),
  status: text<RefundStatus>(),
  type: text<RefundType>('refund_type'),
  address: text('refund_address'),
  /** Lightning address that gave the invoice; null for none. */
  lightningAddress: optional(text()),
  /** Null on-chain. */
  paymentHash: optional(text()),
  amountSats: amount(),
  /** 0 while unknown (decision 61). */
  feeSats: amount(),
  /** Slot of the payment, which sends the refund (decision 54). */
  slot: text<ProviderSlot>('provider_slot'),
  kind: text<KindName>('provider_kind'),
  /** Null while it is unknown whether the provider accepted it. */
  providerRefundId: optional(text()),
  transactionHash: optional(text()),
  email: optional(text()),
  reason: optional(text()),
  createdAt: moment(),
  /** When confirmed or failed; null before. */
  processedAt: optional(moment())
}
export type Refund = RecordOf<typeof refundFields>

/** All satoshis that can exist. */
const MAX_SATS = 2_100_000_000_000_000

/** Body of `POST /api/refunds` (contract, Create refund body). */
export const RefundInput = Type.Object(
  {
    invoiceId: Type.String({
      minLength: 1,
      maxLength: 100,
      pattern: LINE,
      description: "Invoice to refund, or the id of a store's order."
    }),
    refundAddress: Type.String({
      minLength: 3,
      maxLength: 500,
      pattern: LINE,
      description:
        'Bitcoin address, BOLT 11 invoice that has not expired and that no other refund pays, or Lightning address (name@example.com) or LNURL, whose server is asked for the invoice; that needs an Idempotency-Key. At least 26 characters, but for Lightning addresses.'
    }),
    refundType: Type.Optional(
      Type.Enum([...REFUND_TYPES], { description: 'chain unless said; must match the kind of refundAddress.' })
    ),
    amountSatoshis: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_SATS,
        description:
          'Required for every ln refund, where it must equal the amount of the invoice if that has one, and for every refund on the primary provider. Left out, what is left of the payment is refunded.'
      })
    ),
    email: Type.Optional(
      Type.String({
        format: 'email',
        maxLength: 200,
        pattern: PLAIN_EMAIL.source,
        'x-rule': 'Must be a valid email.',
        description: 'Recipient of an email once the refund is confirmed.'
      })
    ),
    reason: Type.Optional(Type.String({ maxLength: 500, pattern: TEXT }))
  },
  { title: 'RefundInput' }
)
export type RefundInput = Static<typeof RefundInput>

export const RefundQuery = Type.Object({
  status: Type.Optional(Type.Enum([...REFUND_STATUSES])),
  text: Type.Optional(
    Type.String({
      maxLength: 200,
      description:
        'Searches the reason and the Lightning address, case-insensitive; or equals the refund ID, the invoice ID or the address.'
    })
  ),
  ...pageQuery
})
export type RefundQuery = Static<typeof RefundQuery>

const providerId =
  "The provider's refund or withdrawal id; null while the provider has not said that it took the refund."

/** Response of create (contract, Refund; decision 61). */
export const RefundView = Type.Object(
  {
    refundId: Type.String(),
    providerRefundId: nullableText(providerId),
    alternateRefundId: nullableText('The same as providerRefundId.'),
    invoiceId: Type.String(),
    status: Type.Enum([...REFUND_STATUSES]),
    amountSatoshis: Type.Integer(),
    feeSatoshis: Type.Integer({ description: 'Network fee; 0 until it is known.' }),
    refundAddress: Type.String({ description: 'Of a refund to a Lightning address, the invoice that it gave.' }),
    lightningAddress: Type.Optional(
      Type.String({ description: 'Lightning address or LNURL that gave the invoice. Left out for all others.' })
    ),
    refundType: Type.Enum([...REFUND_TYPES]),
    transactionHash: nullableText('Over the chain, once it is broadcast.'),
    createdAt: isoTime(),
    message: Type.Optional(
      Type.String({
        description: 'What to do about a refund that the provider has not acknowledged. Left out for all others.'
      })
    )
  },
  { title: 'CreatedRefund' }
)
export type RefundView = Static<typeof RefundView>

/** Response of get, the lists and sync (decision 61). */
export const RefundDetails = Type.Object(
  {
    ...RefundView.properties,
    processedAt: isoTimeOrNull('When it was confirmed or failed.'),
    reason: nullableText('As it was given at create.')
  },
  { title: 'Refund' }
)
export type RefundDetails = Static<typeof RefundDetails>

/** Response of create. Both provider ids are equal, null while unknown (decision 7). */
export function refundView(refund: Refund, now: number): RefundView {
  const message = adviceOn(refund, now)
  return {
    refundId: refund.refundId,
    providerRefundId: refund.providerRefundId,
    alternateRefundId: refund.providerRefundId,
    invoiceId: refund.invoiceId,
    status: refund.status,
    amountSatoshis: refund.amountSats,
    feeSatoshis: refund.feeSats,
    refundAddress: refund.address,
    ...(refund.lightningAddress === null ? {} : { lightningAddress: refund.lightningAddress }),
    refundType: refund.type,
    transactionHash: refund.transactionHash,
    createdAt: iso(refund.createdAt),
    ...(message === null ? {} : { message })
  }
}

export function refundDetails(refund: Refund, now: number): RefundDetails {
  return {
    ...refundView(refund, now),
    processedAt: iso(refund.processedAt),
    reason: refund.reason
  }
}

/** Whether a text can be a refund id; the database rejects queries with some others. */
export function isRefundId(text: string): boolean {
  return /^[1-9][0-9]{14}$/.test(text)
}

/** Milliseconds for which an open refund is looked up; then an administrator must settle it. */
export const LOOKED_UP_FOR = 30 * 86_400_000

/**
 * Advice on a refund without the provider's acknowledgment; else null. It must not be sent
 * again: it may have been paid.
 */
export function adviceOn(refund: Refund, now: number): string | null {
  if (!isUnknownToProvider(refund)) return null
  const search =
    now < refund.createdAt + LOOKED_UP_FOR
      ? `it is looked up until ${iso(refund.createdAt + LOOKED_UP_FOR)}`
      : 'it is no longer looked up automatically'
  return (
    `Refund ${refund.refundId} of ${refund.amountSats} satoshis is pending, and the provider has not said whether it took it: ${search}, and never sent again. ` +
    "Do not create another for this amount. Where the provider's own records show that it was sent, or that it surely was not, ask the operator to settle it."
  )
}
