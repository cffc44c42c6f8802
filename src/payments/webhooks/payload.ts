import type { Challenge } from '../../selling/holding/challenge.ts'
import { jsonNumber } from '../../lightning/money/decimal.ts'
import type { Payment } from '../payments/schema.ts'

/** A challenge of a merchant's that was just paid: what its webhook tells. */
export type PaidChallenge = Pick<
  Challenge,
  | 'paymentHash'
  | 'resource'
  | 'amountSats'
  | 'merchantId'
  | 'source'
  | 'proxyId'
  | 'idempotencyKey'
  | 'createdAt'
  | 'paidAt'
>

/**
 * The body that tells of a payment as it now stands (contract, Events 1): flat, without the event's name. The provider
 * that made the invoice decides between `alternateChargeId` and `providerChargeId` with `provider`. Made once for each
 * event; every attempt sends these very bytes.
 */
export function paymentPayload(payment: Payment): string {
  const charge =
    payment.slot === 'alternate'
      ? { alternateChargeId: payment.chargeId }
      : { providerChargeId: payment.chargeId, provider: 'primary' }
  return JSON.stringify({
    invoiceId: payment.invoiceId,
    orderId: payment.orderId,
    status: payment.status,
    amount: jsonNumber(payment.amount),
    currency: payment.currency,
    ...charge,
    paidAt: iso(payment.paidAt),
    // A text that holds JSON, not an object (decision 49).
    metadata: payment.metadata === null ? null : JSON.stringify(payment.metadata)
  })
}

/** The body of `l402.challenge.paid` (contract, Events 3; decision 158). Receivers tell it from payments by `event`. */
export function challengePayload(challenge: PaidChallenge, merchantId: number): string {
  return JSON.stringify({
    event: 'l402.challenge.paid',
    paymentHash: challenge.paymentHash,
    resource: challenge.resource,
    amountSats: challenge.amountSats,
    status: 'paid',
    merchantId,
    source: challenge.source,
    proxyId: challenge.proxyId,
    idempotencyKey: challenge.idempotencyKey,
    createdAt: iso(challenge.createdAt),
    paidAt: iso(challenge.paidAt)
  })
}

/** A paid order of a store that its shop did not make: what its webhook tells. */
export interface FailedStoreOrder {
  readonly id: string
  readonly merchantId: number
  readonly status: string
  readonly totalCents: number
  readonly totalSats: number
  readonly paymentHash: string
  readonly email: string | null
  readonly createdAt: number
  readonly paidAt: number | null
  readonly failure: { readonly reason: string; readonly message: string; readonly at: number } | null
}

/**
 * The body of `storefront.order.failed`: flat, with the event's name. The buyer can wait, or ask for the money back.
 */
export function storeOrderPayload(order: FailedStoreOrder): string {
  return JSON.stringify({
    event: 'storefront.order.failed',
    orderId: order.id,
    status: order.status,
    reason: order.failure?.reason ?? null,
    message: order.failure?.message ?? null,
    totalUsd: order.totalCents / 100,
    paidSats: order.totalSats,
    paymentHash: order.paymentHash,
    email: order.email,
    merchantId: order.merchantId,
    createdAt: iso(order.createdAt),
    paidAt: iso(order.paidAt),
    failedAt: iso(order.failure?.at ?? null)
  })
}

/** The body of a test event: flat, with the event's name, and nothing in it that could be taken for a sale. */
export function testPayload(merchantId: number, id: string, sentAt: number): string {
  return JSON.stringify({ event: 'webhook.test', id, merchantId, createdAt: iso(sentAt) })
}

function iso(time: number | null): string | null {
  return time === null ? null : new Date(time).toISOString()
}
