import { t } from '../../engine/formats/language.ts'
import { Type } from 'typebox'
import type { Context } from '../../engine/message/context.ts'
import { LongError, type GatewayError } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import { UnsealError, type Sealer } from '../../platform/keys/secrets.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Claims } from '../../selling/holding/claims.ts'
import type { Challenge } from '../../selling/holding/challenge.ts'
import { dollarsText, satoshisText } from '../../web/kit/amounts.ts'
import { assetText } from '../../web/kit/assets.ts'
import { document, html, HTML_TYPE, inlinePageHeaders, type InlineAssets } from '../../web/kit/document.ts'
import { pictures } from '../../web/kit/pictures.ts'
import { qrContent } from '../../web/kit/qr-code.ts'
import { codeToScan, copyField, timeLeft, waiting, walletLink } from '../../web/pay/payable.ts'
import { sandboxPayCommand } from '../../web/pay/payable.ts'
import type { OrderStore } from '../orders/store.ts'
import type { PaidOrders } from '../orders/paid-orders.ts'
import type { CartLine, StoreCheckoutInput } from '../cart.ts'
import { countryCode } from '../countries.ts'
import type { BuyerLocation, Integration, Order } from '../schema.ts'
import type { Storefronts } from '../stores/integrations.ts'
import { shopNameOf } from './claim-page.ts'

/** Seconds until the page looks for the payment again without scripts. */
const REFRESH = '10'

