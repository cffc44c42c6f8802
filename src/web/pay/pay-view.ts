import type { PaymentStatus } from '../../payments/payments/schema.ts'
import { isUnresolved } from '../../payments/payments/states.ts'
import { amountText, satoshisText } from '../kit/amounts.ts'
import { webAddress } from '../kit/document.ts'
import type { Payable } from './payable.ts'

export interface PayFacts {
  /** Current state (decision 40). */
  readonly payment: Payable
  readonly merchantName: string
  /** Milliseconds since the epoch. */
  readonly now: number
  /** Command that pays in the sandbox; null elsewhere. */
  readonly sandboxCommand: string | null
  /** Relative address of the sandbox pay button; null where unavailable or not allowed. */
  readonly sandboxAction?: string | null
  /** Relative address of the status for polling; default: the payment's. */
  readonly statusAddress?: string
}

export interface PayView extends PayFacts {
  /** In the payment's currency. */
  readonly amount: string
  /** In satoshis; null for a demo payment. */
  readonly satoshis: string | null
  readonly demo: boolean
  /** The invoice has expired, and its provider has not reported whether it was paid. */
  readonly isUnresolved: boolean
  readonly heading: string
  /** Explanation for the reader. */
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
  // Bidirectional controls in a name could reorder the surrounding text.
  const merchantName = facts.merchantName.replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, '')
  const demo = payment.kind === 'demo'
  const amount = amountText(payment.amount, payment.currency)
  const satoshis = payment.amountSats === null ? null : satoshisText(payment.amountSats)
  const unresolved = isUnresolved(payment, facts.now)
  const { heading, words, title } = unresolved
    ? UNRESOLVED
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

const UNRESOLVED: Words = {
  heading: 'Checking your payment',
  words:
    'This invoice can no longer be paid. If you have paid it, your payment will show here shortly; do not pay again.',
  title: 'Checking…'
}

/** `merchant` is the name in bidirectional isolates. */
function wordsOf(payment: Payable, merchant: string, amount: string, demo: boolean): Words {
  switch (payment.status) {
    case 'unpaid':
      if (demo)
        return {
          heading: 'Demo payment',
          words: 'There is nothing to pay: it confirms itself in a few seconds.',
          title: 'Demo payment'
        }
      return { heading: 'Waiting for payment', words: 'Scan the code with a Lightning wallet.', title: `Pay ${amount}` }
    case 'processing':
      return {
        heading: 'Payment seen',
        words: 'Your payment is on its way and is being confirmed. You need not pay again.',
        title: 'Confirming…'
      }
    case 'underpaid':
      return {
        heading: 'Not all of it has arrived',
        words: `${arrived(payment)} ${howToPayTheRest(payment, merchant)}`,
        title: 'Underpaid'
      }
    case 'paid':
      if (demo)
        return { heading: 'Paid', words: 'The demo payment has confirmed itself. No money has moved.', title: 'Paid' }
      return { heading: 'Paid', words: `Thank you. ${merchant} has received your payment.`, title: 'Paid' }
    case 'expired':
      return {
        heading: 'This invoice has expired',
        words: `Please do not pay it any more. Ask ${merchant} for a new one if you still want to pay.`,
        title: 'Expired'
      }
    case 'refunded':
      return { heading: 'Refunded', words: `${merchant} has refunded this payment.`, title: 'Refunded' }
  }
}

function arrived({ receivedSats, amountSats }: Payable): string {
  if (receivedSats === null || amountSats === null) return 'Only a part of the amount has arrived.'
  return `${satoshisText(receivedSats)} of ${satoshisText(amountSats)} have arrived.`
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
    ? `Please ask ${merchant} how to pay the rest.`
    : `Pay the other ${satoshisText(rest)} to the same Bitcoin address.`
}

function siteOf(text: string | null): string | null {
  const address = webAddress(text)
  return address === null ? null : `${new URL(address).origin}/`
}
