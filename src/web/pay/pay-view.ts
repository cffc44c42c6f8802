import { t } from '../../engine/formats/language.ts'
import type { PaymentStatus } from '../../payments/payments/schema.ts'
import { isUnresolved } from '../../payments/payments/changes.ts'
import { amountText, satoshisText, withoutTurns } from '../kit/amounts.ts'
import { webAddress } from '../kit/document.ts'
import type { Payable } from './payable.ts'

export interface PayFacts {
  /** Current state (decision 40). */
  readonly payment: Payable
  readonly merchantName: string
  readonly now: number
  readonly sandboxCommand: string | null
  readonly sandboxAction?: string | null
}

export interface PayView extends PayFacts {
  readonly amount: string
  /** In satoshis; null for a demo payment. */
  readonly satoshis: string | null
  readonly demo: boolean
  /** The invoice has expired, and its provider has not reported whether it was paid. */
  readonly isUnresolved: boolean
  readonly heading: string
  readonly words: string
  /** Document title; state first, since tabs truncate it. */
  readonly title: string
  /** Success redirect, http or https; else null. */
  readonly successUrl: string | null
  /**
   * Way back while unpaid: the front page of the merchant's site, because the success address would signal success.
   * Null without one, and while something is due.
   */
  readonly backUrl: string | null
  /** Remaining on-chain satoshis of a partial payment; null where it cannot be paid on-chain. */
  readonly restSats: number | null
}

/** Whether no payer action changes the page any more. */
export function isFinalStatus(status: PaymentStatus): boolean {
  return status === 'paid' || status === 'expired' || status === 'refunded'
}

export function payView(facts: PayFacts): PayView {
  const { payment } = facts
  const merchantName = withoutTurns(facts.merchantName)
  const demo = payment.kind === 'demo'
  const amount = amountText(payment.amount, payment.currency)
  const satoshis = payment.amountSats === null ? null : satoshisText(payment.amountSats)
  const unresolved = isUnresolved(payment, facts.now)
  const { heading, words, title } = unresolved
    ? unresolvedWords()
    : wordsOf(payment, `\u2068${merchantName}\u2069`, amount, demo)
  return {
    ...facts,
    merchantName,
    amount,
    satoshis,
    demo,
    isUnresolved: unresolved,
    heading,
    words,
    title: `${title} · ${merchantName}`,
    successUrl: payment.status === 'paid' ? webAddress(payment.successUrl) : null,
    backUrl: payment.status === 'paid' || payment.status === 'unpaid' ? null : siteOf(payment.successUrl),
    restSats: restOf(payment)
  }
}

interface Words {
  readonly heading: string
  readonly words: string
  readonly title: string
}

function unresolvedWords(): Words {
  return {
    heading: t('Checking your payment'),
    words: t(
      'This invoice can no longer be paid. If you have paid, your payment will appear here shortly. Do not pay again.'
    ),
    title: t('Checking…')
  }
}

/** `merchant` is the name in bidirectional isolates. */
function wordsOf(payment: Payable, merchant: string, amount: string, demo: boolean): Words {
  switch (payment.status) {
    case 'unpaid':
      if (demo)
        return {
          heading: t('Demo payment'),
          words: t('There is nothing to pay. The payment confirms automatically in a few seconds.'),
          title: t('Demo payment')
        }
      return {
        heading: t('Waiting for payment'),
        words: t('Scan the code with a Lightning wallet.'),
        title: t`Pay ${amount}`
      }
    case 'processing':
      return {
        heading: t('Payment detected'),
        words: t('Your payment is being confirmed. You do not need to pay again.'),
        title: t('Confirming…')
      }
    case 'underpaid':
      return {
        heading: t('Payment incomplete'),
        words: `${arrived(payment)} ${howToPayTheRest(payment, merchant)}`,
        title: t('Underpaid')
      }
    case 'paid':
      if (demo)
        return { heading: t('Paid'), words: t('The demo payment is confirmed. No money was moved.'), title: t('Paid') }
      return { heading: t('Paid'), words: t`Thank you. ${merchant} has received your payment.`, title: t('Paid') }
    case 'expired':
      return {
        heading: t('This invoice has expired'),
        words: t`Do not pay this invoice. To pay, ask ${merchant} for a new one.`,
        title: t('Expired')
      }
    case 'refunded':
      return { heading: t('Refunded'), words: t`${merchant} has refunded this payment.`, title: t('Refunded') }
  }
}

function arrived({ receivedSats, amountSats }: Payable): string {
  if (receivedSats === null || amountSats === null) return t('Only part of the amount was received.')
  return t`${satoshisText(receivedSats)} of ${satoshisText(amountSats)} received.`
}

/** Outstanding satoshis. A Lightning invoice is paid once in full, so only an on-chain address takes the rest. */
function restOf({ status, onchainAddress, amountSats, receivedSats }: Payable): number | null {
  if (status !== 'underpaid' || onchainAddress === null || amountSats === null || receivedSats === null) return null
  const rest = amountSats - receivedSats
  return rest > 0 ? rest : null
}

function howToPayTheRest(payment: Payable, merchant: string): string {
  const rest = restOf(payment)
  return rest === null
    ? t`An invoice can be paid only once. Ask ${merchant} for a second invoice for the rest, and give them the reference below.`
    : t`Pay the remaining ${satoshisText(rest)} to the same Bitcoin address.`
}

function siteOf(text: string | null): string | null {
  const address = webAddress(text)
  return address === null ? null : `${new URL(address).origin}/`
}
