import { everyBatch, periodic, type JobDeclaration } from '../../platform/jobs/jobs.ts'
import { CONFLICT, RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { LongError, ShortError } from '../../engine/operations/errors.ts'
import { once, type Idempotency } from '../../engine/message/idempotency.ts'
import type { KeysetPage, ListTotal } from '../../engine/operations/keyset.ts'
import { isHex32 } from '../../lightning/codecs/hmac.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { ChargeState, KindName } from '../../lightning/provider-calls/provider.ts'
import { PaymentChanges, type ChangeFacts, type ChangeDependencies, asOf, due } from './changes.ts'
import { RESERVED_FOR, PaymentCreator, type CreatorDependencies } from './creator.ts'
import { paymentView, type Payment, type PaymentInput, type PaymentStatus, type PaymentView } from './schema.ts'
import {
  isInvoiceId,
  type DuePayment,
  type PaymentFilter,
  type PaymentKey,
  type PaymentKeyUse,
  type PaymentMaker,
  type ProviderSeatName
} from './store.ts'
import { ANSWERLESS, Sweeper } from './sweeper.ts'
import type { PaymentWatch } from './watch.ts'

export interface PaymentsDependencies extends ChangeDependencies, CreatorDependencies {
  readonly watch: PaymentWatch
  publicUrl(): string
  readonly merchants: Pick<Merchants, 'byId'>
  readonly polled?: () => readonly ProviderSeatName[]
  /** Called for each stored payment with a provider's invoice. Must not block or throw. */
  readonly created?: (merchant: Merchant, payment: Payment) => void
}

const PURGE_BATCH = 1_000
const ANSWERED_BATCH = 100

/**
 * Payments of merchants (contract, Payments; decisions 39 to 54). Every method throws `Unavailable` 503 while the
 * database is down.
 */
export class Payments {
  readonly #dependencies: PaymentsDependencies
  readonly #changes: PaymentChanges
  readonly #creator: PaymentCreator
  readonly #sweeper: Sweeper

  constructor(dependencies: PaymentsDependencies) {
    this.#dependencies = dependencies
    this.#changes = new PaymentChanges(dependencies)
    this.#creator = new PaymentCreator(dependencies)
    this.#sweeper = new Sweeper({
      store: dependencies.store,
      clock: dependencies.clock,
      log: dependencies.log,
      polled: () => this.#polled,
      record: key => this.#changes.recordDue(key, dependencies.clock.now()),
      ask: key => this.#pollProvider(key)
    })
  }

  /** Retries expiries that the sweeper failed to write, and reports failures to operators. */
  get jobs(): readonly JobDeclaration[] {
    return [
      periodic('payments-expiry', 60_000, 'Writes down payments that have expired', () => this.recordExpiries()),
      periodic('payments-purge', 3_600_000, 'Gives back order ids of payments that were never made', () =>
        this.purgeReservations()
      )
    ]
  }

  /**
   * Creates a payment with its invoice.
   * @throws ValidationError 400; GateError 403 without the feature for EUR and GBP (decision 51); ShortError 400 for a
   * duplicate order id and for an account that was deactivated meanwhile (decision 25); ProviderKeyRequired 400,
   * ProviderRefused 502, Unavailable 503; IdempotencyKeyTaken
   */
  async create(
    merchant: Merchant,
    input: PaymentInput,
    idempotency: PaymentKeyUse | null = null,
    reserved?: () => Promise<void>
  ): Promise<Payment> {
    const payment = await this.#creator.create(merchant, input, idempotency, reserved)
    this.#sweeper.wakeAt(payment.confirmsAt ?? payment.expiresAt)
    if (payment.confirmsAt === null) this.#dependencies.created?.(merchant, payment)
    return payment
  }

  /**
   * Creates a payment once per idempotency key and operation; a repeat returns the current payment.
   * @returns the payment, with headers that mark a repeat.
   * @throws as `create`, and ShortError 400 for a key of another body
   */
  createOnce(
    merchant: Merchant,
    input: PaymentInput,
    operation: PaymentMaker,
    idempotency: Idempotency | null,
    reserved?: () => Promise<void>
  ): Promise<{ readonly made: Payment; readonly headers: readonly string[] }> {
    return once(
      idempotency,
      async key => {
        const kept = await this.#dependencies.store.byKey(merchant.id, operation, key)
        return kept === null ? null : { ...kept, made: await this.#current(kept.made) }
      },
      () => this.create(merchant, input, idempotency === null ? null : { ...idempotency, operation }, reserved),
      this.#dependencies.clock.now()
    )
  }

  /** @throws ShortError 404 for an unknown payment and for another merchant's */
  async get(merchant: Merchant, invoiceId: string): Promise<Payment> {
    return await this.#current(await this.#own(merchant, invoiceId))
  }

  async byOrder(merchant: Merchant, orderId: string): Promise<Payment> {
    // Never stored; the database rejects some of them.
    const known = orderId.length <= 200 && !orderId.includes('\0')
    const payment = known ? await this.#dependencies.store.byOrder(merchant.id, orderId) : null
    return await this.#current(payment ?? notFound())
  }

  /**
   * Public status by id.
   * @throws ShortError 404
   */
  async status(invoiceId: string): Promise<PaymentStatus> {
    const payment = isInvoiceId(invoiceId) ? await this.#dependencies.store.byId(invoiceId) : null
    return (await this.#current(payment ?? notFound())).status
  }

  /**
   * Asks the payment's own provider for its state, whatever the account's current choice (decisions 44 and 54). Demo
   * payments are only read.
   * @throws ShortError 404; ProviderKeyRequired 400 when that provider's key is gone; ProviderRefused 502, Unavailable
   * 503
   */
  async sync(merchant: Merchant, invoiceId: string): Promise<Payment> {
    const payment = await this.#own(merchant, invoiceId)
    return payment.kind === 'demo' ? await this.#current(payment) : await this.#lookUp(merchant, payment)
  }

  /**
   * Expires an unpaid payment after a last look-up. The invoice stays payable: a later payment still makes it paid
   * (decision 41). Idempotent.
   * @throws LongError 409 when money has come or is on its way; else as `sync`
   */
  async cancel(merchant: Merchant, invoiceId: string): Promise<Payment> {
    const known = await this.get(merchant, invoiceId)
    // Whether its provider can be asked makes no difference.
    if (known.status === 'expired') return known
    const seen = await this.sync(merchant, invoiceId)
    const canceled = (await this.#changes.cancel(seen)) ?? notFound()
    if (canceled.status === 'expired') return canceled
    throw new LongError(
      CONFLICT,
      'Payment not canceled',
      `The payment is ${canceled.status}: only an unpaid one can be canceled.`
    )
  }

  async byPayToken(token: string): Promise<Payment | null> {
    const payment = /^[A-Za-z0-9_-]{43}$/.test(token) ? await this.#dependencies.store.byPayToken(token) : null
    return payment === null ? null : await this.#current(payment)
  }

  /**
   * Asks the provider about an invoice that is reported as paid. Ignores unknown hashes. Never rejects: failures are
   * logged.
   */
  async settled(paymentHash: string): Promise<void> {
    if (!isHex32(paymentHash)) return
    try {
      const payment = await this.#dependencies.store.byPaymentHash(paymentHash)
      if (payment === null || payment.kind === 'demo') return
      const merchant = await this.#dependencies.merchants.byId(payment.merchantId)
      if (merchant !== null) await this.#lookUp(merchant, payment)
    } catch (error) {
      this.#dependencies.log.warn({ paymentHash, err: error }, 'a settled payment could not be looked up')
    }
  }

  /**
   * Records a provider's report of `askedAt` (milliseconds). Repeated and outdated news change nothing. Null for an
   * unknown payment.
   */
  observe(key: PaymentKey, seen: ChargeState, polledAt: number): Promise<Payment | null> {
    return this.#changes.observe(key, seen, polledAt)
  }

  /**
   * Expires unpaid payments that ended before `askedAt` (milliseconds), after all settlements listed by then were
   * recorded (decision 178).
   */
  async answered(merchantId: number, slot: ProviderSlot, kind: KindName, polledAt: number): Promise<void> {
    let page: DuePayment[]
    do {
      page = await this.#dependencies.store.unexpired(
        { by: polledAt, merchantId, seat: `${slot} ${kind}` },
        null,
        ANSWERED_BATCH
      )
      for (const payment of page) await this.#changes.recordDue(payment, polledAt)
    } while (page.length === ANSWERED_BATCH)
  }

  /** Expires payments that ended a while ago and whose provider has no key any more (decision 178). */
  async unaskable(merchantId: number, slot: ProviderSlot, kind: KindName): Promise<void> {
    await this.answered(merchantId, slot, kind, this.#dependencies.clock.now() - ANSWERLESS)
  }

  /**
   * The merchant's payment for a refund, or null. Looks up an unpaid one first: it may have been paid since.
   * @throws as `sync`, except for an unknown payment
   */
  async refundable(merchantId: number, invoiceId: string): Promise<Payment | null> {
    const payment = isInvoiceId(invoiceId) ? await this.#dependencies.store.get(merchantId, invoiceId) : null
    if (payment === null || payment.kind === 'demo' || payment.status !== 'unpaid') return payment
    const merchant = await this.#dependencies.merchants.byId(merchantId)
    return merchant === null ? payment : await this.#lookUp(merchant, payment)
  }

  /**
   * Changes the status of a payment locked with `PaymentStore.lock`, in the caller's transaction. The only external way
   * to do so.
   * @throws TypeError for an illegal transition
   */
  applyChange(
    sql: TransactionSql,
    payment: Payment,
    to: PaymentStatus,
    facts: ChangeFacts,
    tellMerchant: boolean
  ): Promise<Payment> {
    return this.#changes.apply(sql, payment, to, facts, tellMerchant)
  }

  /**
   * Current payments of a filter, newest first.
   * @throws Unavailable when the database is down
   */
  async list(filter: Omit<PaymentFilter, 'now'>, page: KeysetPage): Promise<Payment[]> {
    const now = this.#dependencies.clock.now()
    return (await this.#dependencies.store.list({ ...filter, now }, page)).map(payment => asOf(payment, now))
  }

  /** @throws Unavailable when the database is down */
  async sum(filter: Omit<PaymentFilter, 'now'>): Promise<ListTotal> {
    return await this.#dependencies.store.sum({ ...filter, now: this.#dependencies.clock.now() })
  }

  view(payment: Payment): PaymentView {
    return paymentView(asOf(payment, this.#dependencies.clock.now()), this.#dependencies.publicUrl())
  }

  /** Calls `changed` after each change by any process, until unsubscribed. */
  watch(invoiceId: string, changed: () => void): () => void {
    return this.#dependencies.watch.watch(invoiceId, changed)
  }

  /** Confirms and expires due payments now. Never rejects. */
  sweep(): Promise<void> {
    return this.#sweeper.sweep()
  }

  /** Starts listening and sweeping. Rejects when the database is down; can be retried. */
  async start(): Promise<void> {
    await this.#dependencies.watch.start()
    this.#sweeper.start()
  }

  /**
   * Looks up and expires payments.
   * @throws AggregateError when some failed
   */
  recordExpiries(): Promise<void> {
    return this.#sweeper.expire()
  }

  /** Deletes reservations of dead creates (decision 45). Not needed for correctness: a new create replaces them. */
  async purgeReservations(): Promise<void> {
    const { clock, store } = this.#dependencies
    await everyBatch(PURGE_BATCH, size => store.purgeReservations(clock.now() - RESERVED_FOR, size))
  }

  async close(): Promise<void> {
    await this.#sweeper.close()
    await this.#dependencies.watch.close()
  }

  get #polled(): readonly ProviderSeatName[] {
    return this.#dependencies.polled?.() ?? []
  }

  async #pollProvider(key: PaymentKey): Promise<void> {
    const { merchants, store, payees } = this.#dependencies
    const [merchant, payment] = [await merchants.byId(key.merchantId), await store.get(key.merchantId, key.invoiceId)]
    if (merchant === null || payment === null) return
    if (payees.isKeyed(merchant, payment.slot, payment.kind)) await this.#lookUp(merchant, payment)
  }

  async #own(merchant: Merchant, invoiceId: string): Promise<Payment> {
    const payment = isInvoiceId(invoiceId) ? await this.#dependencies.store.get(merchant.id, invoiceId) : null
    return payment ?? notFound()
  }

  /**
   * The current payment. Records due demo confirmations and the expiries of in-process providers. On failure returns
   * the stored state.
   */
  async #current(payment: Payment): Promise<Payment> {
    const { clock, log, store } = this.#dependencies
    const step = due(payment, clock.now())
    if (step === null || this.#polled.includes(`${payment.slot} ${payment.kind}`)) return payment
    try {
      if (step.to === 'paid') return (await this.#changes.recordDue(payment, clock.now())) ?? payment
      await this.#pollProvider(payment)
      return (await store.get(payment.merchantId, payment.invoiceId)) ?? payment
    } catch (error) {
      log.warn(
        { err: error, invoiceId: payment.invoiceId },
        'a payment that is due could not be written; it is tried again soon'
      )
      return asOf(payment, clock.now())
    }
  }

  async #lookUp(merchant: Merchant, payment: Payment): Promise<Payment> {
    const { clock, payees, log } = this.#dependencies
    const polledAt = clock.now()
    const maker = payees.maker(merchant, payment.slot, payment.kind)
    const seen = maker === null ? null : await maker.lookUp(payment.chargeId)
    if (seen !== null) {
      const observed = await this.observe(payment, seen, polledAt)
      return asOf(observed ?? notFound(), clock.now())
    }
    log.warn(
      { invoiceId: payment.invoiceId, slot: payment.slot, provider: payment.kind },
      maker === null ? 'the provider of a payment is in its slot no more' : 'the provider knows nothing of a payment'
    )
    return asOf(payment, clock.now())
  }
}

function notFound(): never {
  throw new ShortError(RESOURCE_NOT_FOUND, 'Payment not found')
}
