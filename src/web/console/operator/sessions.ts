import { t } from '../../../engine/formats/language.ts'
import type { PrepaidSessionView } from '../../../selling/sessions/operations.ts'
import { html } from '../../kit/document.ts'
import { rowsOf, viewForm, viewOf } from '../lists.ts'
import { status, sats, short, timeOf } from '../words.ts'
import type { ConsolePage, PageRequest } from '../page.ts'
import { action, badge, danger, facts, fieldsOf, table, steps, input } from '../parts.ts'
import type { ComponentChildren, VNode } from 'preact'

const VIEWS = [
  ['stuck', 'Refund needs attention'],
  ['open', 'Open'],
  ['all', 'All']
] as const

function whole(msat: number): string {
  return sats(Math.floor(msat / 1000))
}

function refundOf({ closedAt, refund }: PrepaidSessionView) {
  if (closedAt === null) return badge('open', 'good')
  if (refund.status !== null) return status(refund.status)
  return badge(refund.retryAt === null ? 'not started' : 'retrying', 'wait')
}

export const operatorSessions: ConsolePage = {
  id: 'getOperatorSessions',
  path: 'sessions',
  summary: 'Prepaid sessions, and refunds that need attention',
  async show(request) {
    const { link } = request
    const view = viewOf(request, 'view', VIEWS)
    const { rows, pages } = await rowsOf<PrepaidSessionView>(request, '/api/admin/sessions', 'sessions', { view })
    return {
      title: 'Sessions',
      content: html`
        ${viewForm(input('view', 'View', { options: VIEWS, value: view }))}
        ${table(
          'Sessions',
          [
            ['Session', one => html`<a href=${link(`sessions/${one.id}`)}>${short(one.id)}</a>`],
            ['Opened', one => timeOf(one.openedAt)],
            ['Closed', one => timeOf(one.closedAt)],
            ['Refund', refundOf],
            ['Remaining', one => whole(one.balanceMsat), 'number'],
            ['Refunded', one => sats(one.refund.satoshis), 'number']
          ],
          rows,
          view === 'stuck'
            ? html`<p>No refunds need attention. Sessions whose refund failed or has an unknown outcome appear here.</p>`
            : html`<p>No sessions yet. Add <code>sessions</code> to a route to sell them.</p>`
        )}
        ${pages}`
    }
  }
}

