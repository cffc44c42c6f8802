import type { VNode } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { planNames } from '../merchants/plans.ts'
import { html, ICON, PAGE_HEADERS } from '../pages/document.ts'
import { isLive } from './current.ts'
import { planPricesUsd } from './plans.ts'
import type { SandboxSession } from './sandbox.ts'

/** Headers of the pages of billing: their buttons are forms that go nowhere else, and they have no program. */
export const BILLING_PAGE_HEADERS: readonly string[] = Object.freeze(PAGE_HEADERS.map(value =>
  value.replace("form-action 'none'", "form-action 'self'").replace("script-src 'self'", "script-src 'none'")))

/** Where a checkout leads that named no addresses of its own. `style` is the name of the style under /assets/. */
export function endPage (end: 'done' | 'canceled', style: string): string {
  return end === 'done'
    ? page('Thank you', style, '../', html`
      <h1>Thank you</h1>
      <p>Your subscription is set up. If you bought it for an account that you have, the plan is active in a moment. Otherwise your new account is looked at first, and you get a mail when it is ready.</p>`)
    : page('Nothing was bought', style, '../', html`
      <h1>Nothing was bought</h1>
      <p>You left the checkout before it was complete. Nothing was charged.</p>`)
}

/** The page of a session of the sandbox. */
export function sandboxPage (session: SandboxSession, sessionId: string, style: string): string {
  return session.kind === 'checkout' ? checkoutPage(session, sessionId, style) : portalPage(session, sessionId, style)
}

/** Says that there is no such session. */
export function missingSessionPage (style: string): string {
  return page('Not found', style, '../../', html`<h1>Not found</h1><p>There is no such page, or its time is over. Open a new one.</p>`)
}

function checkoutPage (session: SandboxSession & { kind: 'checkout' }, sessionId: string, style: string): string {
  const { plan, email, trialDays, successUrl, cancelUrl, completed } = session
  const price = plan === 'individual' ? `$${planPricesUsd.individual} a month` : ''
  if (completed) {
    return page('Subscribed', style, '../../', html`
      <h1>Subscribed</h1>
      <p>${planNames[plan]} for ${email}.</p>
      <p><a id="continue" rel="noreferrer" href=${successUrl}>Continue</a></p>`)
  }
  return page('Checkout', style, '../../', html`
    <h1>${planNames[plan]}</h1>
    <p>${price}${trialDays === 0 ? '' : `, after ${trialDays} days of trial`}, for ${email}.</p>
    <p>This is the sandbox: no card is asked for and nothing is charged.</p>
    <form method="post" action=${`${sessionId}/complete`}><p><button type="submit">Subscribe</button></p></form>
    <p><a id="leave" rel="noreferrer" href=${cancelUrl}>Leave without subscribing</a></p>`)
}

function portalPage ({ subscriptions, returnUrl }: SandboxSession & { kind: 'portal' }, sessionId: string, style: string): string {
  const isOpen = subscriptions.some(({ status }) => isLive(status))
  return page('Subscription', style, '../../', html`
    <h1>Your subscription</h1>
    ${subscriptions.map(({ plan, status, currentPeriodEnd }) => html`
      <p>${plan === null ? 'A plan' : planNames[plan]}: ${status}${currentPeriodEnd === null || !isLive(status) ? '' : `, until ${new Date(currentPeriodEnd).toISOString().slice(0, 10)}`}.</p>`)}
    <p>This is the sandbox: there is no card, and nothing is charged.</p>
    ${isOpen ? html`<form method="post" action=${`${sessionId}/cancel`}><p><button type="submit">Cancel the subscription now</button></p></form>` : null}
    <p><a id="continue" rel="noreferrer" href=${returnUrl}>Go back</a></p>`)
}

function page (title: string, style: string, root: string, content: VNode | VNode[]): string {
  return '<!doctype html>' + renderToString(html`
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${title}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex, nofollow" />
        <meta name="referrer" content="no-referrer" />
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" href=${ICON} />
        <link rel="stylesheet" href=${`${root}assets/${style}`} />
      </head>
      <body>
        <main>${content}</main>
        <footer class="footer">Plans by <span class="brand">boltgate</span></footer>
      </body>
    </html>`)
}
