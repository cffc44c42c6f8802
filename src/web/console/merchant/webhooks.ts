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
import type { ConsolePage, RedirectTo, PageContent, PageRequest } from '../page.ts'
import {
  action,
  badge,
  choice,
  field,
  live,
  table,
  offsetOf,
  offsetPager,
  ROWS,
  copyable,
  danger,
  facts,
  ticks,
  type TableColumn,
  type Tone
} from '../parts.ts'
import { forRole, may, timeOf } from '../words.ts'
import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'

const STATUSES = ['pending', 'delivered', 'failed'] as const

export const webhooksPage: ConsolePage = {
  id: 'getConsoleWebhooks',
  console: 'merchant',
  path: 'webhooks',
  summary: 'Webhook endpoints and deliveries',
  async show(asked): Promise<PageContent> {
    const { api, form, link, problem, query } = asked
    const status = STATUSES.find(name => name === query.get('status'))
    const offset = offsetOf(query)
    const endpoints = await api.get<readonly EndpointView[]>('/api/merchant/webhooks/endpoints')
    const url = endpoints.find(({ isFirst }) => isFirst)?.url ?? null
    const endpoint = endpoints.find(({ endpointId }) => endpointId === query.get('endpoint'))?.endpointId
    const page = await api.get<DeliveryPage>(
      `/api/merchant/webhooks/deliveries${queryOf({ endpoint, status, limit: ROWS, offset })}`
    )
    const goOn = (to: number) => link(`webhooks${queryOf({ endpoint, status, offset: to })}`)
    return {
      title: 'Webhooks',
      content: html`
        <section aria-labelledby="where"><h2 id="where">Endpoints</h2>
          ${table(
            'Endpoints',
            [
              {
                title: 'Address',
                cell: (one: EndpointView) =>
                  one.isFirst
                    ? html`<bdi>${one.url}</bdi>`
                    : html`<a href=${link(`webhooks/${one.endpointId}`)}><bdi>${one.url}</bdi></a>`
              },
              { title: 'Events', cell: eventList },
              { title: 'Status', cell: one => (one.isActive ? badge('active', 'good') : badge('paused', 'quiet')) },
              {
                title: 'Test',
                cell: one =>
                  may(asked, 'editor')
                    ? action('Send test event', { do: 'test', id: one.endpointId }, { what: `to ${one.url}` })
                    : '–'
              }
            ],
            endpoints,
            html`<p>No endpoints yet. Add one to receive payment and sale events.</p>`
          )}
          ${forRole(
            asked,
            'editor',
            html`<form method="post" class="form">
            <input type="hidden" name="do" value="url" />
            <input type="hidden" name="was" value=${url ?? ''} />
            ${field({ name: 'webhookUrl', label: url === null ? 'Main endpoint (all events)' : 'Replace main endpoint', value: form.get('webhookUrl') ?? '', problem: problem?.fields['webhookUrl'], hint: 'Must use https. Events are signed with a secret that is shown once, when you add the endpoint.', attributes: { type: 'url', maxlength: 2048, placeholder: 'https://shop.example.com/webhooks', required: true } })}
            <button class="button" type="submit">Save</button>
          </form>
          <details open=${form.get('do') === 'add'}><summary>Add another endpoint</summary>
            <form method="post" class="form">
              <input type="hidden" name="do" value="add" />
              ${field({ name: 'url', label: 'Endpoint URL', value: form.get('url') ?? '', problem: problem?.fields['url'], attributes: { type: 'url', maxlength: 2048, placeholder: 'https://ledger.example.com/boltgate', required: true } })}
              ${eventTicks(form.getAll('events'))}
              <button class="button" type="submit">Add endpoint</button>
            </form>
          </details>`
          )}
        </section>
        <section aria-labelledby="deliveries">
          <div class="heading"><h2 id="deliveries">Deliveries</h2>
            <form method="get" class="filter">
              ${endpoints.length < 2 ? null : choice('endpoint', 'Address', [['', 'All'], ...endpoints.map(one => [one.endpointId, one.url] as const)], endpoint ?? '')}
              ${choice('status', 'Status', [['', 'All'], ...STATUSES.map(name => [name, name] as const)], status ?? '')}
              <button class="button small second" type="submit">Show</button>
            </form>
          </div>
          ${live(
            'list',
            table(
              'Deliveries',
              [
                ...deliveryColumns(asked),
                {
                  title: 'Resend',
                  cell: delivery =>
                    may(asked, 'editor')
                      ? action('Resend', { do: 'resend', id: delivery.id }, { what: delivery.event })
                      : '–'
                }
              ],
              page.deliveries,
              html`<p>No deliveries yet. Payment changes are sent to the endpoints above.</p>`
            )
          )}
          ${offsetPager(goOn, offset, offset + ROWS < page.total)}
        </section>`
    }
  },
  async act(asked): Promise<RedirectTo | PageContent> {
    const { api, form } = asked
    if (form.get('do') === 'resend') {
      await api.send({
        method: 'POST',
        target: `/api/merchant/webhooks/deliveries/${encodeURIComponent(form.get('id') ?? '')}/resend`
      })
      return { to: 'webhooks', done: 'sent' }
    }
    if (form.get('do') === 'test') return await tested(asked, form.get('id') ?? 'first')
    if (form.get('do') === 'add') {
      const body = { url: (form.get('url') ?? '').trim(), events: chosenEvents(form) }
      return secretShown(asked, await api.send({ method: 'POST', target: '/api/merchant/webhooks/endpoints', body }))
    }
    const { webhook } = await api.get<{ readonly webhook: { readonly url: string | null } }>('/api/merchant/settings')
    expectUnchanged(form, webhook.url ?? '')
    const { webhookSecret } = await api.send<{ readonly webhookSecret?: string }>({
      method: 'PUT',
      target: '/api/merchant/webhook-url',
      body: { webhookUrl: (form.get('webhookUrl') ?? '').trim() }
    })
    if (webhookSecret === undefined) return { to: 'webhooks', done: 'saved' }
    return secretShown(asked, { webhookSecret })
  }
}

