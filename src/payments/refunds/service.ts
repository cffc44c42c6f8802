import { pageRange, type ListTotal } from '../../engine/operations/keyset.ts'
import { INVALID_STATE, RESOURCE_NOT_FOUND, VALIDATION } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { IdempotencyKeyTaken, type Idempotency, type Kept } from '../../engine/message/idempotency.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import { isUniqueViolation } from '../../platform/database/database.ts'
import { numericId, type Random } from '../../platform/system/ids.ts'
import { periodic, type JobDeclaration } from '../../platform/jobs/jobs.ts'
import { ProviderUnavailable } from '../../lightning/provider-calls/errors.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { Payee } from '../../lightning/providers/payee.ts'
import {
  amountRequired,
  excess,
  readDestination,
  requireSameAmount,
  withInvoice,
  type InvoiceFor,
  type RefundSource
} from './destination.ts'
import { isRefundId, type Refund, type RefundInput, type RefundQuery, adviceOn, LOOKED_UP_FOR } from './schema.ts'
import { isOpen, nextCheck, SEND_WITHIN } from '../../lightning/providers/payout-states.ts'
import { namesIn, RefundPayouts, type PayoutDependencies } from './settlement.ts'
import { IDEMPOTENCY_KEY_INDEX, LIGHTNING_INVOICE_INDEX } from './store.ts'
import { defineError } from '../../platform/system/errors.ts'

const REFUND_UNSUPPORTED = defineError('BG_REFUND_UNSUPPORTED', {
  status: 400,
  cause:
    'The configured payment provider cannot send this refund: it does not support the type, or the payment was made through another provider.',
  fix: 'Use another `refundType`, or configure the provider of the payment again.'
})

export interface RefundsDependencies extends PayoutDependencies {
  readonly random: Random
  readonly invoiceFor: InvoiceFor
  readonly merchants: Pick<Merchants, 'byId'>
}

const FOLLOW_UP_LIMIT = 100

/**
 * Refunds (contract, Refunds; decisions 54 to 63). A row is reserved under the payment's row lock, the provider is
 * asked once outside the transaction, then the row is written. A crash in between leaves a pending row, which is looked
 * up and never sent again. Merchant methods throw `Unavailable` 503 while the database is down.
 */
export class Refunds {
  readonly #dependencies: RefundsDependencies
  readonly #payouts: RefundPayouts

  constructor(dependencies: RefundsDependencies) {
    this.#dependencies = dependencies
    this.#payouts = new RefundPayouts(dependencies)
  }

  get jobs(): readonly JobDeclaration[] {
    return [
      periodic('refunds-follow-up', 30_000, 'Looks up refunds in flight', () =>
        this.followUp(this.#dependencies.clock.now())
      )
    ]
  }

  /**
   * Refunds a payment in whole or in part. A pending result means that the provider's answer was lost. The idempotency
   * key is stored before the provider is asked.
   * @throws ShortError 400 for every reason that a refund fails (contract, Errors), ProviderUnavailable 503 when the
   * provider cannot be reached, which leaves nothing in flight; IdempotencyKeyTaken
   */
  async create(merchant: Merchant, input: RefundInput, idempotency: Idempotency | null = null): Promise<Refund> {
    const { sources, payees, clock, invoiceFor } = this.#dependencies
    const source = await sources.get(merchant.id, input.invoiceId, clock.now())
    if (source === null) throw new ShortError(VALIDATION, 'Invoice not found')
    requireRefundable(source)
    const payee = payees.maker(merchant, source.slot, source.kind)
    if (payee === null) throw providerChanged(source, payees)
    const draft = this.#draft(source, payee, input)
    requireCapable(payee, draft)
    const amount = input.amountSatoshis ?? null
    const refund = await withInvoice(draft, amount, source.capSats, idempotency, invoiceFor)
    const destination = readDestination(refund.type, refund.address, source.network, clock.now())
    if (amount === null) requireOptionalAmount(refund)
    else requireSameAmount(destination, amount)
    // From here money may have been sent: database errors must not be thrown.
    return await this.#payouts.send(
      payee,
      source,
      await this.#reserve(source, { ...refund, paymentHash: destination.paymentHash }, amount, idempotency)
    )
  }

  byKey(merchant: Merchant, key: string): Promise<Kept<Refund> | null> {
    return this.#dependencies.store.byKey(merchant.id, key)
  }

  /** @throws ShortError 404 */
  async get(merchant: Merchant, refundId: string): Promise<Refund> {
    const refund = isRefundId(refundId) ? await this.#dependencies.store.get(merchant.id, refundId) : null
    if (refund === null) throw new ShortError(RESOURCE_NOT_FOUND, 'Refund not found')
    return refund
  }

  /** Newest first (decisions 11 and 12). */
  list(merchant: Merchant, query: RefundQuery): Promise<Refund[]> {
    return this.#dependencies.store.list(merchant.id, query, pageRange(query))
  }

  sum(merchant: Merchant, query: RefundQuery): Promise<ListTotal> {
    return this.#dependencies.store.sum(merchant.id, query)
  }

  /**
   * Newest first.
   * @throws ShortError 404 for an unknown invoice
   */
  async ofInvoice(merchant: Merchant, invoiceId: string): Promise<Refund[]> {
    const { sources, clock } = this.#dependencies
    if ((await sources.get(merchant.id, invoiceId, clock.now())) === null)
      throw new ShortError(RESOURCE_NOT_FOUND, 'Invoice not found')
    return await this.#dependencies.store.ofInvoice(merchant.id, invoiceId)
  }

