import { html } from '../../kit/document.ts'
import type { EndpointView } from '../../../payments/webhooks/operations.ts'
import type {
  DeliveryPage,
  TestView,
  WebhookEvent,
  DeliverySentView,
  DeliveryView
} from '../../../payments/webhooks/schema.ts'
import { expectUnchanged, queryOf, ApiRefusal } from '../api.ts'
import type { ConsolePage, PageContent, PageRequest } from '../page.ts'
import {
  action,
  badge,
  fieldsOf,
  live,
  table,
  copyable,
  danger,
  facts,
  ticks,
  type TableColumn,
  type Tone
} from '../parts.ts'
import { filterChoice, numberedPager, oneOf, pageOf, ROWS, viewForm } from '../lists.ts'
import { forRole, may, timeOf } from '../words.ts'
import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'

const STATUSES = ['pending', 'delivered', 'failed'] as const

export const webhooksPage: ConsolePage = {
  id: 'getConsoleWebhooks',
  path: 'webhooks',
  summary: 'Webhook endpoints and deliveries',
  async show(request) {
    const { api, form, link } = request
    const endpoints = await api.get<readonly EndpointView[]>(ENDPOINTS)
    const url = endpoints.find(({ isFirst }) => isFirst)?.url ?? null
    const filter = {
      endpoint: oneOf(
        request,
        'endpoint',
        endpoints.map(({ endpointId }) => endpointId)
      ),
      status: oneOf(request, 'status', STATUSES)
    }
    const end = pageOf(request) * ROWS
    const page = await api.get<DeliveryPage>(`${DELIVERIES}${queryOf({ ...filter, limit: ROWS, offset: end - ROWS })}`)
    return {
      title: 'Webhooks',
      content: html`
        <section aria-labelledby="where"><h2 id="where">Endpoints</h2>
          ${table(
            'Endpoints',
            [
              [
                'Address',
                one =>
                  one.isFirst
                    ? html`<bdi>${one.url}</bdi>`
                    : html`<a href=${link(`webhooks/${one.endpointId}`)}><bdi>${one.url}</bdi></a>`
              ],
              ['Events', eventList],
              ['Status', one => (one.isActive ? badge('active', 'good') : badge('paused', 'quiet'))],
              [
                'Test',
                one =>
                  may(request, 'editor')
                    ? action('Send test event', { do: 'test', id: one.endpointId }, { what: t`to ${one.url}` })
                    : '–'
              ]
            ],
            endpoints,
            html`<p>No endpoints yet. Add one to receive payment and sale events.</p>`
          )}
          ${forRole(
            request,
            'editor',
            html`<form method="post" class="form">
            <input type="hidden" name="do" value="url" />
            <input type="hidden" name="was" value=${url ?? ''} />
            ${fieldsOf(request, 'url')('webhookUrl', url === null ? 'Main endpoint (all events)' : 'Replace main endpoint', { hint: 'Must use https. Events are signed with a secret that is shown once, when you add the endpoint.', type: 'url', maxlength: 2048, placeholder: 'https://shop.example.com/webhooks', required: true })}
            <button class="button" type="submit">Save</button>
          </form>
          <details open=${form.get('do') === 'add'}><summary>Add another endpoint</summary>
            <form method="post" class="form">
              <input type="hidden" name="do" value="add" />
              ${fieldsOf(request, 'add')('url', 'Endpoint URL', { type: 'url', maxlength: 2048, placeholder: 'https://ledger.example.com/boltgate', required: true })}
              ${eventTicks(form.getAll('events'))}
              <button class="button" type="submit">Add endpoint</button>
            </form>
          </details>`
          )}
        </section>
        <section aria-labelledby="deliveries">
          <div class="heading"><h2 id="deliveries">Deliveries</h2>
            ${viewForm(html`${
              endpoints.length < 2
                ? null
                : filterChoice(
                    'endpoint',
                    'Address',
                    endpoints.map(one => [one.endpointId, one.url] as const),
                    filter.endpoint
                  )
            }
              ${filterChoice('status', 'Status', STATUSES, filter.status)}`)}
          </div>
          ${live(
            'list',
            table(
              'Deliveries',
              [
                ...deliveryColumns(request),
                [
                  'Resend',
                  delivery =>
                    may(request, 'editor')
                      ? action('Resend', { do: 'resend', id: delivery.id }, { what: delivery.event })
                      : '–'
                ]
              ],
              page.deliveries,
              html`<p>No deliveries yet. Payment changes are sent to the endpoints above.</p>`
            )
          )}
          ${numberedPager(request, 'webhooks', filter, end < page.total)}
        </section>`
    }
  },
  async act(request) {
    const { api, form } = request
    if (form.get('do') === 'resend') {
      await api.post(`${DELIVERIES}/${encodeURIComponent(form.text('id'))}/resend`)
      return { to: 'webhooks', done: 'sent' }
    }
    if (form.get('do') === 'test') return await tested(request, form.text('id') || 'first')
    if (form.get('do') === 'add') {
      return secretShown(request, await api.post(ENDPOINTS, endpointOf(form)))
    }
    const { webhook } = await api.get<{ readonly webhook: { readonly url: string | null } }>('/api/merchant/settings')
    expectUnchanged(form, webhook.url ?? '')
    const { webhookSecret } = await api.put<{ readonly webhookSecret?: string }>('/api/merchant/webhook-url', {
      webhookUrl: form.text('webhookUrl')
    })
    if (webhookSecret === undefined) return { to: 'webhooks', done: 'saved' }
    return secretShown(request, { webhookSecret })
  }
}

