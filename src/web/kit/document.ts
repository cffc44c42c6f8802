import { hash } from 'node:crypto'
import { html as template } from 'htm/preact'
import type { VNode } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { currentLanguage, LANGUAGES, languageLinks, t, type Language } from '../../engine/formats/language.ts'
import { scriptWords, type AssetNames } from './assets.ts'

// htm returns a list for templates with several roots; the pages have none.
const render = template as (strings: TemplateStringsArray, ...values: unknown[]) => VNode

interface TranslatedTemplate {
  readonly strings: TemplateStringsArray
  /** Places of the values in the original. */
  readonly order: readonly number[]
}

const templates = new WeakMap<TemplateStringsArray, Map<Language, TranslatedTemplate>>()

/**
 * Template tag of the pages, in the reader's language. The renderer escapes every text and attribute; no page uses
 * `dangerouslySetInnerHTML`.
 */
export function html(strings: TemplateStringsArray, ...values: unknown[]): VNode {
  const language = currentLanguage()
  if (language === 'en') return render(strings, ...values)
  const known = templates.get(strings) ?? new Map<Language, TranslatedTemplate>()
  const own = known.get(language) ?? translatedTemplate(strings)
  if (!known.has(language)) templates.set(strings, known.set(language, own))
  return render(own.strings, ...own.order.map(at => values[at]))
}

function translatedTemplate(strings: TemplateStringsArray): TranslatedTemplate {
  const source = strings.reduce((text, part, at) => `${text}{${at - 1}}${part}`)
  const parts = rewritten(source, t).split(/\{(\d+)\}/)
  // htm identifies a template by its strings, and reads nothing else of them.
  const own = Object.assign(
    parts.filter((_, at) => at % 2 === 0),
    { raw: [] }
  )
  return { strings: own, order: parts.filter((_, at) => at % 2 === 1).map(Number) }
}

export const HTML_TYPE = 'text/html; charset=utf-8'

const ONE_UP = '../'

/**
 * CSP: only the gateway's own scripts and styles, or those whose hashes are in `script` and `style` (CSP Level 3,
 * 6.7.2.3).
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

/** Headers of every page, flat. A pay page's address is a secret: no caching, indexing or referrer (decision 53). */
export const PAGE_HEADERS: readonly string[] = headersOf(policyOf("'self'", "'self'", 'none'))

/** For pages with a form that posts to this gateway. */
export const FORM_PAGE_HEADERS: readonly string[] = headersOf(policyOf("'self'", "'self'", 'self'))

/** For pages with inline script and style: only these texts run. */
export function inlinePageHeaders({ script, style }: InlineAssets): readonly string[] {
  return headersOf(policyOf(hashOf(script), hashOf(style), 'none'))
}

function hashOf(text: string): string {
  return `'sha256-${hash('sha256', text, 'base64')}'`
}

/** Response of an operation that is a page. */
export function asHtml(description: string) {
  return { description, mediaType: HTML_TYPE }
}

export const ICON_SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="9" fill="#0b7453"/><path d="M18 5 8 18h7l-1 9 10-13h-7z" fill="#fff"/></svg>'
export const ICON = 'data:image/svg+xml,' + encodeURIComponent(ICON_SVG)

export type LinkedAssets = Pick<AssetNames, 'style' | 'script'>

/** Inline assets for pages outside the gateway's paths: trusted texts without `</`. */
export interface InlineAssets {
  readonly inline: true
  readonly style: string
  readonly script: string
}

export interface HtmlPage {
  readonly title: string
  readonly main: VNode
  readonly assets: LinkedAssets | InlineAssets
  /** Path from the page to the gateway's root; default `../`, as from `/pay/<token>`. */
  readonly root?: string
  /** Referrer policy, also in the headers; default none. Never the full address, which may be a secret. */
  readonly referrer?: 'no-referrer' | 'strict-origin'
  /** Whether search engines may index it; default no. */
  readonly isListed?: boolean
  readonly script: boolean
  /** Seconds of a meta refresh without scripts, such as `10`; null for a static page. */
  readonly refresh: string | null
}

