import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { OrderRow, StatsView } from '../../../shop/orders/views.ts'
import type { IntegrationView } from '../../../shop/stores/integration-schema.ts'
import { html } from '../../kit/document.ts'
import { expectUnchanged, queryOf, type AsRead } from '../api.ts'
import type { PageRequest, ConsolePage } from '../page.ts'
import { filterChoice, numberedPager, oneOf, pageOf, ROWS, viewForm } from '../lists.ts'
import { action, badge, danger, facts, fieldsOf, figure, table, ticks, input } from '../parts.ts'
import { sendRefund } from './refunds.ts'
import { ORDER_STATES, orderState, forRole, may, count, amountIn, percent, sats, timeOf } from '../words.ts'

const STORE = '/api/merchant/storefront'
const STATUSES = ['PendingPayment', 'PaidAwaitingDetails', 'PaidWithDetails', 'Fulfilled', 'Shipped'] as const
type Store = AsRead<IntegrationView>
type Order = AsRead<OrderRow>

/** Remedies of orders that the shop did not create. */
const WAYS_OUT: Readonly<Record<NonNullable<OrderRow['failure']>['reason'], string>> = {
  sold_out: 'Restock; the buyer then submits the address again.',
  refused: 'Fix what the shop reports; the buyer then submits the address again.',
  store_access: 'Save valid credentials below; the buyer then submits the address again.',
  store_closed: 'Reopen the store; the buyer then submits the address again.'
}

export const storePage: ConsolePage = {
  id: 'getConsoleStore',
  path: 'store',
  summary: 'The store: its shop, open problems, orders and refunds',
  async show(request) {
    const store = await request.api.find<IntegrationView>(STORE)
    return { title: 'Store', content: store === null ? opening(request) : await opened(request, store) }
  },
  async act({ api, form }) {
    switch (form.get('do')) {
      case 'open':
        await api.post(STORE, {
          slug: form.text('slug'),
          storefrontDomain: form.text('storefrontDomain'),
          ...credentials(form)
        })
        return { to: 'store', done: 'made' }
      case 'credentials': {
        const { updatedAt } = await api.get<IntegrationView>(STORE)
        expectUnchanged(form, updatedAt, t`as saved at ${updatedAt}`)
        await api.put(STORE, credentials(form))
        break
      }
      case 'close':
      case 'resume':
        expectUnchanged(form, stateInWords(await api.get<IntegrationView>(STORE)))
        await api.put(STORE, { isActive: form.get('do') === 'resume' })
        break
      case 'settings':
        expectUnchanged(form, shownOf(await api.get<IntegrationView>(STORE)))
        await api.put(STORE, {
          domesticShippingUsd: exactly(form.text('domesticShippingUsd')),
          claimWindowDays: form.number('claimWindowDays'),
          domesticOnly: form.getAll('is').includes('domesticOnly'),
          listInRegistry: form.getAll('is').includes('listInRegistry'),
          registryDescription: form.text('registryDescription') || null
        })
        break
      case 'refund':
        await sendRefund({ api, form }, form.text('orderId'))
        return { to: 'store', done: 'refunded' }
      case 'refresh':
        await api.post(`${STORE}/refresh-shop-info`)
        await api.post(`${STORE}/invalidate-cache`)
        break
      default:
        return { to: 'store' }
    }
    return { to: 'store', done: 'saved' }
  }
}

function exactly(typed: string): ReturnType<typeof JSON.rawJSON> | string {
  return /^(?:0|[1-9]\d{0,8})(?:\.\d{1,2})?$/.test(typed) ? JSON.rawJSON(typed) : typed
}

function inDollars(amount: string): string {
  const [whole = '', cents = ''] = amount.split('.')
  return cents === '' ? whole : `${whole}.${cents.padEnd(2, '0')}`
}

function credentials(form: PageRequest['form']): Readonly<Record<string, string>> {
  const given = ['adminApiToken', 'clientId', 'clientSecret'].map(name => [name, form.text(name)] as const)
  return Object.fromEntries(given.filter(([, value]) => value !== ''))
}

function credentialFields({ problem }: PageRequest): VNode {
  const secret = { type: 'password', maxlength: 500, autocomplete: 'off' }
  return html`
    ${input('adminApiToken', 'Admin API token', { problem: problem?.fields['adminApiToken'], hint: 'In Shopify: from a custom app. Or leave empty and fill in the two fields below.', ...secret })}
    ${input('clientId', 'Or: client ID of your app', { problem: problem?.fields['clientId'], maxlength: 500, autocomplete: 'off' })}
    ${input('clientSecret', 'Client secret', { problem: problem?.fields['clientSecret'], ...secret })}`
}

