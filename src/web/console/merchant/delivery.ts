import { t } from '../../../engine/formats/language.ts'
import { html } from '../../kit/document.ts'
import type { DeliverySentView, DeliveryView } from '../../../payments/webhooks/schema.ts'
import type { PageRequest, ConsolePage, RedirectTo, PageContent } from '../page.ts'
import { action, badge, facts, type TableColumn, type Tone } from '../parts.ts'
import { forRole } from '../status.ts'
import { timeOf } from '../words.ts'

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
