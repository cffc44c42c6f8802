import type { VNode } from 'preact'
import { oneLine } from '../../web/mail/plain-text.ts'
import { dollarsText, satoshisText } from '../../web/kit/amounts.ts'
import type { AssetNames } from '../../web/kit/assets.ts'
import { document, html, webAddress, type HtmlPage } from '../../web/kit/document.ts'
import { merchantLine } from '../../web/kit/merchant-line.ts'
import { dayText, momentText } from '../../web/kit/moments.ts'
import { pictures } from '../../web/kit/pictures.ts'
import {
  countriesOf,
  FIELDS,
  isNeeded,
  labelOf,
  MAXIMA,
  prefilled,
  type Field,
  type FormErrors,
  type FormValues,
  refundPanel
} from './claim-form.ts'
import { itemTitle } from '../orders/claim-mail.ts'
import { addressRules, countryCode, countryName } from '../countries.ts'
import { failureWords } from '../orders/placement.ts'
import type { Integration, Order, OrderStatus } from '../schema.ts'

export interface ClaimPageFacts {
  readonly order: Order
  readonly integration: Pick<Integration, 'slug' | 'shopName' | 'shopCountry' | 'shipping'>
  readonly claimToken: string
}

/** Seconds between refreshes without JavaScript. */
const REFRESH_SECONDS = 30

const ANY = addressRules('')

export function shopNameOf({ shopName, slug }: Pick<Integration, 'slug' | 'shopName'>): string {
  const name = oneLine(shopName ?? '')
  return name === '' ? slug : name
}

/** The only country that a shop ships to (decision 140); null for any. */
export function onlyCountryOf({ shipping, shopCountry }: Pick<Integration, 'shipping' | 'shopCountry'>): string | null {
  return shipping.domesticOnly ? shopCountry : null
}

export interface RefundForm {
  readonly given: string
  readonly refusal: string | null
}

const NO_REFUND: RefundForm = { given: '', refusal: null }

export function claimPage(facts: ClaimPageFacts, assets: AssetNames, refund: RefundForm = NO_REFUND): string {
  return formPage(facts, prefilled(facts.order, onlyCountryOf(facts.integration)), {}, null, assets, refund)
}

/** The form with entered values and errors by field. `refusal`: an error of the claim as a whole. */
export function formPage(
  facts: ClaimPageFacts,
  values: FormValues,
  errors: FormErrors,
  refusal: string | null,
  assets: AssetNames,
  refund: RefundForm = NO_REFUND
): string {
  const shop = shopNameOf(facts.integration)
  const wrong = FIELDS.filter(field => errors[field] !== undefined)
  return page(assets, {
    title: `${wrong.length > 0 || refusal !== null ? 'Please check: ' : ''}Where should your order go? · ${shop}`,
    refresh: null,
    main: html`
      <main class="order">
        ${bill(facts)}
        ${
          facts.order.refundedAt !== null
            ? null
            : html`<section class="panel" aria-labelledby="state">
          <div>
            <h2 id="state" class="result-heading">Where should it go?</h2>
            <p class="soft">Please say so by <time datetime=${new Date(facts.order.claimExpiresAt).toISOString()}>${dayText(facts.order.claimExpiresAt)}</time>.</p>
          </div>
          ${problems(wrong, errors, refusal)}
          ${form(facts, values, errors)}
        </section>`
        }
        ${refundPanel(facts.order, refundAddress(facts), refund.given, refund.refusal)}
      </main>`
  })
}