export interface BuyingOptions {
  readonly checkout: {
    /** @throws GatewayError as the checkout of the API */
    order(
      ctx: Context,
      slug: string,
      input: StoreCheckoutInput,
      location: BuyerLocation
    ): Promise<{ readonly order: Order }>
  }
  readonly orders: Pick<OrderStore, 'byPaymentHash'>
  readonly paid: Pick<PaidOrders, 'claimPageUrl'>
  readonly challenges: Pick<Claims, 'find'>
  readonly stores: Pick<Storefronts, 'bySlug'>
  readonly sealer: Pick<Sealer, 'seal' | 'open'>
  readonly clock: Clock
  publicUrl(): string
}

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
export function readCart(bytes: Uint8Array): Cart {
  const form = new URLSearchParams(Buffer.from(bytes).toString())
  // PostgreSQL cannot store NUL.
  const text = (name: string): string =>
    (form.get(name) ?? '')
      .replaceAll(/\p{Cc}/gu, '')
      .trim()
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

/** Pays for an order, by a person with a wallet: the page of an invoice, which leads to the claim page once it is paid. */
export function buyingOperations(options: BuyingOptions): AnyOperation[] {
  const assets: InlineAssets = {
    inline: true,
    style: assetText('css', 'tokens', 'base', 'pay'),
    script: assetText('js', 'invoice', 'shop-invoice')
  }
  const headers = inlinePageHeaders(assets)
  const missing = (): Result => ({ status: 404, body: missingPage(assets), headers })
  return [
    defineOperation({
      id: 'getShopInvoice',
      method: 'GET',
      path: '/storefront/:slug/invoice',
      mount: { use: 'storefront', chain: 'page-forms', below: '/storefront/*' },
      summary: 'The page on which a person pays for an order',
      description:
        'Its address comes from the form of the shop, and alone opens the page. Paid, it leads to the claim page.',
      tag: 'pages',
      access: 'public',
      params: Type.Object({ slug: Type.String() }),
      query: Type.Object({ order: Type.Optional(Type.String({ maxLength: 500, description: 'The sealed order.' })) }),
      responses: {
        200: { description: 'The invoice, or that it has expired.', mediaType: HTML_TYPE },
        303: { description: 'It is paid; the claim page is at `Location`.' },
        404: { description: 'A page that says that the address opens no order.', mediaType: HTML_TYPE }
      },
      async handle({ params: { slug }, query: { order: sealed = '' } }) {
        const paymentHash = openOrder(options.sealer, sealed)
        const integration = paymentHash === null ? null : await options.stores.bySlug(slug)
        if (paymentHash === null || integration === null) return missing()
        const order = await options.orders.byPaymentHash(paymentHash)
        if (order?.storefrontId !== integration.id) return missing()
        if (order.status !== 'PendingPayment') {
          const url = options.paid.claimPageUrl(integration, order)
          // Relative, since a prefix may precede the path.
          return url === null
            ? missing()
            : {
                status: 303,
                body: null,
                headers: ['Location', url.slice(url.lastIndexOf('/') + 1), 'Cache-Control', 'no-store']
              }
        }
        const challenge = await options.challenges.find(paymentHash)
        if (challenge === null) return missing()
        const now = options.clock.now()
        const body = invoicePage({ order, integration, challenge, now, publicUrl: options.publicUrl() }, assets)
        return { status: 200, body, headers }
      }
    })
  ]
}

export function invoiceAddress({ slug }: Integration, { paymentHash }: Order, sealer: Pick<Sealer, 'seal'>): string {
  return `${slug}/invoice?${new URLSearchParams({ order: sealer.seal(paymentHash, PLACE) })}`
}

const PLACE = { table: 'storefront_orders', column: 'invoice_page', row: 'buyer' }

function openOrder(sealer: Pick<Sealer, 'open'>, sealed: string): string | null {
  try {
    return sealer.open(sealed, PLACE).reveal()
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

interface InvoiceFacts {
  readonly order: Order
  readonly integration: Integration
  readonly challenge: Challenge
  readonly now: number
  readonly publicUrl: string
}

function invoicePage({ order, integration, challenge, now, publicUrl }: InvoiceFacts, assets: InlineAssets): string {
  const shop = shopNameOf(integration)
  const isOver = challenge.expiresAt <= now
  const { invoice, providerKind } = challenge
  return document({
    title: `${t`Pay ${dollarsText(order.totalCents)}`} · ${shop}`,
    assets,
    root: '../../',
    script: !isOver,
    refresh: isOver ? null : REFRESH,
    main: html`
      <main id="invoice">
        <header class="summary">
          <p class="merchant"><bdi>${shop}</bdi></p>
          <h1 class="amount"><span class="unseen">Pay </span>${dollarsText(order.totalCents)}</h1>
          <p class="satoshis">${satoshisText(order.totalSats)}</p>
          ${order.items.map(({ productTitle, variantTitle, quantity }) => html`<p class="description" dir="auto">${`${quantity} × ${productTitle}${variantTitle === productTitle ? '' : `, ${variantTitle}`}`}</p>`)}
          <p class="description">${t`Shipping ${dollarsText(order.shippingCents)}, tax ${dollarsText(order.taxCents)}`}</p>
        </header>
        <section class="panel" aria-labelledby="state">
          ${
            isOver
              ? html`<h2 id="state">This invoice has expired</h2><p>You have not been charged. <a href=${`../${integration.slug}`}>Back to the shop</a></p>`
              : html`
          ${waiting(t('Waiting for payment'), timeLeft({ createdAt: challenge.createdAt, expiresAt: challenge.expiresAt, now }))}
          ${codeToScan(qrContent({ invoice, onchainAddress: null, amountSats: null }), t('QR code of the invoice'))}
          <p class="hint">Scan the code with a Lightning wallet. Then enter your shipping address here.</p>
          ${walletLink(invoice)}
          ${copyField(t('Lightning invoice'), invoice)}
          ${providerKind === 'sandbox' ? html`<div class="notice"><p><strong>Sandbox: no real money.</strong> Pay from a terminal on the gateway’s machine:</p>${copyField(t('Command'), sandboxPayCommand(publicUrl, invoice))}</div>` : null}
          <a class="button second" href="">I have paid</a>`
          }
        </section>
      </main>`
  })
}

function missingPage(assets: InlineAssets): string {
  return document({
    title: t('Order not found'),
    assets,
    root: '../../',
    script: false,
    refresh: null,
    main: html`
      <main class="alone">
        <section class="panel result">
          ${pictures.missing()}
          <h1 class="result-heading">Order not found</h1>
          <p class="result-words">This link does not lead to an order, or the order has expired.</p>
        </section>
      </main>`
  })
}
