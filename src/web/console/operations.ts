import { t } from '../../engine/formats/language.ts'
import { renderToString } from 'preact-render-to-string'
import { Type } from 'typebox'
import type { MerchantPrincipal } from '../../accounts/merchants/principal.ts'
import type { Context, Principal } from '../../engine/message/context.ts'
import type { Trail } from '../../engine/operations/trail.ts'
import { isTest, defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import { html, HTML_TYPE, FORM_PAGE_HEADERS } from '../kit/document.ts'
import { PageApi, ApiRefusal, markOf, type AskApi } from './api.ts'
import { framed, homeOf } from './frame.ts'
import {
  DONE,
  type PageRequest,
  type ConsolePage,
  type RedirectTo,
  type FormProblem,
  type PageContent
} from './page.ts'
import { FORM_TYPE, sentForm, SentForm } from '../kit/form.ts'
import { passkeyOffer } from './sessions.ts'
import { notFound } from '../../engine/operations/errors.ts'

/** Forms need an origin check, and a page without referrers has no origin. */
const CONSOLE_HEADERS: readonly string[] = Object.freeze(
  FORM_PAGE_HEADERS.map(value => (value === 'no-referrer' ? 'same-origin' : value))
)

export interface ConsoleDependencies {
  /** Value of satoshis in the currency of `languages`; null where it is not known. */
  worth(satoshis: number, languages: string): Promise<string | null>
  readonly ask: AskApi
  /** Reader's name, CSRF token for signing out, and `Set-Cookie`; null without. */
  signedIn(ctx: Context): { readonly who: string; readonly form: string | null; readonly cookie: string | null }
  publicUrl(): string
  /** The account's rights for an operator who looks at it; null for an unknown account or another caller. */
  viewer(merchantId: string, by: Principal | null): Promise<MerchantPrincipal | null>
  readonly trail: Trail
  readonly assets: { readonly style: string; readonly script: string }
}

/** Longest form in bytes, a price list. */
const MOST_FORM = 65_536

const asHtml = (description: string) => ({ description, mediaType: HTML_TYPE })
const FAILED = {
  400: asHtml('What the address asks for is wrong, and why.'),
  403: asHtml('What the plan, or the role in the account, does not let see.'),
  404: asHtml('There is no such page.'),
  502: asHtml('What the page shows could not be read.'),
  503: asHtml('What the page shows cannot be read at the moment.')
} as const
export const PAGE_RESPONSES = {
  200: asHtml('The page.'),
  303: { description: 'Not signed in.' },
  ...FAILED
} as const

const ACCESS = { merchant: 'merchant', operator: 'admin' } as const

export function consoleOperations(dependencies: ConsoleDependencies, pages: readonly ConsolePage[]): AnyOperation[] {
  return pages.flatMap(page => operationsOf(dependencies, page))
}

function operationsOf(dependencies: ConsoleDependencies, page: ConsolePage): AnyOperation[] {
  const home = homeOf(page.console)
  const path = `/${home}${page.path === '' ? '' : `/${page.path}`}`
  const names = [...path.matchAll(/:([A-Za-z]+)/g)].map(([, name = '']) => name)
  const common = {
    path,
    tag: 'pages',
    access: ACCESS[page.console],
    mount: { use: page.console === 'merchant' ? 'merchant-api' : 'operator-api', chain: home },
    ...(names.length === 0
      ? {}
      : { params: Type.Object(Object.fromEntries(names.map(name => [name, Type.String({ maxLength: 200 })]))) })
  } as const
  const read = defineOperation({
    ...common,
    id: page.id,
    method: 'GET',
    summary: page.summary,
    description: 'For people who are signed in. Whatever it shows, programs read from the API.',
    headers: {
      'X-Live-Parts': 'For the parts of the page that its program keeps current, without the rest.',
      'If-None-Match': 'ETag of these parts as they are shown.'
    },
    responses: {
      ...PAGE_RESPONSES,
      304: { description: 'The parts are as they were.' }
    },
    handle: async ({ ctx, params }) => await shown(dependencies, page, asked(dependencies, page, ctx, params))
  })
  const { act } = page
  if (act === undefined) return [read]
  const change = defineOperation({
    ...common,
    id: `submit${page.id.charAt(0).toUpperCase()}${page.id.slice(1)}`,
    method: 'POST',
    // Forms are authorized and audited by the API itself.
    unaudited: true,
    ...(page.console === 'merchant' ? { role: 'viewer' as const } : {}),
    summary: `What the forms of that page are sent to: ${page.summary}`,
    description: 'What the member `do` asks for is asked of the API, where programs ask for it themselves.',
    form: { mediaType: FORM_TYPE, schema: Type.Object({ do: Type.Optional(Type.String()) }) },
    responses: {
      200: asHtml('The page with what the change has given.'),
      303: { description: 'Done; the browser goes on to the page at `Location`.' },
      422: asHtml('The page again, with what was wrong.'),
      ...FAILED
    },
    handle: async ({ ctx, params }) => {
      const request = asked(dependencies, page, ctx, params, await sentForm(ctx, MOST_FORM))
      try {
        if ((ctx.body.length ?? 0) > MOST_FORM)
          throw new ApiRefusal(413, 'This form is too long, and nothing was saved. Shorten it, or use the API.')
        const result = await act.call(page, request)
        return 'to' in result ? go(request, result) : await written(dependencies, page, request, result, 200)
      } catch (error) {
        if (!(error instanceof ApiRefusal)) throw error
        const problem = problemOf(error)
        return await shown(dependencies, page, { ...request, problem }, 422)
      }
    }
  })
  return [read, change]
}

/** The API begins some messages with the member that is wrong: `targetBaseUrl: The address is not a URL`. */
function problemOf({ message, fields }: ApiRefusal): FormProblem {
  const [, name, words] = /^([a-z][A-Za-z]+): (.+)$/s.exec(message) ?? []
  return name === undefined || words === undefined
    ? { message, fields }
    : { message: words, fields: { ...fields, [name]: words } }
}

/** `view`: of another's account, with its home below the root. */
export function asked(
  dependencies: ConsoleDependencies,
  page: ConsolePage,
  ctx: Context,
  params: unknown,
  form = new SentForm(),
  view: { readonly home: string; readonly principal: Principal } | null = null
): PageRequest {
  const { ask, publicUrl } = dependencies
  const root = rootOf(ctx.path)
  const home = view?.home ?? homeOf(page.console)
  return {
    ctx,
    api: new PageApi(ask, ctx, view?.principal),
    // Validated by the schema of the path's names, all of them texts.
    id: name => encodeURIComponent((params as Readonly<Record<string, string>> | undefined)?.[name] ?? ''),
    query: new URLSearchParams(ctx.query),
    form,
    root,
    link: to => `${root}${home}${to === '' ? '' : `/${to}`}`,
    address: to => `${publicUrl()}/${homeOf(page.console)}${to === '' ? '' : `/${to}`}`,
    worth: satoshis => dependencies.worth(satoshis, ctx.headers.get('accept-language') ?? ''),
    isRenewal: ctx.method === 'GET' && ctx.headers.has('x-live-parts'),
    problem: null,
    viewing: null,
    viewAs: async merchantId => {
      const principal = await dependencies.viewer(merchantId, ctx.principal)
      return principal === null
        ? null
        : asked(dependencies, page, ctx, {}, undefined, { home: `operator/merchants/${merchantId}/as`, principal })
    }
  }
}

function rootOf(path: string): string {
  return '../'.repeat(path.split('/').length - 2) || './'
}

export async function shown(
  dependencies: ConsoleDependencies,
  page: ConsolePage,
  request: PageRequest,
  status = 200
): Promise<Result> {
  try {
    return await written(dependencies, page, request, await page.show(request), status)
  } catch (error) {
    if (!(error instanceof ApiRefusal)) throw error
    const told = TOLD[error.status] ?? { status: 502, title: 'This page is unavailable' }
    const words = told.status === 404 ? t('It may have been removed, or the address is incomplete.') : t(error.message)
    const plan = told.status === 403 && page.console === 'merchant' ? request.link('plan') : null
    const content = html`<p>${words}</p>${plan === null ? null : html`<p><a href=${plan}>View plan</a></p>`}`
    return await written(dependencies, page, { ...request, problem: null }, { title: told.title, content }, told.status)
  }
}

/** Refusals shown to the reader, by the API's status. */
const TOLD: Readonly<Record<number, { readonly status: number; readonly title: string }>> = {
  400: { status: 400, title: 'Invalid address' },
  403: { status: 403, title: 'You do not have access' },
  404: { status: 404, title: 'Page not found' },
  429: { status: 503, title: 'Too many requests' },
  503: { status: 503, title: 'This page is temporarily unavailable' }
}

async function written(
  { assets, signedIn }: ConsoleDependencies,
  { console, path }: ConsolePage,
  request: PageRequest,
  content: PageContent,
  status: number
): Promise<Result> {
  const { ctx, isRenewal, query, problem, root, viewing } = request
  if (isRenewal) return renewed(ctx, renderToString(content.content), content.status ?? status)
  const { cookie, form, who } = signedIn(ctx)
  const named = query.get('done')
  const done =
    problem === null && named !== null && Object.hasOwn(DONE, named) ? DONE[named as keyof typeof DONE] : null
  const offer = viewing?.banner ?? (await passkeyOffer(request, console))
  const home = viewing?.home ?? `${root}${homeOf(console)}`
  return {
    status: content.status ?? status,
    body: framed(content, {
      isViewed: viewing !== null,
      console,
      path,
      root,
      home,
      who,
      assets,
      problem,
      done,
      offer,
      isTest: ctx.principal?.kind === 'merchant' && isTest(ctx.principal.id),
      form
    }),
    headers: cookie === null ? CONSOLE_HEADERS : [...CONSOLE_HEADERS, 'Set-Cookie', cookie]
  }
}

/** Live parts, or 304 when unchanged. */
function renewed(ctx: Context, body: string, status: number): Result {
  const etag = `"${markOf(body)}"`
  const headers = [...CONSOLE_HEADERS, 'ETag', etag]
  return ctx.headers.get('if-none-match') === etag ? { status: 304, body: null, headers } : { status, body, headers }
}

function go({ link }: PageRequest, { to, done }: RedirectTo): Result {
  const address = link(to)
  const query = done === undefined ? '' : `${address.includes('?') ? '&' : '?'}done=${done}`
  return { status: 303, body: null, headers: ['Location', `${address}${query}`, ...CONSOLE_HEADERS] }
}

/** Pages about the reader and not the account. */
const PERSONAL: ReadonlySet<string> = new Set(['signed-in', 'settings/passkeys'])
/** Longest merchant page, such as `webhooks/deliveries/:deliveryId`. */
const SEGMENTS = ['first', 'second', 'third'] as const
/** Name of a view in the audit log. */
const VIEW = 'viewAsMerchant'

/**
 * The merchant's console as the operator sees it: GET alone, with a viewer's rights, and an entry in the audit log for
 * each page. The API answers a viewer, so no secret is shown, and no operation here takes a form.
 */
export function viewAsOperations(dependencies: ConsoleDependencies, pages: readonly ConsolePage[]): AnyOperation[] {
  const shownPages = pages.filter(({ console, path }) => console === 'merchant' && !PERSONAL.has(path))
  return [0, 1, 2, 3].map(depth => {
    const names = SEGMENTS.slice(0, depth)
    return defineOperation({
      id: `viewAsMerchant${depth}`,
      method: 'GET',
      path: `/operator/merchants/:merchantId/as${names.map(name => `/:${name}` as const).join('') as ''}`,
      tag: 'pages',
      access: 'admin',
      mount: { use: 'operator-api', chain: 'operator' },
      params: Type.Object(
        Object.fromEntries(['merchantId', ...names].map(name => [name, Type.String({ maxLength: 200 })]))
      ),
      summary: 'The console of a merchant as a viewer sees it, read-only',
      description: 'Each page is recorded in the audit log of the account.',
      responses: PAGE_RESPONSES,
      async handle({ ctx, params }): Promise<Result> {
        // The schema names them, all texts.
        const { merchantId = '', ...rest } = params as Readonly<Record<string, string>>
        const path = names.map(name => rest[name] ?? '').join('/')
        const found = shownPages.flatMap(page => matched(page, path))[0]
        const viewer = await dependencies.viewer(merchantId, ctx.principal)
        if (found === undefined || viewer === null) throw notFound()
        const end = await dependencies.trail.begin({
          principal: ctx.principal,
          operation: VIEW,
          target: { merchantId, page: path === '' ? 'overview' : path },
          asked: {}
        })
        const home = `operator/merchants/${merchantId}`
        const request = asked(dependencies, found.page, ctx, found.params, undefined, {
          home: `${home}/as`,
          principal: viewer
        })
        const banner = html`<p class="notice wait">You are viewing the console of <bdi>${viewer.merchant.name}</bdi>. It is read-only. <a href=${`${request.root}${home}`}>Back to the account</a></p>`
        const result = await shown(dependencies, found.page, {
          ...request,
          isRenewal: false,
          viewing: { banner, home: `${request.root}${home}/as` }
        })
        await end(result.status, {})
        return result
      }
    })
  })
}

function matched(page: ConsolePage, path: string): Array<{ page: ConsolePage; params: Record<string, string> }> {
  const [pattern, given] = [page.path.split('/'), path.split('/')]
  if (pattern.length !== given.length) return []
  const params: Record<string, string> = {}
  for (const [at, name] of pattern.entries()) {
    if (name.startsWith(':')) params[name.slice(1)] = given[at] ?? ''
    else if (name !== given[at]) return []
  }
  return [{ page, params }]
}
