import { currentLanguage, t } from '../../engine/formats/language.ts'
import { cloneElement, isValidElement, type ComponentChildren, type VNode } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { html, ICON, languageChoice } from '../kit/document.ts'
import { isTest } from '../../engine/operations/operation.ts'
import { assetNames, scriptWords } from '../kit/assets.ts'
import { DONE, type Console, type FormProblem, type PageContent, type PageRequest } from './page.ts'
import { lastName } from './parts.ts'

interface Entry {
  /** First path segment in the console; empty for the first page. */
  readonly to: string
  readonly name: string
}

const MENUS: Readonly<Record<Console, readonly Entry[]>> = {
  merchant: [
    { to: '', name: 'Overview' },
    { to: 'till', name: 'Take a payment' },
    { to: 'search', name: 'Search' },
    { to: 'payments', name: 'Payments' },
    { to: 'customers', name: 'Customers' },
    { to: 'refunds', name: 'Refunds' },
    { to: 'sales', name: 'Sales' },
    { to: 'apis', name: 'APIs' },
    { to: 'tokens', name: 'Tokens' },
    { to: 'webhooks', name: 'Webhooks' },
    { to: 'store', name: 'Store' },
    { to: 'plan', name: 'Plan' },
    { to: 'settings', name: 'Settings' },
    { to: 'keys', name: 'Keys' },
    { to: 'members', name: 'Members' },
    { to: 'changes', name: 'Audit log' }
  ],
  operator: [
    { to: '', name: 'Overview' },
    { to: 'routes', name: 'Routes' },
    { to: 'merchants', name: 'Merchants' },
    { to: 'sales', name: 'Sales' },
    { to: 'subscriptions', name: 'Subscriptions' },
    { to: 'refunds', name: 'Refunds' },
    { to: 'sessions', name: 'Sessions' },
    { to: 'orders', name: 'Orders' },
    { to: 'providers', name: 'Providers' },
    { to: 'jobs', name: 'Jobs' },
    { to: 'health', name: 'Health' },
    { to: 'configuration', name: 'Configuration' },
    { to: 'changes', name: 'Audit log' }
  ]
}

/** Pages that a test account does not have. */
const LIVE_ONLY: ReadonlySet<string> = new Set(['store', 'plan', 'members'])

export interface Frame {
  /** Account name, or the operator's. */
  readonly who: string
  /** Suggestion such as a passkey; null for none. */
  readonly offer: VNode | null
  /** CSRF token of the forms; null without a session. */
  readonly form: string | null
}

export function homeOf(console: Console): string {
  return console === 'merchant' ? 'console' : 'operator'
}

export function framed(
  { title: given, isName, content, goOn }: PageContent,
  { banner, ctx: { principal }, console, link, page: { path }, problem, query, root }: PageRequest,
  { form, offer, who }: Frame
): string {
  const { consoleScript, consoleStyle } = assetNames()
  const isTestAccount = principal?.kind === 'merchant' && isTest(principal.id)
  const named = query.get('done') ?? ''
  const done = problem === null && Object.hasOwn(DONE, named) ? DONE[named as keyof typeof DONE] : null
  const isViewed = banner !== null
  const title = isName === true ? given : t(given)
  const here = path.split('/', 1)[0] ?? ''
  const session = (to: string, label: string, test?: 'on' | 'off') =>
    sessionForm(form, `${root}sign-in/${to}`, label, test)
  const name = console === 'merchant' ? t('Console') : t('Operator')
  return (
    '<!doctype html>' +
    renderToString(html`
    <html lang=${currentLanguage()} data-words=${scriptWords()}>
      <head>
        <meta charset="utf-8" />
        <title>${`${title} · ${name} · boltgate`}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex, nofollow" />
        <meta name="referrer" content="same-origin" />
        <meta name="color-scheme" content="light dark" />
        ${goOn === undefined ? null : html`<meta http-equiv="refresh" content=${`0; url=${goOn}`} />`}
        <link rel="icon" href=${ICON} />
        <link rel="stylesheet" href=${`${root}assets/${consoleStyle}`} />
        <script type="module" src=${`${root}assets/${consoleScript}`}></script>
      </head>
      <body>
        <a class="skip" href="#content">Skip to content</a>
        <header class="bar">
          <a class="brand" href=${link('')}>boltgate</a>
          <p class="who"><a href=${`${root}${isViewed ? 'operator' : homeOf(console)}/signed-in`}><bdi>${who}</bdi></a></p>
          ${console === 'operator' || isViewed ? null : session('test-mode', isTestAccount ? t('Leave test mode') : t('Test mode'), isTestAccount ? 'off' : 'on')}
          ${session('sign-out', t('Sign out'))}
        </header>
        <nav class="menu" aria-label=${name}>
          <ul>${MENUS[console].filter(({ to }) => !isTestAccount || !LIVE_ONLY.has(to)).map(({ name, to }) => html`<li><a href=${link(to)} aria-current=${to === here ? 'page' : null}>${t(name)}</a></li>`)}</ul>
        </nav>
        <main id="content" tabindex="-1">
          <h1>${title}</h1>
          ${isTestAccount ? html`<p class="notice wait">Test mode: you see test data. No money moves.</p>` : null}
          ${done === null ? null : html`<p class="notice good" role="status">${t(done)}</p>`}
          ${problem === null ? null : problemNotice(problem, content)}
          ${offer}
          ${isViewed ? readOnly(content) : content}
        </main>
        <footer>${languageChoice()}</footer>
      </body>
    </html>`)
  )
}

