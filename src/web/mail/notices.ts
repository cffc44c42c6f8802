import { Type, type Static } from 'typebox'
import { defineOperation, type AnyOperation, isTest } from '../../engine/operations/operation.ts'
import { merchantOf, type MerchantPrincipal } from '../../accounts/merchants/principal.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { isMailAddress, type Mail } from './mail.ts'
import { type Outbox, oneLine, shortSubject } from './outbox.ts'
import { currentLanguage, t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { html } from '../kit/document.ts'
import { amountText, satoshisText } from '../kit/amounts.ts'
import type { OnPaymentChange, PaymentChange } from '../../payments/payments/schema.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Refund } from '../../payments/refunds/schema.ts'

const HOUR = 3_600_000

/** Mails to an account about itself, by name. */
export const NOTICES = {
  webhook: { title: 'Webhook failed', words: 'A webhook was not delivered. There are no more retries.' },
  provider: {
    title: 'Provider key rejected',
    words: 'Your payment provider rejects your key. You cannot receive payments until you replace it.'
  },
  signIn: { title: 'New sign-in', words: 'Someone signed in to your account from a new browser.' },
  member: { title: 'New member', words: 'A new member was invited to your account.' }
} as const
export type NoticeName = keyof typeof NOTICES
const NAMES = Object.keys(NOTICES) as NoticeName[] /* the object's own keys */

const NoticeSettings = Type.Object(
  { off: Type.Array(Type.Enum(NAMES), { maxItems: NAMES.length, description: 'Mails that are not sent.' }) },
  { title: 'NoticeSettings' }
)
export type NoticeSettings = Static<typeof NoticeSettings>

export interface NoticeDependencies {
  readonly clock: Pick<Clock, 'now'>
  readonly database: Pick<Database, 'sql' | 'transaction'>
  readonly log: Log
  readonly merchants: Pick<Merchants, 'within'>
  readonly outbox: Pick<Outbox, 'queue'>
}

/** Mails an account what happened to it; at most one of a kind in each hour. Contains no secrets and no full addresses. */
export class Notices {
  readonly #dependencies: NoticeDependencies

  constructor(dependencies: NoticeDependencies) {
    this.#dependencies = dependencies
  }

  /** Queues a mail in the caller's transaction. */
  async queue(sql: TransactionSql, merchantId: number, name: NoticeName, facts: readonly Fact[]): Promise<void> {
    const merchant = await this.#dependencies.merchants.within(sql).byId(merchantId)
    if (merchant === null || !isMailAddress(merchant.email)) return
    const [off] = await sql`select 1 from notices_off where merchant_id = ${merchantId} and name = ${name}`
    if (off !== undefined) return
    const { title, words } = NOTICES[name]
    const mail = factsMail({
      to: merchant.email,
      subject: shortSubject(`${title}: ${oneLine(merchant.name)}`),
      heading: title,
      words,
      facts: facts.map(([key, value]) => [key, oneLine(value)] as const),
      why: 'You can turn these emails off in your account settings. Replies are not read.',
      // The queue takes an id once.
      id: `notice.${name}.${merchantId}.${Math.floor(this.#dependencies.clock.now() / HOUR)}`
    })
    await this.#dependencies.outbox.queue(sql, mail, `notice ${name} of merchant ${merchantId}`)
  }

  /** Outside a transaction. Never rejects: what it reports must not wait for it. */
  async send(merchantId: number, name: NoticeName, facts: readonly Fact[]): Promise<void> {
    try {
      await this.#dependencies.database.transaction(sql => this.queue(sql, merchantId, name, facts))
    } catch (error) {
      this.#dependencies.log.warn({ err: error, merchantId, notice: name }, 'a mail to a merchant could not be queued')
    }
  }

  /** Reports a sign-in whose browser, member or key the audit log does not have yet. Call before it does; never rejects. */
  async signedIn({ by, merchant }: MerchantPrincipal, browser: string, network: string): Promise<void> {
    const actor = by.kind === 'member' ? by.email : by.keyId
    try {
      const [known] = await this.#dependencies.database.sql`
        select 1 from audit where merchant_id = ${merchant.id} and actor = ${actor}
          and operation in ('signInWithKey', 'useSignInLink', 'signInWithPasskey')
          and coalesce(change->>'browser', '') = ${browser} limit 1`
      if (known !== undefined) return
    } catch (error) {
      this.#dependencies.log.warn(
        { err: error, merchantId: merchant.id },
        'a sign-in could not be compared with earlier ones'
      )
      return
    }
    await this.send(merchant.id, 'signIn', [
      ['By', by.kind === 'member' ? by.email : 'API key'],
      ['Browser', browser === '' ? 'Unknown' : browser],
      ['Network', network]
    ])
  }

  get operations(): AnyOperation[] {
    const { database } = this.#dependencies
    const common = { path: '/api/merchant/notices', tag: 'Merchant', access: 'merchant' } as const
    const responses = { 200: { description: 'What is set.', schema: NoticeSettings } }
    return [
      defineOperation({
        ...common,
        id: 'getNotices',
        method: 'GET',
        mount: { use: 'merchant-api', chain: 'settings-read' },
        summary: 'Which mails about the account are off',
        description: `${NAMES.join(', ')}: sent to the account's address, at most one of a kind in an hour.`,
        responses,
        handle: async ({ ctx }) => {
          const rows = await database.sql<Array<{ name: NoticeName }>>`
            select name from notices_off where merchant_id = ${merchantOf(ctx).id} order by name`
          return { status: 200, body: { off: rows.map(({ name }) => name) } }
        }
      }),
      defineOperation({
        ...common,
        id: 'setNotices',
        method: 'PUT',
        mount: { use: 'merchant-api', chain: 'settings-write' },
        summary: 'Turn mails about the account off, or on again',
        description: 'Mails that `off` does not name are on.',
        body: NoticeSettings,
        responses,
        handle: async ({ ctx, body }) => {
          const off = [...new Set(body.off)].sort()
          await database.transaction(async sql => {
            await sql`delete from notices_off where merchant_id = ${merchantOf(ctx).id}`
            await sql`
              insert into notices_off (merchant_id, name) select ${merchantOf(ctx).id}, unnest(${off}::text[])
              on conflict do nothing`
          })
          return { status: 200, body: { off } }
        }
      })
    ]
  }
}

