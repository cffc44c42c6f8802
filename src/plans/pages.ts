import type { VNode } from 'preact'
import { planNames } from '../accounts/merchants/plans.ts'
import { PageAssets, type AssetNames } from '../web/kit/assets.ts'
import { document, FORM_PAGE_HEADERS, html } from '../web/kit/document.ts'
import { isLive } from './store.ts'
import { planPricesUsd } from './plans.ts'
import type { SandboxSession } from './sandbox/sandbox.ts'

/** Headers of billing pages: forms submit to this origin only, and there are no scripts. */
export const BILLING_PAGE_HEADERS: readonly string[] = Object.freeze(
  FORM_PAGE_HEADERS.map(value =>
    value.replace("script-src 'self'", "script-src 'none'").replace("connect-src 'self'", "connect-src 'none'")
  )
)

/** The pages of checkouts by card: where they end, and those of the sandbox. */
export class BillingPages {
  readonly #assets: AssetNames = new PageAssets().names

  end(end: 'done' | 'canceled'): string {
    return end === 'done'
      ? this.#page(
          'Thank you',
          '../',
          html`
        <h1 class="result-heading">Thank you</h1>
        <p class="result-words">Your subscription is set up. If you bought it for an account that you have, the plan is active in a moment. Otherwise your new account is looked at first, and you get a mail when it is ready.</p>`
        )
      : this.#page(
          'Nothing was bought',
          '../',
          html`
        <h1 class="result-heading">Nothing was bought</h1>
        <p class="result-words">You left the checkout before it was complete. Nothing was charged.</p>`
        )
  }

  /** The page of a session of the sandbox, at `/billing/sandbox/…`. */
  sandbox(session: SandboxSession, sessionId: string): string {
    return session.kind === 'checkout' ? this.#checkout(session, sessionId) : this.#portal(session, sessionId)
  }

  missing(): string {
    return this.#page(
      'Not found',
      '../../',
      html`
      <h1 class="result-heading">Not found</h1>
      <p class="result-words">There is no such page, or its time is over. Open a new one.</p>`
    )
  }

  #checkout(session: SandboxSession & { kind: 'checkout' }, sessionId: string): string {
    const { plan, email, trialDays, successUrl, cancelUrl, completed } = session
    if (completed) {
      return this.#page(
        'Subscribed',
        '../../',
        html`
        <h1 class="result-heading">Subscribed</h1>
        <p class="result-words">${planNames[plan]} for ${email}.</p>
        <p><a class="button" rel="noreferrer" href=${successUrl}>Continue</a></p>`
      )
    }
    return this.#page(
      'Checkout',
      '../../',
      html`
      <h1 class="result-heading">${planNames[plan]}</h1>
      <p class="result-words">${plan === 'individual' ? `$${planPricesUsd.individual} a month` : ''}${trialDays === 0 ? '' : `, after ${trialDays} days of trial`}, for ${email}.</p>
      <p class="result-words">This is the sandbox: no card is asked for and nothing is charged.</p>
      <form class="form" method="post" action=${`${sessionId}/complete`}><button class="button" type="submit">Subscribe</button></form>
      <p><a rel="noreferrer" href=${cancelUrl}>Leave without subscribing</a></p>`
    )
  }

  #portal({ subscriptions, returnUrl }: SandboxSession & { kind: 'portal' }, sessionId: string): string {
    const isOpen = subscriptions.some(({ status }) => isLive(status))
    const isFailing = subscriptions.some(({ status }) => status === 'past_due')
    const button = (name: string, words: string): VNode =>
      html`<form class="form" method="post" action=${`${sessionId}/${name}`}><button class="button" type="submit">${words}</button></form>`
    return this.#page(
      'Subscription',
      '../../',
      html`
      <h1 class="result-heading">Your subscription</h1>
      ${subscriptions.map(
        ({ plan, status, currentPeriodEnd }) => html`
        <p class="result-words">${plan === null ? 'A plan' : planNames[plan]}: ${status}${currentPeriodEnd === null || !isLive(status) ? '' : `, until ${new Date(currentPeriodEnd).toISOString().slice(0, 10)}`}.</p>`
      )}
      <p class="result-words">This is the sandbox: there is no card, and nothing is charged.</p>
      ${isOpen || isFailing ? button('cancel', 'Cancel the subscription now') : null}
      ${isOpen ? button('fail', 'Let the card fail') : null}
      ${isFailing ? button('recover', 'Let the card work again') : null}
      <p><a rel="noreferrer" href=${returnUrl}>Go back</a></p>`
    )
  }

  #page(title: string, root: string, content: VNode | readonly VNode[]): string {
    const { shopStyle: style, shopScript: script } = this.#assets
    return document({
      title,
      root,
      assets: { style, script },
      script: false,
      refresh: null,
      main: html`<main class="alone"><section class="panel result">${content}</section></main>`
    })
  }
}
