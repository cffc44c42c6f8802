import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { OrderRow, StatsView } from '../../../shop/orders/views.ts'
import type { IntegrationView } from '../../../shop/stores/integration-schema.ts'
import { html } from '../../kit/document.ts'
import { expectUnchanged, queryOf, type AsRead } from '../api.ts'
import type { PageRequest, ConsolePage, RedirectTo, PageContent } from '../page.ts'
import { action, badge, choice, danger, facts, field, figure, table, ticks } from '../parts.ts'
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
const PAGE = 50

export const storePage: ConsolePage = {
  id: 'getConsoleStore',
  console: 'merchant',
  path: 'store',
  summary: 'The store: its shop, open problems, orders and refunds',
  async show(asked): Promise<PageContent> {
    const store = await asked.api.find<IntegrationView>(STORE)
    return { title: 'Store', content: store === null ? opening(asked) : await opened(asked, store) }
  },
  async act({ api, form }): Promise<RedirectTo> {
    const text = (name: string): string => (form.get(name) ?? '').trim()
    const change = async (body: object): Promise<RedirectTo> => {
      await api.send({ method: 'PUT', target: STORE, body })
      return { to: 'store', done: 'saved' }
    }
    switch (form.get('do')) {
      case 'open':
        await api.send({
          method: 'POST',
          target: STORE,
          body: { slug: text('slug'), storefrontDomain: text('storefrontDomain'), ...credentials(form) }
        })
        return { to: 'store', done: 'made' }
      case 'credentials': {
        const { updatedAt } = await api.get<IntegrationView>(STORE)
        expectUnchanged(form, updatedAt, t`as saved at ${updatedAt}`)
        return await change(credentials(form))
      }
      case 'close':
      case 'resume':
        expectUnchanged(form, stateInWords(await api.get<IntegrationView>(STORE)))
        return await change({ isActive: form.get('do') === 'resume' })
      case 'settings':
        expectUnchanged(form, shownOf(await api.get<IntegrationView>(STORE)))
        return await change({
          domesticShippingUsd: exactly(text('domesticShippingUsd')),
          claimWindowDays: numberOf(text('claimWindowDays')),
          domesticOnly: form.getAll('is').includes('domesticOnly'),
          listInRegistry: form.getAll('is').includes('listInRegistry'),
          registryDescription: text('registryDescription') === '' ? null : text('registryDescription')
        })
      case 'refund':
        await api.send({
          method: 'POST',
          target: '/api/refunds',
          // The form's key deduplicates double clicks.
          headers: ['Idempotency-Key', `console-${form.get('key') ?? ''}`],
          body: {
            invoiceId: text('orderId'),
            refundAddress: text('refundAddress'),
            refundType: /^ln/i.test(text('refundAddress')) ? 'ln' : 'chain',
            amountSatoshis: numberOf(text('amountSatoshis'))
          }
        })
        return { to: 'store', done: 'refunded' }
      case 'refresh':
        await api.send({ method: 'POST', target: `${STORE}/refresh-shop-info` })
        await api.send({ method: 'POST', target: `${STORE}/invalidate-cache` })
        return { to: 'store', done: 'saved' }
      default:
        return { to: 'store' }
    }
  }
}

/** Non-numbers are sent verbatim for the API's message. */
function numberOf(typed: string): number | string {
  return /^\d{1,15}$/.test(typed) ? Number(typed) : typed
}

function exactly(typed: string): ReturnType<typeof JSON.rawJSON> | string {
  return /^(?:0|[1-9]\d{0,8})(?:\.\d{1,2})?$/.test(typed) ? JSON.rawJSON(typed) : typed
}

function inDollars(amount: string): string {
  const [whole = '', cents = ''] = amount.split('.')
  return cents === '' ? whole : `${whole}.${cents.padEnd(2, '0')}`
}

function credentials(form: URLSearchParams): Readonly<Record<string, string>> {
  const given = ['adminApiToken', 'clientId', 'clientSecret'].map(
    name => [name, (form.get(name) ?? '').trim()] as const
  )
  return Object.fromEntries(given.filter(([, value]) => value !== ''))
}

