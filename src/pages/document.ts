import { html as template } from 'htm/preact'
import type { VNode } from 'preact'
import { renderToString } from 'preact-render-to-string'
import type { AssetNames } from './assets.ts'

/**
 * Templates of the pages. Every text and attribute put into one is escaped by the renderer; there is no way in it to
 * write ready HTML, and none of the pages uses `dangerouslySetInnerHTML`.
 */
// htm answers a list for templates with several roots; the pages have none of those.
export const html = template as (strings: TemplateStringsArray, ...values: unknown[]) => VNode

/** The media type of every page. */
export const HTML_TYPE = 'text/html; charset=utf-8'

const ONE_UP = '../'

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'"
].join('; ')

/**
 * Headers of every page, flat. The address of a pay page is a secret: nobody may keep it, index it or learn it as a
 * referrer (decision 53).
 */
export const PAGE_HEADERS: readonly string[] = Object.freeze([
  'Content-Security-Policy',
  CONTENT_SECURITY_POLICY,
  'Cache-Control',
  'no-store',
  'Referrer-Policy',
  'no-referrer',
  'X-Robots-Tag',
  'noindex, nofollow',
  'X-Content-Type-Options',
  'nosniff'
])

/** The same for a page with a form, which is sent to this gateway and to nobody else. */
export const FORM_PAGE_HEADERS: readonly string[] = Object.freeze(
  PAGE_HEADERS.map(value => value.replace("form-action 'none'", "form-action 'self'"))
)

/** The gateway's picture. */
export const ICON_SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="9" fill="#0b7453"/><path d="M18 5 8 18h7l-1 9 10-13h-7z" fill="#fff"/></svg>'
/** The same as an address. */
export const ICON = 'data:image/svg+xml,' + encodeURIComponent(ICON_SVG)

/** One page. */
export interface HtmlPage {
  readonly title: string
  /** Its `<main>`. */
  readonly main: VNode
  readonly assets: Pick<AssetNames, 'style' | 'script'>
  /** The way up from the page's address to that of the gateway; `../` unless said, as from `/pay/<token>`. */
  readonly root?: string
  /**
   * What is told of where a request comes from, as the header says too; nothing unless said. Never the whole address,
   * which may be a secret.
   */
  readonly referrer?: 'no-referrer' | 'strict-origin'
  /** Whether the browser's program is loaded. */
  readonly script: boolean
  /**
   * Value of the refresh that stands in for the program where there is none, such as `10`; null for a page that stays
   * as it is.
   */
  readonly refresh: string | null
}

/**
 * The whole document. Its assets are addressed relative to the page, so that a prefix in front of the gateway does no
 * harm.
 */
export function document(page: HtmlPage): string {
  const { title, main, assets, root = ONE_UP, referrer = 'no-referrer', script, refresh } = page
  return (
    '<!doctype html>' +
    renderToString(html`
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${title}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex, nofollow" />
        <meta name="referrer" content=${referrer} />
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" href=${ICON} />
        <link rel="stylesheet" href=${`${root}assets/${assets.style}`} />
        ${script ? html`<script type="module" src=${`${root}assets/${assets.script}`}></script>` : null}
        ${refresh === null ? null : html`<noscript><meta http-equiv="refresh" content=${refresh} /></noscript>`}
      </head>
      <body>
        <p id="announcement" class="unseen" role="status" aria-live="polite"></p>
        ${main}
        <footer class="footer">Lightning payment by <span class="brand">boltgate</span></footer>
      </body>
    </html>`)
  )
}
