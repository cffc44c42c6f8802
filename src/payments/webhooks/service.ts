import type { Challenge } from '../../selling/holding/challenge.ts'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { readFilterTime, iso } from '../../engine/formats/iso-time.ts'
import { invalidField } from '../../engine/operations/validation.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { PaymentChange } from '../payments/schema.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, Sql, TransactionSql } from '../../platform/database/database.ts'
import { rowId, type Random } from '../../platform/system/ids.ts'
import { periodic, queue, type JobDeclaration, type Jobs, type Pace } from '../../platform/jobs/jobs.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Counter, Metrics } from '../../platform/telemetry/metrics.ts'
import { UnsealError, type Secret } from '../../platform/keys/secrets.ts'
import type { OutboundCall } from '../../engine/upstream/outbound.ts'
import { endpointMissing, PAUSED, REMOVED, type WebhookEndpoint, type WebhookEndpoints } from './endpoints.ts'
import { answered, KEPT_RESPONSE_BYTES, unanswered, type Sent } from './delivery.ts'
import { challengePayload, paymentPayload, storeOrderPayload, testPayload, type FailedStoreOrder } from './payload.ts'
import { ATTEMPT_TIMEOUT, BACKOFF, nextAttemptAt } from './schedule.ts'
import {
  deliveryView,
  type DeliveryPage,
  type DeliveryQuery,
  type DeliverySentView,
  type DeliveryView,
  type TestView
} from './schema.ts'
import { signatureHeader } from './signature.ts'
import { groupOf, paceOf, recordAttempt } from './pace.ts'
import {
  isWebhookId,
  type AddedDelivery,
  type ClaimedAttempt,
  type NewDelivery,
  type PacedDelivery,
  type WebhookStore
} from './store.ts'
import { USER_AGENT } from './user-agent.ts'
import { defineError } from '../../platform/system/errors.ts'

const WEBHOOK_FAILED = defineError('BG_WEBHOOK_FAILED', {
  cause: 'The last delivery attempt of a webhook failed.',
  fix: 'The merchant fixes the endpoint and resends with `POST /api/merchant/webhooks/deliveries/{id}/resend`.'
})

const WEBHOOK_URL_MISSING = defineError('BG_WEBHOOK_URL_MISSING', {
  status: 400,
  cause: 'There is no active webhook endpoint to send to.',
  fix: 'Set one with `PUT /api/merchant/webhook-url`, or resume it with `PUT /api/merchant/webhooks/endpoints/{endpointId}`.'
})

export interface WebhooksParts {
  readonly store: WebhookStore
  readonly endpoints: Pick<WebhookEndpoints, 'find' | 'secretOf'>
  readonly database: Database
  readonly jobs: Pick<Jobs, 'enqueue' | 'enqueueAll' | 'setPace'>
  readonly merchants: Pick<Merchants, 'byId' | 'webhookSecret'>
  readonly call: OutboundCall
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly metrics: Metrics
  /** Backoff and timeout in milliseconds; tests shorten the contract's. */
  readonly times?: { readonly backoff: readonly number[]; readonly timeout: number }
}

const WEBHOOK_QUEUE = 'webhooks'
const RECOVERY = 'webhooks-recovery'
const PURGE = 'webhooks-purge'

/** Concurrent attempts of each process, and of one endpoint over all processes. */
const CONCURRENCY = 256
const PER_ENDPOINT = 4
/** Concurrency limits of slow endpoints, and of slow and unproven ones together; the rest is reserved. */
const PACED = { slow: 64, unproven: 160 }
/** Milliseconds added to the timeout of a claim for database work. */
const AROUND = 5_000
/** Milliseconds after which a due attempt without a claim has lost its job. */
const LOST = 60_000
const RECOVERED_AT_ONCE = 500
/** Retention of deliveries in milliseconds (decision 173). */
const KEEP = 30 * 86_400_000
const PURGED_AT_ONCE = 1_000

/** The last attempt failed. Operators see a failed job, whose retry sends once more. */
class DeliveryFailed extends Error {
  override name = 'DeliveryFailed'
  readonly code = WEBHOOK_FAILED.code
}

/** Data of an attempt's job. A type, since interfaces lack the index signature. */
type AttemptData = { readonly delivery: string; readonly attempt: number }

