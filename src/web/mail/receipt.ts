import { t } from '../../engine/formats/language.ts'
import { isTest } from '../../engine/operations/roles.ts'
import { amountText, satoshisText } from '../kit/amounts.ts'
import type { OnPaymentChange, PaymentChange } from '../../payments/payments/schema.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import { type Mail, isMailAddress } from './mail.ts'
import { factsMail, type Fact } from './facts-mail.ts'
import { type Outbox, oneLine, shortSubject } from './outbox.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Refund } from '../../payments/refunds/schema.ts'

export interface ReceiptDependencies {
  readonly outbox: Pick<Outbox, 'queue'>
  /** Reads in the transaction; null for an unknown merchant. */
  merchant(sql: TransactionSql, merchantId: number): Promise<Pick<Merchant, 'name' | 'receiptNote'> | null>
}

/**
 * Queues the customer's receipt when a payment becomes paid (contract, Create payment body: customerEmail). In the
 * transaction of the change, so that each payment with an address gets exactly one.
 */
export function receipts({ outbox, merchant }: ReceiptDependencies): OnPaymentChange {
  return async (sql, change) => {
    const { payment } = change
    if (!isDue(change)) return
    const seller = await merchant(sql, payment.merchantId)
    const mail = receiptFor(change, seller?.name ?? t('The merchant'), seller?.receiptNote)
    if (mail !== null) await outbox.queue(sql, mail, `receipt of payment ${payment.invoiceId}`)
  }
}

function isDue({ payment, from }: PaymentChange): boolean {
  return payment.status === 'paid' && from !== 'paid' && payment.customerEmail !== null
}

/** Receipt of a change, or null. Contains nothing that opens the pay page or spends. */
export function receiptFor(change: PaymentChange, merchantName: string, note: string | null = null): Mail | null {
  const { payment } = change
  if (!isDue(change) || payment.customerEmail === null) return null
  const merchant = oneLine(merchantName)
  const demo = isFree(payment)
  const amount = amountText(payment.amount, payment.currency)
  const thanks = demo
    ? t`Receipt for a demo payment to ${merchant}. No money was moved.`
    : t`Thank you. ${merchant} has received your payment.`
  const facts = factsOf(change, amount)
  if (!demo && note !== null) facts.push([t('Seller'), oneLine(note)])
  const why = t`You receive this email because your address was entered for this receipt from ${merchant}. Replies are not read.`
  return factsMail({
    to: payment.customerEmail,
    subject: shortSubject(demo ? t`Demo receipt from ${merchant}: ${amount}` : t`Receipt from ${merchant}: ${amount}`),
    heading: demo ? t('Demo payment') : t('Payment received'),
    words: thanks,
    facts,
    why,
    id: `receipt.${payment.invoiceId}`
  })
}

function isFree({ kind, merchantId }: PaymentChange['payment']): boolean {
  return kind === 'demo' || isTest(merchantId)
}

function factsOf({ payment }: PaymentChange, amount: string): Fact[] {
  const satoshis = payment.receivedSats ?? payment.amountSats
  const facts: Fact[] = [[t('Amount'), amount]]
  if (satoshis !== null) facts.push([t('In satoshis'), satoshisText(satoshis)])
  if (payment.paidAt !== null)
    facts.push([t('Paid at'), `${new Date(payment.paidAt).toISOString().slice(0, 19).replace('T', ' ')} UTC`])
  // Free demos and tests with the merchant's text would be an open mail relay.
  const own = !isFree(payment)
  if (own && payment.customerName !== null && payment.customerName !== '')
    facts.push([t('Customer'), oneLine(payment.customerName)])
  if (own) facts.push([t('Order'), oneLine(payment.orderId)])
  if (own && payment.description !== null && payment.description !== '')
    facts.push([t('Description'), oneLine(payment.description)])
  facts.push([t('Payment'), payment.invoiceId], [t('Payment hash'), payment.paymentHash])
  return facts
}

/** Notifies the customer of a confirmed refund, at the address given with it. Queued in the confirming transaction. */
export function refundMails({
  outbox,
  merchant
}: ReceiptDependencies): (sql: TransactionSql, refund: Refund) => Promise<void> {
  return async (sql, refund) => {
    // Free refunds with the merchant's text would be an open mail relay.
    if (isTest(refund.merchantId) || refund.email === null || !isMailAddress(refund.email)) return
    const mail = refundMail(refund, refund.email, (await merchant(sql, refund.merchantId))?.name ?? t('The merchant'))
    await outbox.queue(sql, mail, `mail of refund ${refund.refundId}`)
  }
}

/** Contains nothing that spends. */
function refundMail(refund: Refund, to: string, merchantName: string): Mail {
  const merchant = oneLine(merchantName)
  const amount = satoshisText(refund.amountSats)
  const facts: Fact[] = [
    [t('Amount'), amount],
    [refund.type === 'ln' ? t('Lightning invoice') : t('Bitcoin address'), refund.address]
  ]
  if (refund.transactionHash !== null) facts.push([t('Transaction'), refund.transactionHash])
  if (refund.reason !== null && refund.reason !== '') facts.push([t('Reason'), oneLine(refund.reason)])
  facts.push([t('Refund'), refund.refundId], [t('Payment'), refund.invoiceId])
  return factsMail({
    to,
    subject: shortSubject(t`Refund from ${merchant}: ${amount}`),
    heading: t('Refund sent'),
    words:
      refund.type === 'chain'
        ? t`${merchant} has sent you a refund. It arrives once the Bitcoin transaction is confirmed.`
        : t`${merchant} has sent you a refund.`,
    facts,
    why: t`You receive this email because your address was entered for this refund from ${merchant}. Replies are not read.`,
    id: `refund.${refund.refundId}`
  })
}
