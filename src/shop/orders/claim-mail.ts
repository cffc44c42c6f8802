import { currentLanguage, t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { oneLine, shortSubject } from '../../web/mail/outbox.ts'
import { dollarsText, satoshisText, dayText } from '../../web/kit/amounts.ts'
import { html } from '../../web/kit/document.ts'
import type { Mail } from '../../web/mail/mail.ts'
import type { Order, OrderItem } from '../schema.ts'

interface ClaimMailFacts {
  readonly order: Order
  readonly shopName: string
  readonly claimPageUrl: string
  readonly claimExpiresAt: number
}

/**
 * The buyer's mail: a link to claim a paid order (contract, Storefront order; Events 7), or to follow a claimed one;
 * null without an address. Its reader can claim the order, so it is queued sealed and never logged.
 */
export function claimMail(facts: ClaimMailFacts): Mail | null {
  const { order, claimPageUrl } = facts
  if (order.email === null) return null
  const words = wordsOf(facts)
  return {
    to: order.email,
    subject: shortSubject(words.subject),
    text: textOf(words, claimPageUrl),
    html: `<!doctype html>${renderToString(htmlOf(words, claimPageUrl))}`,
    id: `claim.${order.id}`
  }
}

type Fact = readonly [name: string, value: string]

interface Words {
  readonly subject: string
  readonly heading: string
  readonly thanks: string
  readonly button: string
  /** Null where nothing is left to do. */
  readonly until: string | null
  readonly items: readonly Fact[]
  readonly sums: readonly Fact[]
  readonly keep: string
  readonly why: string
}

function wordsOf({ order, shopName, claimExpiresAt }: ClaimMailFacts): Words {
  const shop = oneLine(shopName)
  return {
    ...(order.claimedAt === null ? wordsToClaim(shop, claimExpiresAt) : wordsOnceClaimed(shop, order)),
    items: order.items.map(item => [
      `${item.quantity} × ${itemTitle(item)}`,
      dollarsText(item.priceCents * item.quantity)
    ]),
    sums: [
      [t('Shipping'), order.shippingCents === 0 ? t('free') : dollarsText(order.shippingCents)],
      [t('Tax'), dollarsText(order.taxCents)],
      [t('Total'), `${dollarsText(order.totalCents)} (${satoshisText(order.totalSats)})`],
      [t('Order'), order.id]
    ],
    keep: t('The same page shows the status of your order. Anyone with the link can see it, so keep it private.'),
    why: t`You receive this email because your address was entered at the checkout of ${shop}. Replies are not read.`
  }
}

type Ask = Pick<Words, 'subject' | 'heading' | 'thanks' | 'button' | 'until'>

function wordsToClaim(shop: string, claimExpiresAt: number): Ask {
  return {
    subject: t`Your order at ${shop}: enter your shipping address`,
    heading: t('Where should we ship your order?'),
    thanks: t`Thank you. ${shop} has received your payment. We only need your shipping address.`,
    button: t('Enter address'),
    until: t`Enter it by ${dayText(claimExpiresAt)}.`
  }
}

/** Programs often claim before the provider reports the payment. */
function wordsOnceClaimed(shop: string, { orderNumber }: Order): Ask {
  const number = orderNumber === null ? null : oneLine(orderNumber)
  return {
    subject: number === null ? t`Your order at ${shop}` : t`Your order ${number} at ${shop}`,
    heading: t('Your order is placed'),
    thanks:
      number === null
        ? t`Thank you. ${shop} has received your payment and your order.`
        : t`Thank you. ${shop} has received your payment and order ${number}.`,
    button: t('View order'),
    until: null
  }
}

export function itemTitle({ productTitle, variantTitle }: Pick<OrderItem, 'productTitle' | 'variantTitle'>): string {
  const product = oneLine(productTitle)
  const variant = ownTitle(variantTitle, productTitle)
  return variant === null ? product : `${product}, ${variant}`
}

/**
 * A variant's title in one line; null for a meaningless one: platforms call a product's only variant `Default Title`.
 */
export function ownTitle(variantTitle: string, productTitle: string): string | null {
  const variant = oneLine(variantTitle)
  return variant === '' || variant === oneLine(productTitle) || /^Default(?: Title)?$/.test(variant) ? null : variant
}

function textOf(words: Words, claimPageUrl: string): string {
  const lines = [...words.items, ...words.sums]
  // A long title must not push the amounts out of sight.
  const width = Math.min(Math.max(...lines.map(([name]) => name.length)), 48) + 2
  return [
    words.thanks,
    '',
    claimPageUrl,
    '',
    ...(words.until === null ? [] : [words.until, '']),
    ...lines.map(([name, value]) => `${name.padEnd(width)}${name.length >= width ? '  ' : ''}${value}`),
    '',
    words.keep,
    words.why,
    ''
  ].join('\n')
}

/** Inline styles: mail clients drop style sheets. */
function htmlOf(words: Words, claimPageUrl: string): VNode {
  const soft = 'color:#5a6a63;'
  const cell = 'padding:6px 0;vertical-align:top;border-top:1px solid #e4e9e6;'
  const row = ([name, value]: Fact, style: string): VNode =>
    html`<tr><td style=${`${cell}padding-right:16px;word-break:break-word;${style}`}>${name}</td><td style=${`${cell}text-align:right;word-break:break-word;`}>${value}</td></tr>`
  return html`
    <html lang=${currentLanguage()}>
      <head><meta charset="utf-8" /><title>${words.heading}</title></head>
      <body style="margin:0;padding:24px;background:#f4f6f5;color:#17211d;font:16px/1.5 system-ui,sans-serif;">
        <div style="max-width:560px;margin:0 auto;padding:24px;background:#ffffff;border-radius:12px;">
          <h1 style="margin:0 0 8px;font-size:20px;color:#0b7453;">${words.heading}</h1>
          <p style="margin:0 0 16px;">${words.thanks}</p>
          <p style="margin:0 0 8px;"><a href=${claimPageUrl} style="display:inline-block;padding:14px 24px;border-radius:10px;background:#0b7453;color:#ffffff;font-weight:600;text-decoration:none;">${words.button}</a></p>
          ${words.until === null ? null : html`<p style=${`margin:0 0 16px;font-size:14px;${soft}`}>${words.until}</p>`}
          <table style="width:100%;border-collapse:collapse;">
            ${words.items.map(fact => row(fact, ''))}
            ${words.sums.map(fact => row(fact, soft))}
          </table>
          <p style=${`margin:16px 0 0;font-size:13px;${soft}`}>${words.keep}</p>
          <p style=${`margin:8px 0 0;font-size:13px;${soft}word-break:break-all;`}>If the button does not work, open ${claimPageUrl}</p>
          <p style=${`margin:8px 0 0;font-size:13px;${soft}`}>${words.why}</p>
        </div>
      </body>
    </html>`
}
