import { t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { shownStatus } from '../../accounts/merchants/account.ts'
import { planNames } from '../../accounts/merchants/plans.ts'
import { assetNames } from '../kit/assets.ts'
import { document, FORM_PAGE_HEADERS, html } from '../kit/document.ts'
import type { Membership } from './store.ts'
import type { CurrentSession } from './sessions.ts'

/** Same response to every request for a link (decision 170). */
export const LINK_SENT =
  'If an account has this email address, a link to sign in is on its way. It works once, for 15 minutes.'

/**
 * Headers of these pages. Their forms need an origin check, and without a referrer the origin is "null" (Fetch, "append
 * a request `Origin` header"). Only the origin is sent: the address may be a secret link.
 */
export const SIGN_IN_HEADERS: readonly string[] = Object.freeze(
  FORM_PAGE_HEADERS.map(value =>
    value
      .replace("script-src 'self'", "script-src 'none'")
      .replace("connect-src 'self'", "connect-src 'none'")
      .replace('no-referrer', 'strict-origin')
  )
)

/** For the page that runs the passkey script. */
export const ASKING_HEADERS: readonly string[] = Object.freeze(
  FORM_PAGE_HEADERS.map(value => value.replace('no-referrer', 'strict-origin'))
)

export interface AskFacts {
  readonly hasPasskeys: boolean
  readonly canSignUp?: boolean
  /** File with the first keys; null unless the caller is on the gateway's machine. */
  readonly keysFile?: string | null
}

export type Asking = readonly [
  wrong?: { readonly email?: string; readonly key?: string },
  typed?: string,
  root?: './' | '../'
]

/**
 * Sign-in form at `/sign-in`. `wrong`: field errors. `root`: path to the folder of `/sign-in`. The script shows the
 * passkey button.
 */
export function askPage(
  { hasPasskeys, canSignUp = false, keysFile = null }: AskFacts,
  ...[wrong = {}, typed = '', root = './']: Asking
): string {
  return page(
    t('Sign in'),
    root,
    html`
    <section class="panel" aria-labelledby="heading">
      <h1 id="heading" class="result-heading">Sign in</h1>
      ${
        hasPasskeys
          ? html`<div class="form" data-passkey="sign-in" data-root=${root} hidden>
        <button class="button" type="button">Sign in with a passkey</button>
        <p class="error" role="alert" hidden></p>
      </div>`
          : null
      }
      <p>We email you a sign-in link.</p>
      <form class="form" method="post" action=${`${root}sign-in`}>
        ${field('email', t('Email'), wrong.email, { type: 'email', autocomplete: 'email', inputmode: 'email', maxlength: '254', value: typed })}
        <button class="button" type="submit">Email me a link</button>
      </form>
      <form class="form" method="post" action=${`${root}sign-in/key`}>
        ${field('key', t('Or an API key'), wrong.key, { type: 'password', autocomplete: 'off', maxlength: '512' })}
        <button class="button second" type="submit">Sign in with key</button>
      </form>
      ${keysFile === null ? null : html`<p class="soft">Find the first keys in <code>${keysFile}</code> on the gateway’s machine: <code>adminKey</code> for the operator, <code>merchant.apiKey</code> for the first account.</p>`}
      ${canSignUp ? html`<p class="soft">No account yet? <a href=${`${root}sign-up`}>Create one</a></p>` : null}
    </section>`,
    hasPasskeys
  )
}

export function signUpPage(
  wrong: { readonly name?: string; readonly email?: string } = {},
  typed = { name: '', email: '' }
): string {
  return page(
    t('Create an account'),
    './',
    html`
    <section class="panel" aria-labelledby="heading">
      <h1 id="heading" class="result-heading">Create an account</h1>
      <p>Your account is free. We email you a link to open it and see your API key.</p>
      <form class="form" method="post" action="./sign-up">
        ${field('name', t('Business name'), wrong.name, { type: 'text', autocomplete: 'organization', maxlength: '200', value: typed.name })}
        ${field('email', t('Email'), wrong.email, { type: 'email', autocomplete: 'email', inputmode: 'email', maxlength: '254', value: typed.email })}
        <button class="button" type="submit">Create account</button>
      </form>
      <p class="soft">Already have an account? <a href="./sign-in">Sign in</a></p>
    </section>`
  )
}

export function linkSentPage(): string {
  return page(
    t('Check your email'),
    './',
    html`
    <section class="panel result">
      <h1 class="result-heading">Check your email</h1>
      <p class="result-words">${t(LINK_SENT)}</p>
    </section>`
  )
}

/** Page of a valid link. Only its button consumes it, since mail scanners open pages. */
export function mailedLinkPage(): string {
  return page(
    t('Sign in'),
    '../',
    html`
    <section class="panel result">
      <h1 class="result-heading">Sign in</h1>
      <p class="result-words">This link works once. You stay signed in on this device for 12 hours.</p>
      <form class="form" method="post"><button class="button" type="submit">Sign in</button></form>
    </section>`
  )
}

export function stalePage(): string {
  return page(
    t('Link not valid'),
    '../',
    html`
    <section class="panel result">
      <h1 class="result-heading">This link is not valid</h1>
      <p class="result-words">It was already used, is older than 15 minutes, or is incomplete.</p>
      <p><a class="button" href="../sign-in">Get a new link</a></p>
    </section>`
  )
}

export function signedOutPage(): string {
  return page(
    t('Signed out'),
    '../',
    html`
    <section class="panel result">
      <h1 class="result-heading">You are not signed in</h1>
      <p class="result-words">Sign in to continue.</p>
      <p><a class="button" href="../sign-in">Sign in</a></p>
    </section>`
  )
}

/** A form failed the origin check; at `/sign-in/…`. */
export function forgedPage(): string {
  return page(
    t('Request blocked'),
    '../',
    html`
    <section class="panel result">
      <h1 class="result-heading">Request blocked</h1>
      <p class="result-words">This form was not sent from this site. Go back, reload the page and try again.</p>
    </section>`
  )
}

/** At `/sign-in/…`. */
export function notMemberPage(): string {
  return page(
    t('No access'),
    '../',
    html`
    <section class="panel result">
      <h1 class="result-heading">You do not have access</h1>
      <p class="result-words">You are not a member of this account. Ask one of its owners to invite you.</p>
      <p><a class="button" href="account">Your account</a></p>
    </section>`
  )
}

/** In place of a page that needs the database. */
export function awayPage(root: string, isOperator: boolean): string {
  return page(
    t('Unavailable'),
    root,
    html`
    <section class="panel result">
      <h1 class="result-heading">The database is unavailable</h1>
      <p class="result-words">No data is lost. Reload this page in a moment.</p>
      ${isOperator ? html`<p><a class="button" href=${`${root}operator/health`}>View health</a> <a href=${`${root}sign-in`}>Sign in with the admin key</a></p>` : null}
    </section>`
  )
}

/** Account page at `/sign-in/account`. `accounts`: all accessible ones; `form`: CSRF token. */
export function accountPage(
  { account, person, expiresAt, operator }: CurrentSession,
  accounts: readonly Membership[],
  form: string
): string {
  const others = accounts.filter(({ merchantId }) => merchantId !== account?.merchant.id)
  const own: ReadonlyArray<readonly [string, string]> =
    account === null
      ? []
      : [
          [t('Email'), account.merchant.email],
          [t('Plan'), t(planNames[account.merchant.tier])],
          [t('Status'), t(shownStatus(account.merchant) ?? 'no subscription')],
          [t('API key'), `bg_${account.merchant.keyId}_…`],
          [t('Role'), t(account.role)]
        ]
  const facts = [
    ...own,
    [t('Signed in as'), person?.email ?? (account === null ? t('operator, by admin key') : t('API key holder'))],
    [t('Signed in until'), t`${new Date(expiresAt).toISOString().slice(0, 16).replace('T', ' ')} UTC`]
  ]
  return page(
    t('Your account'),
    '../',
    html`
    <section class="panel result" aria-labelledby="heading">
      <h1 id="heading" class="result-heading"><bdi>${account?.merchant.name ?? t('Operator')}</bdi></h1>
      <dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
      ${account === null ? null : html`<p><a class="button" href="../console">Open console</a></p>`}
      ${operator === null ? null : html`<p><a class="button" href="../operator">Open operator console</a></p>`}
      ${
        others.length === 0
          ? null
          : html`<h2>Your other accounts</h2>
      ${others.map(
        ({ merchantId, name, role }) => html`<form class="form" method="post" action="go-to">
        <input type="hidden" name="form" value=${form} />
        <input type="hidden" name="merchantId" value=${merchantId} />
        <button class="button second" type="submit">Switch to <bdi>${name}</bdi> (${t(role)})</button>
      </form>`
      )}`
      }
      <form class="form" method="post" action="sign-out">
        <input type="hidden" name="form" value=${form} />
        <button class="button second" type="submit">Sign out</button>
      </form>
    </section>`
  )
}

function page(title: string, root: string, content: VNode, hasScript = false): string {
  const { passkeyScript, shopStyle } = assetNames()
  return document({
    title,
    root,
    referrer: 'strict-origin',
    assets: { style: shopStyle, script: passkeyScript },
    script: hasScript,
    refresh: null,
    main: html`<main class="alone">${content}</main>`
  })
}

function field(
  name: string,
  label: string,
  problem: string | undefined,
  attributes: Readonly<Record<string, string>>
): VNode {
  const id = `${name}-problem`
  return html`
    <div class=${problem === undefined ? 'input' : 'input wrong'}>
      <label for=${name}>${label}</label>
      <input id=${name} name=${name} ...${attributes} required
        aria-invalid=${problem === undefined ? null : 'true'} aria-describedby=${problem === undefined ? null : id} />
      ${problem === undefined ? null : html`<p id=${id} class="error">${problem}</p>`}
    </div>`
}