const ENDPOINTS = '/api/merchant/webhooks/endpoints'
const DELIVERIES = '/api/merchant/webhooks/deliveries'
const ALL = '*'
const EVENTS: Readonly<Record<WebhookEvent, string>> = {
  'payment.processing': t('payment detected'),
  'payment.paid': t('payment paid'),
  'payment.underpaid': t('payment underpaid'),
  'payment.expired': t('payment expired'),
  'payment.refunded': t('payment refunded'),
  'l402.challenge.paid': t('API request paid'),
  'storefront.order.failed': t('paid order rejected by the shop')
}

export const webhookPage: ConsolePage = {
  id: 'getConsoleWebhook',
  path: 'webhooks/:endpointId',
  summary: 'One further webhook endpoint: its address, events, test and secret',
  async show(request) {
    const { form, link } = request
    const endpoint = await found(request)
    const { endpointId, url, events, isActive, createdAt } = endpoint
    const typed = form.get('do') === 'change'
    return {
      title: 'Webhook endpoint',
      content: html`
        ${facts([
          ['Address', html`<bdi>${url}</bdi>`],
          ['Events', eventList(endpoint)],
          ['Status', isActive ? badge('active', 'good') : badge('paused', 'quiet')],
          ['Since', timeOf(createdAt)],
          ['Deliveries', html`<a href=${link(`webhooks?endpoint=${endpointId}`)}>Deliveries</a>`]
        ])}
        ${forRole(
          request,
          'editor',
          html`
            ${action('Send test event', { do: 'test' })}
            <section aria-labelledby="change"><h2 id="change">Edit endpoint</h2>
              <form method="post" class="form">
                <input type="hidden" name="do" value="change" />
                <input type="hidden" name="was" value=${shownOf(endpoint)} />
                ${fieldsOf(request, 'change')('url', 'Address', { value: url, type: 'url', maxlength: 2048, required: true })}
                ${eventTicks(typed ? form.getAll('events') : events)}
                <button class="button" type="submit">Save</button>
              </form>
            </section>
            <section aria-labelledby="more"><h2 id="more">More actions</h2>
              ${isActive ? danger('Pause endpoint', 'Pending deliveries fail, and you can resend them after resuming. Events during the pause are not delivered.', action('Pause', { do: 'pause', was: stateInWords(endpoint) })) : action('Continue', { do: 'resume', was: stateInWords(endpoint) })}
              ${danger('Rotate secret', 'All deliveries, including pending ones, are signed with the new secret immediately.', action('Replace', { do: 'rotate' }, { isDanger: true }))}
              ${danger('Remove endpoint', 'Pending deliveries fail. Past deliveries stay in the list.', action('Remove', { do: 'remove' }, { isDanger: true }))}
            </section>`
        )}`
    }
  },
  async act(request) {
    const { api, form } = request
    const id = request.id('endpointId')
    const target = `${ENDPOINTS}/${id}`
    switch (form.get('do')) {
      case 'test':
        return await tested(request, id)
      case 'rotate':
        return secretShown(request, await api.post(`${target}/rotate-secret`))
      case 'remove':
        await api.delete(target)
        return { to: 'webhooks', done: 'removed' }
      case 'pause':
      case 'resume':
        expectUnchanged(form, stateInWords(await found(request)))
        await api.put(target, { isActive: form.get('do') === 'resume' })
        break
      case 'change':
        expectUnchanged(form, shownOf(await found(request)))
        await api.put(target, endpointOf(form))
    }
    return { to: `webhooks/${id}`, done: 'saved' }
  }
}

/** Event checkboxes; none checked means all. */
function eventTicks(chosen: readonly string[]): VNode {
  return ticks(
    'events',
    'Events',
    Object.entries(EVENTS).map(([name, words]) => [name, `${name}: ${t(words)}`] as const),
    chosen,
    'If none is selected, all events are sent, including future ones.'
  )
}

function endpointOf(form: PageRequest['form']): object {
  const events = form.getAll('events')
  return { url: form.text('url'), events: events.length === 0 ? [ALL] : events }
}

function eventList({ events }: EndpointView): string {
  return events.includes(ALL) ? t('everything') : events.join(', ')
}