function sessionForm(form: string | null, address: string, label: string, test?: 'on' | 'off'): VNode | null {
  return form === null
    ? null
    : html`<form method="post" action=${address}>
        <input type="hidden" name="form" value=${form} />
        ${test === undefined ? null : html`<input type="hidden" name="test" value=${test} />`}
        <button class="button small second" type="submit">${t(label)}</button>
      </form>`
}

function problemNotice({ message, fields }: FormProblem, content: VNode): VNode {
  const labels = labelsOf(content)
  const labelOf = (member: string): string | undefined => labels.get(lastName(member))
  const named = message.replaceAll(/\b[a-z]+(?:[A-Z][a-z]+)+\b/g, word => {
    const label = labelOf(word)
    return label === undefined ? word : `“${label}”`
  })
  const single = Object.entries(fields).map(([name, words]) => [labelOf(name), words] as const)
  return html`
    <div class="notice bad" role="alert">
      <p>${single.length === 0 ? t(named) : t('Check the fields below.')}</p>
      ${single.length === 0 ? null : html`<ul>${single.map(([label, words]) => html`<li>${label === undefined ? null : html`<strong>${t(label)}:</strong> `}${t(words)}</li>`)}</ul>`}
    </div>`
}

function labelsOf(content: ComponentChildren): ReadonlyMap<string, string> {
  const names = new Map<string, string>()
  const texts = new Map<string, string>()
  const visit = (node: ComponentChildren): void => {
    if (Array.isArray(node)) return node.forEach(visit)
    if (!isValidElement(node)) return
    const { id, name, for: target, children } = node.props as Attributes /* of an element of ours */
    if (typeof id === 'string' && typeof name === 'string') names.set(name, id)
    if (node.type === 'label' && typeof target === 'string') texts.set(target, firstText(children))
    visit(children)
  }
  visit(content)
  return new Map([...names].flatMap(([name, id]) => (texts.has(id) ? [[name, texts.get(id) ?? ''] as const] : [])))
}

function firstText(children: ComponentChildren): string {
  const [first] = [children].flat()
  return typeof first === 'string' ? first.trim() : ''
}

interface Attributes {
  readonly children?: ComponentChildren
  readonly [name: string]: unknown
}

/** Without forms that change something, downloads and live parts, which a viewer of another's account has not. */
export function readOnly(content: ComponentChildren): ComponentChildren {
  if (Array.isArray(content)) return content.map(readOnly)
  if (!isValidElement(content)) return content
  const attributes = content.props as Attributes /* of an element of ours */
  const isHidden =
    (content.type === 'form' && attributes['method'] === 'post') ||
    (content.type === 'details' && attributes['class'] === 'danger-zone') ||
    (content.type === 'a' && attributes['download'] !== undefined)
  return isHidden
    ? null
    : cloneElement(content, { 'data-live': undefined } as object /* an attribute */, readOnly(attributes.children))
}
