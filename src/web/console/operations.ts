import { t } from '../../engine/formats/language.ts'
import { renderToString } from 'preact-render-to-string'
import { Type } from 'typebox'
import type { MerchantPrincipal } from '../../accounts/merchants/principal.ts'
import type { Context, Principal } from '../../engine/message/context.ts'
import type { Trail } from '../../engine/operations/trail.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import { Router } from '../../engine/pipeline/router.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Quotes } from '../../lightning/money/prices.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { readersWorth } from '../kit/reader-money.ts'
import { formToken } from '../sign-in/cookie.ts'
import type { Sessions } from '../sign-in/sessions.ts'
import { asHtml, html, FORM_PAGE_HEADERS } from '../kit/document.ts'
import { PageApi, ApiRefusal, markOf, type AskApi } from './api.ts'
import { framed, homeOf } from './frame.ts'
import type { Console, PageRequest, ConsolePage, RedirectTo, FormProblem, PageContent } from './page.ts'
import { FORM_TYPE, sentForm, SentForm } from '../kit/form.ts'
import { passkeyOffer } from './sessions.ts'
import { notFound } from '../../engine/operations/errors.ts'

/** Forms need an origin check, and a page without referrers has no origin. */
const CONSOLE_HEADERS: readonly string[] = Object.freeze(
  FORM_PAGE_HEADERS.map(value => (value === 'no-referrer' ? 'same-origin' : value))
)

export interface ConsoleDependencies {
  /** Calls the gateway's API in-process. */
  readonly ask: AskApi
  readonly clock: Clock
  readonly prices: Pick<Quotes, 'quote'>
  readonly merchants: Pick<Merchants, 'byId'>
  readonly sessions: Pick<Sessions, 'impersonationCookie' | 'tokenOf'>
  readonly trail: Trail
  publicUrl(): string
}

/** Longest form in bytes, a price list. */
const MOST_FORM = 65_536

const FAILED = {
  400: asHtml('What the address asks for is wrong, and why.'),
  403: asHtml('What the plan, or the role in the account, does not let see.'),
  404: asHtml('There is no such page.'),
  502: asHtml('What the page shows could not be read.'),
  503: asHtml('What the page shows cannot be read at the moment.')
} as const
const PAGE_RESPONSES = {
  200: asHtml('The page.'),
  303: { description: 'Not signed in.' },
  ...FAILED
} as const

const ACCESS = { merchant: 'merchant', operator: 'admin' } as const

/** Pages about the reader and not the account. */
const PERSONAL: ReadonlySet<string> = new Set(['signed-in', 'settings/passkeys'])
/** Longest merchant page, such as `webhooks/deliveries/:deliveryId`. */
const SEGMENTS = ['first', 'second', 'third'] as const
const VIEW = 'viewAsMerchant'

/** Operations of the consoles' pages and forms. All their data is from the API. */
export class Consoles {
  readonly #dependencies: ConsoleDependencies

  constructor(dependencies: ConsoleDependencies) {
    this.#dependencies = dependencies
  }

