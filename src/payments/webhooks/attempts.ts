import { defineError } from '../../platform/system/errors.ts'
import type { OutboundCall } from '../../engine/upstream/outbound.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, Sql, TransactionSql } from '../../platform/database/database.ts'
import { periodic, queue, type JobDeclaration, type Jobs, type Pace } from '../../platform/jobs/jobs.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Counter, Metrics } from '../../platform/telemetry/metrics.ts'
import { given, groupOf, paceOf, recordAttempt, sendWebhook, type Verdict } from './delivery.ts'
import { PAUSED, REMOVED, type WebhookEndpoints } from './endpoints.ts'
import type { AddedDelivery, ClaimedAttempt, PacedDelivery, WebhookStore } from './store.ts'

const WEBHOOK_FAILED = defineError('BG_WEBHOOK_FAILED', {
  cause: 'The last delivery attempt of a webhook failed.',
  fix: 'The merchant fixes the endpoint and resends with `POST /api/merchant/webhooks/deliveries/{id}/resend`.'
})

const WEBHOOK_QUEUE = 'webhooks'
const RECOVERY = 'webhooks-recovery'

const CONCURRENCY = 256
const PER_ENDPOINT = 4
/** Concurrency limits of slow endpoints, and of slow and unproven ones together; the rest is reserved. */
const PACED = { slow: 64, unproven: 160 }
/** Milliseconds added to the timeout of a claim for database work. */
const AROUND = 5_000
/** Milliseconds after which a due attempt without a claim has lost its job. */
const LOST = 60_000
const RECOVERED_AT_ONCE = 500

/** The last attempt failed. Operators see a failed job, whose retry sends once more. */
class DeliveryFailed extends Error {
  override name = 'DeliveryFailed'
  readonly code = WEBHOOK_FAILED.code
}

/** Data of an attempt's job. A type, since interfaces lack the index signature. */
type AttemptData = { readonly delivery: string; readonly attempt: number }

/** Writes in the transaction of a delivery that has failed for good. */
export type OnDeliveryFailed = (
  sql: TransactionSql,
  failed: { readonly merchantId: number; readonly event: string; readonly host: string; readonly reason: string }
) => Promise<void>

export interface WebhookParts {
  readonly failed?: OnDeliveryFailed
  readonly store: WebhookStore
  readonly endpoints: WebhookEndpoints
  readonly database: Database
  readonly jobs: Jobs
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

interface AttemptDependencies extends WebhookParts {
  readonly call: OutboundCall
  /** In milliseconds. */
  readonly times: { readonly backoff: readonly number[]; readonly timeout: number }
}

/**
 * Delivery attempts, which are jobs: each adds the next in the transaction of its outcome. They use the URL and secret
 * at the time of sending (decision 159).
 */
export class WebhookAttempts {
  readonly #dependencies: AttemptDependencies
  readonly #made: Counter<'result'>
  readonly #alive: number

  constructor(dependencies: AttemptDependencies) {
    this.#dependencies = dependencies
    this.#alive = dependencies.times.timeout + AROUND
    this.#made = dependencies.metrics.counter(
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
      periodic(RECOVERY, LOST, 'Finds webhooks whose attempt was lost', () => this.recover())
    ]
  }

  async enqueueFirst(sql: TransactionSql | Sql, deliveries: readonly PacedDelivery[], now: number): Promise<void> {
    const attempts = deliveries.map(added => {
      const data: AttemptData = { delivery: added.id, attempt: 1 }
      return { data, key: `${added.id}:1`, group: groupOf(added), pace: paceOf(added, now) }
    })
    if (attempts.length > 0) await this.#dependencies.jobs.enqueueAll(sql, WEBHOOK_QUEUE, attempts)
  }

