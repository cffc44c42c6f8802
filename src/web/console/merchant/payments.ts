import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { type PaymentView, PAYMENT_STATUSES, REFUNDABLE_STATUSES } from '../../../payments/payments/schema.ts'
import type { PaymentPage, CustomerView } from '../../../payments/payments/listing.ts'
import type { RefundDetails } from '../../../payments/refunds/schema.ts'
import type { AuditPage } from '../../../accounts/audit/operations.ts'
import { html } from '../../kit/document.ts'
import { queryOf, type AsRead, type PageApi } from '../api.ts'
import { csvLink, filterChoice, isFiltered, oneOf, pager, rowsOf, searchForm } from '../lists.ts'
import type { PageRequest, ConsolePage } from '../page.ts'
import {
  action,
  copyable,
  danger,
  days,
  facts,
  fieldsOf,
  live,
  table,
  type TableColumn,
  searchField
} from '../parts.ts'
import { may, status, amountIn, timeOf, sats, count } from '../words.ts'
import { presets, totals, valued } from '../totals.ts'
import { qrCode, qrContent } from '../../kit/qr-code.ts'
import type { DeliveryPage } from '../../../payments/webhooks/schema.ts'
import { deliveryColumns } from './webhooks.ts'
import { refundColumns, sendRefund } from './refunds.ts'

/** A payment; only list items include satoshis. */
export type PaymentItem = AsRead<PaymentView & Partial<PaymentPage['payments'][number]>>

/** Amount in its currency, with satoshis beside fiat and the value in the reader's currency beside bitcoin. */
async function amounts(
  request: PageRequest,
  payments: readonly PaymentItem[]
): Promise<(payment: PaymentItem) => string> {
  const inBitcoin = payments.flatMap(({ amountSats, currency }) => (currency === 'BTC' ? [amountSats ?? 0] : []))
  const value = await valued(request, inBitcoin)
  return ({ amount, amountSats = null, currency }) => {
    if (amountSats === null) return amountIn(amount, currency)
    return currency === 'BTC' ? value(amountSats) : `${amountIn(amount, currency)} (${sats(amountSats)})`
  }
}

/** What a payment says in every list. */
export const paymentColumns = ({ link }: Pick<PageRequest, 'link'>): ReadonlyArray<TableColumn<PaymentItem>> => [
  ['Order', ({ invoiceId, orderId }) => html`<a href=${link(`payments/${invoiceId}`)}><bdi>${orderId}</bdi></a>`],
  ['Status', payment => status(payment.status)],
  ['Created', payment => timeOf(payment.createdAt)]
]

export const paymentsPage: ConsolePage = {
  id: 'getConsolePayments',
  path: 'payments',
  summary: 'Payments, by status, time and text',
  async show(request) {
    const { api, query, link } = request
    const filter = {
      status: oneOf(request, 'status', PAYMENT_STATUSES),
      text: query.get('text'),
      from: query.get('from'),
      to: query.get('to')
    }
    const [page, sums] = await Promise.all([
      api.get<PaymentPage>(`/api/payments${queryOf({ ...filter, after: query.get('after') })}`),
      request.isRenewal ? null : totals(request, '/api/payments', filter, 'Payments')
    ])
    const amount = await amounts(request, page.payments)
    return {
      title: 'Payments',
      content: html`
        ${searchForm(
          'Payments',
          html`${filterChoice('status', 'Status', PAYMENT_STATUSES, filter.status)}
          ${searchField('Order, description or customer', filter.text)}
          ${days(filter.from, filter.to)}`,
          html`<a class="button small" href=${link('till')}>Take a payment</a> ${csvLink(request, '/api/payments', filter, 'payments')}`
        )}
        ${presets(request, 'payments', filter)}
        ${sums}
        ${live(
          'list',
          table(
            'Payments',
            [
              ...paymentColumns(request),
              ['Customer', payment => html`<bdi>${payment.customerName ?? payment.customerEmail ?? '–'}</bdi>`],
              ['Amount', amount, 'number']
            ],
            page.payments,
            isFiltered(filter)
              ? html`<p>No payments match these filters. <a href=${link('payments')}>Show all</a></p>`
              : html`<p>No payments yet. <a href=${link('till')}>Take a payment here</a>, or create one with <code>POST /api/payments</code>.</p>`
          )
        )}
        ${pager(request, 'payments', filter, page.next)}`
    }
  }
}

