import { Type } from 'typebox'
import { notFound } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import { html } from '../kit/document.ts'
import { asked, PAGE_RESPONSES, shown, type ConsoleDependencies } from './operations.ts'
import type { ConsolePage } from './page.ts'

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
        const request = asked(dependencies, found.page, ctx, found.params, null, {
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
