import { html } from '../../pages/document.ts'
import type { DeliveryPage, DeliveryView, TestView } from '../../webhooks/schema.ts'
import { expectUnchanged, queryOf } from '../api.ts'
import type { ConsolePage, GoTo, PageContent } from '../page.ts'
import { action, badge, choice, copyable, field, table, type Tone } from '../parts.ts'
import { forRole, may } from '../role.ts'
import { timeOf } from '../words.ts'

const STATUSES = ['pending', 'delivered', 'failed'] as const
const TONES: Readonly<Record<string, Tone>> = { pending: 'wait', delivered: 'good', failed: 'bad' }
/** Rows of a page. */
const PAGE = 50

interface WebhookSettings {
  readonly webhook: { readonly url: string | null }
}

/** Where events are told, what became of each delivery, and sending one again. */
export const webhooksPage: ConsolePage = {
  id: 'getConsoleWebhooks',
  console: 'merchant',
  path: 'webhooks',
  summary: 'Where events are told, and what became of each delivery',
  async show(asked): Promise<PageContent> {
    const { api, form, link, problem, query } = asked
    const status = STATUSES.find(name => name === query.get('status'))
    const offset = Math.max(0, Math.trunc(Number(query.get('offset')) || 0))
    const [{ webhook }, page] = await Promise.all([
      api.get<WebhookSettings>('/api/merchant/settings'),
      api.get<DeliveryPage>(`/api/merchant/webhooks/deliveries${queryOf({ status, limit: PAGE, offset })}`)
    ])
    const goOn = (to: number) => link(`webhooks${queryOf({ status, offset: to })}`)
    return {
      title: 'Webhooks',
      content: html`
        <section aria-labelledby="where"><h2 id="where">Where events are told</h2>
          <p>${webhook.url === null ? 'No address is set, so nobody is told.' : html`Events are told to <code>${webhook.url}</code>. Another takes its place.`}</p>
          ${forRole(
            asked,
            'editor',
            html`<form method="post" class="form">
            <input type="hidden" name="do" value="url" />
            <input type="hidden" name="was" value=${webhook.url ?? ''} />
            ${field({ name: 'webhookUrl', label: 'Address', value: form.get('webhookUrl') ?? '', problem: problem?.fields['webhookUrl'], hint: 'https; events are signed with a secret that is shown once, when it is made.', attributes: { type: 'url', maxlength: 2048, placeholder: 'https://shop.example.com/webhooks', required: true } })}
            <button class="button" type="submit">Save</button>
          </form>
          ${webhook.url === null ? null : action('Send a test event', { do: 'test' })}`
          )}
        </section>
        <section aria-labelledby="deliveries">
          <div class="heading"><h2 id="deliveries">Deliveries</h2>
            <form method="get" class="filter">
              ${choice('status', 'Status', [['', 'All'], ...STATUSES.map(name => [name, name] as const)], status ?? '')}
              <button class="button small second" type="submit">Show</button>
            </form>
          </div>
          ${table(
            'Deliveries',
            [
              {
                title: 'Event',
                cell: (delivery: DeliveryView) =>
                  html`${delivery.event}<span class="soft"> ${delivery.invoiceId ?? ''}</span>`
              },
              { title: 'When', cell: delivery => timeOf(delivery.createdAt) },
              {
                title: 'Status',
                cell: delivery =>
                  html`${badge(delivery.status, TONES[delivery.status] ?? 'quiet')} <span class="soft">${delivery.attempts} attempts</span>`
              },
              { title: 'Answered', cell: answered },
              {
                title: 'Again',
                cell: delivery =>
                  may(asked, 'editor')
                    ? action('Send again', { do: 'resend', id: delivery.id }, { what: delivery.event })
                    : '–'
              }
            ],
            page.deliveries,
            html`<p>No deliveries yet. Each change of a payment is told to the address above.</p>`
          )}
          <nav class="pager" aria-label="Pages">
            ${offset === 0 ? null : html`<a href=${goOn(Math.max(0, offset - PAGE))}>Newer</a>`}
            ${offset + PAGE >= page.total ? null : html`<a href=${goOn(offset + PAGE)}>Older</a>`}
          </nav>
        </section>`
    }
  },
  async act({ api, form }): Promise<GoTo | PageContent> {
    if (form.get('do') === 'resend') {
      await api.send({
        method: 'POST',
        target: `/api/merchant/webhooks/deliveries/${encodeURIComponent(form.get('id') ?? '')}/resend`
      })
      return { to: 'webhooks', done: 'sent' }
    }
    if (form.get('do') === 'test') {
      const sent = await api.send<TestView>({ method: 'POST', target: '/api/merchant/webhooks/test' })
      return {
        title: sent.isDelivered ? 'The test event arrived' : 'The test event did not arrive',
        content: html`
          <p>${sent.url}: ${sent.error ?? `The endpoint answered ${sent.responseStatus ?? ''}.`}</p>
          ${sent.responseBody === null || sent.responseBody === '' ? null : html`<pre>${sent.responseBody}</pre>`}
          <p><a class="button" href="webhooks">Back to webhooks</a></p>`
      }
    }
    const { webhook } = await api.get<WebhookSettings>('/api/merchant/settings')
    expectUnchanged(form, webhook.url ?? '')
    const { webhookSecret } = await api.send<{ readonly webhookSecret?: string }>({
      method: 'PUT',
      target: '/api/merchant/webhook-url',
      body: { webhookUrl: (form.get('webhookUrl') ?? '').trim() }
    })
    if (webhookSecret === undefined) return { to: 'webhooks', done: 'saved' }
    return {
      title: 'Keep this secret',
      content: html`<p>It signs every event, and is shown this once.</p>${copyable('secret', 'Secret', webhookSecret)}<p><a class="button" href="webhooks">I have kept it</a></p>`
    }
  }
}

function answered({ responseStatus, responseBody, error }: DeliveryView) {
  const words = responseStatus === null ? (error ?? '–') : String(responseStatus)
  return responseBody === null || responseBody === ''
    ? words
    : html`<details><summary>${words}</summary><pre>${responseBody}</pre></details>`
}