async function tested({ api, link }: PageRequest, endpointId: string): Promise<PageContent> {
  const { isDelivered, url, error, responseStatus, responseBody } = await api.post<TestView>(
    `${ENDPOINTS}/${encodeURIComponent(endpointId)}/test`
  )
  return {
    title: isDelivered ? t('Test event delivered') : t('Test event failed'),
    content: html`
      <p><bdi>${url}</bdi>: ${error ?? t`The endpoint returned ${responseStatus ?? ''}.`}</p>
      ${responseBody === null || responseBody === '' ? null : html`<pre>${responseBody}</pre>`}
      <p><a class="button" href=${link('webhooks')}>Back to webhooks</a></p>`
  }
}

function secretShown({ link }: PageRequest, { webhookSecret }: { readonly webhookSecret: string }): PageContent {
  return {
    title: 'Save this secret',
    content: html`<p>It signs all events for this endpoint and is shown only once.</p>${copyable('secret', 'Secret', webhookSecret)}<p><a class="button" href=${link('webhooks')}>I have saved it</a></p>`
  }
}

/** @throws ApiRefusal 404 for an unknown endpoint, and for the first, which has no page */
async function found({ api, id }: PageRequest): Promise<EndpointView> {
  const endpoints = await api.get<readonly EndpointView[]>(ENDPOINTS)
  const endpoint = endpoints.find(({ endpointId, isFirst }) => endpointId === id('endpointId') && !isFirst)
  if (endpoint === undefined) throw new ApiRefusal(404, 'Webhook endpoint not found.')
  return endpoint
}

function stateInWords({ isActive }: EndpointView): string {
  return isActive ? 'active' : 'paused'
}

/** For the optimistic lock. */
function shownOf({ url, events }: EndpointView): string {
  return `${url}: ${events.join(', ')}`
}

const TONES: Readonly<Record<string, Tone>> = { pending: 'wait', delivered: 'good', failed: 'bad' }

export function deliveryColumns({ link }: Pick<PageRequest, 'link'>): ReadonlyArray<TableColumn<DeliveryView>> {
  return [
    [
      'Event',
      delivery =>
        html`<a href=${link(`webhooks/deliveries/${delivery.id}`)}>${delivery.event}</a><span class="soft"> ${delivery.invoiceId ?? ''}</span>`
    ],
    ['Endpoint', delivery => html`<bdi>${delivery.url ?? '–'}</bdi>`],
    ['When', delivery => timeOf(delivery.createdAt)],
    [
      'Status',
      ({ attempts, status }) =>
        html`${badge(status, TONES[status] ?? 'quiet')} <span class="soft">${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}</span>`
    ],
    ['Response', response]
  ]
}

function response({ responseStatus, responseBody, error }: DeliveryView) {
  const words = responseStatus === null ? (error ?? '–') : String(responseStatus)
  return responseBody === null || responseBody === ''
    ? words
    : html`<details><summary>${words}</summary><pre>${responseBody}</pre></details>`
}

export const deliveryPage: ConsolePage = {
  id: 'getConsoleDelivery',
  path: 'webhooks/deliveries/:deliveryId',
  summary: 'One webhook as it was sent, and what was answered',
  async show(request) {
    const sent = await request.api.get<DeliverySentView>(`${DELIVERIES}/${request.id('deliveryId')}`)
    const { event, url, status, attempts, responseStatus, responseBody, error } = sent
    return {
      title: t`Webhook ${event}`,
      content: html`
        ${facts([
          ['Status', badge(status, TONES[status] ?? 'quiet')],
          ['Endpoint', html`<bdi>${url ?? '–'}</bdi>`],
          ['Created', timeOf(sent.createdAt)],
          ['Attempts', String(attempts)],
          ['Last attempt', timeOf(sent.lastAttemptAt)],
          ['Next attempt', timeOf(sent.nextAttemptAt)],
          ['ID (X-Correlation-Id)', html`<code>${sent.id}</code>`]
        ])}
        ${forRole(request, 'editor', action('Resend', { do: 'resend' }, { what: event }))}
        <section aria-labelledby="sent"><h2 id="sent">Request</h2><pre tabindex="0">${indented(sent.body)}</pre></section>
        <section aria-labelledby="answered"><h2 id="answered">Response</h2>
          <p>${responseStatus === null ? (error ?? t('No response yet.')) : `Status ${responseStatus}.`}</p>
          ${responseBody === null || responseBody === '' ? null : html`<pre tabindex="0">${responseBody}</pre>`}
        </section>`
    }
  },
  async act({ api, form, id }) {
    const to = `webhooks/deliveries/${id('deliveryId')}`
    if (form.get('do') !== 'resend') return { to }
    await api.post(`/api/merchant/${to}/resend`)
    return { to, done: 'sent' }
  }
}

/** One line per member, each verbatim as sent. */
function indented(body: string): string {
  return body
    .replaceAll(/,(?="\w+":)/g, ',\n ')
    .replace(/^\{/, '{\n ')
    .replace(/\}$/, '\n}')
}