type Fact = readonly [name: string, value: string]

/** A mail about money. Every text is one line. */
export interface FactsMail {
  readonly to: string
  readonly subject: string
  readonly heading: string
  readonly words: string
  /** A button. `note`: what to know of it; null for nothing. */
  readonly link?: { readonly url: string; readonly words: string; readonly note: string | null }
  readonly facts: readonly Fact[]
  readonly why: string
  /** Message id, the same for a resend. */
  readonly id: string
}

/** As plain text and HTML. */
export function factsMail(mail: FactsMail): Mail {
  const { to, subject, words, link, facts, why, id } = mail
  // A long name must not push the values out of sight.
  const width = Math.min(Math.max(...facts.map(([name]) => name.length)), 48)
  const linked = link === undefined ? [] : [link.url, '', ...(link.note === null ? [] : [link.note, ''])]
  const lines = facts.map(([name, value]) => `${name.padEnd(width)}  ${value}`)
  return {
    to,
    subject,
    text: [words, '', ...linked, ...lines, '', why, ''].join('\n'),
    html: `<!doctype html>${renderToString(body(mail))}`,
    id
  }
}

/** Inline styles: mail clients drop style sheets. */
function body({ heading, words, link, facts, why }: FactsMail): VNode {
  const cell = 'padding:6px 16px 6px 0;vertical-align:top;text-align:left;'
  return html`
    <html lang=${currentLanguage()}>
      <head><meta charset="utf-8" /><title>${heading}</title></head>
      <body style="margin:0;padding:24px;background:#f4f6f5;color:#17211d;font:16px/1.5 system-ui,sans-serif;">
        <div style="max-width:560px;margin:0 auto;padding:24px;background:#ffffff;border-radius:12px;">
          <h1 style="margin:0 0 8px;font-size:20px;color:#0b7453;">${heading}</h1>
          <p style="margin:0 0 16px;">${words}</p>
          ${link === undefined ? null : html`<p style="margin:0 0 16px;"><a href=${link.url} style="display:inline-block;padding:14px 24px;border-radius:10px;background:#0b7453;color:#ffffff;font-weight:600;text-decoration:none;">${link.words}</a> ${link.note}</p>`}
          <table style="border-collapse:collapse;">
            ${facts.map(([name, value]) => html`<tr><th style=${`${cell}font-weight:normal;color:#5a6a63;`}>${name}</th><td style=${`${cell}word-break:break-word;`}>${value}</td></tr>`)}
          </table>
          <p style="margin:16px 0 0;font-size:13px;color:#5a6a63;">${why}</p>
        </div>
      </body>
    </html>`
}

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