export const operatorSession: ConsolePage = {
  id: 'getOperatorSession',
  path: 'sessions/:sessionId',
  summary: 'One prepaid session, and settling its refund manually',
  async show(request) {
    const found = await request.api.get<PrepaidSessionView>(`/api/admin/sessions/${request.id('sessionId')}`)
    const { refund } = found
    const isUnsent = found.closedAt !== null && (refund.status === null || refund.status === 'failed')
    const isSettleable = isUnsent || refund.status === 'pending' || refund.status === 'processing'
    return {
      title: 'Session',
      content: html`
        ${facts([
          ['ID', html`<code>${found.id}</code>`],
          ['Deposited', whole(found.depositedMsat)],
          ['Used', whole(found.spentMsat)],
          ['Remaining', whole(found.balanceMsat)],
          ['Opened', timeOf(found.openedAt)],
          ['Last used', timeOf(found.usedAt)],
          found.closedAt === null
            ? ['Expires', timeOf(found.expiresAt)]
            : ['Closed', html`${timeOf(found.closedAt)} by ${found.closedBy ?? t('unknown')}`],
          ['Refund', refundOf(found)],
          ['Refunded', t`${sats(refund.satoshis)}, fee ${sats(refund.feeSatoshis)}`],
          ['Sent', timeOf(refund.begunAt)],
          ['Payout reference', refund.reference ?? '–'],
          ['Provider payout ID', refund.providerPayoutId ?? '–'],
          ['Failure reason', refund.fault ?? '–'],
          ['Next attempt', timeOf(refund.retryAt)],
          ...(refund.settledBy === null
            ? []
            : ([['Settled', html`by <bdi>${refund.settledBy}</bdi>: <bdi>${refund.settledWhy ?? ''}</bdi>`]] as const))
        ])}
        ${found.closedAt === null ? danger('Close session', 'The balance is refunded to its return invoice. The client must open a new session.', action('Close session', { do: 'close' }, { isDanger: true })) : null}
        ${
          isUnsent
            ? html`<section aria-labelledby="again"><h2 id="again">Retry refund</h2>
                <p>The refund was not sent. Leave the invoice empty to use the session's return invoice.</p>
                <form method="post" class="form">
                  <input type="hidden" name="do" value="again" />
                  ${fieldsOf(request, 'again')('returnInvoice', 'New invoice from the client, without an amount', { maxlength: 4096 })}
                  <button class="button" type="submit">Retry refund</button>
                </form></section>`
            : null
        }
        ${
          isSettleable && refund.settledBy === null
            ? settlementSection(
                request,
                {
                  provider: t('your provider'),
                  amount: sats(refund.satoshis),
                  sentAt: refund.begunAt,
                  references: [
                    ['Payout reference', html`<code>${refund.reference ?? '–'}</code>`],
                    ['Provider payout ID', html`<code>${refund.providerPayoutId ?? '–'}</code>`]
                  ]
                },
                {
                  words: 'Rejected while the provider may still be sending it. “Not sent” ends its retries.'
                }
              )
            : null
        }`
    }
  },
  async act({ api, form, id }) {
    const to = `sessions/${id('sessionId')}`
    const target = `/api/admin/${to}`
    switch (form.get('do')) {
      case 'close':
        await api.post(`${target}/close`)
        break
      case 'again': {
        const returnInvoice = form.text('returnInvoice')
        await api.post(`${target}/refund`, returnInvoice === '' ? {} : { returnInvoice })
        return { to, done: 'refunded' }
      }
      case 'settle':
        await api.post(`${target}/settlement`, settlementOf(form))
    }
    return { to, done: 'saved' }
  }
}

interface PayoutFacts {
  readonly provider: string
  readonly references: ReadonlyArray<readonly [string, ComponentChildren]>
  readonly amount: string
  readonly sentAt: string | null
}

/** Steps that settle a payout with a lost answer. `more`: additional content of a page. */
export function settlementSection(
  request: Pick<PageRequest, 'ctx' | 'form' | 'problem'>,
  { amount, provider, references, sentAt }: PayoutFacts,
  more: { readonly words?: string; readonly fields?: VNode }
): VNode {
  const { ctx, form } = request
  const by = ctx.principal?.id === 'admin' ? '' : ctx.principal?.id
  const field = fieldsOf(request, 'settle')
  return html`<section aria-labelledby="settle"><h2 id="settle">Settle manually</h2>
    <form method="post" class="form">
      <input type="hidden" name="do" value="settle" />
      ${steps([
        [
          'Find the payout at the provider',
          html`<p>Sign in at ${provider} and look for an outgoing payment of ${amount}, sent around ${timeOf(sentAt)}.</p>
            ${facts(references)}`
        ],
        [
          'Record what you found',
          html`<p>Choose “Not sent” only if the provider lists no such payment, or lists it as failed. This records the outcome and sends nothing.${more.words === undefined ? '' : ` ${more.words}`}</p>
            ${input('outcome', 'Outcome', {
              options: [
                ['sent', 'Sent'],
                ['not-sent', 'Not sent']
              ],
              value: form.get('outcome')
            })}
            ${more.fields}`
        ],
        [
          'Sign and settle',
          html`${field('settledBy', 'Settled by', { value: by, required: true, maxlength: 200 })}
            ${field('reason', 'Evidence', { hint: "For example, the provider's payment ID and status. It is kept with the refund.", required: true, maxlength: 1000 })}
            <button class="button" type="submit">Settle</button>
            <p class="soft">“Sent” counts as confirmed by the provider. After “Not sent” nothing is sent automatically; a new refund can be made.</p>`
        ]
      ])}
    </form></section>`
}

export function settlementOf(form: PageRequest['form']): object {
  return { outcome: form.get('outcome'), settledBy: form.text('settledBy'), reason: form.text('reason') }
}
