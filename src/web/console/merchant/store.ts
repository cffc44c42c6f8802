import type { VNode } from 'preact'
import type { OrderRow, StatsView } from '../../../shop/orders/views.ts'
import type { IntegrationView } from '../../../shop/stores/integration-schema.ts'
import { html } from '../../kit/document.ts'
import { expectUnchanged, queryOf, type AsRead } from '../api.ts'
import type { PageRequest, ConsolePage, RedirectTo, PageContent } from '../page.ts'
import { action, badge, choice, danger, facts, field, figure, table, ticks } from '../parts.ts'
import { ORDER_STATES, orderState, forRole, may } from '../status.ts'
import { count, amountIn, percent, sats, timeOf } from '../words.ts'

const STORE = '/api/merchant/storefront'
const STATUSES = ['PendingPayment', 'PaidAwaitingDetails', 'PaidWithDetails', 'Fulfilled', 'Shipped'] as const
type Store = AsRead<IntegrationView>
type Order = AsRead<OrderRow>

/** Remedies of orders that the shop did not create. */
const WAYS_OUT: Readonly<Record<NonNullable<OrderRow['failure']>['reason'], string>> = {
  sold_out: 'Fill up the stock; the buyer sends the claim again.',
  refused: 'Mend what the shop says; the buyer sends the claim again.',
  store_access: 'Save credentials that the shop takes, below; the buyer sends the claim again.',
  store_closed: 'Open the store again; the buyer sends the claim again.'
}
const PAGE = 50

export const storePage: ConsolePage = {
  id: 'getConsoleStore',
  console: 'merchant',
  path: 'store',
  summary: 'The store: the shop behind it, what stands in its way, its orders and giving money back',
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
        expectUnchanged(form, updatedAt, `as it was saved at ${updatedAt}`)
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

/** A JSON number with exactly the typed digits. */
function exactly(typed: string): ReturnType<typeof JSON.rawJSON> | string {
  return /^(?:0|[1-9]\d{0,8})(?:\.\d{1,2})?$/.test(typed) ? JSON.rawJSON(typed) : typed
}

function inDollars(amount: string): string {
  const [whole = '', cents = ''] = amount.split('.')
  return cents === '' ? whole : `${whole}.${cents.padEnd(2, '0')}`
}

/** A permanent token, or an app's id and secret. */
function credentials(form: URLSearchParams): Readonly<Record<string, string>> {
  const given = ['adminApiToken', 'clientId', 'clientSecret'].map(
    name => [name, (form.get(name) ?? '').trim()] as const
  )
  return Object.fromEntries(given.filter(([, value]) => value !== ''))
}

function credentialFields({ problem }: PageRequest): VNode {
  const secret = { type: 'password', maxlength: 500, autocomplete: 'off' }
  return html`
    ${field({ name: 'adminApiToken', label: 'Token of its Admin API', problem: problem?.fields['adminApiToken'], hint: 'At Shopify: of a custom app of your own. Or leave it empty and give the two below.', attributes: secret })}
    ${field({ name: 'clientId', label: 'Or: client id of your app', problem: problem?.fields['clientId'], attributes: { maxlength: 500, autocomplete: 'off' } })}
    ${field({ name: 'clientSecret', label: 'and its secret', problem: problem?.fields['clientSecret'], attributes: secret })}`
}

function opening(asked: PageRequest): VNode {
  const { form, problem } = asked
  return html`
    <p>You have no store. One sells what your shop has for bitcoin: people and programs buy here, and the order appears in your shop as paid.</p>
    ${forRole(
      asked,
      'editor',
      html`<form method="post" class="form">
        <input type="hidden" name="do" value="open" />
        ${field({ name: 'slug', label: 'Name in addresses', value: form.get('slug') ?? '', problem: problem?.fields['slug'], hint: 'Small letters, digits and dashes; it never changes.', attributes: { required: true, maxlength: 63, placeholder: 'example-books' } })}
        ${field({ name: 'storefrontDomain', label: 'Domain of your shop', value: form.get('storefrontDomain') ?? '', problem: problem?.fields['storefrontDomain'], attributes: { required: true, maxlength: 253, placeholder: 'example.myshopify.com' } })}
        ${credentialFields(asked)}
        <button class="button" type="submit">Open it</button>
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
      ['State', store.isActive ? badge('sells', 'good') : badge('closed', 'quiet')],
      ['Credentials', store.hasAdminApiToken ? badge('saved', 'good') : badge('missing', 'bad')],
      ['For buyers', html`<a href=${`${root}storefront/${store.slug}`}>Look at it</a>`]
    ])}
    <dl class="figures-row">
      ${figure('Checkouts', count(total.totalCheckouts))}
      ${figure('Paid', count(total.paidOrders), percent(total.paidOrders, total.totalCheckouts))}
      ${figure('Earned', sats(total.totalPaidSats), amountIn(String(total.totalPaidUsd), 'USD'))}
      ${figure('Sent', count(total.shipped))}
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
          { title: 'Made', cell: order => timeOf(order.createdAt) },
          { title: 'State', cell: stateOf },
          { title: 'Buyer', cell: order => html`<bdi>${order.email ?? '–'}</bdi>` },
          { title: 'Paid', cell: order => (order.paidSats === null ? '–' : sats(order.paidSats)), isNumber: true },
          { title: 'Money back', cell: order => refundForm(asked, order) }
        ],
        orders,
        html`<p>${status === undefined ? 'No orders yet. Send the address of the store to somebody, or name it in /llms.txt below, where programs find it.' : 'No order is like that.'}</p>`
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
    ...(isActive ? [] : ['The store is closed: buyers find nothing. Open it below.']),
    ...(hasAdminApiToken ? [] : ['The shop cannot be asked: no credentials are saved. Save some below.']),
    ...(failed.length === 0
      ? []
      : [`${failed.length} paid orders on this page were not made by the shop; each says why.`]),
    ...(asked.length === 0 ? [] : [`${asked.length} buyers on this page want their money back.`])
  ]
  return words.length === 0
    ? null
    : html`<section class="notice wait" aria-labelledby="wrong"><h2 id="wrong">What needs you</h2><ul>${words.map(
        each => html`<li>${each}</li>`
      )}</ul></section>`
}