function credentialFields({ problem }: PageRequest): VNode {
  const secret = { type: 'password', maxlength: 500, autocomplete: 'off' }
  return html`
    ${field({ name: 'adminApiToken', label: 'Admin API token', problem: problem?.fields['adminApiToken'], hint: 'In Shopify: from a custom app. Or leave empty and fill in the two fields below.', attributes: secret })}
    ${field({ name: 'clientId', label: 'Or: client ID of your app', problem: problem?.fields['clientId'], attributes: { maxlength: 500, autocomplete: 'off' } })}
    ${field({ name: 'clientSecret', label: 'Client secret', problem: problem?.fields['clientSecret'], attributes: secret })}`
}

function opening(asked: PageRequest): VNode {
  const { form, problem } = asked
  return html`
    <p>No store yet. Sell your shop's products for bitcoin: people and programs buy here, and orders appear in your shop as paid.</p>
    ${forRole(
      asked,
      'editor',
      html`<form method="post" class="form">
        <input type="hidden" name="do" value="open" />
        ${field({ name: 'slug', label: 'Name in the URL', value: form.get('slug') ?? '', problem: problem?.fields['slug'], hint: 'Lowercase letters, digits and dashes. Cannot be changed later.', attributes: { required: true, maxlength: 63, placeholder: 'example-books' } })}
        ${field({ name: 'storefrontDomain', label: 'Shop domain', value: form.get('storefrontDomain') ?? '', problem: problem?.fields['storefrontDomain'], attributes: { required: true, maxlength: 253, placeholder: 'example.myshopify.com' } })}
        ${credentialFields(asked)}
        <button class="button" type="submit">Open store</button>
      </form>`
    )}`
}