  operationsOf(console: Console, page: ConsolePage): AnyOperation[] {
    const home = homeOf(console)
    const path = `/${home}${page.path === '' ? '' : `/${page.path}`}`
    const names = [...path.matchAll(/:([A-Za-z]+)/g)].map(([, name = '']) => name)
    const common = {
      path,
      tag: 'pages',
      access: ACCESS[console],
      mount: { use: console === 'merchant' ? 'merchant-api' : 'operator-api', chain: home },
      ...(names.length === 0 ? {} : { params: textsOf(names) })
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
      handle: async ({ ctx, params }) => await this.#shown(this.#request(console, page, ctx, params))
    })
    const { act } = page
    if (act === undefined) return [read]
    const change = defineOperation({
      ...common,
      id: `submit${page.id.charAt(0).toUpperCase()}${page.id.slice(1)}`,
      method: 'POST',
      // Forms are authorized and audited by the API itself.
      unaudited: true,
      ...(console === 'merchant' ? { role: 'viewer' as const } : {}),
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
        const request = { ...this.#request(console, page, ctx, params), form: await sentForm(ctx, MOST_FORM) }
        try {
          if ((ctx.body.length ?? 0) > MOST_FORM)
            throw new ApiRefusal(413, 'This form is too long, and nothing was saved. Shorten it, or use the API.')
          const result = await act.call(page, request)
          return 'to' in result ? go(request, result) : await this.#written(request, result, 200)
        } catch (error) {
          if (!(error instanceof ApiRefusal)) throw error
          return await this.#shown({ ...request, problem: problemOf(error) }, 422)
        }
      }
    })
    return [read, change]
  }

  /**
   * The merchant's console as the operator sees it: GET alone, with a viewer's rights, and an entry in the audit log for
   * each page. The API answers a viewer, so no secret is shown, and no operation here takes a form.
   */
  viewAs(pages: readonly ConsolePage[]): AnyOperation[] {
    const router = new Router<ConsolePage>()
    for (const page of pages)
      if (!PERSONAL.has(page.path)) router.add({ host: null, methods: ['GET'], path: `/${page.path}` }, page)
    return [0, 1, 2, 3].map(depth => {
      const names = SEGMENTS.slice(0, depth)
      return defineOperation({
        id: `viewAsMerchant${depth}`,
        method: 'GET',
        path: `/operator/merchants/:merchantId/as${names.map(name => `/:${name}` as const).join('') as ''}`,
        tag: 'pages',
        access: 'admin',
        mount: { use: 'operator-api', chain: 'operator' },
        params: textsOf(['merchantId', ...names]),
        summary: 'The console of a merchant as a viewer sees it, read-only',
        description: 'Each page is recorded in the audit log of the account.',
        responses: PAGE_RESPONSES,
        handle: async ({ ctx, params }): Promise<Result> => {
          // The schema names them, all texts.
          const { merchantId = '', ...rest } = params as Readonly<Record<string, string>>
          const path = names.map(name => rest[name] ?? '').join('/')
          const found = router.find('', 'GET', `/${path}`)
          const viewer = await this.#viewer(merchantId, ctx.principal)
          if (found === null || viewer === null) throw notFound()
          const end = await this.#dependencies.trail.begin({
            principal: ctx.principal,
            operation: VIEW,
            target: { merchantId, page: path === '' ? 'overview' : path },
            input: {}
          })
          const request = this.#request('merchant', found.value, ctx, found.params, viewer)
          const account = `${request.root}operator/merchants/${merchantId}`
          const banner = html`<p class="notice wait">You are viewing the console of <bdi>${viewer.merchant.name}</bdi>. It is read-only. <a href=${account}>Back to the account</a></p>`
          const result = await this.#shown({ ...request, isRenewal: false, banner })
          await end(result.status, {})
          return result
        }
      })
    })
  }

  /** `viewer`: whose account is seen by an operator. */
  #request(
    console: Console,
    page: ConsolePage,
    ctx: Context,
    params: unknown,
    viewer?: MerchantPrincipal
  ): PageRequest {
    const { ask, publicUrl } = this.#dependencies
    const root = '../'.repeat(ctx.path.split('/').length - 2) || './'
    const own = homeOf(console)
    const home = viewer === undefined ? own : `operator/merchants/${viewer.id}/as`
    return {
      console,
      page,
      ctx,
      api: new PageApi(ask, ctx, viewer),
      // Validated by the schema of the path's names, all of them texts.
      id: name => encodeURIComponent((params as Readonly<Record<string, string>> | undefined)?.[name] ?? ''),
      query: new URLSearchParams(ctx.query),
      form: new SentForm(),
      root,
      link: to => `${root}${home}${to === '' ? '' : `/${to}`}`,
      address: to => `${publicUrl()}/${own}${to === '' ? '' : `/${to}`}`,
      worth: satoshis => readersWorth(this.#dependencies, satoshis, ctx.headers.get('accept-language') ?? ''),
      isRenewal: ctx.method === 'GET' && ctx.headers.has('x-live-parts'),
      problem: null,
      banner: null,
      viewAs: async merchantId => {
        const principal = await this.#viewer(merchantId, ctx.principal)
        return principal === null ? null : this.#request(console, page, ctx, {}, principal)
      }
    }
  }

  /** The account's rights for an operator who looks at it; null for an unknown account or another caller. */
  async #viewer(id: string, by: Principal | null): Promise<MerchantPrincipal | null> {
    if (by?.kind !== 'admin' || !/^[1-9]\d{0,8}$/.test(id)) return null
    const merchant = await this.#dependencies.merchants.byId(Number(id))
    return merchant === null
      ? null
      : { kind: 'merchant', id, merchant, role: 'viewer', by: { kind: 'member', email: by.id } }
  }

  async #shown(request: PageRequest, status = 200): Promise<Result> {
    const { console, link, page } = request
    try {
      return await this.#written(request, await page.show(request), status)
    } catch (error) {
      if (!(error instanceof ApiRefusal)) throw error
      const told = TOLD[error.status] ?? { status: 502, title: 'This page is unavailable' }
      const words =
        told.status === 404 ? t('It may have been removed, or the address is incomplete.') : t(error.message)
      const plan = told.status === 403 && console === 'merchant' ? link('plan') : null
      const content = html`<p>${words}</p>${plan === null ? null : html`<p><a href=${plan}>View plan</a></p>`}`
      return await this.#written({ ...request, problem: null }, { title: told.title, content }, told.status)
    }
  }

  async #written(request: PageRequest, content: PageContent, usual: number): Promise<Result> {
    const { banner, console, ctx, isRenewal } = request
    const { sessions } = this.#dependencies
    const { status = usual } = content
    if (isRenewal) return renewed(ctx, renderToString(content.content), status)
    const token = sessions.tokenOf(ctx)
    const cookie = sessions.impersonationCookie(ctx)
    return {
      status,
      body: framed(content, request, {
        who: whoIs(ctx),
        form: token === null ? null : formToken(token),
        offer: banner ?? (await passkeyOffer(request, console))
      }),
      headers: cookie === null ? CONSOLE_HEADERS : [...CONSOLE_HEADERS, 'Set-Cookie', cookie]
    }
  }
}

function textsOf(names: readonly string[]) {
  return Type.Object(Object.fromEntries(names.map(name => [name, Type.String({ maxLength: 200 })])))
}

/** The account with its acting person; or the operator. */
function whoIs({ principal }: Context): string {
  if (principal?.kind === 'admin') return principal.id === 'admin' ? t('Operator') : principal.id
  if (principal?.kind !== 'merchant') return ''
  const { merchant, by, role } = principal
  return by.kind === 'member' ? `${merchant.name} · ${by.email} (${role})` : merchant.name
}

/** The API begins some messages with the member that is wrong: `targetBaseUrl: The address is not a URL`. */
function problemOf({ message, fields }: ApiRefusal): FormProblem {
  const [, name, words] = /^([a-z][A-Za-z]+): (.+)$/s.exec(message) ?? []
  return name === undefined || words === undefined
    ? { message, fields }
    : { message: words, fields: { ...fields, [name]: words } }
}

const TOLD: Readonly<Record<number, { readonly status: number; readonly title: string }>> = {
  400: { status: 400, title: 'Invalid address' },
  403: { status: 403, title: 'You do not have access' },
  404: { status: 404, title: 'Page not found' },
  429: { status: 503, title: 'Too many requests' },
  503: { status: 503, title: 'This page is temporarily unavailable' }
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
