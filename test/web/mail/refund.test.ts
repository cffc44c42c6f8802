import t from 'tap'
import type { TransactionSql } from '../../../src/platform/database/database.ts'
import type { Mail } from '../../../src/web/mail/mail.ts'
import { refundMails } from '../../../src/web/mail/notices.ts'
import type { Refund } from '../../../src/payments/refunds/schema.ts'

const refund: Refund = {
  refundId: '123456789012345',
  merchantId: 1,
  invoiceId: '543210987654321',
  status: 'confirmed',
  type: 'chain',
  lightningAddress: null,
  address: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
  paymentHash: null,
  amountSats: 1500,
  feeSats: 2,
  slot: 'primary',
  kind: 'sandbox',
  providerRefundId: 'x',
  transactionHash: 'ab'.repeat(32),
  email: 'ada@example.com',
  reason: 'The <b>mug</b>\nwas broken',
  createdAt: 0,
  processedAt: 1
}

async function mailsOf(changes: Partial<Refund>) {
  const mails: Mail[] = []
  const tell = refundMails({
    outbox: {
      queue: async (_sql, mail) => {
        mails.push(mail)
      }
    },
    merchant: async () => ({ name: 'Corner\r\nBcc: x@example.com', receiptNote: null })
  })
  // Only handed through.
  await tell(null as unknown as TransactionSql, { ...refund, ...changes })
  return mails
}

t.test('the recipient of a refund is mailed what was sent, where to and why', async t => {
  const [mail, ...more] = await mailsOf({})
  t.same(more, [])
  t.match(mail, {
    to: 'ada@example.com',
    subject: /^Refund from Corner Bcc: x@example.com: 1,500/,
    id: 'refund.123456789012345'
  })
  for (const words of [
    'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
    'ab'.repeat(32),
    '123456789012345',
    '543210987654321'
  ])
    t.match(mail?.text, words)
  t.match(mail?.text, 'The <b>mug</b> was broken')
  t.notMatch(mail?.html, '<b>mug</b>', "nothing of the merchant's is taken for HTML")
})

t.test('no mail is sent without a valid address', async t => {
  for (const email of [null, 'the customer', 'a@b.c, d@e.f']) t.same(await mailsOf({ email }), [], String(email))
})