function opening(request: PageRequest): VNode {
  const field = fieldsOf(request, 'open')
  return html`
    <p>No store yet. Sell your shop's products for bitcoin: people and programs buy here, and orders appear in your shop as paid.</p>
    ${forRole(
      request,
      'editor',
      html`<form method="post" class="form">
        <input type="hidden" name="do" value="open" />
        ${field('slug', 'Name in the URL', { hint: 'Lowercase letters, digits and dashes. Cannot be changed later.', required: true, maxlength: 63, placeholder: 'example-books' })}
        ${field('storefrontDomain', 'Shop domain', { required: true, maxlength: 253, placeholder: 'example.myshopify.com' })}
        ${credentialFields(request)}
        <button class="button" type="submit">Open store</button>
      </form>`
    )}`
}

async function opened(request: PageRequest, store: Store): Promise<VNode> {
  const { api, root } = request
  const status = oneOf(request, 'status', STATUSES)
  const [stats, orders] = await Promise.all([
    api.get<StatsView>(`${STORE}/stats`),
    api.get<readonly OrderRow[]>(`${STORE}/orders${queryOf({ status, page: pageOf(request), pageSize: ROWS })}`)
  ])
  const { total } = stats
  return html`
    ${problems(store, orders)}
    ${facts([
      ['Shop', html`<bdi>${store.shopName ?? store.storefrontDomain}</bdi>`],
      ['Domain', html`<bdi>${store.storefrontDomain}</bdi>`],
      ['Status', store.isActive ? badge('active', 'good') : badge('closed', 'quiet')],
      ['Credentials', store.hasAdminApiToken ? badge('saved', 'good') : badge('missing', 'bad')],
      ['For buyers', html`<a href=${`${root}storefront/${store.slug}`}>View store</a>`]
    ])}
    <dl class="figures-row">
      ${figure('Checkouts', count(total.totalCheckouts))}
      ${figure('Paid', count(total.paidOrders), percent(total.paidOrders, total.totalCheckouts))}
      ${figure('Earnings', sats(total.totalPaidSats), amountIn(String(total.totalPaidUsd), 'USD'))}
      ${figure('Shipped', count(total.shipped))}
    </dl>
    <section aria-labelledby="orders">
      <div class="heading"><h2 id="orders">Orders</h2>
        ${viewForm(
          filterChoice(
            'status',
            'Status',
            STATUSES.map(name => [name, ORDER_STATES[name][0]] as const),
            status
          )
        )}
      </div>
      ${table(
        'Orders',
        [
          [
            'Order',
            order => html`<code>${order.orderId}</code><span class="soft"> ${order.storefrontOrderNumber ?? ''}</span>`
          ],
          ['Created', order => timeOf(order.createdAt)],
          ['Status', stateOf],
          ['Buyer', order => html`<bdi>${order.email ?? '–'}</bdi>`],
          ['Paid', order => (order.paidSats === null ? '–' : sats(order.paidSats)), 'number'],
          ['Refund', order => refundForm(request, order)]
        ],
        orders,
        html`<p>${status === undefined ? t("No orders yet. Share the store's address, or list it in /llms.txt below, where programs find it.") : t('No orders match this filter.')}</p>`
      )}
      ${numberedPager(request, 'store', { status }, orders.length === ROWS)}
    </section>
    ${may(request, 'editor') ? settings(request, store) : null}`
}

/** Problems that block sales, with their solutions. */
function problems({ isActive, hasAdminApiToken }: Store, orders: readonly Order[]): VNode | null {
  const failed = orders.filter(({ failure, refundedAt }) => failure !== undefined && refundedAt === undefined)
  const asked = orders.filter(
    ({ refundRequest, refundedAt }) => refundRequest !== undefined && refundedAt === undefined
  )
  const words = [
    ...(isActive ? [] : ['The store is closed, so buyers cannot buy. Reopen it below.']),
    ...(hasAdminApiToken ? [] : ['No shop credentials are saved. Save them below.']),
    ...(failed.length === 0
      ? []
      : [t`The shop did not accept ${failed.length} paid orders on this page; each shows the reason.`]),
    ...(asked.length === 0 ? [] : [t`${asked.length} buyers on this page requested a refund.`])
  ]
  return words.length === 0
    ? null
    : html`<section class="notice wait" aria-labelledby="wrong"><h2 id="wrong">Needs attention</h2><ul>${words.map(
        each => html`<li>${each}</li>`
      )}</ul></section>`
}