  /**
   * Makes one attempt, unless it was made or is running. `job` is the id of the queue's job.
   * @throws DeliveryFailed after the last attempt. The reason of `signal` and database errors leave the attempt
   * uncounted.
   */
  async attempt({ delivery, attempt }: AttemptData, job: string, signal: AbortSignal): Promise<void> {
    const { store, clock, log } = this.#dependencies
    const now = clock.now()
    const claimed = await store.claim(delivery, attempt, job, now, now + this.#alive)
    if (claimed === null) {
      // The lease of a killed process's job lapses before its claim: the attempt must not wait for `recover`.
      const held = await store.claimedByOther(delivery, attempt)
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
    this.#made.inc({ result })
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

  /** Safety net for lost jobs, below the queue's own. */
  async recover(): Promise<void> {
    const { store, clock } = this.#dependencies
    const now = clock.now()
    for (const { attempt, ...lost } of await store.overdue(now - LOST, now, RECOVERED_AT_ONCE))
      await this.#again(lost, attempt, now)
  }

  /** A job that waits for a slot has the same key, and is not added twice. */
  async #again(delivery: PacedDelivery, attempt: number, startAfter: number): Promise<void> {
    const { database, clock } = this.#dependencies
    const { id } = delivery
    const options = { key: `${id}:${attempt}`, pace: paceOf(delivery, clock.now()), startAfter }
    await this.enqueue(database.sql, delivery, { delivery: id, attempt }, options)
  }

  async enqueue(
    sql: TransactionSql | Sql,
    of: Omit<AddedDelivery, 'id'>,
    data: AttemptData,
    options: { readonly key: string; readonly pace: Pace; readonly startAfter?: number }
  ): Promise<void> {
    await this.#dependencies.jobs.enqueue(sql, WEBHOOK_QUEUE, data, { ...options, group: groupOf(of) })
  }

  /** @throws the reason of `signal`; errors of reading the destination */
  async #send(id: string, { merchantId, endpointId, body }: ClaimedAttempt, signal: AbortSignal): Promise<Verdict> {
    const { database, endpoints, times } = this.#dependencies
    const target = await endpoints.target(database.sql, merchantId, endpointId)
    if (target === null) return given(endpointId === null ? 'No webhook URL is set any more.' : REMOVED, null, true)
    if (!target.isActive) return given(PAUSED, null, true)
    const dependencies = { ...this.#dependencies, timeout: times.timeout }
    return await sendWebhook(dependencies, target, { id, merchantId, body }, signal)
  }

  /** Null when this number was already written. */
  async #finish(
    id: string,
    claimed: ClaimedAttempt,
    verdict: Verdict,
    job: string
  ): Promise<'delivered' | 'retried' | 'failed' | null> {
    const { clock, database, jobs, store } = this.#dependencies
    const endedAt = clock.now()
    const pause = this.#dependencies.times.backoff[claimed.attempt - 1]
    const next =
      verdict.error === null || verdict.final || !claimed.retries || pause === undefined ? null : endedAt + pause
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
      // A resend by hand shows its result, and what was removed or paused is known.
      if (result === 'failed' && claimed.retries && url !== null) {
        const { merchantId, event } = claimed
        await this.#dependencies.failed?.(sql, { merchantId, event, host: new URL(url).host, reason: error ?? '' })
      }
      const before = paceOf(claimed, endedAt)
      const group = groupOf(claimed)
      const pace = await recordAttempt(sql, group, before, took, endedAt)
      if (pace !== before) await jobs.setPace(sql, WEBHOOK_QUEUE, group, pace)
      const attempt = claimed.attempt + 1
      if (next !== null)
        await this.enqueue(sql, claimed, { delivery: id, attempt }, { key: `${id}:${attempt}`, startAfter: next, pace })
      return result
    })
  }
}

/**
 * Milliseconds of one attempt including DNS, and from the end of each failed one to the next, after the last of which
 * the event has permanently failed (contract, Events 5 and Limits: Outbound webhook; decision 160).
 */
export const CONTRACT_TIMES = { timeout: 10_000, backoff: [30_000, 60_000, 120_000, 240_000, 480_000] } as const
