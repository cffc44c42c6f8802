import { oneLine, shortSubject } from '../web/mail/plain-text.ts'
import { planNames } from '../accounts/merchants/plans.ts'
import type { Mail } from '../web/mail/mail.ts'
import { GRACE, type RenewalStep } from './bitcoin/period.ts'
import type { BitcoinInvoice, BitcoinSubscription } from './bitcoin/schema.ts'
import { payUrl } from './bitcoin/bitcoin.ts'

export interface ReminderFacts {
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
export function reminderMail({ step, subscription, merchant, invoice, payee, publicUrl }: ReminderFacts): Mail {
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
          'Whoever has the address of the page sees the invoice. A month that you pay early is added to the end of the one that runs.'
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
