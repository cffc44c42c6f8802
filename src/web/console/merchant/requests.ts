import { t } from '../../../engine/formats/language.ts'
import type { RequestPage } from '../../../accounts/traffic/operations.ts'
import type { ProxyView } from '../../../payments/proxies/schema.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import type { ConsolePage } from '../page.ts'
import { badge, choice, field, live, pager, table, type Tone } from '../parts.ts'
import { latency, timeOf } from '../words.ts'

const STATUSES = ['2xx', '3xx', '4xx', '5xx'] as const

function tone(status: number): Tone {
  return status >= 500 ? 'bad' : status >= 400 ? 'wait' : 'good'
}

/** Request log of an API; the newest page follows it. */
export const requestsPage: ConsolePage = {
  id: 'getConsoleApiRequests',
  console: 'merchant',
  path: 'apis/:proxyId/requests',
  summary: 'The last 1,000 requests of an API, by status, payment and path',
  async show({ api, link, params, query, root }) {
    const proxyId = params['proxyId'] ?? ''
    const proxy = await api.get<ProxyView>(`/api/proxy/${encodeURIComponent(proxyId)}`)
    const after = query.get('after')
    const filter = {
      status: STATUSES.find(name => name === query.get('status')),
      paid: ['true', 'false'].find(name => name === query.get('paid')),
      text: query.get('text')
    }
    const here = link(`apis/${proxy.proxyId}/requests${queryOf(filter)}`)
    const target = `/api/merchant/requests${queryOf({ proxyId: proxy.proxyId, ...filter, after })}`
    const { requests, next } = await api.get<RequestPage>(target)
    return {
      title: t`Requests: ${proxy.name}`,
      content: html`
        <p><a href=${link(`apis/${proxy.proxyId}`)}><bdi>${proxy.name}</bdi></a>. The last 1,000 requests of up to 30 days, without bodies, queries and client addresses.</p>
        <form method="get" class="filter" role="search" aria-label="Requests">
          ${choice('status', 'Status', [['', 'All'], ...STATUSES.map(name => [name, name] as const)], filter.status ?? '')}
          ${choice(
            'paid',
            'Payment',
            [
              ['', 'All'],
              ['true', 'Paid'],
              ['false', 'Unpaid']
            ],
            filter.paid ?? ''
          )}
          ${field({ name: 'text', label: 'Path or correlation ID', value: filter.text ?? '', attributes: { type: 'search', maxlength: 200 } })}
          <button class="button small" type="submit">Show</button>
          <a class="button small second" href=${`${root}api/merchant/requests${queryOf({ proxyId: proxy.proxyId, ...filter, format: 'csv' })}`} download="requests.csv">CSV</a>
        </form>
        ${live(
          'list',
          table(
            'Requests',
            [
              { title: 'Time', cell: request => timeOf(request.at) },
              { title: 'Request', cell: ({ method, path }) => html`<code>${method} <bdi>${path}</bdi></code>` },
              { title: 'Status', cell: ({ status }) => badge(String(status), tone(status)) },
              { title: 'Payment', cell: ({ isPaid }) => (isPaid ? 'Paid' : 'Unpaid') },
              { title: 'Latency', cell: ({ latencyMs }) => latency(latencyMs), isNumber: true },
              { title: 'Correlation ID', cell: ({ correlationId }) => html`<code>${correlationId}</code>` }
            ],
            requests,
            html`<p>No requests match. New requests appear within ten seconds.</p>`
          )
        )}
        ${pager(here, next, query)}`
    }
  }
}