/** Address and signing secret; null without a secret. */
interface Destination {
  readonly url: string
  /** @throws UnsealError */
  secret(): Secret<string> | null
}

/** A failure that retries cannot fix. */
interface Verdict extends Sent {
  readonly url: string | null
  readonly final: boolean
  /** Duration of the call in milliseconds; null without one. */
  readonly took: number | null
}

/**
 * Webhooks to merchants (contract, Events; decisions 157 to 162). Events are rows, one per subscribed endpoint, written
 * in the transaction of their cause. Attempts are jobs, each adding the next in the transaction of its outcome. They
 * use the URL and secret at the time of sending (decision 159). Deactivated merchants still get theirs: money has
 * moved, and the account has no other way to learn of it.
 */
export class Webhooks {
  readonly #parts: WebhooksParts
  readonly #attempts: Counter<'result'>
  readonly #times: NonNullable<WebhooksParts['times']>
  readonly #alive: number

  constructor(parts: WebhooksParts) {
    this.#parts = parts
    this.#times = parts.times ?? { backoff: BACKOFF, timeout: ATTEMPT_TIMEOUT }
    this.#alive = this.#times.timeout + AROUND
    this.#attempts = parts.metrics.counter(
      'boltgate_webhook_attempts_total',
      'Attempts to deliver a webhook, by result: delivered, retried, failed for good.',
      ['result']
    )
  }

  get jobs(): readonly JobDeclaration[] {
    return [
      queue<AttemptData>(
        WEBHOOK_QUEUE,
        {
          title: 'Webhooks to merchants',
          concurrency: CONCURRENCY,
          perGroup: PER_ENDPOINT,
          paced: PACED,
          expiry: this.#alive,
          poll: 500
        },
        ({ id, data }, signal) => this.attempt(data, id, signal)
      ),
      periodic(RECOVERY, LOST, 'Finds webhooks whose attempt was lost', () => this.recover()),
      periodic(PURGE, 3_600_000, 'Deletes webhook deliveries after 30 days', () => this.purge())
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
   * Makes one attempt, unless it was made or is running. `job` is the id of the queue's job.
   * @throws DeliveryFailed after the last attempt. The reason of `signal` and database errors leave the attempt
   * uncounted.
   */
  async attempt({ delivery, attempt }: AttemptData, job: string, signal: AbortSignal): Promise<void> {
    const { store, clock, log } = this.#parts
    const now = clock.now()
    const claimed = await store.claim({ id: delivery, attempt, job, now, until: now + this.#alive })
    if (claimed === null) {
      // The lease of a killed process's job lapses before its claim: the attempt must not wait for `recover`.
      const held = await store.claimedElsewhere(delivery, attempt)
      if (held !== null) await this.#again(held, attempt, held.claimedUntil)
      return
    }
    let verdict: Verdict
    try {
      verdict = await this.#send(delivery, claimed, signal)
    } catch (error) {
      await store.unclaim(delivery, claimed.attempt)
      throw error
    }
    const result = await this.#finish(delivery, claimed, verdict, job)
    if (result === null) return
    this.#attempts.inc({ result })
    log.debug(
      {
        delivery,
        merchantId: claimed.merchantId,
        event: claimed.event,
        attempt: claimed.attempt,
        status: verdict.responseStatus,
        reason: verdict.error,
        result
      },
      'webhook'
    )
    if (result === 'failed')
      throw new DeliveryFailed(
        `${claimed.event} to merchant ${claimed.merchantId}, attempt ${claimed.attempt}: ${verdict.error ?? ''}`
      )
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
    const { endpoint = null, status = null } = query
    if (endpoint !== null && endpoint !== 'first' && !isWebhookId(endpoint))
      throw invalidField('/endpoint', 'Must be first or the id of a webhook endpoint.')
    const { rows, total } = await this.#parts.store.list(merchant.id, { ...page, endpoint, status, since })
    return { deliveries: rows.map(deliveryView), total, ...page }
  }

  /**
   * One delivery with its body.
   * @throws ShortError 404 for an unknown one and for another merchant's; Unavailable
   */
  async get(merchant: Merchant, id: string): Promise<DeliverySentView> {
    const sent = isWebhookId(id) ? await this.#parts.store.sent(merchant.id, id) : null
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
    const { database, endpoints, store, clock } = this.#parts
    if (!isWebhookId(id)) throw notFound()
    const resent = await database.transaction(async sql => {
      const made = await store.resend(sql, merchant.id, id, clock.now())
      if (made === null) return null
      const { endpointId } = made.delivery
      // Throws inside the transaction, to roll it back.
      if (endpointId === null && merchant.webhookUrl === null)
        throw new ShortError(WEBHOOK_URL_MISSING, 'No webhook URL is set')
      if (endpointId !== null && (await endpoints.find(sql, merchant.id, endpointId))?.isActive !== true)
        throw new ShortError(WEBHOOK_URL_MISSING, 'The webhook endpoint is paused or was removed')
      // A key of its own: the scheduled attempt may hold the other one.
      if (made.attempt !== null)
        await this.#enqueue(
          sql,
          made.delivery,
          { delivery: id, attempt: made.attempt },
          { key: `${id}:${made.attempt}:now`, pace: paceOf(made, clock.now()) }
        )
      return made
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
    const { clock, database, endpoints, random } = this.#parts
    const endpoint = endpointId === null ? null : await endpoints.find(database.sql, merchant.id, endpointId)
    if (endpointId !== null && endpoint === null) throw endpointMissing()
    const destination = endpoint === null ? this.#first(merchant) : this.#further(endpoint)
    if (destination === null) throw new ShortError(WEBHOOK_URL_MISSING, 'No webhook URL is set')
    const sentAt = clock.now()
    const id = rowId(sentAt, random)
    const { error, responseStatus, responseBody } = await this.#post(destination, {
      id,
      merchantId: merchant.id,
      body: testPayload(merchant.id, id, sentAt)
    })
    return {
      id,
      isDelivered: error === null,
      url: destination.url,
      responseStatus,
      responseBody,
      error,
      sentAt: iso(sentAt)
    }
  }

  /** Safety net for lost jobs, below the queue's own. */
  async recover(): Promise<void> {
    const { store, clock } = this.#parts
    const now = clock.now()
    for (const { attempt, ...lost } of await store.overdue(now - LOST, now, RECOVERED_AT_ONCE))
      await this.#again(lost, attempt, now)
  }

  async purge(): Promise<void> {
    const before = this.#parts.clock.now() - KEEP
    while ((await this.#parts.store.purge(before, PURGED_AT_ONCE)) === PURGED_AT_ONCE) {
      /* there may be more */
    }
  }

  async #add(sql: TransactionSql | Sql, events: ReadonlyArray<Omit<NewDelivery, 'id' | 'createdAt'>>): Promise<void> {
    if (events.length === 0) return
    const { store, jobs, clock, random } = this.#parts
    const createdAt = clock.now()
    const deliveries = events.map(event => ({ id: rowId(createdAt, random), createdAt, ...event }))
    const attempts = (await store.add(sql, deliveries)).map(added => {
      const data: AttemptData = { delivery: added.id, attempt: 1 }
      return { data, key: `${added.id}:1`, group: groupOf(added), pace: paceOf(added, createdAt) }
    })
    if (attempts.length > 0) await jobs.enqueueAll(sql, WEBHOOK_QUEUE, attempts)
  }

  /** A job that waits for a slot has the same key, and is not added twice. */
  async #again(delivery: PacedDelivery, attempt: number, startAfter: number): Promise<void> {
    const { database, clock } = this.#parts
    const { id } = delivery
    const options = { key: `${id}:${attempt}`, pace: paceOf(delivery, clock.now()), startAfter }
    await this.#enqueue(database.sql, delivery, { delivery: id, attempt }, options)
  }

  async #enqueue(
    sql: TransactionSql | Sql,
    of: Omit<AddedDelivery, 'id'>,
    data: AttemptData,
    options: { readonly key: string; readonly pace: Pace; readonly startAfter?: number }
  ): Promise<void> {
    await this.#parts.jobs.enqueue(sql, WEBHOOK_QUEUE, data, { ...options, group: groupOf(of) })
  }

  /** @throws the reason of `signal`; errors of reading the destination */
  async #send(id: string, { merchantId, endpointId, body }: ClaimedAttempt, signal: AbortSignal): Promise<Verdict> {
    const { database, endpoints, merchants } = this.#parts
    let destination: Destination | null
    if (endpointId === null) {
      const merchant = await merchants.byId(merchantId)
      destination = merchant === null ? null : this.#first(merchant)
      if (destination === null) return given('No webhook URL is set any more.', null, true)
    } else {
      const endpoint = await endpoints.find(database.sql, merchantId, endpointId)
      if (endpoint === null) return given(REMOVED, null, true)
      if (!endpoint.isActive) return given(PAUSED, null, true)
      destination = this.#further(endpoint)
    }
    return await this.#post(destination, { id, merchantId, body }, signal)
  }

  #first(merchant: Merchant): Destination | null {
    const { webhookUrl: url } = merchant
    return url === null ? null : { url, secret: () => this.#parts.merchants.webhookSecret(merchant) }
  }

  #further(endpoint: WebhookEndpoint): Destination {
    return { url: endpoint.url, secret: () => this.#parts.endpoints.secretOf(endpoint) }
  }

  /**
   * Sends one signed request to a merchant's server.
   * @throws the reason of `signal`
   */
  async #post(
    { url, secret: read }: Destination,
    { id, merchantId, body }: { readonly id: string; readonly merchantId: number; readonly body: string },
    signal?: AbortSignal
  ): Promise<Verdict> {
    const { call, clock, log } = this.#parts
    const bytes = Buffer.from(body, 'utf8')
    let signature: string
    try {
      const secret = read()
      if (secret === null) return given('No webhook secret is set any more.', url, true)
      signature = signatureHeader(secret, clock.now(), bytes)
    } catch (error) {
      if (!(error instanceof UnsealError)) throw error
      log.error({ err: error, merchantId }, 'a webhook secret cannot be opened')
      return given('The webhook secret cannot be read.', url, false)
    }
    const headers = [
      'Content-Type',
      'application/json',
      'User-Agent',
      USER_AGENT,
      'X-Service-Signature',
      signature,
      'X-Correlation-Id',
      id
    ]
    const startedAt = clock.now()
    try {
      const answer = await call({
        method: 'POST',
        url,
        headers,
        body: bytes,
        timeout: this.#times.timeout,
        keep: KEPT_RESPONSE_BYTES,
        ...(signal === undefined ? {} : { signal })
      })
      return { ...answered(answer), url, final: false, took: clock.now() - startedAt }
    } catch (error) {
      signal?.throwIfAborted()
      return { ...unanswered(error), url, final: false, took: clock.now() - startedAt }
    }
  }

  /** Null when this number was already written. */
  async #finish(
    id: string,
    claimed: ClaimedAttempt,
    verdict: Verdict,
    job: string
  ): Promise<'delivered' | 'retried' | 'failed' | null> {
    const { clock, database, jobs, store } = this.#parts
    const endedAt = clock.now()
    const next =
      verdict.error === null || verdict.final || !claimed.retries
        ? null
        : nextAttemptAt(claimed.attempt, endedAt, this.#times.backoff)
    const result = verdict.error === null ? 'delivered' : next === null ? 'failed' : 'retried'
    const { url, responseStatus, responseBody, error, took } = verdict
    return await database.transaction(async sql => {
      const written = await store.finish(sql, id, claimed.attempt, {
        status: result === 'retried' ? 'pending' : result,
        url,
        responseStatus,
        responseBody,
        error,
        endedAt,
        nextAttemptAt: next,
        failedJob: result === 'failed' ? job : null
      })
      if (!written) return null
      const before = paceOf(claimed, endedAt)
      const group = groupOf(claimed)
      const pace = await recordAttempt(sql, group, before, took, endedAt)
      if (pace !== before) await jobs.setPace(sql, WEBHOOK_QUEUE, group, pace)
      const attempt = claimed.attempt + 1
      if (next !== null)
        await this.#enqueue(
          sql,
          claimed,
          { delivery: id, attempt },
          { key: `${id}:${attempt}`, startAfter: next, pace }
        )
      return result
    })
  }
}

function given(error: string, url: string | null, final: boolean): Verdict {
  return { error, url, final, took: null, responseStatus: null, responseBody: null }
}

function notFound(): ShortError {
  return new ShortError(RESOURCE_NOT_FOUND, 'Delivery not found')
}
