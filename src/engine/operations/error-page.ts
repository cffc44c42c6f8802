import { hash } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import { currentLanguage, readerLanguage, speaking, t } from '../formats/language.ts'
import { prefersHtml } from '../message/accept.ts'
import type { Context } from '../message/context.ts'
import type { WholeReply } from '../message/reply.ts'
import { NOT_FOUND } from './error-kinds.ts'
import { errorReply, type ErrorContext, type GatewayError } from './errors.ts'

const STYLE = `:root{color-scheme:light dark}body{display:grid;place-content:center;min-height:90vh;margin:0 1rem;font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}main{max-width:34rem}a{color:inherit}code{font-size:.875rem}`

const PAGE_HEADERS: readonly string[] = Object.freeze([
  'Content-Type',
  'text/html; charset=utf-8',
  'Cache-Control',
  'no-store',
  'Content-Security-Policy',
  `default-src 'none'; style-src 'sha256-${hash('sha256', STYLE, 'base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'X-Content-Type-Options',
  'nosniff',
  'X-Robots-Tag',
  'noindex'
])

/**
 * What the contract answers, or for a browser's navigation the same as a page. A 402 has a page of its own, and the API
 * is for programs. A path with a slash too many leads to the one without.
 */
export function errorResponse(
  ctx: Pick<Context, 'headers' | 'method' | 'path' | 'query' | 'upgrade'>,
  error: GatewayError,
  around: ErrorContext
): WholeReply {
  const isRead = (ctx.method === 'GET' || ctx.method === 'HEAD') && ctx.upgrade === null
  if (
    !isRead ||
    error.status === 402 ||
    ctx.path.startsWith('/api/') ||
    !prefersHtml(ctx.headers.all('accept').join(','))
  )
    return errorReply(error, around)
  if (error.kind === NOT_FOUND && /[^/]\/$/.test(ctx.path)) {
    const page = ctx.path.slice(ctx.path.lastIndexOf('/', ctx.path.length - 2) + 1, -1)
    // Relative, since a prefix may precede the path.
    const query = ctx.query === '' ? '' : `?${ctx.query}`
    return { status: 308, headers: ['Location', `../${page}${query}`, 'Cache-Control', 'no-store'], body: null }
  }
  return speaking(readerLanguage(ctx.headers), () => errorPage(error, around))
}

function errorPage(error: GatewayError, around: ErrorContext): WholeReply {
  const { error: title, message, detail = message } = error.members(around) ?? {}
  const heading = t(STATUS_CODES[error.status] ?? 'Error')
  const words = typeof detail === 'string' ? detail : typeof title === 'string' ? title : error.message
  return {
    status: error.status,
    headers: [
      ...PAGE_HEADERS,
      'Content-Language',
      currentLanguage(),
      'Vary',
      'Accept, Accept-Language',
      ...error.headers
    ],
    body: `<!doctype html><html lang="${currentLanguage()}"><head><meta charset="utf-8"><title>${heading}</title><meta name="viewport" content="width=device-width,initial-scale=1"><style>${STYLE}</style></head><body><main><h1>${heading}</h1><p>${escaped(t(words))}</p><p><a href="/">${escaped(t('Home page'))}</a></p><p><small>${escaped(t`Error ${error.status}, request ID ${around.correlationId}`)}</small></p></main></body></html>`
  }
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