const ENDPOINTS = '/api/merchant/webhooks/endpoints'
const ALL = '*'
const EVENTS: Readonly<Record<WebhookEvent, string>> = {
  'payment.processing': 'payment detected',
  'payment.paid': 'payment paid',
  'payment.underpaid': 'payment underpaid',
  'payment.expired': 'payment expired',
  'payment.refunded': 'payment refunded',
  'l402.challenge.paid': 'API request paid',
  'storefront.order.failed': 'paid order rejected by the shop'
}

/** One further endpoint: address, events, test, secret and removal. */
export const webhookPage: ConsolePage = {
  id: 'getConsoleWebhook',
  console: 'merchant',
  path: 'webhooks/:endpointId',
  summary: 'One further webhook endpoint: its address, events, test and secret',
  async show(asked): Promise<PageContent> {
    const { form, link, problem } = asked
    const endpoint = await found(asked)
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
          asked,
          'editor',
          html`
            ${action('Send test event', { do: 'test' })}
            <section aria-labelledby="change"><h2 id="change">Edit endpoint</h2>
              <form method="post" class="form">
                <input type="hidden" name="do" value="change" />
                <input type="hidden" name="was" value=${shownOf(endpoint)} />
                ${field({ name: 'url', label: 'Address', value: typed ? (form.get('url') ?? '') : url, problem: problem?.fields['url'], attributes: { type: 'url', maxlength: 2048, required: true } })}
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
  async act(asked): Promise<RedirectTo | PageContent> {
    const { api, form, params } = asked
    const id = params['endpointId'] ?? ''
    const target = `${ENDPOINTS}/${encodeURIComponent(id)}`
    switch (form.get('do')) {
      case 'test':
        return await tested(asked, id)
      case 'rotate':
        return secretShown(asked, await api.send({ method: 'POST', target: `${target}/rotate-secret` }))
      case 'remove':
        await api.send({ method: 'DELETE', target })
        return { to: 'webhooks', done: 'removed' }
      case 'pause':
      case 'resume':
        expectUnchanged(form, stateInWords(await found(asked)))
        await api.send({ method: 'PUT', target, body: { isActive: form.get('do') === 'resume' } })
        break
      case 'change':
        expectUnchanged(form, shownOf(await found(asked)))
        await api.send({
          method: 'PUT',
          target,
          body: { url: (form.get('url') ?? '').trim(), events: chosenEvents(form) }
        })
    }
    return { to: `webhooks/${id}`, done: 'saved' }
  }
}

/** Event checkboxes; none checked means all. */
export function eventTicks(chosen: readonly string[]): VNode {
  return ticks(
    'events',
    'Events',
    Object.entries(EVENTS).map(([name, words]) => [name, `${name}: ${words}`] as const),
    chosen,
    'If none is selected, all events are sent, including future ones.'
  )
}

export function chosenEvents(form: URLSearchParams): readonly string[] {
  const events = form.getAll('events')
  return events.length === 0 ? [ALL] : events
}

export function eventList({ events }: EndpointView): string {
  return events.includes(ALL) ? 'everything' : events.join(', ')
}

/** Sends a test event and shows its result. */
export async function tested({ api, link }: PageRequest, endpointId: string): Promise<PageContent> {
  const target = `${ENDPOINTS}/${encodeURIComponent(endpointId)}/test`
  const { isDelivered, url, error, responseStatus, responseBody } = await api.send<TestView>({ method: 'POST', target })
  return {
    title: isDelivered ? t('Test event delivered') : t('Test event failed'),
    content: html`
      <p><bdi>${url}</bdi>: ${error ?? t`The endpoint returned ${responseStatus ?? ''}.`}</p>
      ${responseBody === null || responseBody === '' ? null : html`<pre>${responseBody}</pre>`}
      <p><a class="button" href=${link('webhooks')}>Back to webhooks</a></p>`
  }
}

export function secretShown({ link }: PageRequest, { webhookSecret }: { readonly webhookSecret: string }): PageContent {
  return {
    title: 'Save this secret',
    content: html`<p>It signs all events for this endpoint and is shown only once.</p>${copyable('secret', 'Secret', webhookSecret)}<p><a class="button" href=${link('webhooks')}>I have saved it</a></p>`
  }
}

/** @throws ApiRefusal 404 for an unknown endpoint, and for the first, which has no page */
async function found({ api, params }: PageRequest): Promise<EndpointView> {
  const endpoints = await api.get<readonly EndpointView[]>(ENDPOINTS)
  const endpoint = endpoints.find(({ endpointId, isFirst }) => endpointId === params['endpointId'] && !isFirst)
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
    {
      title: 'Event',
      cell: delivery =>
        html`<a href=${link(`webhooks/deliveries/${delivery.id}`)}>${delivery.event}</a><span class="soft"> ${delivery.invoiceId ?? ''}</span>`
    },
    { title: 'Endpoint', cell: delivery => html`<bdi>${delivery.url ?? '–'}</bdi>` },
    { title: 'When', cell: delivery => timeOf(delivery.createdAt) },
    {
      title: 'Status',
      cell: ({ attempts, status }) =>
        html`${badge(status, TONES[status] ?? 'quiet')} <span class="soft">${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}</span>`
    },
    { title: 'Response', cell: response }
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
  console: 'merchant',
  path: 'webhooks/deliveries/:deliveryId',
  summary: 'One webhook as it was sent, and what was answered',
  async show(asked): Promise<PageContent> {
    const id = encodeURIComponent(asked.params['deliveryId'] ?? '')
    const sent = await asked.api.get<DeliverySentView>(`/api/merchant/webhooks/deliveries/${id}`)
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
        ${forRole(asked, 'editor', action('Resend', { do: 'resend' }, { what: event }))}
        <section aria-labelledby="sent"><h2 id="sent">Request</h2><pre tabindex="0">${indented(sent.body)}</pre></section>
        <section aria-labelledby="answered"><h2 id="answered">Response</h2>
          <p>${responseStatus === null ? (error ?? t('No response yet.')) : `Status ${responseStatus}.`}</p>
          ${responseBody === null || responseBody === '' ? null : html`<pre tabindex="0">${responseBody}</pre>`}
        </section>`
    }
  },
  async act({ api, form, params }): Promise<RedirectTo> {
    const to = `webhooks/deliveries/${params['deliveryId'] ?? ''}`
    if (form.get('do') !== 'resend') return { to }
    const target = `/api/merchant/webhooks/deliveries/${encodeURIComponent(params['deliveryId'] ?? '')}/resend`
    await api.send({ method: 'POST', target })
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
