import { everyBatch, periodic, type JobDeclaration } from '../../platform/jobs/jobs.ts'
import type { Challenge } from '../../selling/holding/challenge.ts'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { readFilterTime, iso } from '../../engine/formats/iso-time.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { PaymentChange, Payment } from '../payments/schema.ts'
import { defineError } from '../../platform/system/errors.ts'
import type { Sql, TransactionSql } from '../../platform/database/database.ts'
import { rowId, type Random } from '../../platform/system/ids.ts'
import type { OutboundCall } from '../../engine/upstream/outbound.ts'
import { WebhookAttempts, CONTRACT_TIMES, type WebhookParts } from './attempts.ts'
import { paceOf, sendWebhook } from './delivery.ts'
import { endpointMissing } from './endpoints.ts'
import {
  deliveryView,
  type DeliveryPage,
  type DeliveryQuery,
  type DeliverySentView,
  type DeliveryView,
  type TestView
} from './schema.ts'
import { isWebhookId, type NewDelivery } from './store.ts'
import { jsonNumber } from '../../lightning/money/decimal.ts'
import { isTest } from '../../engine/operations/operation.ts'

const WEBHOOK_URL_MISSING = defineError('BG_WEBHOOK_URL_MISSING', {
  status: 400,
  cause: 'There is no active webhook endpoint to send to.',
  fix: 'Set one with `PUT /api/merchant/webhook-url`, or resume it with `PUT /api/merchant/webhooks/endpoints/{endpointId}`.'
})

export interface WebhooksDependencies extends WebhookParts {
  readonly call: OutboundCall
  readonly random: Random
  /** Backoff and timeout; tests shorten the contract's. */
  readonly times?: { readonly backoff: readonly number[]; readonly timeout: number }
}

/** Retention of deliveries (decision 173). */
const KEEP = 30 * 86_400_000
const PURGED_AT_ONCE = 1_000

/**
 * Webhooks to merchants (contract, Events; decisions 157 to 162). Events are rows, one per subscribed endpoint, written
 * in the transaction of their cause. Deactivated merchants still get theirs: money has moved, and the account has no
 * other way to learn of it.
 */
export class Webhooks {
  readonly #dependencies: WebhooksDependencies
  readonly attempts: WebhookAttempts

  constructor(dependencies: WebhooksDependencies) {
    this.#dependencies = dependencies
    this.attempts = new WebhookAttempts({ times: CONTRACT_TIMES, ...dependencies })
  }

  get jobs(): readonly JobDeclaration[] {
    return [
      ...this.attempts.jobs,
      periodic('webhooks-purge', 3_600_000, 'Deletes webhook deliveries after 30 days', () => this.purge())
    ]
  }

