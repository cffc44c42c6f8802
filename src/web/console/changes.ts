import type { VNode } from 'preact'
import type { AuditPage } from '../../accounts/audit/operations.ts'
import { html } from '../kit/document.ts'
import { queryOf } from './api.ts'
import type { PageRequest, PageContent } from './page.ts'
import { badge, days, field, pager, table, type TableColumn } from './parts.ts'
import { auditSentence } from './audit-sentence.ts'
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
    { title: 'PageRequest for', cell: askedFor }
  ]
  return {
    title: 'Changes',
    content: html`
      <form method="get" class="filter" role="search" aria-label="Changes">
        ${isOperator ? field({ name: 'merchantId', label: 'Id of a merchant', value: typed, attributes: { inputmode: 'numeric', maxlength: 9 } }) : null}
        ${field({ name: 'text', label: 'Who, what, or an id', value: filter.text ?? '', attributes: { type: 'search', maxlength: 200 } })}
        ${days(filter.from, filter.to)}
        <button class="button small" type="submit">Show</button>
        <a class="button small second" href=${`${root}${address.slice(1)}${queryOf({ ...filter, format: 'csv' })}`} download="changes.csv">CSV</a>
      </form>
      ${table('Changes', columns, entries, isFiltered ? html`<p>No change is like this. <a href=${link('changes')}>Show all</a></p>` : html`<p>No changes yet. Changes, sign-ins and sign-outs appear here, without secrets.</p>`)}
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
  if (status === null) return badge('not known', 'wait')
  return status < 400 ? badge('done', 'good') : badge(`refused (${status})`, 'bad')
}

function askedFor({ change }: AuditEntry): VNode {
  return Object.keys(change).length === 0
    ? html`<span class="soft">–</span>`
    : html`<details><summary>Details</summary><pre>${JSON.stringify(change, null, 2)}</pre></details>`
}
