import type { VNode } from 'preact'
import type { RefundDetails } from '../../../payments/refunds/schema.ts'
import { REFUND_STATUSES } from '../../../lightning/providers/payout-states.ts'
import type { ListTotal } from '../../../engine/operations/keyset.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import type { PageRequest, ConsolePage } from '../page.ts'
import { choice, figure, offsetOf, offsetPager, ROWS, table, type TableColumn } from '../parts.ts'
import { status, count, short, timeOf } from '../words.ts'
import { valued } from '../totals.ts'

/** What a refund says in a list. `value` formats amounts. */
export const refundColumns = (value: (satoshis: number) => string): ReadonlyArray<TableColumn<RefundDetails>> => [
  { title: 'Created', cell: refund => timeOf(refund.createdAt) },
  {
    title: 'Status',
    cell: refund =>
      html`${status(refund.status)}${refund.message === undefined ? null : html`<p class="soft">${refund.message}</p>`}`
  },
  {
    title: 'Refund address',
    cell: ({ lightningAddress, refundAddress }) =>
      lightningAddress === undefined ? short(refundAddress) : html`<bdi>${lightningAddress}</bdi>`
  },
  { title: 'Amount', cell: refund => value(refund.amountSatoshis), isNumber: true }
]

/** Page of what a refund gives back: a payment, or an order of the store. */
export function refundedLink({ link }: Pick<PageRequest, 'link'>, invoiceId: string): VNode {
  return invoiceId.startsWith('ord_')
    ? html`<a href=${link('store')}>Order ${invoiceId}</a>`
    : html`<a href=${link(`payments/${invoiceId}`)}>Payment ${invoiceId}</a>`
}

export const refundsPage: ConsolePage = {
  id: 'getConsoleRefunds',
  console: 'merchant',
  path: 'refunds',
  summary: 'Refunds, by status',
  async show(asked) {
    const { api, query, link } = asked
    const chosen = REFUND_STATUSES.find(name => name === query.get('status'))
    const offset = offsetOf(query)
    const [read, total] = await Promise.all([
      api.get<readonly RefundDetails[]>(`/api/refunds${queryOf({ status: chosen, skip: offset, take: ROWS + 1 })}`),
      api.get<ListTotal>(`/api/refunds/total${queryOf({ status: chosen })}`)
    ])
    const value = await valued(asked, [total.sats, ...read.map(({ amountSatoshis }) => amountSatoshis)])
    const columns = refundColumns(value)
    return {
      title: 'Refunds',
      content: html`
        <form method="get" class="filter" role="search" aria-label="Refunds">
          ${choice('status', 'Status', [['', 'All'], ...REFUND_STATUSES.map(name => [name, name] as const)], chosen ?? '')}
          <button class="button small" type="submit">Show</button>
        </form>
        <dl class="figures-row">${figure('Refunds', count(total.count))}${figure('Amount', value(total.sats))}</dl>
        ${table(
          'Refunds',
          [
            ...columns.slice(0, 1),
            { title: 'Payment', cell: refund => refundedLink(asked, refund.invoiceId) },
            ...columns.slice(1)
          ],
          read.slice(0, ROWS),
          chosen === undefined
            ? html`<p>No refunds yet. Open a <a href=${link('payments')}>payment</a> to refund it.</p>`
            : html`<p>No refunds match this filter. <a href=${link('refunds')}>Show all</a></p>`
        )}
        ${offsetPager(at => link(`refunds${queryOf({ status: chosen, offset: at })}`), offset, read.length > ROWS)}`
    }
  }
}
