import { nullableText } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import { WEB_ADDRESS } from '../../engine/openapi/schemas.ts'
import { isTest } from '../../engine/operations/operation.ts'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import type { InvoiceNetwork } from '../../lightning/codecs/bolt11.ts'
import { CURRENCIES, type Currency } from '../../lightning/money/prices.ts'
import { jsonNumber, type RawJson } from '../../lightning/money/decimal.ts'
import { amount, column, integer, moment, optional, text, type RecordOf } from '../../platform/database/rows.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'

/** The states of a payment (contract, States and transitions: Payment; decisions 39 and 40). */
export const PAYMENT_STATUSES = ['unpaid', 'processing', 'paid', 'underpaid', 'expired', 'refunded'] as const
export type PaymentStatus = (typeof PAYMENT_STATUSES)[number]

export const paymentFields = {
  /** 15 random digits (decision 10). */
  invoiceId: text(),
  merchantId: integer(),
  /** Unique per merchant. */
  orderId: text(),
  /** As last written; use `statusAt` for the current status. */
  status: text<PaymentStatus>(),
  /** Decimal in `currency`; `0` for a demo payment. */
  amount: text(),
  currency: text<Currency>(),
  description: optional(text()),
  customerEmail: optional(text()),
  customerName: optional(text()),
  successUrl: optional(text()),
  // Only compact JSON of such an object is written.
  metadata: optional(
    column(
      null,
      (stored: string) => JSON.parse(stored) as Readonly<Record<string, string>>,
      value => JSON.stringify(value)
    )
  ),
  /** Random; the only secret of the pay page. */
  payToken: text(),
  slot: text<ProviderSlot>('provider_slot'),
  kind: text<KindName | 'demo'>('provider_kind'),
  chargeId: text(),
  invoice: text(),
  paymentHash: text(),
  network: text<InvoiceNetwork>(),
  onchainAddress: optional(text()),
  checkoutUrl: optional(text()),
  /** Satoshis of the invoice; null for a demo payment. */
  amountSats: optional(amount()),
  /** Satoshis that the provider reports; null before its first report. */
  receivedSats: optional(amount()),
  createdAt: moment(),
  expiresAt: moment(),
  /** When a demo payment confirms itself; null otherwise. */
  confirmsAt: optional(moment()),
  paidAt: optional(moment())
}
export type Payment = RecordOf<typeof paymentFields>

export interface PaymentChange {
  readonly payment: Payment
  readonly from: PaymentStatus
  /** False only for our own change to `refunded` (decisions 56 and 157). */
  readonly tellMerchant: boolean
}

/**
 * Called exactly once per status change, in its transaction: webhook rows must commit with the change. Use only the
 * given handle. Throwing rolls the change back.
 */
export type OnPaymentChange = (sql: TransactionSql, change: PaymentChange) => Promise<void>

/** Most metadata pairs, and longest key (decision 49). */
export const METADATA_LIMITS = Object.freeze({ pairs: 50, key: 100 })

/**
 * Body of `POST /api/payments` (contract, Create payment body and Limits; decisions 46, 49 and 50). `checkInput`
 * validates the rest.
 */
export const PaymentInput = Type.Object(
  {
    orderId: Type.String({
      minLength: 1,
      maxLength: 100,
      description: 'Your own id of the order; unique among your payments.'
    }),
    amount: Type.Union([Type.Number({ minimum: 0 }), Type.String({ minLength: 1, maxLength: 100 })], {
      description:
        'In `currency`: a number, or its decimal text. BTC has up to 8 decimal places and goes up to 21000000, the others have up to 2 and go up to 100000000. 0 makes a demo payment that confirms itself.'
    }),
    currency: Type.Enum([...CURRENCIES], { description: 'EUR and GBP need the feature multi_currency.' }),
    description: Type.Optional(Type.String({ maxLength: 500, description: 'Shown on the invoice and the pay page.' })),
    customerEmail: Type.Optional(
      Type.String({ format: 'email', maxLength: 254, description: 'Who gets the receipt.' })
    ),
    customerName: Type.Optional(Type.String({ maxLength: 200, description: 'Shown on the receipt.' })),
    successUrl: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2048,
        'x-openapi': WEB_ADDRESS,
        description: 'Where the pay page leads once it is paid: an http or https address.'
      })
    ),
    metadata: Type.Optional(
      Type.Unsafe<Readonly<Record<string, string>>>({
        type: 'object',
        patternProperties: { '^': { type: 'string', maxLength: 500 } },
        'x-openapi': {
          maxProperties: METADATA_LIMITS.pairs,
          propertyNames: { minLength: 1, maxLength: METADATA_LIMITS.key }
        },
        description: `Yours; comes back in webhooks. At most ${METADATA_LIMITS.pairs} pairs of texts, keys of 1 to ${METADATA_LIMITS.key} characters.`
      })
    )
  },
  { title: 'PaymentInput' }
)
export type PaymentInput = Static<typeof PaymentInput>

