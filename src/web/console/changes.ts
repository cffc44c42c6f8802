import { t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { AuditPage } from '../../accounts/audit/operations.ts'
import { html } from '../kit/document.ts'
import { queryOf } from './api.ts'
import type { PageRequest, PageContent, ConsolePage } from './page.ts'
import { csvLink, isFiltered, pager, searchForm } from './lists.ts'
import { badge, days, table, type TableColumn, input, searchField } from './parts.ts'
import { count, timeOf } from './words.ts'

type AuditEntry = AuditPage['entries'][number]

const KINDS: Readonly<Record<string, string>> = {
  key: t('API key'),
  member: t('member'),
  admin: t('admin key'),
  operator: t('operator'),
  unknown: t('not signed in')
}

/** Audit log, newest first. `address`: the list's operation; all accounts with `isOperator`. */
async function changesPage(request: PageRequest, address: string, isOperator: boolean): Promise<PageContent> {
  const { api, link, query } = request
  const typed = (query.get('merchantId') ?? '').trim()
  const filter = {
    ...(isOperator && /^[1-9]\d{0,8}$/.test(typed) ? { merchantId: typed } : {}),
    text: query.get('text'),
    from: query.get('from'),
    to: query.get('to')
  }
  const { entries, next } = await api.get<AuditPage>(`${address}${queryOf({ ...filter, after: query.get('after') })}`)
  const whose: TableColumn<AuditEntry> = [
    'Merchant',
    ({ merchantId }) => (merchantId === null ? '–' : html`<a href=${link(`merchants/${merchantId}`)}>${merchantId}</a>`)
  ]
  const columns: ReadonlyArray<TableColumn<AuditEntry>> = [
    ['What', what],
    ['When', ({ at }) => timeOf(at)],
    ['Who', ({ by }) => html`<bdi>${by.name}</bdi><span class="soft"> ${t(KINDS[by.kind] ?? by.kind)}</span>`],
    ...(isOperator ? [whose] : []),
    ['Result', result],
    ['Requested', requestOf]
  ]
  return {
    title: 'Audit log',
    content: html`
      ${searchForm(
        'Audit log',
        html`${isOperator ? input('merchantId', 'Merchant ID', { value: typed, inputmode: 'numeric', maxlength: 9 }) : null}
        ${searchField('Person, action or ID', filter.text)}
        ${days(filter.from, filter.to)}`,
        csvLink(request, address, filter, 'changes')
      )}
      ${table('Audit log', columns, entries, isFiltered(filter) ? html`<p>No entries match these filters. <a href=${link('changes')}>Show all</a></p>` : html`<p>No entries yet. Changes, sign-ins and sign-outs appear here, without secrets.</p>`)}
      ${pager(request, 'changes', filter, next)}`
  }
}

/** One sentence, with the ids of what was changed. The account has its own column. */
function what({ operation, target }: AuditEntry): VNode {
  const { address, attempts, merchantId: _merchantId, ...ids } = target
  const about = [
    address === undefined ? '' : ` ${t`from ${address}`}`,
    attempts === undefined ? '' : `, ${attempts === '1' ? t('1 attempt') : t`${count(Number(attempts))} attempts`}`
  ]
  return html`${auditSentence(operation)}${Object.values(ids).map(id => html` <code>${id}</code>`)}${about}`
}

function result({ status }: AuditEntry): VNode {
  if (status === null) return badge(t('unknown'), 'wait')
  return status < 400 ? badge('done', 'good') : badge(t`refused (${status})`, 'bad')
}

function requestOf({ change }: AuditEntry): VNode {
  return Object.keys(change).length === 0
    ? html`<span class="soft">–</span>`
    : html`<details><summary>Details</summary><pre>${JSON.stringify(change, null, 2)}</pre></details>`
}

export const merchantChanges: ConsolePage = {
  id: 'getConsoleChanges',
  path: 'changes',
  summary: 'Who changed what in the account',
  show: request => changesPage(request, '/api/merchant/audit', false)
}

export const operatorChanges: ConsolePage = {
  id: 'getOperatorChanges',
  path: 'changes',
  summary: 'Who changed what, in all accounts or one',
  show: request => changesPage(request, '/api/admin/audit', true)
}

/** Actions by their operation, in words. */
const SENTENCES: Readonly<Record<string, string>> = {
  adminApprovePendingSubscription: t('Approved a pending subscription'),
  adminCloseSession: t('Closed a session'),
  adminCreateMerchant: t('Created the account'),
  adminDeactivateMerchant: t('Suspended the account'),
  adminReactivateMerchant: t('Reactivated the account'),
  adminRefundSession: t('Retried the refund of a session'),
  adminRegenerateKey: t('Replaced the API key'),
  adminRejectPendingSubscription: t('Rejected a pending subscription'),
  adminRetryJob: t('Retried a job'),
  adminRetryStorefrontOrder: t('Retried a store order'),
  adminRevokeMerchantTokens: t('Revoked all sales of the account'),
  adminRevokeProxyTokens: t('Revoked all sales of an API'),
  adminRevokeToken: t('Revoked a sale'),
  adminSettleRefund: t('Settled a refund'),
  adminSettleSessionRefund: t('Settled the refund of a session'),
  adminUpdateMerchant: t('Changed the account'),
  addPasskey: t('Added a passkey'),
  cancelPayment: t('Canceled a payment'),
  changeMember: t('Changed a member'),
  changeWebhookEndpoint: t('Changed a webhook endpoint'),
  createApiKey: t('Created an API key'),
  createBillingCheckout: t('Started a subscription by card'),
  createBitcoinSubscription: t('Started a subscription by Lightning'),
  createCustomerPortal: t('Opened the billing portal'),
  createPaymentLink: t('Created a payment link'),
  createProxy: t('Created an API'),
  createRefund: t('Created a refund'),
  createStorefront: t('Opened the store'),
  createTestAccount: t('Created the test account'),
  createWebhookEndpoint: t('Created a webhook endpoint'),
  deletePaymentLink: t('Removed a payment link'),
  deleteProxy: t('Removed an API'),
  endSession: t('Signed out another browser'),
  goToAccount: t('Switched accounts'),
  inviteMember: t('Invited a member'),
  regenerateKey: t('Replaced the API key'),
  removeAlternateKey: t('Removed the alternate provider key'),
  removeApiKey: t('Removed an API key'),
  removeMember: t('Removed a member'),
  removePasskey: t('Removed a passkey'),
  removePrimaryKey: t('Removed the primary provider key'),
  removeWebhookEndpoint: t('Removed a webhook endpoint'),
  // No longer an operation; older entries have it.
  renamePasskey: t('Renamed a passkey'),
  requestMagicLink: t('Requested a sign-in link'),
  resendWebhookDelivery: t('Resent a webhook'),
  retireEndpoint: t('Retired an endpoint'),
  retryJob: t('Retried a job'),
  revokeProxyTokens: t('Revoked all sales of an API'),
  revokeToken: t('Revoked a sale'),
  revokeTokens: t('Revoked all sales'),
  rotateApiKey: t('Rotated an API key'),
  rotateWebhookSecret: t('Rotated a webhook secret'),
  setAlternateKey: t('Saved the alternate provider key'),
  setColour: t('Changed the brand color'),
  setEmail: t('Changed the email address of the account'),
  setName: t('Renamed the account'),
  setNotices: t('Changed email notifications'),
  setPaymentProvider: t('Chose the payment provider'),
  setPrimaryKey: t('Saved the primary provider key'),
  setReceiptNote: t('Changed the seller details'),
  setTestMode: t('Turned test mode on or off'),
  setWebhook: t('Changed the webhook'),
  signInToJobs: t('Signed in to the jobs page'),
  signInWithKey: t('Signed in with an API key'),
  signInWithPasskey: t('Signed in with a passkey'),
  signOut: t('Signed out'),
  submitAccountPage: t('Switched accounts'),
  takeFirstKey: t('Fetched the first API key'),
  testWebhook: t('Tested the webhook'),
  testWebhookEndpoint: t('Tested a webhook endpoint'),
  updateProxy: t('Changed an API'),
  updateStorefront: t('Changed the store'),
  invalidateStorefrontCache: t('Refreshed the catalog'),
  useSignInLink: t('Signed in by mail'),
  viewAsMerchant: t('Viewed the console as this merchant')
}

/** `createProxy` as `Created an API`, in the reader's language. */
export function auditSentence(operation: string): string {
  // Older entries have forms of pages beside what the forms did.
  return operation.startsWith('submitGet') ? t('Sent a form of the console') : t(SENTENCES[operation] ?? operation)
}
