import { t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { AuditPage } from '../../accounts/audit/operations.ts'
import { html } from '../kit/document.ts'
import { queryOf } from './api.ts'
import type { PageRequest, PageContent, ConsolePage } from './page.ts'
import { badge, days, field, pager, table, type TableColumn } from './parts.ts'
import { count, timeOf } from './words.ts'

type AuditEntry = AuditPage['entries'][number]

const KINDS: Readonly<Record<string, string>> = {
  key: 'API key',
  member: 'member',
  admin: 'admin key',
  operator: 'operator',
  unknown: 'not signed in'
}

/** Audit log, newest first. `address`: the list's operation; all accounts with `isOperator`. */
export async function changesPage(
  { api, link, query, root }: PageRequest,
  address: string,
  isOperator: boolean
): Promise<PageContent> {
  const after = query.get('after')
  const typed = (query.get('merchantId') ?? '').trim()
  const filter = {
    ...(isOperator && /^[1-9]\d{0,8}$/.test(typed) ? { merchantId: typed } : {}),
    text: query.get('text'),
    from: query.get('from'),
    to: query.get('to')
  }
  const isFiltered = Object.values(filter).some(value => value !== null && value !== '')
  const { entries, next } = await api.get<AuditPage>(`${address}${queryOf({ ...filter, after })}`)
  const whose: TableColumn<AuditEntry> = {
    title: 'Merchant',
    cell: ({ merchantId }) =>
      merchantId === null ? '–' : html`<a href=${link(`merchants/${merchantId}`)}>${merchantId}</a>`
  }
  const columns: ReadonlyArray<TableColumn<AuditEntry>> = [
    { title: 'What', cell: what },
    { title: 'When', cell: ({ at }) => timeOf(at) },
    {
      title: 'Who',
      cell: ({ by }) => html`<bdi>${by.name}</bdi><span class="soft"> ${KINDS[by.kind] ?? by.kind}</span>`
    },
    ...(isOperator ? [whose] : []),
    { title: 'Result', cell: result },
    { title: 'Requested', cell: askedFor }
  ]
  return {
    title: 'Audit log',
    content: html`
      <form method="get" class="filter" role="search" aria-label="Audit log">
        ${isOperator ? field({ name: 'merchantId', label: 'Merchant ID', value: typed, attributes: { inputmode: 'numeric', maxlength: 9 } }) : null}
        ${field({ name: 'text', label: 'Person, action or ID', value: filter.text ?? '', attributes: { type: 'search', maxlength: 200 } })}
        ${days(filter.from, filter.to)}
        <button class="button small" type="submit">Show</button>
        <a class="button small second" href=${`${root}${address.slice(1)}${queryOf({ ...filter, format: 'csv' })}`} download="changes.csv">CSV</a>
      </form>
      ${table('Audit log', columns, entries, isFiltered ? html`<p>No entries match these filters. <a href=${link('changes')}>Show all</a></p>` : html`<p>No entries yet. Changes, sign-ins and sign-outs appear here, without secrets.</p>`)}
      ${pager(link(`changes${queryOf(filter)}`), next, query)}`
  }
}

/** One sentence, with the ids of what was changed. The account has its own column. */
function what({ operation, target }: AuditEntry): VNode {
  const { address, attempts, merchantId: _merchantId, ...ids } = target
  const about = [
    address === undefined ? '' : ` from ${address}`,
    attempts === undefined ? '' : `, ${count(Number(attempts))} ${Number(attempts) === 1 ? 'attempt' : 'attempts'}`
  ]
  return html`${auditSentence(operation)}${Object.values(ids).map(id => html` <code>${id}</code>`)}${about}`
}

function result({ status }: AuditEntry): VNode {
  if (status === null) return badge(t('unknown'), 'wait')
  return status < 400 ? badge('done', 'good') : badge(`refused (${status})`, 'bad')
}

function askedFor({ change }: AuditEntry): VNode {
  return Object.keys(change).length === 0
    ? html`<span class="soft">–</span>`
    : html`<details><summary>Details</summary><pre>${JSON.stringify(change, null, 2)}</pre></details>`
}

export const merchantChanges: ConsolePage = {
  id: 'getConsoleChanges',
  console: 'merchant',
  path: 'changes',
  summary: 'Who changed what in the account',
  show: asked => changesPage(asked, '/api/merchant/audit', false)
}

export const operatorChanges: ConsolePage = {
  id: 'getOperatorChanges',
  console: 'operator',
  path: 'changes',
  summary: 'Who changed what, in all accounts or one',
  show: asked => changesPage(asked, '/api/admin/audit', true)
}

/** Past tenses that the rules do not make. */
const IRREGULAR: Readonly<Record<string, string>> = {
  set: 'set',
  take: 'took',
  send: 'sent',
  resend: 'resent',
  sync: 'synced',
  cancel: 'canceled',
  create: 'created',
  regenerate: 'replaced',
  rotate: 'rotated'
}

/** Objects whose name in an operation is not the reader's. */
const OBJECTS: ReadonlyArray<readonly [RegExp, string]> = [
  [/\bstorefront (order|cache|shop info)\b/, 'store $1'],
  [/\bstorefront\b/, 'store'],
  [/\bproxy\b/, 'API'],
  [/\b(primary|alternate) key\b/, '$1 provider key'],
  [/\bapi key\b/, 'API key'],
  [/\bcolour\b/, 'color'],
  [/\bnotices\b/, 'email notifications'],
  [/^(?:regenerate) key\b/, 'replace API key']
]

/** Actions that the name of the operation does not say in words. */
const SENTENCES: Readonly<Record<string, string>> = {
  signInWithKey: 'Signed in with an API key',
  signInWithPasskey: 'Signed in with a passkey',
  signInToJobs: 'Signed in to the jobs page',
  useSignInLink: 'Signed in by mail',
  signOut: 'Signed out',
  endSession: 'Signed out another browser',
  goToAccount: 'Switched accounts',
  submitAccountPage: 'Switched accounts',
  setTestMode: 'Turned test mode on or off',
  takeFirstKey: 'Fetched the first API key',
  createBillingCheckout: 'Started a subscription by card',
  createBitcoinSubscription: 'Started a subscription by Lightning',
  createCustomerPortal: 'Opened the billing portal',
  adminUpdateMerchant: 'Changed the account',
  adminRefundSession: 'Retried the refund of the session',
  viewAsMerchant: 'Viewed the console as this merchant'
}

/** `createProxy` as `Created API`: an operation as a sentence without its internal name. */
export function auditSentence(operation: string): string {
  // Older entries have forms of pages beside what the forms did.
  if (operation.startsWith('submitGet')) return 'Sent a form of the console'
  const known = SENTENCES[operation]
  if (known !== undefined) return known
  const words = operation.replace(/^admin(?=[A-Z])/, '').replaceAll(/(?!^)[A-Z]/g, letter => ` ${letter.toLowerCase()}`)
  const named = OBJECTS.reduce((text, [from, to]) => text.replace(from, to), words.toLowerCase())
  const [verb = '', ...object] = named.split(' ')
  return [pastOf(verb), ...object].join(' ').replace(/^./, letter => letter.toUpperCase())
}

function pastOf(verb: string): string {
  const known = IRREGULAR[verb]
  if (known !== undefined) return known
  if (verb.endsWith('e')) return `${verb}d`
  return verb.endsWith('y') ? `${verb.slice(0, -1)}ied` : `${verb}ed`
}
