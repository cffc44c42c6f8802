import type { VNode } from 'preact'
import type { BalanceEntryView, BalanceView } from '../../../selling/balances/operations.ts'
import { html } from '../../kit/document.ts'
import { rowsOf } from '../lists.ts'
import type { ConsolePage } from '../page.ts'
import { badge, facts, table } from '../parts.ts'
import { may, sats, short, timeOf } from '../words.ts'
import { listOf, revocation } from '../sales.ts'

const BALANCES = '/api/merchant/balances'

export const tokensPage: ConsolePage = {
  id: 'getConsoleTokens',
  path: 'tokens',
  summary: 'Bundles and sessions that buyers have, with what is left of each',
  async show(request) {
    const { link } = request
    const { rows, pages } = await rowsOf<BalanceView>(request, BALANCES, 'tokens')
    return {
      title: 'Tokens',
      content: html`
        <p>Prepaid balances that requests draw from. A revoked balance stops working within 5 seconds; the rest is not refunded automatically. Find and revoke single requests under <a href=${link('sales')}>Sales</a>.</p>
        ${table(
          'Balances',
          [
            [
              'Paid for',
              one =>
                html`<a href=${link(`tokens/${one.id}`)}><bdi>${one.place}</bdi></a><span class="soft"> ${one.kind}</span>`
            ],
            ['Payment hash', one => short(one.id)],
            ['Status', stateOf],
            ['Valid until', one => timeOf(one.expiresAt)],
            ['Remaining', one => msats(one.balanceMsat), 'number'],
            ['Used', one => msats(one.spentMsat), 'number'],
            [
              'Revoke',
              one =>
                one.isRevoked || one.state !== 'open' || !may(request, 'editor')
                  ? null
                  : revocation(request, one.id, 'It stops working, and the rest is not refunded automatically.')
            ]
          ],
          rows,
          html`<p>No balances yet. To bill by usage, add <code>meter</code> to an entry of an API's <code>endpoints</code>: a payment buys a balance that requests draw from.</p>`
        )}
        ${pages}`
    }
  },
  async act({ api, form }) {
    await api.delete(`/api/merchant/tokens/${encodeURIComponent(form.text('hash'))}`)
    return { to: listOf('tokens', form), done: 'revoked' }
  }
}

function stateOf({ state, isRevoked }: BalanceView): VNode {
  return isRevoked ? badge('revoked', 'bad') : badge(state, state === 'open' ? 'good' : 'quiet')
}

export const tokenPage: ConsolePage = {
  id: 'getConsoleToken',
  path: 'tokens/:balanceId',
  summary: 'List the charges of one balance',
  async show(request) {
    const id = request.id('balanceId')
    const { rows, pages } = await rowsOf<BalanceEntryView>(request, `${BALANCES}/${id}/entries`, `tokens/${id}`)
    return {
      title: 'Balance',
      content: html`
        ${facts([['Payment hash', html`<code>${id}</code>`]])}
        ${table(
          'Requests',
          [
            ['When', one => timeOf(one.at)],
            ['Model', one => html`<bdi>${one.model ?? '–'}</bdi>`],
            ['Input and output', one => `${one.input ?? '–'} / ${one.output ?? '–'}`],
            ['By', one => one.basis],
            ['Charged', one => msats(one.msat), 'number'],
            ['Not covered', one => msats(one.unpaidMsat), 'number']
          ],
          rows,
          html`<p>No requests have used this balance yet.</p>`
        )}
        ${pages}`
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