async function opened(asked: PageRequest, store: Store): Promise<VNode> {
  const { api, link, query, root } = asked
  const status = STATUSES.find(name => name === query.get('status'))
  const page = Math.max(1, Math.trunc(Number(query.get('page')) || 1))
  const [stats, orders] = await Promise.all([
    api.get<StatsView>(`${STORE}/stats`),
    api.get<readonly OrderRow[]>(`${STORE}/orders${queryOf({ status, page, pageSize: PAGE })}`)
  ])
  const { total } = stats
  const goOn = (to: number) => link(`store${queryOf({ status, page: to === 1 ? null : to })}`)
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
        <form method="get" class="filter">
          ${choice('status', 'Status', [['', 'All'], ...STATUSES.map(name => [name, ORDER_STATES[name][0]] as const)], status ?? '')}
          <button class="button small second" type="submit">Show</button>
        </form>
      </div>
      ${table(
        'Orders',
        [
          {
            title: 'Order',
            cell: (order: Order) =>
              html`<code>${order.orderId}</code><span class="soft"> ${order.storefrontOrderNumber ?? ''}</span>`
          },
          { title: 'Created', cell: order => timeOf(order.createdAt) },
          { title: 'Status', cell: stateOf },
          { title: 'Buyer', cell: order => html`<bdi>${order.email ?? '–'}</bdi>` },
          { title: 'Paid', cell: order => (order.paidSats === null ? '–' : sats(order.paidSats)), isNumber: true },
          { title: 'Refund', cell: order => refundForm(asked, order) }
        ],
        orders,
        html`<p>${status === undefined ? t("No orders yet. Share the store's address, or list it in /llms.txt below, where programs find it.") : t('No orders match this filter.')}</p>`
      )}
      <nav class="pager" aria-label="Pages">
        ${page === 1 ? null : html`<a href=${goOn(page - 1)}>Newer</a>`}
        ${orders.length < PAGE ? null : html`<a href=${goOn(page + 1)}>Older</a>`}
      </nav>
    </section>
    ${may(asked, 'editor') ? settings(asked, store) : null}`
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

/** Only for a paid order that the shop rejected or canceled: others are refunded in the shop. */
function refundForm(asked: PageRequest, order: Order): VNode | string {
  const { ctx, form } = asked
  const { orderId, paidSats, status, canceledAt, refundRequest, refundedAt } = order
  const isOurs = status === 'PaidAwaitingDetails' || canceledAt !== undefined
  if (paidSats === null || refundedAt !== undefined || !isOurs || !may(asked, 'editor')) return '–'
  const isTyped = form.get('orderId') === orderId
  return html`
    <details open=${isTyped}>
      <summary>Refund order<span class="unseen"> ${orderId}</span></summary>
      <form method="post" class="form">
        <input type="hidden" name="do" value="refund" /><input type="hidden" name="orderId" value=${orderId} />
        <input type="hidden" name="key" value=${isTyped ? form.get('key') : `${ctx.correlationId}-${orderId}`} />
        ${named(orderId, 'refundAddress', t('Refund address'), (isTyped ? form.get('refundAddress') : refundRequest?.refundAddress) ?? '', 'text')}
        ${named(orderId, 'amountSatoshis', 'Satoshis', (isTyped ? form.get('amountSatoshis') : null) ?? String(paidSats), 'numeric')}
        <button class="button small danger" type="submit">Refund<span class="unseen"> ${orderId}</span></button>
      </form>
    </details>`
}

/** A field with an id unique among the page's forms. */
function named(of: string, name: string, label: string, value: string, mode: 'text' | 'numeric'): VNode {
  const id = `${name}-${of}`
  return html`<div class="input"><label for=${id}>${label}</label><input id=${id} name=${name} value=${value} inputmode=${mode} required maxlength="500" autocomplete="off" spellcheck="false" /></div>`
}

function settings(asked: PageRequest, store: Store): VNode {
  const { form, problem } = asked
  const isTyped = form.get('do') === 'settings'
  const value = (name: string, now: string): string => (isTyped ? (form.get(name) ?? '') : now)
  const is = [store.domesticOnly ? 'domesticOnly' : '', store.listInRegistry ? 'listInRegistry' : '']
  return html`
    <section aria-labelledby="settings"><h2 id="settings">Selling settings</h2>
      <form method="post" class="form">
        <input type="hidden" name="do" value="settings" />
        <input type="hidden" name="was" value=${shownOf(store)} />
        ${field({ name: 'domesticShippingUsd', label: 'Shipping, in US dollars', value: value('domesticShippingUsd', inDollars(String(store.domesticShippingUsd))), problem: problem?.fields['domesticShippingUsd'], attributes: { inputmode: 'decimal', maxlength: 12, required: true } })}
        ${field({ name: 'claimWindowDays', label: 'Days for buyers to enter their address', value: value('claimWindowDays', String(store.claimWindowDays)), problem: problem?.fields['claimWindowDays'], attributes: { inputmode: 'numeric', maxlength: 3, required: true } })}
        ${ticks(
          'is',
          'Options',
          [
            ['domesticOnly', t`ships within ${store.shopCountry ?? t('its country')} only`],
            ['listInRegistry', 'is named in /llms.txt, where programs look for shops']
          ],
          isTyped ? form.getAll('is') : is,
          'Set free shipping and tax locations with PUT /api/merchant/storefront.'
        )}
        ${field({ name: 'registryDescription', label: 'Description in the directory', value: value('registryDescription', store.registryDescription ?? ''), problem: problem?.fields['registryDescription'], attributes: { maxlength: 500 } })}
        <button class="button" type="submit">Save</button>
      </form>
    </section>
    <section aria-labelledby="more"><h2 id="more">More actions</h2>
      ${action('Refresh shop and catalog', { do: 'refresh' })}
      <details open=${form.get('do') === 'credentials'}><summary>Replace credentials</summary>
        <form method="post" class="form"><input type="hidden" name="do" value="credentials" /><input type="hidden" name="was" value=${store.updatedAt} />${credentialFields(asked)}<button class="button" type="submit">Save</button></form>
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
