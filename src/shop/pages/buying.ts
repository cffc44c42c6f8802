import { t } from '../../engine/formats/language.ts'
import { LongError, type GatewayError } from '../../engine/operations/errors.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import { UnsealError, type Sealer } from '../../platform/keys/secrets.ts'
import type { Claims } from '../../selling/holding/claims.ts'
import { dollarsText } from '../../web/kit/amounts.ts'
import type { SentForm } from '../../web/kit/form.ts'
import type { PayableSource } from '../../web/pay/payable.ts'
import { itemTitle } from '../orders/claim-mail.ts'
import type { PaidOrders } from '../orders/paid-orders.ts'
import type { ShopServices } from '../orders/store.ts'
import type { CartLine, StoreCheckoutInput } from '../cart.ts'
import { countryCode } from '../countries.ts'
import type { BuyerLocation, Order } from '../schema.ts'
import { shopNameOf } from './claim-page.ts'

/** What a buyer typed into the shop's page. */
export interface Cart {
  readonly quantities: ReadonlyMap<number, number>
  readonly country: string
  readonly state: string
  readonly zip: string
  readonly email: string
}

export const EMPTY_CART: Cart = { quantities: new Map(), country: '', state: '', zip: '', email: '' }

/** Quantities are the fields `v<variantId>`. */
export function readCart(form: SentForm): Cart {
  // PostgreSQL cannot store NUL.
  const text = (name: string): string =>
    form
      .text(name)
      .replaceAll(/\p{Cc}/gu, '')
      .slice(0, 254)
  const quantities = new Map<number, number>()
  for (const [name, value] of form) {
    const variantId = Number(/^v([0-9]{1,15})$/.exec(name)?.[1] ?? Number.NaN)
    const quantity = /^[0-9]{1,3}$/.test(value) ? Number(value) : 0
    if (Number.isSafeInteger(variantId) && quantity > 0) quantities.set(variantId, quantity)
  }
  return { quantities, country: text('country'), state: text('state'), zip: text('zip'), email: text('email') }
}

/** The order of a cart, or what is wrong with it. */
export function orderOf({
  quantities,
  country,
  state,
  zip,
  email
}: Cart): { readonly input: StoreCheckoutInput; readonly location: BuyerLocation } | { readonly problem: string } {
  const items: CartLine[] = [...quantities].map(([variantId, quantity]) => ({ variantId, quantity }))
  if (items.length === 0) return { problem: t('Enter a quantity for at least one product.') }
  if (items.length > 10 || items.some(({ quantity }) => quantity > 10))
    return { problem: t('An order can have at most 10 items.') }
  const code = countryCode(country)
  if (code === null) return { problem: t('Choose the country to ship to.') }
  if (!/^[A-Za-z0-9]{0,3}$/.test(state)) return { problem: t('Enter your state as letters, such as CA.') }
  if (zip.length > 20) return { problem: t('A postal code can have at most 20 characters.') }
  if (email !== '' && !/^[^\s@]+@[^\s@]+$/.test(email))
    return { problem: t('Enter a complete email address, or leave it empty.') }
  return {
    input: { items, email: email === '' ? null : email },
    location: { country: code, state: state.toUpperCase(), zip: zip.toUpperCase() }
  }
}

const PLACE = { table: 'storefront_orders', column: 'invoice_page', row: 'buyer' }

/** Opens the pay page of an order. Unlike the payment hash it is not in the invoice. */
export function payTokenOf({ paymentHash }: Order, sealer: Pick<Sealer, 'seal'>): string {
  return sealer.seal(paymentHash, PLACE)
}

interface PayableOrdersOptions extends Pick<ShopServices, 'clock' | 'orders' | 'sealer' | 'stores'> {
  readonly claims: Pick<Claims, 'find'>
  readonly paid: Pick<PaidOrders, 'claimPageUrl'>
}

/** Orders of the shop's page on the pay page, which leads to the claim page once they are paid. */
export function payableOrders({ claims, clock, orders, paid, sealer, stores }: PayableOrdersOptions): PayableSource {
  return {
    async byPayToken(token) {
      const paymentHash = openToken(sealer, token)
      const order = paymentHash === null ? null : await orders.byPaymentHash(paymentHash)
      if (order === null) return null
      const [challenge, integration] = await Promise.all([
        claims.find(order.paymentHash),
        stores.byId(order.storefrontId)
      ])
      if (challenge === null || integration === null) return null
      const isOver = challenge.expiresAt <= clock.now()
      return {
        payee: shopNameOf(integration),
        payable: {
          invoiceId: order.id,
          payToken: token,
          status: order.status !== 'PendingPayment' ? 'paid' : isOver ? 'expired' : 'unpaid',
          amount: (order.totalCents / 100).toFixed(2),
          currency: 'USD',
          description: [
            ...order.items.map(item => `${item.quantity} × ${itemTitle(item)}`),
            t`Shipping ${dollarsText(order.shippingCents)}, tax ${dollarsText(order.taxCents)}`
          ].join('\n'),
          successUrl: paid.claimPageUrl(integration, order),
          // Challenges keep the kind's name as text; providers have configured kinds only.
          kind: challenge.providerKind as KindName,
          invoice: challenge.invoice,
          onchainAddress: null,
          amountSats: order.totalSats,
          receivedSats: null,
          createdAt: challenge.createdAt,
          expiresAt: challenge.expiresAt,
          confirmsAt: null,
          paidAt: order.paidAt
        }
      }
    }
  }
}

function openToken(sealer: Pick<Sealer, 'open'>, token: string): string | null {
  try {
    return sealer.open(token, PLACE).reveal()
  } catch (error) {
    if (error instanceof UnsealError) return null
    throw error
  }
}

/** What to say of a refusal on the shop's page; null when the request itself must fail. */
export function problemOf(error: GatewayError): string | null {
  return error instanceof LongError && (error.status === 400 || error.status === 429 || error.status === 503)
    ? t(error.message)
    : null
}