/** The whole document. Relative asset paths allow a path prefix in front of the gateway. */
export function document(page: HtmlPage): string {
  const { title, main, assets, root = ONE_UP, referrer = 'no-referrer', isListed = false, script, refresh } = page
  const inline = 'inline' in assets
  const text = renderToString(html`
    <html lang=${currentLanguage()} data-words=${scriptWords()}>
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
        <footer class="footer">Lightning payment by <span class="brand">boltgate</span>${languageChoice()}</footer>
      </body>
    </html>`)
  if (!inline) return `<!doctype html>${text}`
  // The renderer escapes these two elements, which browsers read verbatim (HTML, 13.1.2.6).
  const end = text.indexOf('</head>')
  const program = script ? `<script type="module">${assets.script}</script>` : ''
  return `<!doctype html>${text.slice(0, end)}<style>${assets.style}</style>${program}${text.slice(end)}`
}

export function languageChoice(): VNode | null {
  const links = languageLinks()
  if (links === null) return null
  return html`
    <nav class="languages" aria-label="Language">${links.map(([language, address]) => html`<a href=${address} lang=${language} hreflang=${language} rel="nofollow" aria-current=${language === currentLanguage() ? 'true' : null}>${LANGUAGES[language]}</a>`)}</nav>`
}

/** Normalized http or https address without quotes, spaces or line ends; else null. */
export function webAddress(text: string | null): string | null {
  if (text === null || !URL.canParse(text)) return null
  const url = new URL(text)
  return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null
}

/** Tags that may be within a sentence; others end one. */
const BLOCK = /(<(?!\/?(?:a|b|bdi|code|em|small|span|strong|time)\b)[^<>]*>)/
const ATTRIBUTE = /(?<=\s(?:alt|aria-label|data-busy|placeholder|title)=")[^"{]+(?=")/g

/**
 * Replaces the messages of a template, whose values are `{0}`, `{1}`, …: sentences, in which inline tags are `<0>…</0>`
 * and values are counted from one again, and readable attributes.
 */
export function rewritten(source: string, translate: (message: string) => string): string {
  return source
    .replaceAll(ATTRIBUTE, text => (/\p{L}/u.test(text) ? translate(text) : text))
    .split(BLOCK)
    .map((part, at) => (at % 2 === 1 ? part : sentence(part, translate)))
    .join('')
}

function sentence(text: string, translate: (message: string) => string): string {
  // Texts are at even places, tags at odd ones.
  const tokens = text.split(/(<[^<>]*>)/)
  const partners = partnersOf(tokens)
  const isWords = (at: number): boolean => at % 2 === 0 && /\p{L}/u.test(tokens[at] ?? '')
  const isLoose = (at: number): boolean =>
    at % 2 === 0 ? /^(?:\s|\{\d+\})*$/.test(tokens[at] ?? '') : !partners.has(at)
  // Tags and values around the sentence do not belong to it.
  let [from, to] = [0, tokens.length - 1]
  while (from <= to) {
    if (isLoose(from)) from++
    else if (isLoose(to)) to--
    else if (partners.get(from) === to) [from, to] = [from + 1, to - 1]
    else break
  }
  const inner = tokens.slice(from, to + 1)
  if (!inner.some((_, at) => isWords(from + at))) return text
  const values: string[] = []
  const tags: Array<readonly [start: string, end: string]> = []
  const numbers = new Map<number, number>()
  const message = inner.map((token, index) => {
    const at = from + index
    if (at % 2 === 0) return token.replaceAll(/\{\d+\}/g, value => `{${values.push(value) - 1}}`)
    const end = partners.get(at) ?? at
    if (end < at) return `</${numbers.get(end)}>`
    numbers.set(at, tags.push([token, tokens[end] ?? '']) - 1)
    return `<${numbers.get(at)}>`
  })
  const whole = message.join('')
  const before = whole.slice(0, whole.length - whole.trimStart().length)
  const after = whole.slice(whole.trimEnd().length)
  const result = translate(whole.trim().replaceAll(/\s+/g, ' ')).replaceAll(
    /<(\/?)(\d+)>|\{(\d+)\}/g,
    (_, close: string, tag: string | undefined, value: string) =>
      (tag === undefined ? values[Number(value)] : tags[Number(tag)]?.[close === '' ? 0 : 1]) ?? ''
  )
  return [...tokens.slice(0, from), before, result, after, ...tokens.slice(to + 1)].join('')
}

/** Places of start and end tags by each other. */
function partnersOf(tokens: readonly string[]): ReadonlyMap<number, number> {
  const partners = new Map<number, number>()
  const open: number[] = []
  for (let at = 1; at < tokens.length; at += 2) {
    if (tokens[at]?.startsWith('</') !== true) open.push(at)
    else {
      const start = open.pop()
      if (start !== undefined) partners.set(start, at).set(at, start)
    }
  }
  return partners
}
