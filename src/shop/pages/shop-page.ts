import { t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { oneLine } from '../../web/mail/outbox.ts'
import { dollarsText } from '../../web/kit/amounts.ts'
import type { AssetNames } from '../../web/kit/assets.ts'
import { document, FORM_PAGE_HEADERS, html } from '../../web/kit/document.ts'
import { firstLetter } from '../../web/kit/pictures.ts'
import { ownTitle } from '../orders/claim-mail.ts'
import type { Cart } from './buying.ts'
import { countriesOf } from './claim-form.ts'
import { onlyCountryOf, shopNameOf } from './claim-page.ts'
import { countryName } from '../countries.ts'
import type { Catalog, CatalogProduct, CatalogVariant } from '../platform.ts'
import type { Integration } from '../schema.ts'

interface ShopPageFacts {
  readonly integration: Pick<Integration, 'slug' | 'shopName' | 'shopCountry' | 'shipping' | 'listInRegistry'>
  readonly catalog: Catalog
  readonly publicUrl: string
  /** What the buyer typed. */
  readonly cart: Cart
  readonly problem: string | null
}

/** The catalog has all. */
const MOST_PRODUCTS = 200

const MOST_ORIGINS = 8

export function shopPage(facts: ShopPageFacts, assets: AssetNames): string {
  const { integration, catalog, publicUrl, cart, problem } = facts
  const name = shopNameOf({ slug: integration.slug, shopName: catalog.storeName })
  const shown = catalog.products.slice(0, MOST_PRODUCTS)
  const api = `../api/storefront/${integration.slug}`
  const sources = pictureOrigins(shown)
  return document({
    title: name,
    assets: { style: assets.shopStyle, script: assets.shopScript },
    script: false,
    refresh: null,
    isListed: integration.listInRegistry,
    main: html`
    <main class="alone shop">
      <header class="shop-head">
        <h1 class="title"><span class="monogram" aria-hidden="true">${firstLetter(name)}</span><bdi>${name}</bdi></h1>
        <p class="soft">${shippingWords(integration)}</p>
      </header>
      ${
        shown.length === 0
          ? html`<p class="soft">No products available right now.</p>`
          : html`
      <form class="form" method="post">
        <ul class="products">${shown.map(product => productCard(product, sources, cart))}</ul>
        ${problem === null ? null : html`<p class="notice bad" role="alert">${problem}</p>`}
        ${buyFields(facts)}
      </form>`
      }
      ${shown.length === catalog.products.length ? null : html`<p class="soft">Find ${catalog.products.length - shown.length} more in the <a href=${`${api}/catalog`}>catalog</a>.</p>`}
      <section class="panel how" aria-labelledby="how">
        <h2 id="how">Let your agent buy</h2>
        <p>Software that pays over Lightning can buy here too. Give your agent this address, which explains how. After it has paid, you enter the delivery address on a page.</p>
        <div class="field"><div class="field-row"><code class="field-text" tabindex="0" dir="ltr">${`${publicUrl}/api/storefront/${integration.slug}/llms.txt`}</code></div></div>
        <p class="links"><a href=${`${api}/llms.txt`}>llms.txt for agents</a> <a href=${`${api}/catalog`}>Catalog as JSON</a></p>
      </section>
    </main>`
  })
}

function shippingWords({ shipping, shopCountry, ...integration }: ShopPageFacts['integration']): string {
  const { domesticCents, freeEnabled, freeThresholdCents } = shipping
  const only = onlyCountryOf({ ...integration, shipping, shopCountry })
  const where = only === null ? t('Ships worldwide') : t`Ships within ${countryName(only)}`
  if (domesticCents === 0 || (freeEnabled && freeThresholdCents === null)) return t`${where}, free of charge.`
  const price = t`${where} for ${dollarsText(domesticCents)}`
  return freeEnabled && freeThresholdCents !== null
    ? t`${price}, free from ${dollarsText(freeThresholdCents)}.`
    : `${price}.`
}

/** Without any picture, cards have no room for one. */
function productCard(
  { title, description, imageUrl, variants }: CatalogProduct,
  sources: readonly string[],
  cart: Cart
): VNode {
  const name = oneLine(title)
  const source = originOf(imageUrl)
  const picture =
    source === null || !sources.includes(source)
      ? null
      : html`<img src=${imageUrl} alt="" loading="lazy" decoding="async" referrerpolicy="no-referrer" />`
  return html`
    <li class=${variants.some(({ available }) => available) ? 'product' : 'product gone'}>
      ${sources.length === 0 ? null : html`<div class="product-picture"><span aria-hidden="true">${firstLetter(name)}</span>${picture}</div>`}
      <div class="product-text">
        <h2 class="product-name"><bdi>${name}</bdi></h2>
        <p class="product-words" dir="auto">${oneLine(description)}</p>
        <ul class="variants">${variants.map(variant => variantLine(variant, name, cart))}</ul>
      </div>
    </li>`
}

function variantLine({ variantId, title, priceCents, available }: CatalogVariant, product: string, cart: Cart): VNode {
  const own = ownTitle(title, product)
  const name = `v${variantId}`
  return html`<li class=${available ? 'variant' : 'variant gone'}>${own === null ? null : html`<span><bdi>${own}</bdi></span>`}<span class="price">${dollarsText(priceCents)}${available ? null : ` · ${t('sold out')}`}</span>${
    available
      ? html`<label class="quantity"><span class="unseen">${t`Quantity of ${own === null ? product : `${product}, ${own}`}`}</span><input type="number" name=${name} min="0" max="10" inputmode="numeric" placeholder="0" value=${cart.quantities.get(variantId) ?? ''} /></label>`
      : null
  }</li>`
}

/** Where the order goes decides on tax and shipping; the address itself is asked for once it is paid. */
function buyFields({ integration, cart }: ShopPageFacts): VNode {
  const countries = countriesOf(onlyCountryOf(integration))
  const chosen = countries.length === 1 ? countries[0]?.code : cart.country
  const input = (name: string, label: string, value: string, more: Readonly<Record<string, string>>): VNode => html`
    <div class="input"><label for=${name}>${label}</label><input id=${name} name=${name} value=${value} ...${more} /></div>`
  return html`
    <section class="panel how" aria-labelledby="buy">
      <h2 id="buy">Buy with a Lightning wallet</h2>
      <p>Enter quantities above and where to ship. You see the total with tax and shipping before you pay.</p>
      <div class="input"><label for="country">Country</label>
        <select id="country" name="country" autocomplete="country" required>
          ${chosen === '' ? html`<option value="" selected>Choose a country</option>` : null}
          ${countries.map(({ code, name }) => html`<option value=${code} selected=${code === chosen}>${name}</option>`)}
        </select></div>
      ${input('state', t('State (two letters, such as CA; where applicable)'), cart.state, { autocomplete: 'address-level1', maxlength: '3' })}
      ${input('zip', t('Postal code'), cart.zip, { autocomplete: 'postal-code', maxlength: '20' })}
      ${input('email', t('Email (optional, for the link to your order)'), cart.email, { type: 'email', autocomplete: 'email', maxlength: '254' })}
      <button class="button" data-busy="Calculating total…">Show total</button>
    </section>`
}

/** Allows pictures from the origins of the products only, and search engines where the store wants to be listed. */
export function shopHeaders(
  { products }: Catalog,
  { listInRegistry }: Pick<Integration, 'listInRegistry'>
): readonly string[] {
  const origins = pictureOrigins(products.slice(0, MOST_PRODUCTS))
  const robots = FORM_PAGE_HEADERS.indexOf('X-Robots-Tag')
  return FORM_PAGE_HEADERS.filter((_, at) => !listInRegistry || (at !== robots && at !== robots + 1)).map(value =>
    value.replace("img-src 'self' data:", ["img-src 'self' data:", ...origins].join(' '))
  )
}

function pictureOrigins(products: readonly CatalogProduct[]): readonly string[] {
  return [...new Set(products.map(({ imageUrl }) => originOf(imageUrl)))]
    .filter(origin => origin !== null)
    .slice(0, MOST_ORIGINS)
}

/** Scheme, host and port; null for others than https, and for hosts with characters that are special in a policy. */
function originOf(address: string | null): string | null {
  if (address === null || !URL.canParse(address)) return null
  const { origin } = new URL(address)
  return /^https:\/\/[a-z0-9.-]+(?::\d+)?$/.test(origin) ? origin : null
}