  /**
   * Updates the refund from the provider; a settled one is only read.
   * @throws ShortError 404; ProviderUnavailable 503 and ProviderRefused 502 without the provider's answer
   */
  async sync(merchant: Merchant, refundId: string): Promise<Refund> {
    const refund = await this.get(merchant, refundId)
    return isSettled(refund)
      ? refund
      : await this.#payouts.lookUp(merchant, refund).catch((error: unknown) => {
          throw this.#advised(error, refund)
        })
  }

  /**
   * Looks up due open refunds: for a periodic job in any number of processes. Failures are
   * logged and retried.
   * @returns how many were looked up
   */
  async followUp(now: number): Promise<number> {
    const { store, log } = this.#dependencies
    const due = await store.takeDue(now, SEND_WITHIN, LOOKED_UP_FOR, FOLLOW_UP_LIMIT)
    for (const refund of due) {
      try {
        const merchant = await this.#dependencies.merchants.byId(refund.merchantId)
        if (merchant === null) throw new TypeError('the account of a refund is gone')
        const seen = await this.#payouts.lookUp(merchant, refund)
        if (isOpen(seen)) await store.checkAt(seen.refundId, nextCheck(seen, now))
      } catch (error) {
        log.warn(
          { err: error, refundId: refund.refundId, merchantId: refund.merchantId },
          'a refund could not be looked up; it is tried again later'
        )
        await store.checkAt(refund.refundId, nextCheck(refund, now))
      }
    }
    return due.length
  }

  #advised(error: unknown, refund: Refund): unknown {
    const advice = adviceOn(refund, this.#dependencies.clock.now())
    return error instanceof ProviderUnavailable && advice !== null
      ? new ProviderUnavailable(`${error.message} ${advice}`, error.retryAfter, error, error.fault)
      : error
  }

  #draft(source: RefundSource, payee: Payee, input: RefundInput): Refund {
    const { clock, random } = this.#dependencies
    return {
      refundId: numericId(random),
      merchantId: source.merchantId,
      invoiceId: source.invoiceId,
      status: 'pending',
      type: input.refundType ?? 'chain',
      address: input.refundAddress,
      lightningAddress: null,
      paymentHash: null,
      amountSats: input.amountSatoshis ?? 0,
      feeSats: 0,
      slot: source.slot,
      kind: payee.kind,
      providerRefundId: null,
      transactionHash: null,
      email: input.email ?? null,
      reason: input.reason ?? null,
      createdAt: clock.now(),
      processedAt: null
    }
  }

  /** `amount` null takes all that remains (decision 60). */
  async #reserve(
    seen: RefundSource,
    refund: Refund,
    amount: number | null,
    idempotency: Idempotency | null
  ): Promise<Refund> {
    const { database, sources, store, clock } = this.#dependencies
    try {
      return await database.transaction(async sql => {
        const now = clock.now()
        const source = await sources.lock(sql, seen.merchantId, seen.invoiceId, now)
        if (source === null) throw new ShortError(VALIDATION, 'Invoice not found')
        requireRefundable(source)
        const { held } = await store.sums(sql, source.invoiceId)
        const left = Math.max(source.capSats - held, 0)
        const amountSats = amount ?? left
        if (amountSats > left || amountSats === 0) {
          const lost = (await store.lost(sql, source.invoiceId)).map(held => adviceOn(held, now) ?? '')
          const words = amountSats === 0 ? 'Nothing is left to refund.' : excess(left)
          throw new ShortError(VALIDATION, [words, ...lost].join(' '))
        }
        const reserved = { ...refund, amountSats, createdAt: now }
        await store.insert(sql, reserved, now + SEND_WITHIN, idempotency)
        return reserved
      })
    } catch (error) {
      if (isUniqueViolation(error, IDEMPOTENCY_KEY_INDEX)) throw new IdempotencyKeyTaken()
      if (isUniqueViolation(error, LIGHTNING_INVOICE_INDEX)) {
        throw new ShortError(
          VALIDATION,
          'Another refund already pays the Lightning invoice in refundAddress; ask the payer for a new one.'
        )
      }
      throw error
    }
  }
}

function requireRefundable({ refusal }: RefundSource): void {
  if (refusal !== null) throw new ShortError(INVALID_STATE, refusal)
}

/** Error when another kind is in the payment's slot: it is another account (decision 54). */
function providerChanged(source: RefundSource, payees: Payees): ShortError {
  return new ShortError(
    REFUND_UNSUPPORTED,
    `The payment was made through ${source.kind}, and the ${source.slot} provider is ${namesIn(payees, source.slot)} now.`
  )
}

function requireCapable(payee: Payee, refund: Refund): void {
  const can = refund.type === 'ln' ? payee.capabilities.payout.lightning : payee.capabilities.payout.chain
  const { lightning, chain } = payee.capabilities.payout
  if (!can)
    throw new ShortError(
      REFUND_UNSUPPORTED,
      lightning || chain
        ? `The payment provider cannot send refunds of type ${refund.type}.`
        : `The ${payee.slot} provider, ${payee.kind}, only receives: it can send no refunds.`
    )
}

function requireOptionalAmount(refund: Refund): void {
  if (refund.type === 'ln') throw amountRequired()
  if (refund.slot === 'primary')
    throw new ShortError(VALIDATION, 'amountSatoshis is required for refunds on the primary provider.')
}

/** Whether the refund is failed, or confirmed with all its details. */
function isSettled(refund: Refund): boolean {
  return (
    refund.status === 'failed' ||
    (refund.status === 'confirmed' && (refund.type === 'ln' || refund.transactionHash !== null))
  )
}
