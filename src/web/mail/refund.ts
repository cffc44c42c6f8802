import { satoshisText } from '../kit/amounts.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import { isMailAddress, type Mail } from './mail.ts'
import type { Refund } from '../../payments/refunds/schema.ts'
import { factsMail, type Fact } from './facts-mail.ts'
import { oneLine, shortSubject } from './plain-text.ts'
import type { ReceiptDependencies } from './receipt.ts'

/** Notifies the customer of a confirmed refund, at the address given with it. Queued in the confirming transaction. */
export function refundMails({
  outbox,
  merchantName
}: ReceiptDependencies): (sql: TransactionSql, refund: Refund) => Promise<void> {
  return async (sql, refund) => {
    if (refund.email === null || !isMailAddress(refund.email)) return
    const mail = refundMail(refund, refund.email, (await merchantName(sql, refund.merchantId)) ?? 'The merchant')
    await outbox.queue(sql, mail, `mail of refund ${refund.refundId}`)
  }
}

/** Contains nothing that spends. */
function refundMail(refund: Refund, to: string, merchantName: string): Mail {
  const merchant = oneLine(merchantName)
  const amount = satoshisText(refund.amountSats)
  const facts: Fact[] = [
    ['Amount', amount],
    [refund.type === 'ln' ? 'Lightning invoice' : 'Bitcoin address', refund.address]
  ]
  if (refund.transactionHash !== null) facts.push(['Transaction', refund.transactionHash])
  if (refund.reason !== null && refund.reason !== '') facts.push(['Reason', oneLine(refund.reason)])
  facts.push(['Refund', refund.refundId], ['Of', refund.invoiceId])
  return factsMail({
    to,
    subject: shortSubject(`Refund from ${merchant}: ${amount}`),
    heading: 'Refund sent',
    words: `${merchant} has sent you a refund.${refund.type === 'chain' ? ' Over the Bitcoin chain it takes a while to be confirmed.' : ''}`,
    facts,
    why: `You get this mail because your address was given to ${merchant} for the refund. Answers to it are not read.`,
    id: `refund.${refund.refundId}`
  })
}
