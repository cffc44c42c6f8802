import { Unavailable } from '../engine/operations/errors.ts'
import type { Outbox } from '../web/mail/outbox.ts'
import type { Merchants } from '../accounts/merchants/service.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Database, TransactionSql } from '../platform/database/database.ts'
import { periodic, type JobDeclaration } from '../platform/jobs/jobs.ts'
import type { Log } from '../platform/telemetry/log.ts'
import type { PlanInvoices } from './bitcoin/invoices.ts'
import { dueStep, GRACE, type RenewalStep } from './bitcoin/period.ts'
import type { BitcoinInvoice, BitcoinSubscription } from './bitcoin/schema.ts'
import type { BitcoinStore, EndingSubscription } from './bitcoin/store.ts'
import { reminderMail } from './reminder-mail.ts'

/** What renewals are asked for with. */
export interface RemindersParts {
  readonly store: BitcoinStore
  readonly invoices: Pick<PlanInvoices, 'make'>
  readonly outbox: Pick<Outbox, 'queue'>
  readonly merchants: Merchants
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  publicUrl(): string
  /** Milliseconds for which an invoice of the platform is payable where no longer time can be had. */
  expiry(): number
  /** Who is paid, for people. */
  payee(): string
}

/** Milliseconds between two looks. */
const EVERY = 10 * 60_000
/** The same for the purge. */
const PURGE_EVERY = 3_600_000
/** Milliseconds after its end for which an unpaid invoice is kept: by then no provider has news of it any more. */
const KEPT = 30 * 86_400_000
/** Subscriptions that are read at once, and invoices that are deleted at once. */
const BATCH = 100
/** An invoice that is payable for less than this, in milliseconds, is not mailed again: mail is read late. */
const LEAST = 12 * 3_600_000

/** Somebody has paid or another process has sent the mail meanwhile, so that none is due any more. */
class NotDue extends Error {
  override name = 'NotDue'
}

/**
 * Renewal of plans paid in bitcoin: an invoice by mail a week before the month ends, reminders three days and one day
 * before it; then `past_due` with another invoice, and `canceled` when that stays unpaid too. Each mail is sent exactly
 * once: it is queued in the transaction that notes it.
 */
export class PlanReminders {
  readonly #parts: RemindersParts

  constructor(parts: RemindersParts) {
    this.#parts = parts
  }

  get jobs(): readonly JobDeclaration[] {
    return [
      periodic(
        'plan-renewals',
        EVERY,
        'Asks for the next month of plans paid in bitcoin, and ends what was not paid',
        signal => this.run(signal),
        { expiry: 300_000 }
      ),
      periodic('plan-purge', PURGE_EVERY, 'Deletes invoices of plans that nobody paid', () => this.purge())
    ]
  }

  /** Deletes what anybody may have begun to buy and nobody paid. */
  async purge(): Promise<void> {
    const { store, clock } = this.#parts
    while ((await store.purge(clock.now() - KEPT, BATCH)) === BATCH) {
      /* there may be more */
    }
  }

  /**
   * Does all that is due now. One that fails does not hold up the others. @throws AggregateError when some did; they
   * are tried again
   */
  async run(signal?: AbortSignal): Promise<void> {
    const failures: unknown[] = []
    let after = ''
    for (;;) {
      const batch = await this.#parts.store.ending(this.#parts.clock.now(), after, BATCH)
      for (const ending of batch) {
        if (signal?.aborted === true) return
        try {
          await this.#lookAfter(ending)
        } catch (error) {
          this.#parts.log.warn(
            { subscription: ending.subscription.id, err: error },
            'the renewal of a plan could not be asked for; it is tried again'
          )
          failures.push(error)
        }
        after = ending.subscription.id
      }
      if (batch.length < BATCH) break
    }
    if (failures.length > 0) throw new AggregateError(failures, `${failures.length} plans could not be looked after`)
  }

  async #lookAfter(ending: EndingSubscription): Promise<void> {
    const { subscription, merchant } = ending
    const now = this.#parts.clock.now()
    const { currentPeriodEnd: end } = subscription
    // Only subscriptions with an end are read.
    if (end === null) return
    if (subscription.state === 'active' && end <= now) await this.#end(subscription, merchant.id, 'past_due')
    if (subscription.state !== 'canceled' && end + GRACE <= now)
      await this.#end({ ...subscription, state: 'past_due' }, merchant.id, 'canceled')
    const step = dueStep(end, subscription.reminded, now)
    // Nobody can use the plan of a deactivated account; once it is reactivated the mail that is due then is sent.
    if (step !== null && merchant.isActive) await this.#remind(ending, step, end, now)
  }

  /** Ends the plan, unless it was paid for a moment ago. */
  async #end(subscription: BitcoinSubscription, merchantId: number, to: 'past_due' | 'canceled'): Promise<void> {
    const { store, database, merchants } = this.#parts
    await database.transaction(async sql => {
      await store.lockMerchant(sql, merchantId)
      const accounts = merchants.within(sql)
      const merchant = await accounts.byId(merchantId)
      if (merchant?.billingSubscriptionId !== subscription.id) return
      if (await store.move(sql, subscription, to))
        await accounts.setSubscription(merchantId, { subscriptionStatus: to })
    })
  }

  async #remind(ending: EndingSubscription, step: RenewalStep, end: number, now: number): Promise<void> {
    const { store, database } = this.#parts
    const { subscription } = ending
    const open = step === 'canceled' ? null : await store.openInvoice(subscription.id)
    try {
      if (step === 'canceled' || (open !== null && open.expiresAt >= now + LEAST)) {
        await database.transaction(sql => this.#queue(sql, ending, step, open))
      } else {
        await this.#invoice(ending, step, Math.max((step === 'ended' ? end + GRACE : end) - now, LEAST))
      }
    } catch (error) {
      if (!(error instanceof NotDue)) throw error
    }
  }

  /** A new invoice, written in one transaction with the mail that names it. */
  async #invoice(ending: EndingSubscription, step: RenewalStep, expiry: number): Promise<void> {
    const { subscription } = ending
    const make = async (milliseconds: number): Promise<void> => {
      await this.#parts.invoices.make({
        subscription,
        keyed: true,
        clientKey: `subscription:${subscription.id}`,
        place: `plans:renewal:${subscription.id}`,
        expiry: milliseconds,
        record: (sql, invoice) => this.#queue(sql, ending, step, invoice)
      })
    }
    try {
      await make(expiry)
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      // Not every provider takes a time of days.
      await make(this.#parts.expiry())
    }
  }

  async #queue(
    sql: TransactionSql,
    { subscription, merchant }: EndingSubscription,
    step: RenewalStep,
    invoice: BitcoinInvoice | null
  ): Promise<void> {
    const { store, outbox, payee, publicUrl } = this.#parts
    if (!(await store.remind(sql, subscription, step))) throw new NotDue('the mail is not due any more')
    await outbox.queue(
      sql,
      reminderMail({ step, subscription, merchant, invoice, payee: payee(), publicUrl: publicUrl() }),
      `renewal of plan ${subscription.id}: ${step}`
    )
  }
}
