import type { VNode } from 'preact'
import type { RefundDetails } from '../../../payments/refunds/schema.ts'
import { REFUND_STATUSES } from '../../../lightning/providers/payout-states.ts'
import type { ListTotal } from '../../../engine/operations/keyset.ts'
import { html } from '../../kit/document.ts'
import { invalid, queryOf } from '../api.ts'
import type { PageRequest, ConsolePage } from '../page.ts'
import { filterChoice, oneOf, rowsOf, searchForm } from '../lists.ts'
import { figure, table, type TableColumn } from '../parts.ts'
import { status, count, short, timeOf } from '../words.ts'
import { valued } from '../totals.ts'

/** What a refund says in a list. `value` formats amounts; the page of a payment does without its link. */
export const refundColumns = (
  value: (satoshis: number) => string,
  request?: Pick<PageRequest, 'link'>
): ReadonlyArray<TableColumn<RefundDetails>> => [
  ['Created', refund => timeOf(refund.createdAt)],
  ...(request === undefined
    ? []
    : [['Payment', ({ invoiceId }: RefundDetails) => refundedLink(request, invoiceId)] as const]),
  [
    'Status',
    refund =>
      html`${status(refund.status)}${refund.message === undefined ? null : html`<p class="soft">${refund.message}</p>`}`
  ],
  [
    'Refund address',
    ({ lightningAddress, refundAddress }) =>
      lightningAddress === undefined ? short(refundAddress) : html`<bdi>${lightningAddress}</bdi>`
  ],
  ['Amount', refund => value(refund.amountSatoshis), 'number']
]

/** Page of what a refund gives back: a payment, or an order of the store. */
export function refundedLink({ link }: Pick<PageRequest, 'link'>, invoiceId: string): VNode {
  return invoiceId.startsWith('ord_')
    ? html`<a href=${link('store')}>Order ${invoiceId}</a>`
    : html`<a href=${link(`payments/${invoiceId}`)}>Payment ${invoiceId}</a>`
}

export async function sendRefund({ api, form }: Pick<PageRequest, 'api' | 'form'>, invoiceId: string): Promise<void> {
  const refundAddress = form.text('refundAddress')
  if (refundAddress.length < 26 && !/@|:\/\//.test(refundAddress))
    throw invalid(
      'refundAddress',
      'Enter a Lightning address such as ada@example.com, a Lightning invoice or a Bitcoin address.'
    )
  const [amountSatoshis, reason] = [form.number('amountSatoshis'), form.text('reason')]
  await api.post(
    '/api/refunds',
    {
      invoiceId,
      refundAddress,
      refundType: /^(ln|lightning:)|@/i.test(refundAddress) ? 'ln' : 'chain',
      ...(amountSatoshis === '' ? {} : { amountSatoshis }),
      ...(reason === '' ? {} : { reason })
    },
    form.text('key')
  )
}

export const refundsPage: ConsolePage = {
  id: 'getConsoleRefunds',
  path: 'refunds',
  summary: 'Refunds, by status',
  async show(request) {
    const { api, link } = request
    const filter = { status: oneOf(request, 'status', REFUND_STATUSES) }
    const [{ rows, pages }, total] = await Promise.all([
      rowsOf<RefundDetails>(request, '/api/refunds', 'refunds', filter),
      api.get<ListTotal>(`/api/refunds/total${queryOf(filter)}`)
    ])
    const value = await valued(request, [total.sats, ...rows.map(({ amountSatoshis }) => amountSatoshis)])
    return {
      title: 'Refunds',
      content: html`
        ${searchForm('Refunds', filterChoice('status', 'Status', REFUND_STATUSES, filter.status))}
        <dl class="figures-row">${figure('Refunds', count(total.count))}${figure('Amount', value(total.sats))}</dl>
        ${table(
          'Refunds',
          refundColumns(value, request),
          rows,
          filter.status === undefined
            ? html`<p>No refunds yet. Open a <a href=${link('payments')}>payment</a> to refund it.</p>`
            : html`<p>No refunds match this filter. <a href=${link('refunds')}>Show all</a></p>`
        )}
        ${pages}`
    }
  }
}
