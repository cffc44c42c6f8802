import { t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { priceWords } from '../../engine/checks/price.ts'
import type { PricedRoute } from '../../engine/openapi/paid.ts'
import { accentStyle } from '../kit/accent.ts'
import { assetText } from '../kit/assets.ts'
import { document, html, HTML_TYPE, inlinePageHeaders, type InlineAssets } from '../kit/document.ts'
import { merchantLine } from '../kit/pictures.ts'

export interface HomeFacts {
  readonly seller: string
  /** `pages.colour`; empty: default. */
  readonly colour: string
  readonly routes: readonly PricedRoute[]
  readonly stores: ReadonlyArray<{ readonly slug: string; readonly description: string | null }>
  readonly hasStorePages: boolean
  /** Whether people sign in here, and may open an account. */
  readonly signIn: 'none' | 'sign-in' | 'sign-up'
}

let style: string | null = null

/** Front page and its headers, flat: the offers, for people and agents. */
export function homePage(facts: HomeFacts): { readonly body: string; readonly headers: readonly string[] } {
  const assets: InlineAssets = {
    inline: true,
    style: (style ??= assetText('css', 'tokens', 'base', 'home')) + accentStyle(facts.colour),
    script: ''
  }
  const { seller, routes, stores } = facts
  const body = document({
    title: seller,
    assets,
    script: false,
    refresh: null,
    isListed: true,
    main: html`
      <main class="alone home">
        <header class="summary">
          ${merchantLine(seller)}
          <h1 class="title">Pay only for what you use</h1>
          <p class="soft">Pay per request with a Lightning wallet. No account, no card. Open an address, scan the code, and get the content.</p>
        </header>
        ${
          routes.length === 0
            ? html`<section class="panel"><h2 class="heading">Nothing for sale yet</h2><p class="soft">Set a price on a route in <code>gateway.yaml</code> to list it here.</p></section>`
            : html`<section class="panel" aria-labelledby="sold"><h2 class="heading" id="sold">For sale</h2><ul class="sold">${routes.map(soldLine)}</ul></section>`
        }
        ${stores.length === 0 ? null : html`<section class="panel" aria-labelledby="stores"><h2 class="heading" id="stores">Stores</h2><ul class="sold">${stores.map(store => storeLine(store, facts.hasStorePages))}</ul></section>`}
        <section class="ways" aria-labelledby="programs">
          <h2 class="heading" id="programs">For agents and programs</h2>
          <ul>
            <li><a href="llms.txt">llms.txt</a> <span class="soft">how to pay, in plain text</span></li>
            <li><a href="openapi.json">openapi.json</a> <span class="soft">products and prices</span></li>
            <li><a href=".well-known/l402.json">l402.json</a> <span class="soft">the same for L402 clients; also served here to clients that request JSON</span></li>
          </ul>
        </section>
        ${facts.signIn === 'none' ? null : html`<p class="soft">${facts.signIn === 'sign-up' ? html`<a href="sign-up">Create an account</a>${' · '}` : null}<a href="sign-in">Sign in</a></p>`}
      </main>`
  })
  return { body, headers: ['Content-Type', HTML_TYPE, ...inlinePageHeaders(assets).filter(unlessUnlisted)] }
}

/** Drops X-Robots-Tag: this page may be indexed. */
function unlessUnlisted(_value: string, at: number, flat: readonly string[]): boolean {
  return flat[at - (at % 2)] !== 'X-Robots-Tag'
}

function soldLine({ path, methods, price, description }: PricedRoute): VNode {
  // A browser can open addresses without parameters.
  const opens = !path.includes('{') && (methods.length === 0 || methods.includes('get'))
  // A route without a description has its pattern instead.
  const words = /^(?:\*|[A-Z,]+) \//.test(description) ? null : description
  const shown = path.replace(/\{path\}$/, '…')
  return html`
    <li>
      <p class="what">${words === null ? null : html`<bdi dir="auto">${words}</bdi>`}<code>${methods.length === 0 || opens ? '' : `${methods.join(', ').toUpperCase()} `}${opens ? html`<a href=${path.slice(1)}>${shown}</a>` : shown}</code></p>
      <p class="price">${price === null ? t('price varies') : priceWords(price)}</p>
    </li>`
}

function storeLine({ slug, description }: HomeFacts['stores'][number], hasPage: boolean): VNode {
  return html`
    <li>
      <p class="what"><a href=${hasPage ? `storefront/${slug}` : `api/storefront/${slug}/catalog`}>${slug}</a>${description === null ? null : html`<bdi dir="auto">${description}</bdi>`}</p>
    </li>`
}