export const paymentPage: ConsolePage = {
  id: 'getConsolePayment',
  path: 'payments/:invoiceId',
  summary: 'One payment as it went, with its refunds',
  async show(request) {
    const { api } = request
    const id = request.id('invoiceId')
    // Refunds need the requested satoshis, which only the list has.
    const { payments } = await api.get<PaymentPage>(`/api/payments?text=${id}`)
    const found: PaymentItem =
      payments.find(({ invoiceId }) => invoiceId === id) ?? (await api.get<PaymentView>(`/api/payments/${id}`))
    // An account without a plan still sees its payments.
    const refunds = await api.permitted<readonly RefundDetails[]>(`/api/refunds/invoice/${id}`)
    const { deliveries } = await api.get<DeliveryPage>(
      `/api/merchant/webhooks/deliveries${queryOf({ invoiceId: found.invoiceId })}`
    )
    const cancel = found.status === 'expired' ? await cancelOf(api, found.invoiceId) : null
    const left = refunds === null ? 0 : refundable(found, refunds)
    const { receivedSats = null } = found
    const [amount, value] = await Promise.all([
      amounts(request, [found]).then(format => format(found)),
      valued(request, [receivedSats ?? 0, ...(refunds ?? []).map(({ amountSatoshis }) => amountSatoshis)])
    ])
    return {
      title: t`Payment ${found.orderId}`,
      content: html`
        ${live('due', due(request, found, amount))}
        ${facts([
          ['Status', status(found.status)],
          ['Amount', amount],
          ...(receivedSats === null ? [] : [['Received', value(receivedSats)] as const]),
          ['Description', html`<bdi>${found.description ?? '–'}</bdi>`],
          ['Customer', html`<bdi>${found.customerName ?? '–'}</bdi>`],
          ['Email', html`<bdi>${found.customerEmail ?? '–'}</bdi>`],
          ...(found.provider === undefined ? [] : [['Provider', found.provider] as const]),
          ...Object.entries(found.metadata ?? {}).map(
            ([name, value]) => [t`Metadata: ${name}`, html`<bdi>${value}</bdi>`] as const
          )
        ])}
        ${copyable('invoice-id', 'Invoice ID', found.invoiceId)}
        ${copyable('payment-hash', 'Payment hash', found.paymentHash)}
        ${found.providerChargeId === '' ? null : copyable('charge-id', 'Provider charge ID', found.providerChargeId)}
        <section aria-labelledby="went"><h2 id="went">Timeline</h2>
          <ol class="timeline">${timeline(found, refunds ?? [], cancel, request.ctx.now).map(
            ({ at, words }) => html`<li>${timeOf(at)} <span>${words}</span></li>`
          )}</ol>
        </section>
        ${
          found.status === 'unpaid'
            ? html`${copyable('pay', 'Checkout link', found.payUrl)}${copyable('invoice', 'Lightning invoice', found.lightningInvoice)}`
            : null
        }
        ${
          found.status === 'unpaid' && may(request, 'editor')
            ? danger(
                'Cancel payment',
                'The payment then expires. Someone who has the invoice might still pay it; you can then refund the payment.',
                action('Cancel payment', { do: 'cancel' }, { isDanger: true })
              )
            : null
        }
        <section aria-labelledby="webhooks"><h2 id="webhooks">Webhooks</h2>
          ${table('Webhooks', deliveryColumns(request), deliveries, html`<p>No webhooks sent. <a href=${request.link('webhooks')}>Add an endpoint</a></p>`)}
        </section>
        <section aria-labelledby="refunds"><h2 id="refunds">Refunds</h2>
          ${
            refunds === null
              ? html`<p>Refunds are not enabled for your account. <a href=${request.link('plan')}>View plan</a></p>`
              : table('Refunds', refundColumns(value), refunds, html`<p>No refunds.</p>`)
          }
          ${left > 0 && may(request, 'editor') ? refundForm(request, left) : null}
        </section>`
    }
  },
  async act(request) {
    const to = `payments/${request.id('invoiceId')}`
    switch (request.form.get('do')) {
      case 'cancel':
        await request.api.post(`/api/${to}/cancel`)
        return { to, done: 'canceled' }
      case 'refund':
        await sendRefund(request, request.id('invoiceId'))
        return { to, done: 'refunded' }
      default:
        return { to }
    }
  }
}

/** The code to pay, kept current; then how it ended. */
function due({ link }: PageRequest, found: PaymentItem, amount: string): VNode {
  const { amountSats = null, lightningInvoice, onchainAddress = null, status: state } = found
  const next = html`<a href=${link('till')}>Take another payment</a>`
  if (state === 'paid') return html`<p class="notice good" role="status">Paid: ${amount}. ${next}</p>`
  return state === 'unpaid'
    ? html`<div class="code"><p><strong>${amount}</strong></p>
        ${qrCode(qrContent({ invoice: lightningInvoice, onchainAddress, amountSats }), 'QR code of the invoice')}</div>`
    : next
}

/** Refundable satoshis (decision 55); 0 where refused. */
function refundable({ status, amountSats, receivedSats }: PaymentItem, refunds: readonly RefundDetails[]): number {
  if (!REFUNDABLE_STATUSES.has(status)) return 0
  const held = refunds.filter(refund => refund.status !== 'failed').reduce((sum, each) => sum + each.amountSatoshis, 0)
  return Math.max(0, (receivedSats ?? amountSats ?? 0) - held)
}

interface Step {
  /** Null for an unrecorded time. */
  readonly at: string | null
  readonly words: string
}

