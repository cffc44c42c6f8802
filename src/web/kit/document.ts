import { hash } from 'node:crypto'
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

/**
 * What a page may load and send: its own program and style from this gateway, or those whose hashes stand in `script`
 * and `style` (CSP Level 3, 6.7.2.3), and nothing of anybody else.
 */
function policyOf(script: string, style: string, form: 'none' | 'self'): string {
  return [
    "default-src 'none'",
    `script-src ${script}`,
    `style-src ${style}`,
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    `form-action '${form}'`,
    "frame-ancestors 'none'"
  ].join('; ')
}

function headersOf(policy: string): readonly string[] {
  return Object.freeze([
    'Content-Security-Policy',
    policy,
    'Cache-Control',
    'no-store',
    'Referrer-Policy',
    'no-referrer',
    'X-Robots-Tag',
    'noindex, nofollow',
    'X-Content-Type-Options',
    'nosniff'
  ])
}

/**
 * Headers of every page, flat. The address of a pay page is a secret: nobody may keep it, index it or learn it as a
 * referrer (decision 53).
 */
export const PAGE_HEADERS: readonly string[] = headersOf(policyOf("'self'", "'self'", 'none'))

/** The same for a page with a form, which is sent to this gateway and to nobody else. */
export const FORM_PAGE_HEADERS: readonly string[] = headersOf(policyOf("'self'", "'self'", 'self'))

/** The same for a page that has its program and its style within itself: these very texts run, and no others. */
export function inlinePageHeaders({ script, style }: InlineAssets): readonly string[] {
  return headersOf(policyOf(hashOf(script), hashOf(style), 'none'))
}

function hashOf(text: string): string {
  return `'sha256-${hash('sha256', text, 'base64')}'`
}

/** The gateway's picture. */
export const ICON_SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="9" fill="#0b7453"/><path d="M18 5 8 18h7l-1 9 10-13h-7z" fill="#fff"/></svg>'
/** The same as an address. */
export const ICON = 'data:image/svg+xml,' + encodeURIComponent(ICON_SVG)

/** What a page loads from the gateway, by name. */
export type LinkedAssets = Pick<AssetNames, 'style' | 'script'>

/**
 * What a page has within itself, for one that stands where nothing else of the gateway may be: ready texts of our own,
 * with no `</` in them.
 */
export interface InlineAssets {
  readonly inline: true
  readonly style: string
  readonly script: string
}

/** One page. */
export interface HtmlPage {
  readonly title: string
  /** Its `<main>`. */
  readonly main: VNode
  /** The names of what it loads, or the texts themselves. */
  readonly assets: LinkedAssets | InlineAssets
  /** The way up from the page's address to that of the gateway; `../` unless said, as from `/pay/<token>`. */
  readonly root?: string
  /**
   * What is told of where a request comes from, as the header says too; nothing unless said. Never the whole address,
   * which may be a secret.
   */
  readonly referrer?: 'no-referrer' | 'strict-origin'
  /** Whether search engines may list it; not unless said. */
  readonly isListed?: boolean
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
  const { title, main, assets, root = ONE_UP, referrer = 'no-referrer', isListed = false, script, refresh } = page
  const inline = 'inline' in assets
  const text = renderToString(html`
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${title}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        ${isListed ? null : html`<meta name="robots" content="noindex, nofollow" />`}
        <meta name="referrer" content=${referrer} />
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" href=${ICON} />
        ${inline ? null : html`<link rel="stylesheet" href=${`${root}assets/${assets.style}`} />`}
        ${script && !inline ? html`<script type="module" src=${`${root}assets/${assets.script}`}></script>` : null}
        ${refresh === null ? null : html`<noscript><meta http-equiv="refresh" content=${refresh} /></noscript>`}
      </head>
      <body>
        <p id="announcement" class="unseen" role="status" aria-live="polite"></p>
        ${main}
        <footer class="footer">Lightning payment by <span class="brand">boltgate</span></footer>
      </body>
    </html>`)
  if (!inline) return `<!doctype html>${text}`
  // The renderer escapes what stands in these two elements, which browsers read as it is (HTML, 13.1.2.6).
  const end = text.indexOf('</head>')
  const program = script ? `<script type="module">${assets.script}</script>` : ''
  return `<!doctype html>${text.slice(0, end)}<style>${assets.style}</style>${program}${text.slice(end)}`
}
