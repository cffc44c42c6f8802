import { t } from '../engine/formats/language.ts'
import type { VNode } from 'preact'
import { planNames } from '../accounts/merchants/plans.ts'
import { assetNames } from '../web/kit/assets.ts'
import { document, FORM_PAGE_HEADERS, html } from '../web/kit/document.ts'
import { isLive } from './store.ts'
import { planPricesUsd } from './plans.ts'
import type { SandboxSession } from './sandbox/sandbox.ts'

export const BILLING_PAGE_HEADERS: readonly string[] = Object.freeze(
  FORM_PAGE_HEADERS.map(value =>
    value.replace("script-src 'self'", "script-src 'none'").replace("connect-src 'self'", "connect-src 'none'")
  )
)

/** The pages of checkouts by card: where they end, and those of the sandbox. */
export class BillingPages {
  readonly #assets = assetNames()

  end(end: 'done' | 'canceled'): string {
    return end === 'done'
      ? this.#page(
          t('Thank you'),
          '../',
          html`
        <h1 class="result-heading">Thank you</h1>
        <p class="result-words">Your subscription is set up. For an existing account, the plan is active in a moment. A new account is reviewed first, and you get an email when it is ready.</p>`
        )
      : this.#page(
          t('Checkout canceled'),
          '../',
          html`
        <h1 class="result-heading">Checkout canceled</h1>
        <p class="result-words">You left the checkout before completing it. You have not been charged.</p>`
        )
  }

  sandbox(session: SandboxSession, sessionId: string): string {
    return session.kind === 'checkout' ? this.#checkout(session, sessionId) : this.#portal(session, sessionId)
  }

  missing(): string {
    return this.#page(
      t('Not found'),
      '../../',
      html`
      <h1 class="result-heading">Not found</h1>
      <p class="result-words">This page does not exist or has expired. Start a new checkout.</p>`
    )
  }

  #checkout(session: SandboxSession & { kind: 'checkout' }, sessionId: string): string {
    const { plan, email, trialDays, successUrl, cancelUrl, completed } = session
    if (completed) {
      return this.#page(
        t('Subscribed'),
        '../../',
        html`
        <h1 class="result-heading">Subscribed</h1>
        <p class="result-words">${t(planNames[plan])} for ${email}.</p>
        <p><a class="button" rel="noreferrer" href=${successUrl}>Continue</a></p>`
      )
    }
    return this.#page(
      t('Checkout'),
      '../../',
      html`
      <h1 class="result-heading">${planNames[plan]}</h1>
      <p class="result-words">${plan === 'individual' ? t`${`$${planPricesUsd.individual}`} per month` : null} ${trialDays === 0 ? null : t`after a ${trialDays}-day trial`} (${email})</p>
      <p class="result-words">This is the sandbox. No card is needed, and nothing is charged.</p>
      <form class="form" method="post" action=${`${sessionId}/complete`}><button class="button" type="submit">Subscribe</button></form>
      <p><a rel="noreferrer" href=${cancelUrl}>Cancel checkout</a></p>`
    )
  }

  #portal({ subscriptions, returnUrl }: SandboxSession & { kind: 'portal' }, sessionId: string): string {
    const isOpen = subscriptions.some(({ status }) => isLive(status))
    const isFailing = subscriptions.some(({ status }) => status === 'past_due')
    const button = (name: string, words: string): VNode =>
      html`<form class="form" method="post" action=${`${sessionId}/${name}`}><button class="button" type="submit">${words}</button></form>`
    return this.#page(
      t('Subscription'),
      '../../',
      html`
      <h1 class="result-heading">Your subscription</h1>
      ${subscriptions.map(
        ({ plan, status, currentPeriodEnd }) => html`
        <p class="result-words">${plan === null ? t('Plan') : t(planNames[plan])}: ${t(status)}${currentPeriodEnd === null || !isLive(status) ? null : html` ${t`until ${new Date(currentPeriodEnd).toISOString().slice(0, 10)}`}`}</p>`
      )}
      <p class="result-words">This is the sandbox. There is no card, and nothing is charged.</p>
      ${isOpen || isFailing ? button('cancel', t('Cancel subscription now')) : null}
      ${isOpen ? button('fail', t('Simulate a failed card')) : null}
      ${isFailing ? button('recover', t('Simulate a working card')) : null}
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