/** Refundable states (contract, States and transitions: Refund). */
export const REFUNDABLE_STATUSES: ReadonlySet<PaymentStatus> = new Set(['paid', 'underpaid', 'processing'])

/** Response of create, get, get by order and sync (contract, Payment; decisions 7 and 48). */
export const PaymentView = Type.Object(
  {
    invoiceId: Type.String({ description: '15 digits.' }),
    orderId: Type.String(),
    status: Type.Enum([...PAYMENT_STATUSES]),
    // Untyped: the writer would convert a schema number to a double (decision 8).
    amount: Type.Unsafe<RawJson>({ 'x-type': 'number', description: 'A number in `currency`, in plain notation.' }),
    currency: Type.Enum([...CURRENCIES]),
    lightningInvoice: Type.String({ description: 'BOLT 11.' }),
    paymentHash: Type.String({ description: '64 lower-case hex characters.' }),
    onchainAddress: Type.Optional(
      Type.String({ description: 'For paying on chain; left out when the provider gives none.' })
    ),
    hostedCheckoutUrl: Type.String({
      description: "The alternate provider's own page; empty where it has none, and for the primary provider."
    }),
    payUrl: Type.String({
      description: 'Our own page. Anyone with the address sees the invoice: treat it as a secret.'
    }),
    providerChargeId: Type.String(),
    alternateChargeId: Type.String({ description: 'The same as providerChargeId.' }),
    createdAt: isoTime('When it was made.'),
    expiresAt: isoTime('Until when it can be paid.'),
    paidAt: Type.Optional(isoTime('When it was paid; left out until then.')),
    isTest: Type.Optional(Type.Boolean({ description: 'true for a payment of a test account; else left out.' })),
    description: nullableText('As it was given; so are the next three.'),
    customerEmail: nullableText(),
    customerName: nullableText(),
    metadata: Type.Unsafe<Readonly<Record<string, string>> | null>({
      type: ['object', 'null'],
      additionalProperties: { type: 'string' }
    })
  },
  { title: 'Payment' }
)
export type PaymentView = Static<typeof PaymentView>

export const PaymentStatusView = Type.Object({ status: Type.Enum([...PAYMENT_STATUSES]) }, { title: 'PaymentStatus' })

/** Response for `payment`, which must be current (`asOf`). */
export function paymentView(payment: Payment, publicUrl: string): PaymentView {
  return {
    invoiceId: payment.invoiceId,
    orderId: payment.orderId,
    status: payment.status,
    amount: jsonNumber(payment.amount),
    currency: payment.currency,
    lightningInvoice: payment.invoice,
    paymentHash: payment.paymentHash,
    ...(payment.onchainAddress === null ? {} : { onchainAddress: payment.onchainAddress }),
    hostedCheckoutUrl: payment.slot === 'primary' ? '' : (payment.checkoutUrl ?? ''),
    payUrl: `${publicUrl}/pay/${payment.payToken}`,
    providerChargeId: payment.chargeId,
    alternateChargeId: payment.chargeId,
    createdAt: iso(payment.createdAt),
    expiresAt: iso(payment.expiresAt),
    ...(payment.paidAt === null ? {} : { paidAt: iso(payment.paidAt) }),
    ...(isTest(payment.merchantId) ? { isTest: true } : {}),
    description: payment.description,
    customerEmail: payment.customerEmail,
    customerName: payment.customerName,
    metadata: payment.metadata
  }
}