  /** Writes a payment's event in the caller's transaction (`OnPaymentChange`), once per invoice and status. */
  async paymentChanged(sql: TransactionSql, { payment, tellMerchant }: PaymentChange): Promise<void> {
    if (!tellMerchant || payment.status === 'unpaid') return
    await this.#add(sql, [
      {
        merchantId: payment.merchantId,
        event: `payment.${payment.status}`,
        eventKey: `payment:${payment.invoiceId}:${payment.status}`,
        invoiceId: payment.invoiceId,
        paymentHash: payment.paymentHash,
        body: paymentPayload(payment)
      }
    ])
  }

  /**
   * Writes the events of first verifications in the caller's transaction (`OnPaid`). Only merchants' challenges have
   * one, of the producer API and of proxies (decision 158).
   */
  async challengesPaid(sql: TransactionSql | Sql, challenges: readonly Challenge[]): Promise<void> {
    const events = challenges.flatMap(challenge => {
      const merchantId = Number(challenge.merchantId ?? Number.NaN)
      if (!Number.isSafeInteger(merchantId) || (challenge.source !== 'producer' && challenge.source !== 'proxy'))
        return []
      return [
        {
          merchantId,
          event: 'l402.challenge.paid' as const,
          eventKey: `challenge:${challenge.paymentHash}`,
          invoiceId: null,
          paymentHash: challenge.paymentHash,
          body: challengePayload(challenge, merchantId)
        }
      ]
    })
    await this.#add(sql, events)
  }

  /** Writes a failed order's event in the caller's transaction, once per order and reason. */
  async storeOrderFailed(sql: TransactionSql, order: FailedStoreOrder): Promise<void> {
    await this.#add(sql, [
      {
        merchantId: order.merchantId,
        event: 'storefront.order.failed',
        eventKey: `store-order-failed:${order.id}:${order.failure?.reason ?? ''}`,
        invoiceId: null,
        paymentHash: order.paymentHash,
        body: storeOrderPayload(order)
      }
    ])
  }

  /**
   * Newest first.
   * @throws ValidationError for an invalid `since`; Unavailable
   */
  async list(merchant: Merchant, query: DeliveryQuery): Promise<DeliveryPage> {
    const since = query.since === undefined ? null : readFilterTime(query.since)
    if (query.since !== undefined && since === null)
      throw invalidField('/since', 'Must be an ISO 8601 time such as 2026-11-21T00:54:00Z.')
    // Out of range is clamped, never refused (decision 12).
    const page = { limit: Math.min(200, Math.max(1, query.limit ?? 50)), offset: Math.max(0, query.offset ?? 0) }
    const { endpoint = null, invoiceId = null, status = null } = query
    if (endpoint !== null && endpoint !== 'first' && !isWebhookId(endpoint))
      throw invalidField('/endpoint', 'Must be first or the id of a webhook endpoint.')
    const { rows, total } = await this.#dependencies.store.list(merchant.id, {
      ...page,
      endpoint,
      invoiceId,
      status,
      since
    })
    return { deliveries: rows.map(deliveryView), total, ...page }
  }

  /**
   * One delivery with its body.
   * @throws ShortError 404 for an unknown one and for another merchant's; Unavailable
   */
  async get(merchant: Merchant, id: string): Promise<DeliverySentView> {
    const sent = isWebhookId(id) ? await this.#dependencies.store.sent(merchant.id, id) : null
    if (sent === null) throw notFound()
    return { ...deliveryView(sent.delivery), body: sent.body }
  }

  /**
   * Resends the same bytes with a new signature, as a further attempt. A pending delivery is brought forward and keeps
   * its schedule; a decided one gets this single attempt. Adds nothing while an attempt is running.
   * @throws ShortError 404 for an unknown one and for another merchant's, 400 without a webhook URL and for a paused or
   * removed endpoint; Unavailable
   */
  async resend(merchant: Merchant, id: string): Promise<DeliveryView> {
    const { database, endpoints, store, clock } = this.#dependencies
    if (!isWebhookId(id)) throw notFound()
    const resent = await database.transaction(async sql => {
      const created = await store.resend(sql, merchant.id, id, clock.now())
      if (created === null) return null
      const { endpointId } = created.delivery
      // Throws inside the transaction, to roll it back.
      if (endpointId === null && merchant.webhookUrl === null)
        throw new ShortError(WEBHOOK_URL_MISSING, 'No webhook URL is set')
      if (endpointId !== null && (await endpoints.find(sql, merchant.id, endpointId))?.isActive !== true)
        throw new ShortError(WEBHOOK_URL_MISSING, 'The webhook endpoint is paused or was removed')
      // A key of its own: the scheduled attempt may hold the other one.
      if (created.attempt !== null)
        await this.attempts.enqueue(
          sql,
          created.delivery,
          { delivery: id, attempt: created.attempt },
          { key: `${id}:${created.attempt}:now`, pace: paceOf(created, clock.now()) }
        )
      return created
    })
    if (resent === null) throw notFound()
    return deliveryView(resent.delivery)
  }

  /**
   * Sends a signed test event now, to the first endpoint by default, and returns the result. Stores and retries
   * nothing.
   * @throws ShortError 400 without a webhook URL, 404 for an unknown endpoint
   */
  async test(merchant: Merchant, endpointId: string | null): Promise<TestView> {
    const { clock, database, endpoints, random, times = CONTRACT_TIMES } = this.#dependencies
    const target = await endpoints.target(database.sql, merchant.id, endpointId)
    if (target === null)
      throw endpointId === null ? new ShortError(WEBHOOK_URL_MISSING, 'No webhook URL is set') : endpointMissing()
    const sentAt = clock.now()
    const id = rowId(sentAt, random)
    const { error, responseStatus, responseBody } = await sendWebhook(
      { ...this.#dependencies, timeout: times.timeout },
      target,
      { id, merchantId: merchant.id, body: testPayload(merchant.id, id, sentAt) }
    )
    return {
      id,
      isDelivered: error === null,
      url: target.url,
      responseStatus,
      responseBody,
      error,
      sentAt: iso(sentAt)
    }
  }

  async purge(): Promise<void> {
    const before = this.#dependencies.clock.now() - KEEP
    await everyBatch(PURGED_AT_ONCE, size => this.#dependencies.store.purge(before, size))
  }

  async #add(sql: TransactionSql | Sql, events: ReadonlyArray<Omit<NewDelivery, 'id' | 'createdAt'>>): Promise<void> {
    if (events.length === 0) return
    const { store, clock, random } = this.#dependencies
    const createdAt = clock.now()
    const deliveries = events.map(event => ({ id: rowId(createdAt, random), createdAt, ...event }))
    await this.attempts.enqueueFirst(sql, await store.add(sql, deliveries), createdAt)
  }
}

function notFound(): ShortError {
  return new ShortError(RESOURCE_NOT_FOUND, 'Delivery not found')
}

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
function challengePayload(challenge: Challenge, merchantId: number): string {
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
