import { everyBatch, periodic, type JobDeclaration } from '../platform/jobs/jobs.ts'
import { Unavailable } from '../engine/operations/errors.ts'
import { type Outbox, oneLine, shortSubject } from '../web/mail/outbox.ts'
import type { TransactionSql } from '../platform/database/database.ts'
import { dueStep, GRACE, type RenewalStep } from './bitcoin/period.ts'
import type { BitcoinInvoice, BitcoinSubscription } from './bitcoin/schema.ts'
import type { EndingSubscription } from './bitcoin/store.ts'
import { planNames } from '../accounts/merchants/plans.ts'
import type { Mail } from '../web/mail/mail.ts'
import { payUrl, type BitcoinServices } from './bitcoin/bitcoin.ts'

interface RemindersOptions extends BitcoinServices {
  readonly outbox: Pick<Outbox, 'queue'>
}

/** Milliseconds between two runs. */
const EVERY = 10 * 60_000
const PURGE_EVERY = 3_600_000
/** Milliseconds for which an expired unpaid invoice is kept: no provider reports a payment later. */
const KEPT = 30 * 86_400_000
const BATCH = 100
/** Minimum remaining life of an invoice that is mailed again: mail is read late. */
const LEAST = 12 * 3_600_000

class NotDue extends Error {
  override name = 'NotDue'
}

/**
 * Renewals of plans paid in bitcoin: an invoice by mail a week before the month ends, reminders three days and one day
 * before; then `past_due` with another invoice, and `canceled` when that expires too. Each mail is queued exactly once,
 * in the transaction that records it.
 */
export class PlanReminders {
  readonly #options: RemindersOptions

  constructor(options: RemindersOptions) {
    this.#options = options
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
      periodic('plan-purge', PURGE_EVERY, 'Deletes unpaid invoices of plans', () => this.purge())
    ]
  }

  async purge(): Promise<void> {
    const { store, clock } = this.#options
    await everyBatch(BATCH, size => store.purge(clock.now() - KEPT, size))
  }

  /**
   * Sends all mails that are due. A failure does not stop the others.
   * @throws AggregateError of the failures, which are retried
   */
  async run(signal?: AbortSignal): Promise<void> {
    const failures: unknown[] = []
    let after = ''
    for (;;) {
      const batch = await this.#options.store.ending(this.#options.clock.now(), after, BATCH)
      for (const ending of batch) {
        if (signal?.aborted === true) return
        try {
          await this.#lookAfter(ending)
        } catch (error) {
          this.#options.log.warn(
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
    const now = this.#options.clock.now()
    const { currentPeriodEnd: end } = subscription
    // The query returns only subscriptions with an end.
    if (end === null) return
    if (subscription.state === 'active' && end <= now) await this.#end(subscription, merchant.id, 'past_due')
    if (subscription.state !== 'canceled' && end + GRACE <= now)
      await this.#end({ ...subscription, state: 'past_due' }, merchant.id, 'canceled')
    const step = dueStep(end, subscription.reminded, now)
    // A deactivated account cannot use its plan; its due mail is sent after reactivation.
    if (step !== null && merchant.isActive) await this.#remind(ending, step, end, now)
  }

  async #end(subscription: BitcoinSubscription, merchantId: number, to: 'past_due' | 'canceled'): Promise<void> {
    const { store, database, merchants } = this.#options
    await database.transaction(async sql => {
      await store.lockMerchant(sql, merchantId)
      const accounts = merchants.within(sql)
      const merchant = await accounts.byId(merchantId)
      if (merchant?.billingSubscriptionId !== subscription.id) return
      if (await store.move(sql, subscription, to)) await accounts.change(merchantId, { subscriptionStatus: to })
    })
  }

  async #remind(ending: EndingSubscription, step: RenewalStep, end: number, now: number): Promise<void> {
    const { store, database } = this.#options
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

  async #invoice(ending: EndingSubscription, step: RenewalStep, expiry: number): Promise<void> {
    const { subscription } = ending
    const make = async (lasting: { readonly expiry?: number }): Promise<void> => {
      await this.#options.invoices.make({
        subscription,
        keyed: true,
        clientKey: `subscription:${subscription.id}`,
        place: `plans:renewal:${subscription.id}`,
        ...lasting,
        record: (sql, invoice) => this.#queue(sql, ending, step, invoice)
      })
    }
    try {
      await make({ expiry })
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      // Some providers reject an expiry of days.
      await make({})
    }
  }

  async #queue(
    sql: TransactionSql,
    { subscription, merchant }: EndingSubscription,
    step: RenewalStep,
    invoice: BitcoinInvoice | null
  ): Promise<void> {
    const { store, outbox, payee, publicUrl } = this.#options
    if (!(await store.remind(sql, subscription, step))) throw new NotDue('the mail is not due any more')
    await outbox.queue(
      sql,
      reminderMail({ step, subscription, merchant, invoice, payee: payee(), publicUrl: publicUrl() }),
      `renewal of plan ${subscription.id}: ${step}`
    )
  }
}

