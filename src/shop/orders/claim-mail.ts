import { t } from '../../engine/formats/language.ts'
import { oneLine, shortSubject } from '../../web/mail/outbox.ts'
import { dollarsText, satoshisText, dayText } from '../../web/kit/amounts.ts'
import type { Mail } from '../../web/mail/mail.ts'
import { factsMail } from '../../web/mail/notices.ts'
import type { Order, OrderItem } from '../schema.ts'

/**
 * The buyer's mail: a link to claim a paid order (contract, Storefront order; Events 7), or to follow a claimed one,
 * since programs often claim before the provider reports the payment; null without an address. Its reader can claim the
 * order, so it is queued sealed and never logged.
 */
export function claimMail(order: Order, shopName: string, claimPageUrl: string): Mail | null {
  if (order.email === null) return null
  const shop = oneLine(shopName)
  const number = oneLine(order.orderNumber ?? order.id)
  const isClaimed = order.claimedAt !== null
  return factsMail({
    to: order.email,
    subject: shortSubject(
      isClaimed ? t`Your order ${number} at ${shop}` : t`Your order at ${shop}: enter your shipping address`
    ),
    heading: isClaimed ? t('Your order is placed') : t('Where should we ship your order?'),
    words: isClaimed
      ? t`Thank you. ${shop} has received your payment and order ${number}.`
      : t`Thank you. ${shop} has received your payment. We only need your shipping address.`,
    link: {
      url: claimPageUrl,
      words: isClaimed ? t('View order') : t('Enter address'),
      note: isClaimed ? null : t`Enter it by ${dayText(order.claimExpiresAt)}.`
    },
    facts: [
      ...order.items.map(
        item => [`${item.quantity} × ${itemTitle(item)}`, dollarsText(item.priceCents * item.quantity)] as const
      ),
      [t('Shipping'), order.shippingCents === 0 ? t('free') : dollarsText(order.shippingCents)],
      [t('Tax'), dollarsText(order.taxCents)],
      [t('Total'), `${dollarsText(order.totalCents)} (${satoshisText(order.totalSats)})`],
      [t('Order'), order.id]
    ],
    why: [
      t('The same page shows the status of your order. Anyone with the link can see it, so keep it private.'),
      t`You receive this email because your address was entered at the checkout of ${shop}. Replies are not read.`
    ].join(' '),
    id: `claim.${order.id}`
  })
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