function problems(wrong: readonly Field[], errors: FormErrors, refusal: string | null): VNode | null {
  if (wrong.length === 0 && refusal === null) return null
  return html`
    <div id="problems" class="problems" role="alert" tabindex="-1" autofocus>
      <p><strong>${refusal ?? (wrong.length === 1 ? 'One thing is missing or wrong' : `${wrong.length} things are missing or wrong`)}</strong></p>
      ${wrong.length === 0 ? null : html`<ul>${wrong.map(field => html`<li><a href=${`#${field}`}>${errors[field]}</a></li>`)}</ul>`}
    </div>`
}

/** No browser validation: it would reject the ZIP of a country no longer selected. */
function form(facts: ClaimPageFacts, values: FormValues, errors: FormErrors): VNode {
  const country = countryCode(values.country)
  const input = (field: Field, autocomplete: string, more: Readonly<Record<string, string>> = {}): VNode => html`
    <div class=${errors[field] === undefined ? 'input' : 'input wrong'}>
      ${label(field, country)}
      ${error(field, errors)}
      <input id=${field} name=${field} type="text" value=${values[field]} maxlength=${MAXIMA[field]} autocomplete=${autocomplete} required=${isNeeded(field, country)} ...${told(field, errors)} ...${more} />
    </div>`
  return html`
    <form class="form" method="post" action=${address(facts)} novalidate>
      ${input('email', 'email', { type: 'email', inputmode: 'email', autocapitalize: 'none', spellcheck: 'false' })}
      <div class="row">${input('firstName', 'given-name')}${input('lastName', 'family-name')}</div>
      ${countryField(facts, country, errors)}
      ${input('address1', 'address-line1')}
      ${input('address2', 'address-line2')}
      ${input('city', 'address-level2')}
      <div class="row">${input('province', 'address-level1')}${input('zip', 'postal-code', { autocapitalize: 'characters', spellcheck: 'false' })}</div>
      ${input('phone', 'tel', { type: 'tel', inputmode: 'tel' })}
      <button class="button" data-busy="Placing your order…">Place my order</button>
      <p class="hint">Your address goes to ${`\u2068${shopNameOf(facts.integration)}\u2069`} for this order. It is paid: there is nothing more to pay.</p>
    </form>`
}

function label(field: Field, country: string | null): VNode {
  return html`<label for=${field}><span class="label-text">${labelOf(field, country)}</span><span class="optional" hidden=${isNeeded(field, country)}> (optional)</span></label>`
}

function error(field: Field, errors: FormErrors): VNode | null {
  return errors[field] === undefined ? null : html`<p class="error" id=${`${field}-error`}>${errors[field]}</p>`
}

function told(field: Field, errors: FormErrors): Readonly<Record<string, string>> {
  return errors[field] === undefined ? {} : { 'aria-invalid': 'true', 'aria-describedby': `${field}-error` }
}

/** Options carry the names of address parts that differ by country, for the script. */
function countryField({ integration }: ClaimPageFacts, chosen: string | null, errors: FormErrors): VNode {
  const countries = countriesOf(onlyCountryOf(integration))
  const offered = countries.some(({ code }) => code === chosen)
  return html`
    <div class=${errors.country === undefined ? 'input' : 'input wrong'}>
      ${label('country', chosen)}
      ${error('country', errors)}
      <select id="country" name="country" autocomplete="country" required data-state=${ANY.stateLabel} data-zip=${ANY.zipLabel} ...${told('country', errors)}>
        ${offered ? null : html`<option value="" selected>Choose a country</option>`}
        ${countries.map(({ code, name }) => {
          const { stateLabel, stateNeeded, zipLabel, zipNeeded } = addressRules(code)
          return html`<option
            value=${code}
            selected=${code === chosen}
            data-state=${stateLabel === ANY.stateLabel ? null : stateLabel}
            data-state-needed=${stateNeeded ? '' : null}
            data-zip=${zipLabel === ANY.zipLabel ? null : zipLabel}
            data-zip-needed=${zipNeeded ? '' : null}
          >${name}</option>`
        })}
      </select>
      ${onlyCountryOf(integration) === null ? null : html`<p class="hint">This shop ships within ${countryName(onlyCountryOf(integration) ?? '')} only.</p>`}
    </div>`
}

/** The store failed the order (decision 146), or it is `running` elsewhere: keeps the values for a retry. */
export function failedPage(facts: ClaimPageFacts, values: FormValues, running: boolean, assets: AssetNames): string {
  const shop = shopNameOf(facts.integration)
  const country = countryCode(values.country)
  const lines = [
    `${values.firstName} ${values.lastName}`,
    values.address1,
    values.address2,
    [values.city, values.province, values.zip].filter(part => part !== '').join(', '),
    country === null ? values.country : countryName(country),
    values.phone,
    values.email
  ].filter(line => line.trim() !== '')
  return page(assets, {
    title: `${running ? 'Being placed' : 'Not placed yet'} · ${shop}`,
    refresh: null,
    main: html`
      <main class="order">
        ${bill(facts)}
        <section class="panel result" aria-labelledby="state" role="alert">
          ${running ? pictures.processing() : pictures.broken()}
          <h2 id="state" class="result-heading">${running ? 'Your order is being placed' : 'Your order could not be placed just now'}</h2>
          ${facts.order.failure === null || running ? null : html`<p class="result-words">${failureWords(facts.order.failure.reason)}</p>`}
          <p class="result-words">Your payment is safe, and nothing ${running ? 'is' : 'was'} ordered twice. Please try again in a moment.</p>
          <div class="given">${lines.map(line => html`<bdi>${line}</bdi>`)}</div>
          <form class="form" method="post" action=${address(facts)}>
            ${FIELDS.map(field => html`<input type="hidden" name=${field} value=${values[field]} />`)}
            <button class="button" data-busy="Trying again…">Try again</button>
            <button class="button second" name="change" value="1">Change the address</button>
          </form>
        </section>
        ${refundPanel(facts.order, refundAddress(facts))}
      </main>`
  })
}

function isSettled(status: OrderStatus): boolean {
  return status === 'Shipped'
}

export function claimedOrderPage(facts: ClaimPageFacts, assets: AssetNames): string {
  const { order } = facts
  const shop = shopNameOf(facts.integration)
  const { title, heading, words, picture } = wordsOf(order, `\u2068${shop}\u2069`)
  const settled = isSettled(order.status)
  return page(assets, {
    title: `${title} · ${shop}`,
    refresh: settled ? null : String(REFRESH_SECONDS),
    main: html`
      <main class="order" data-state=${[order.status, order.orderNumber, order.tracking.number].join(' ')} data-follow=${settled ? null : ''} data-announce=${`${heading}. ${words}`}>
        ${bill(facts)}
        <section class="panel result" aria-labelledby="state">
          ${pictures[picture]()}
          <h2 id="state" class="result-heading" tabindex="-1">${heading}</h2>
          <p class="result-words">${words}</p>
          ${trackingOf(order)}
          ${steps(order)}
          <p class="hint">Keep this page’s address to look again; it is the key to your order, so keep it to yourself.</p>
        </section>
      </main>`
  })
}

interface Words {
  readonly title: string
  readonly heading: string
  readonly words: string
  readonly picture: keyof typeof pictures
}

function wordsOf({ status, orderNumber }: Order, shop: string): Words {
  const number = orderNumber === null ? '' : ` ${orderNumber}`
  switch (status) {
    case 'Shipped':
      return {
        title: 'On its way',
        heading: 'Your order is on its way',
        words: `${shop} has sent order${number}.`,
        picture: 'truck'
      }
    case 'Fulfilled':
      return {
        title: 'Packed',
        heading: 'Your order is packed',
        words: `${shop} has packed order${number}. It is sent next.`,
        picture: 'parcel'
      }
    case 'PaidWithDetails':
    case 'PaidAwaitingDetails':
    case 'PendingPayment':
      return {
        title: 'Order placed',
        heading: orderNumber === null ? 'Your order is placed' : `Order${number} is placed`,
        words: `Thank you. ${shop} has your address and gets it ready.`,
        picture: 'paid'
      }
  }
}

function trackingOf({ tracking }: Order): VNode | null {
  const { number, carrier } = tracking
  const url = webAddress(tracking.url)
  if (number === null && carrier === null && url === null) return null
  return html`
    <dl class="facts given">
      ${carrier === null ? null : html`<div><dt>Carrier</dt><dd><bdi>${carrier}</bdi></dd></div>`}
      ${number === null ? null : html`<div><dt>Tracking number</dt><dd><bdi>${number}</bdi></dd></div>`}
    </dl>
    ${url === null ? null : html`<a class="button" href=${url} rel="noopener noreferrer">Track the parcel</a>`}`
}

const REACHED: Readonly<Record<OrderStatus, number>> = {
  PendingPayment: 0,
  PaidAwaitingDetails: 1,
  PaidWithDetails: 2,
  Fulfilled: 3,
  Shipped: 4
}

function steps(order: Order): VNode {
  const reached = REACHED[order.status]
  const all: ReadonlyArray<readonly [string, number | null]> = [
    ['Paid', order.paidAt],
    ['Address given', order.claimedAt],
    ['Packed', order.fulfilledAt],
    ['Sent', order.shippedAt]
  ]
  return html`
    <ol class="steps facts" aria-label="Progress">
      ${all.map(
        ([name, time], index) => html`
        <li class=${index < reached ? 'step done' : 'step'} aria-current=${index === reached ? 'step' : null}>
          <span class="step-name">${name}${index < reached ? html`<span class="unseen"> (done)</span>` : null}
            ${index >= reached || time === null ? null : html`<time class="step-time" datetime=${new Date(time).toISOString()}>${momentText(time)}</time>`}
          </span>
        </li>`
      )}
    </ol>`
}

function bill({ order, integration }: ClaimPageFacts): VNode {
  const sum = (name: string, cents: number): VNode =>
    html`<tr class="sum"><th scope="row">${name}</th><td>${dollarsText(cents)}</td></tr>`
  return html`
    <header class="summary">
      ${merchantLine(shopNameOf(integration))}
      <h1 class="title">${order.orderNumber === null ? 'Your order' : `Order ${order.orderNumber}`}</h1>
      <table class="bill">
        <caption class="unseen">What you have paid for</caption>
        <tbody>
          ${order.items.map(item => html`<tr><th scope="row"><bdi>${itemTitle(item)}</bdi>${item.quantity === 1 ? null : html`<small>${item.quantity} × ${dollarsText(item.priceCents)}</small>`}</th><td>${dollarsText(item.priceCents * item.quantity)}</td></tr>`)}
          ${sum('Shipping', order.shippingCents)}
          ${sum('Tax', order.taxCents)}
          <tr class="sum total"><th scope="row">Paid<small>${satoshisText(order.totalSats)}</small></th><td>${dollarsText(order.totalCents)}</td></tr>
        </tbody>
      </table>
    </header>`
}

export function missingOrderPage(assets: AssetNames): string {
  return page(assets, {
    title: 'No order here',
    refresh: null,
    main: html`
      <main class="alone">
        <section class="panel result">
          ${pictures.missing()}
          <h1 class="result-heading">No order here</h1>
          <p class="result-words">This address opens no order. Please check that the link is whole. If its time is over, the shop where you paid can help.</p>
        </section>
      </main>`
  })
}

function page(assets: AssetNames, { title, main, refresh }: Pick<HtmlPage, 'title' | 'main' | 'refresh'>): string {
  return document({
    title,
    main,
    assets: { style: assets.shopStyle, script: assets.shopScript },
    root: '../../',
    script: true,
    refresh
  })
}

/** Relative to the page: the same address, so that a refresh works. */
export function address({ claimToken }: Pick<ClaimPageFacts, 'claimToken'>): string {
  return `claim?${new URLSearchParams({ claimToken })}`
}

function refundAddress({ claimToken }: Pick<ClaimPageFacts, 'claimToken'>): string {
  return `claim-refund?${new URLSearchParams({ claimToken })}`
}