interface ReminderFacts {
  readonly step: RenewalStep
  readonly subscription: Pick<BitcoinSubscription, 'id' | 'plan' | 'currentPeriodEnd'>
  readonly merchant: { readonly name: string; readonly email: string }
  /** Null for the mail that reports the cancellation. */
  readonly invoice: Pick<BitcoinInvoice, 'payToken' | 'amountSats' | 'priceUsd' | 'expiresAt'> | null
  readonly payee: string
  /** Without a slash at the end. */
  readonly publicUrl: string
}

/** The mail of one step. The address of its pay page is a secret, which opens nothing else of the account. */
function reminderMail({ step, subscription, merchant, invoice, payee, publicUrl }: ReminderFacts): Mail {
  const end = subscription.currentPeriodEnd ?? 0
  const plan = planNames[subscription.plan]
  const { subject, text } = wordsOf(step, plan, end)
  const how =
    invoice === null
      ? [`To go on with the plan, buy another month: ${publicUrl}/api/bitcoin/create-subscription, with your API key.`]
      : [
          `One month costs $${invoice.priceUsd} (${invoice.amountSats} satoshis). Pay it here:`,
          '',
          payUrl(publicUrl, invoice),
          '',
          `The invoice can be paid until ${moment(invoice.expiresAt)}. After that, make another with your API key: POST ${publicUrl}/api/bitcoin/create-subscription.`,
          'Anyone with the address of the page sees the invoice. A month that you pay early is added to the end of the one that runs.'
        ]
  return {
    to: merchant.email,
    subject: shortSubject(`${oneLine(payee)}: ${subject}`),
    text: [`Hello ${oneLine(merchant.name)},`, '', text, '', ...how, '', 'Answers to this mail are not read.', ''].join(
      '\n'
    ),
    html: null,
    id: `plan.${subscription.id}.${end}.${step}`
  }
}

function wordsOf(step: RenewalStep, plan: string, end: number): { readonly subject: string; readonly text: string } {
  const until = `The paid month of your plan ${plan} ends on ${moment(end)}.`
  switch (step) {
    case 'week':
      return { subject: 'your plan ends in a week', text: until }
    case 'three-days':
      return { subject: 'your plan ends in three days', text: `${until} It has not been paid for another month yet.` }
    case 'day':
      return { subject: 'your plan ends tomorrow', text: `${until} It has not been paid for another month yet.` }
    case 'ended':
      return {
        subject: 'your plan has ended',
        text: `The paid month of your plan ${plan} ended on ${moment(end)}, and your API key is refused where the plan is needed. It works again as soon as another month is paid. On ${moment(end + GRACE)} the plan is canceled.`
      }
    case 'canceled':
      return {
        subject: 'your plan was canceled',
        text: `The paid month of your plan ${plan} ended on ${moment(end)} and was not renewed, so the plan is canceled.`
      }
  }
}

/** With the time zone, to the minute. */
function moment(time: number): string {
  return `${new Date(time).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}