function stateOf({ status, failure, refundRequest, canceledAt, refundedAt }: Order): VNode {
  return html`
    ${refundedAt === undefined ? orderState(status) : badge('refunded', 'quiet')}
    ${canceledAt === undefined ? null : html` ${badge('canceled by the shop', 'wait')}`}
    ${failure === undefined || refundedAt !== undefined ? null : html`<p class="soft"><bdi>${failure.message}</bdi> ${WAYS_OUT[failure.reason]}</p>`}
    ${refundRequest === undefined || refundedAt !== undefined ? null : html`<p class="soft">The buyer requested a refund.</p>`}`
}

const REFUND_FIELD = { required: true, maxlength: 500, autocomplete: 'off', spellcheck: 'false' } as const

/** Only for a paid order that the shop rejected or canceled: others are refunded in the shop. */
function refundForm(request: PageRequest, order: Order): VNode | string {
  const { ctx, form } = request
  const { orderId, paidSats, status, canceledAt, refundRequest, refundedAt } = order
  const isOurs = status === 'PaidAwaitingDetails' || canceledAt !== undefined
  if (paidSats === null || refundedAt !== undefined || !isOurs || !may(request, 'editor')) return '–'
  const isTyped = form.get('orderId') === orderId
  const field = fieldsOf(request, isTyped ? 'refund' : 'another refund')
  return html`
    <details open=${isTyped}>
      <summary>Refund order<span class="unseen"> ${orderId}</span></summary>
      <form method="post" class="form">
        <input type="hidden" name="do" value="refund" /><input type="hidden" name="orderId" value=${orderId} />
        <input type="hidden" name="key" value=${isTyped ? form.get('key') : `${ctx.correlationId}-${orderId}`} />
        ${field('refundAddress', 'Refund address', { value: refundRequest?.refundAddress, id: `refundAddress-${orderId}`, ...REFUND_FIELD, inputmode: 'text' })}
        ${field('amountSatoshis', 'Satoshis', { value: paidSats, id: `amountSatoshis-${orderId}`, ...REFUND_FIELD, inputmode: 'numeric' })}
        <button class="button small danger" type="submit">Refund<span class="unseen"> ${orderId}</span></button>
      </form>
    </details>`
}

function settings(request: PageRequest, store: Store): VNode {
  const { form } = request
  const field = fieldsOf(request, 'settings')
  const isTyped = form.get('do') === 'settings'
  const is = [store.domesticOnly ? 'domesticOnly' : '', store.listInRegistry ? 'listInRegistry' : '']
  return html`
    <section aria-labelledby="settings"><h2 id="settings">Selling settings</h2>
      <form method="post" class="form">
        <input type="hidden" name="do" value="settings" />
        <input type="hidden" name="was" value=${shownOf(store)} />
        ${field('domesticShippingUsd', 'Shipping, in US dollars', { value: inDollars(String(store.domesticShippingUsd)), inputmode: 'decimal', maxlength: 12, required: true })}
        ${field('claimWindowDays', 'Days for buyers to enter their address', { value: store.claimWindowDays, inputmode: 'numeric', maxlength: 3, required: true })}
        ${ticks(
          'is',
          'Options',
          [
            ['domesticOnly', t`ships within ${store.shopCountry ?? t('its country')} only`],
            ['listInRegistry', t('is named in /llms.txt, where programs look for shops')]
          ],
          isTyped ? form.getAll('is') : is,
          'Set free shipping and tax locations with PUT /api/merchant/storefront.'
        )}
        ${field('registryDescription', 'Description in the directory', { value: store.registryDescription, maxlength: 500 })}
        <button class="button" type="submit">Save</button>
      </form>
    </section>
    <section aria-labelledby="more"><h2 id="more">More actions</h2>
      ${action('Refresh shop and catalog', { do: 'refresh' })}
      <details open=${form.get('do') === 'credentials'}><summary>Replace credentials</summary>
        <form method="post" class="form"><input type="hidden" name="do" value="credentials" /><input type="hidden" name="was" value=${store.updatedAt} />${credentialFields(request)}<button class="button" type="submit">Save</button></form>
      </details>
      ${
        store.isActive
          ? danger(
              'Close store',
              'Buyers can no longer buy. Paid orders can still be claimed.',
              action('Close', { do: 'close', was: stateInWords(store) }, { isDanger: true })
            )
          : action('Reopen', { do: 'resume', was: stateInWords(store) })
      }
    </section>`
}

function stateInWords({ isActive }: Store): string {
  return isActive ? 'open' : 'closed'
}

/** For the optimistic lock. */
function shownOf(store: Store): string {
  const { domesticShippingUsd, claimWindowDays, domesticOnly, listInRegistry, registryDescription } = store
  return [domesticShippingUsd, claimWindowDays, domesticOnly, listInRegistry, registryDescription].join(', ')
}
