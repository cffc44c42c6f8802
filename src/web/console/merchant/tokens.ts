import type { VNode } from 'preact'
import type { BalanceEntryView, BalanceView } from '../../../selling/balances/operations.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import type { ConsolePage } from '../page.ts'
import { badge, facts, offsetOf, offsetPager, ROWS, table } from '../parts.ts'
import { may, sats, short, timeOf } from '../words.ts'
import { listOf, revocation } from '../sales.ts'

export const tokensPage: ConsolePage = {
  id: 'getConsoleTokens',
  console: 'merchant',
  path: 'tokens',
  summary: 'Bundles and sessions that buyers have, with what is left of each',
  async show(asked) {
    const { api, link, query } = asked
    const skip = offsetOf(query)
    const balances = await api.get<readonly BalanceView[]>(`/api/merchant/balances${queryOf({ skip, take: ROWS + 1 })}`)
    return {
      title: 'Tokens',
      content: html`
        <p>Prepaid balances that requests draw from. A revoked balance stops working within 5 seconds; the rest is not refunded automatically. Find and revoke single requests under <a href=${link('sales')}>Sales</a>.</p>
        ${table(
          'Balances',
          [
            {
              title: 'Paid for',
              cell: (one: BalanceView) =>
                html`<a href=${link(`tokens/${one.id}`)}><bdi>${one.place}</bdi></a><span class="soft"> ${one.kind}</span>`
            },
            { title: 'Payment hash', cell: one => short(one.id) },
            { title: 'Status', cell: stateOf },
            { title: 'Valid until', cell: one => timeOf(one.expiresAt) },
            { title: 'Remaining', cell: one => msats(one.balanceMsat), isNumber: true },
            { title: 'Used', cell: one => msats(one.spentMsat), isNumber: true },
            {
              title: 'Revoke',
              cell: one =>
                one.isRevoked || one.state !== 'open' || !may(asked, 'editor')
                  ? null
                  : revocation(asked, one.id, 'It stops working, and the rest is not refunded automatically.')
            }
          ],
          balances.slice(0, ROWS),
          html`<p>No balances yet. To bill by usage, add <code>meter</code> to an entry of an API's <code>endpoints</code>: a payment buys a balance that requests draw from.</p>`
        )}
        ${offsetPager(offset => link(`tokens${queryOf({ offset })}`), skip, balances.length > ROWS)}`
    }
  },
  async act({ api, form }) {
    await api.send({ method: 'DELETE', target: `/api/merchant/tokens/${encodeURIComponent(form.get('hash') ?? '')}` })
    return { to: listOf('tokens', form), done: 'revoked' }
  }
}

function stateOf({ state, isRevoked }: BalanceView): VNode {
  return isRevoked ? badge('revoked', 'bad') : badge(state, state === 'open' ? 'good' : 'quiet')
}

/** Uses of one balance. */
export const tokenPage: ConsolePage = {
  id: 'getConsoleToken',
  console: 'merchant',
  path: 'tokens/:balanceId',
  summary: 'List the charges of one balance',
  async show({ api, link, params, query }) {
    const id = params['balanceId'] ?? ''
    const skip = offsetOf(query)
    const entries = await api.get<readonly BalanceEntryView[]>(
      `/api/merchant/balances/${encodeURIComponent(id)}/entries${queryOf({ skip, take: ROWS + 1 })}`
    )
    return {
      title: 'Balance',
      content: html`
        ${facts([['Payment hash', html`<code>${id}</code>`]])}
        ${table(
          'Requests',
          [
            { title: 'When', cell: (one: BalanceEntryView) => timeOf(one.at) },
            { title: 'Model', cell: one => html`<bdi>${one.model ?? '–'}</bdi>` },
            { title: 'Input and output', cell: one => `${one.input ?? '–'} / ${one.output ?? '–'}` },
            { title: 'By', cell: one => one.basis },
            { title: 'Charged', cell: one => msats(one.msat), isNumber: true },
            { title: 'Not covered', cell: one => msats(one.unpaidMsat), isNumber: true }
          ],
          entries.slice(0, ROWS),
          html`<p>No requests have used this balance yet.</p>`
        )}
        ${offsetPager(offset => link(`tokens/${encodeURIComponent(id)}${queryOf({ offset })}`), skip, entries.length > ROWS)}`
    }
  }
}

/** Millisatoshis as exact satoshis, without a double. */
function msats(amount: number): string {
  const rest = String(Math.abs(amount % 1000))
    .padStart(3, '0')
    .replace(/(?<!0)0+$/, '')
  return rest === '' ? sats(Math.trunc(amount / 1000)) : `${Math.trunc(amount / 1000)}.${rest} sats`
}
