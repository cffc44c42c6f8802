import { iso } from '../../engine/formats/iso-time.ts'
import type { Challenge } from '../../selling/holding/challenge.ts'
import { jsonNumber } from '../../lightning/money/decimal.ts'
import { isTest } from '../../engine/operations/roles.ts'
import type { Payment } from '../payments/schema.ts'

type PaidChallenge = Pick<
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
 * Flat body of a payment event, without the event's name (contract, Events 1). The invoice's provider determines
 * `alternateChargeId` or `providerChargeId`. Made once per event: every attempt sends the same bytes.
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
    // JSON text, not an object (decision 49).
    metadata: payment.metadata === null ? null : JSON.stringify(payment.metadata),
    ...testMark(payment.merchantId)
  })
}

/** Marks what a test account sends; live events have no such member. */
export function testMark(merchantId: number): { isTest?: true } {
  return isTest(merchantId) ? { isTest: true } : {}
}

/** Body of `l402.challenge.paid` (contract, Events 3; decision 158). `event` tells it from payments. */
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
    paidAt: iso(challenge.paidAt),
    ...testMark(merchantId)
  })
}

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

/** Flat body of `storefront.order.failed`, with the event's name. */
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

/** Flat body of a test event, with nothing that looks like a sale. */
export function testPayload(merchantId: number, id: string, sentAt: number): string {
  return JSON.stringify({ event: 'webhook.test', id, merchantId, createdAt: iso(sentAt), ...testMark(merchantId) })
}