function stateOf({ status, failure, refundRequest, canceledAt, refundedAt }: Order): VNode {
  return html`
    ${refundedAt === undefined ? orderState(status) : badge('money given back', 'quiet')}
    ${canceledAt === undefined ? null : html` ${badge('called off by the shop', 'wait')}`}
    ${failure === undefined || refundedAt !== undefined ? null : html`<p class="soft"><bdi>${failure.message}</bdi> ${WAYS_OUT[failure.reason]}</p>`}
    ${refundRequest === undefined || refundedAt !== undefined ? null : html`<p class="soft">The buyer wants the money back.</p>`}`
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
      <summary>Give it back<span class="unseen"> ${orderId}</span></summary>
      <form method="post" class="form">
        <input type="hidden" name="do" value="refund" /><input type="hidden" name="orderId" value=${orderId} />
        <input type="hidden" name="key" value=${isTyped ? form.get('key') : `${ctx.correlationId}-${orderId}`} />
        ${named(orderId, 'refundAddress', 'To', (isTyped ? form.get('refundAddress') : refundRequest?.refundAddress) ?? '', 'text')}
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
    <section aria-labelledby="settings"><h2 id="settings">How it sells</h2>
      <form method="post" class="form">
        <input type="hidden" name="do" value="settings" />
        <input type="hidden" name="was" value=${shownOf(store)} />
        ${field({ name: 'domesticShippingUsd', label: 'Shipping, in US dollars', value: value('domesticShippingUsd', inDollars(String(store.domesticShippingUsd))), problem: problem?.fields['domesticShippingUsd'], attributes: { inputmode: 'decimal', maxlength: 12, required: true } })}
        ${field({ name: 'claimWindowDays', label: 'Days in which buyers may say where it goes', value: value('claimWindowDays', String(store.claimWindowDays)), problem: problem?.fields['claimWindowDays'], attributes: { inputmode: 'numeric', maxlength: 3, required: true } })}
        ${ticks(
          'is',
          'It',
          [
            ['domesticOnly', `ships within ${store.shopCountry ?? 'its country'} only`],
            ['listInRegistry', 'is named in /llms.txt, where programs look for shops']
          ],
          isTyped ? form.getAll('is') : is,
          'Free shipping and tax places: PUT /api/merchant/storefront.'
        )}
        ${field({ name: 'registryDescription', label: 'What is said of it there', value: value('registryDescription', store.registryDescription ?? ''), problem: problem?.fields['registryDescription'], attributes: { maxlength: 500 } })}
        <button class="button" type="submit">Save</button>
      </form>
    </section>
    <section aria-labelledby="more"><h2 id="more">More</h2>
      ${action('Read shop and catalog anew', { do: 'refresh' })}
      <details open=${form.get('do') === 'credentials'}><summary>Other credentials</summary>
        <form method="post" class="form"><input type="hidden" name="do" value="credentials" /><input type="hidden" name="was" value=${store.updatedAt} />${credentialFields(asked)}<button class="button" type="submit">Save</button></form>
      </details>
      ${
        store.isActive
          ? danger(
              'Close it',
              'Buyers find nothing any more. What was paid can still be claimed.',
              action('Close', { do: 'close', was: stateInWords(store) }, { isDanger: true })
            )
          : action('Open it again', { do: 'resume', was: stateInWords(store) })
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
