import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { html } from '../../kit/document.ts'
import type { EndpointView } from '../../../payments/webhooks/endpoint-operations.ts'
import type { TestView, WebhookEvent } from '../../../payments/webhooks/schema.ts'
import { ApiRefusal, expectUnchanged } from '../api.ts'
import type { PageRequest, ConsolePage, RedirectTo, PageContent } from '../page.ts'
import { action, badge, copyable, danger, facts, field, ticks } from '../parts.ts'
import { forRole } from '../status.ts'
import { timeOf } from '../words.ts'

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
