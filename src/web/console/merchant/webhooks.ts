import { html } from '../../kit/document.ts'
import type { EndpointView } from '../../../payments/webhooks/endpoint-operations.ts'
import type { DeliveryPage } from '../../../payments/webhooks/schema.ts'
import { expectUnchanged, queryOf } from '../api.ts'
import type { ConsolePage, RedirectTo, PageContent } from '../page.ts'
import { action, badge, choice, field, live, table, offsetOf, offsetPager, ROWS } from '../parts.ts'
import { forRole, may } from '../status.ts'
import { deliveryColumns } from './delivery.ts'
import { chosenEvents, eventTicks, secretShown, tested, eventList } from './webhook.ts'

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