/** Cancellation in the audit log, which is kept for a year; else null. The API has no such state. */
async function cancelOf(api: PageApi, invoiceId: string): Promise<Step | null> {
  const trail = await api.permitted<AuditPage>(`/api/merchant/audit${queryOf({ text: invoiceId })}`)
  const done = trail?.entries.find(
    ({ operation, target, status }) =>
      operation === 'cancelPayment' && target['invoiceId'] === invoiceId && status !== null && status < 400
  )
  if (done === undefined) return null
  const { kind, name } = done.by
  return { at: done.at, words: t`Canceled by ${kind === 'key' ? t`API key ${name}` : name}.` }
}

function timeline(
  found: PaymentItem,
  refunds: readonly RefundDetails[],
  cancel: Step | null,
  now: number
): readonly Step[] {
  const steps: Step[] = [{ at: found.createdAt, words: t('Invoice created.') }]
  const outcome = cancel ?? outcomeOf(found, now)
  if (outcome !== null) steps.push(outcome)
  for (const refund of refunds) {
    steps.push({ at: refund.createdAt, words: t`Refund of ${sats(refund.amountSatoshis)} created.` })
    if (refund.processedAt !== null)
      steps.push({
        at: refund.processedAt,
        words: refund.status === 'failed' ? t('Refund failed.') : t('Refund completed.')
      })
  }
  // Steps without a time follow the invoice.
  const place = ({ at }: Step): string => at ?? found.createdAt
  return steps.sort((one, other) => place(one).localeCompare(place(other)))
}

/** Null while there is no outcome. */
function outcomeOf(found: PaymentItem, now: number): Step | null {
  const { status, paidAt, receivedSats = null, expiresAt } = found
  if (typeof paidAt === 'string') return { at: paidAt, words: t('Paid.') }
  switch (status) {
    case 'expired':
      return Date.parse(expiresAt) > now
        ? { at: null, words: t('Canceled.') }
        : { at: expiresAt, words: t('Expired without payment.') }
    case 'processing':
      return { at: null, words: t('Payment detected, not confirmed yet.') }
    case 'underpaid':
      return {
        at: null,
        words: t`${receivedSats === null ? t('Partial amount') : sats(receivedSats)} received, less than requested.`
      }
    // Refunded before full payment.
    case 'refunded':
      return receivedSats === null ? null : { at: null, words: t`${sats(receivedSats)} received.` }
    case 'unpaid':
    case 'paid':
      return null
  }
}

/** `left`: received satoshis minus refunds. */
function refundForm(request: PageRequest, left: number): VNode {
  const { ctx, form, problem } = request
  const field = fieldsOf(request, 'refund')
  return html`
    <details open=${problem !== null && form.get('do') === 'refund'}>
      <summary>Refund payment</summary>
      <form method="post" class="form">
        <input type="hidden" name="do" value="refund" /><input type="hidden" name="key" value=${form.get('key') ?? ctx.correlationId} />
        ${field('refundAddress', 'Lightning address, Lightning invoice or Bitcoin address', { hint: 'Ask the customer for a Lightning address such as name@example.com, or an invoice for the amount.', required: true, maxlength: 500, autocomplete: 'off', spellcheck: 'false' })}
        ${field('amountSatoshis', 'Satoshis (leave empty for the full remaining amount)', { value: left, inputmode: 'numeric', pattern: '[0-9]*', maxlength: 16 })}
        ${field('reason', 'Reason (only visible to you)', { maxlength: 500 })}
        <button class="button" type="submit">Refund</button>
      </form>
    </details>`
}

export const customersPage: ConsolePage = {
  id: 'getConsoleCustomers',
  path: 'customers',
  summary: 'Customers, with what they paid',
  async show(request) {
    const { link, query } = request
    const text = query.get('text')
    const { rows, pages } = await rowsOf<CustomerView>(request, '/api/merchant/customers', 'customers', { text })
    const value = await valued(
      request,
      rows.map(({ sats }) => sats)
    )
    return {
      title: 'Customers',
      content: html`
        ${searchForm('Customers', searchField('Name or email', text))}
        ${table(
          'Customers',
          [
            [
              'Customer',
              ({ email, name }) =>
                html`<a href=${link(`payments${queryOf({ text: email ?? name })}`)}><bdi>${name ?? email}</bdi></a>`
            ],
            ['Email', ({ email }) => html`<bdi>${email ?? '–'}</bdi>`],
            ['Last payment', ({ lastAt }) => timeOf(lastAt)],
            ['Payments', ({ payments }) => count(payments), 'number'],
            ['Received', ({ sats }) => value(sats), 'number']
          ],
          rows,
          text
            ? html`<p>No customers match this filter. <a href=${link('customers')}>Show all</a></p>`
            : html`<p>No payments with a customer's name or email yet. <a href=${link('till')}>Take a payment</a></p>`
        )}
        ${pages}`
    }
  }
}
