import { Type } from 'typebox'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { HTML_TYPE } from '../../web/kit/document.ts'
import { BILLING_PAGE_HEADERS, BillingPages } from '../pages.ts'
import type { SandboxBilling, TakeNotification } from './sandbox.ts'

const Session = Type.Object({ session: Type.String({ 'x-judged': true }) })
// Other forms cannot be a session.
const SESSION = /^(cs|bps)_sandbox_[A-Za-z0-9_-]{43}$/

/**
 * The sandbox's pages, in place of the billing provider's. Their addresses are the only authorization. `take` receives
 * their notifications.
 */
export function sandboxBillingOperations(sandbox: SandboxBilling | null, take: TakeNotification): AnyOperation[] {
  if (sandbox === null) return []
  const pages = new BillingPages()
  const common = {
    tag: 'Sandbox',
    access: 'public',
    mount: { use: 'pages', chain: 'page-forms', below: '/billing/*' },
    params: Session
  } as const
  const act = (
    id: string,
    name: 'complete' | 'cancel' | 'fail' | 'recover',
    summary: string,
    description: string
  ): AnyOperation =>
    defineOperation({
      ...common,
      id,
      method: 'POST',
      path: `/billing/sandbox/:session/${name}`,
      summary,
      description,
      responses: {
        303: { description: 'Done; the page at `Location` shows it.' },
        404: 'There is no such session.'
      },
      async handle({ params: { session } }) {
        if (!SESSION.test(session) || !(await sandbox[name](session, take)))
          throw new ShortError(RESOURCE_NOT_FOUND, 'Session not found')
        return { status: 303, body: null, headers: ['Location', `../${session}`, ...BILLING_PAGE_HEADERS] }
      }
    })
  return [
    defineOperation({
      ...common,
      id: 'getSandboxBillingPage',
      method: 'GET',
      path: '/billing/sandbox/:session',
      summary: 'The page of a checkout or a customer portal of the sandbox',
      description:
        "Stands in the place of the billing provider's own page, so that the way to a plan can be tried without a card.",
      responses: {
        200: { description: 'The page.', mediaType: HTML_TYPE },
        404: { description: 'A page that says that there is no such session.', mediaType: HTML_TYPE }
      },
      async handle({ params: { session } }) {
        const found = SESSION.test(session) ? await sandbox.session(session) : null
        return {
          status: found === null ? 404 : 200,
          body: found === null ? pages.missing() : pages.sandbox(found, session),
          headers: BILLING_PAGE_HEADERS
        }
      }
    }),
    act(
      'completeSandboxCheckout',
      'complete',
      'Complete a checkout of the sandbox: nothing is charged',
      'Starts the subscription and redirects to the successUrl.'
    ),
    act(
      'cancelSandboxSubscription',
      'cancel',
      'Cancel the subscription of a customer portal of the sandbox',
      'The subscription ends immediately, and the account is on the free plan.'
    ),
    act(
      'failSandboxCard',
      'fail',
      'Have the card of a customer portal of the sandbox fail',
      'The subscription is past_due, as after a declined card, until the card works again.'
    ),
    act(
      'recoverSandboxCard',
      'recover',
      'Have that card work again',
      'A subscription that was past_due is active again.'
    )
  ]
}
