import { t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { oneLine } from '../../web/mail/outbox.ts'
import { dollarsText, satoshisText, dayText, momentText } from '../../web/kit/amounts.ts'
import type { AssetNames } from '../../web/kit/assets.ts'
import { document, html, webAddress, type HtmlPage } from '../../web/kit/document.ts'
import { merchantLine, pictures } from '../../web/kit/pictures.ts'
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
import type { Integration, Order, OrderStatus } from '../schema.ts'

export interface ClaimPageFacts {
  readonly order: Order
  readonly integration: Pick<Integration, 'slug' | 'shopName' | 'shopCountry' | 'shipping'>
  readonly claimToken: string
}

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

/** What was sent with a form of the claim page, and what is wrong with it; `refusal`: of the claim as a whole. */
interface Sent {
  readonly values?: FormValues
  readonly errors?: FormErrors
  readonly refusal?: string | null
  readonly refund?: { readonly given: string; readonly refusal: string }
}

export function claimPage(facts: ClaimPageFacts, assets: AssetNames, sent: Sent = {}): string {
  const {
    values = prefilled(facts.order, onlyCountryOf(facts.integration)),
    errors = {},
    refusal = null,
    refund
  } = sent
  const shop = shopNameOf(facts.integration)
  const wrong = FIELDS.filter(field => errors[field] !== undefined)
  return page(assets, {
    title: `${wrong.length > 0 || refusal !== null ? t('Check your entries') : t('Shipping address')} · ${shop}`,
    refresh: null,
    main: html`
      <main class="order">
        ${bill(facts)}
        ${
          facts.order.refundedAt !== null
            ? null
            : html`<section class="panel" aria-labelledby="state">
          <div>
            <h2 id="state" class="result-heading">Where should we ship your order?</h2>
            <p class="soft">Enter your address by <time datetime=${new Date(facts.order.claimExpiresAt).toISOString()}>${dayText(facts.order.claimExpiresAt)}</time>.</p>
          </div>
          ${problems(wrong, errors, refusal)}
          ${form(facts, values, errors)}
        </section>`
        }
        ${refundPanel(facts.order, `claim-refund?${new URLSearchParams({ claimToken: facts.claimToken })}`, refund)}
      </main>`
  })
}

function problems(wrong: readonly Field[], errors: FormErrors, refusal: string | null): VNode | null {
  if (wrong.length === 0 && refusal === null) return null
  return html`
    <div id="problems" class="problems" role="alert" tabindex="-1" autofocus>
      <p><strong>${refusal ?? (wrong.length === 1 ? t('Check 1 field') : t`Check ${wrong.length} fields`)}</strong></p>
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
      <input id=${field} name=${field} type="text" value=${values[field]} maxlength=${MAXIMA[field]} autocomplete=${autocomplete} required=${isNeeded(field, country)} ...${errorAttributes(field, errors)} ...${more} />
    </div>`
  return html`
    <form class="form" method="post" action=${address(facts.claimToken)} novalidate>
      ${input('email', 'email', { type: 'email', inputmode: 'email', autocapitalize: 'none', spellcheck: 'false' })}
      <div class="row">${input('firstName', 'given-name')}${input('lastName', 'family-name')}</div>
      ${countryField(facts, country, errors)}
      ${input('address1', 'address-line1')}
      ${input('address2', 'address-line2')}
      ${input('city', 'address-level2')}
      <div class="row">${input('province', 'address-level1')}${input('zip', 'postal-code', { autocapitalize: 'characters', spellcheck: 'false' })}</div>
      ${input('phone', 'tel', { type: 'tel', inputmode: 'tel' })}
      <button class="button" data-busy="Placing your order…">Place order</button>
      <p class="hint">${`\u2068${shopNameOf(facts.integration)}\u2069`} uses your address for this order. The order is paid in full.</p>
    </form>`
}

function label(field: Field, country: string | null): VNode {
  return html`<label for=${field}><span class="label-text">${labelOf(field, country)}</span><span class="optional" hidden=${isNeeded(field, country)}> (optional)</span></label>`
}

function error(field: Field, errors: FormErrors): VNode | null {
  return errors[field] === undefined ? null : html`<p class="error" id=${`${field}-error`}>${errors[field]}</p>`
}

function errorAttributes(field: Field, errors: FormErrors): Readonly<Record<string, string>> {
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
      <select id="country" name="country" autocomplete="country" required data-state=${ANY.stateLabel} data-zip=${ANY.zipLabel} ...${errorAttributes('country', errors)}>
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
      ${onlyCountryOf(integration) === null ? null : html`<p class="hint">This shop only ships within ${countryName(onlyCountryOf(integration) ?? '')}.</p>`}
    </div>`
}

export function claimedOrderPage(facts: ClaimPageFacts, assets: AssetNames): string {
  const { order } = facts
  const shop = shopNameOf(facts.integration)
  const { title, heading, words, picture } = wordsOf(order, `\u2068${shop}\u2069`)
  const settled = order.status === 'Shipped'
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
          <p class="hint">Bookmark this page to check your order. Anyone with the link can see it, so keep it private.</p>
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

function wordsOf(order: Order, shop: string): Words {
  const number = order.orderNumber ?? order.id
  switch (order.status) {
    case 'Shipped':
      return {
        title: t('Shipped'),
        heading: t('Your order has shipped'),
        words: t`${shop} has shipped order ${number}.`,
        picture: 'truck'
      }
    case 'Fulfilled':
      return {
        title: t('Packed'),
        heading: t('Your order is packed'),
        words: t`${shop} has packed order ${number}. It ships next.`,
        picture: 'parcel'
      }
    case 'PaidWithDetails':
    case 'PaidAwaitingDetails':
    case 'PendingPayment':
      return {
        title: t('Order placed'),
        heading: t`Order ${number} is placed`,
        words: t`Thank you. ${shop} has your address and is preparing the order.`,
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
    ${url === null ? null : html`<a class="button" href=${url} rel="noopener noreferrer">Track package</a>`}`
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
    [t('Paid'), order.paidAt],
    [t('Address received'), order.claimedAt],
    [t('Packed'), order.fulfilledAt],
    [t('Shipped'), order.shippedAt]
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
      <h1 class="title">${order.orderNumber === null ? t('Your order') : t`Order ${order.orderNumber}`}</h1>
      <table class="bill">
        <caption class="unseen">Items you paid for</caption>
        <tbody>
          ${order.items.map(item => html`<tr><th scope="row"><bdi>${itemTitle(item)}</bdi>${item.quantity === 1 ? null : html`<small>${item.quantity} × ${dollarsText(item.priceCents)}</small>`}</th><td>${dollarsText(item.priceCents * item.quantity)}</td></tr>`)}
          ${sum(t('Shipping'), order.shippingCents)}
          ${sum(t('Tax'), order.taxCents)}
          <tr class="sum total"><th scope="row">Paid<small>${satoshisText(order.totalSats)}</small></th><td>${dollarsText(order.totalCents)}</td></tr>
        </tbody>
      </table>
    </header>`
}

export function missingOrderPage(assets: AssetNames): string {
  return page(assets, {
    title: t('Order not found'),
    refresh: null,
    main: html`
      <main class="alone">
        <section class="panel result">
          ${pictures.missing()}
          <h1 class="result-heading">Order not found</h1>
          <p class="result-words">This link does not lead to an order. Check that the link is complete. If it has expired, contact the shop where you paid.</p>
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
export function address(claimToken: string): string {
  return `claim?${new URLSearchParams({ claimToken })}`
}
