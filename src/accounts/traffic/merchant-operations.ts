import { Type, type Static } from 'typebox'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import { CSV, type CsvColumns } from '../../engine/formats/csv.ts'
import { keysetQuery, nextPage, periodOf } from '../../engine/operations/keyset.ts'
import { listed, listingHeaders } from '../../engine/operations/listing.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf } from '../merchants/principal.ts'
import { PROXY_STEPS, type ProxyStep, type ProxyTraffic } from './proxy-traffic.ts'
import { STATUS_CLASSES, type KeptRequest, type RequestLogStore } from './request-log.ts'
import { PERIOD_QUERY, REQUESTS_VIEW, requestsOf } from './views.ts'

const TrafficQuery = Type.Object({
  proxyId: Type.Optional(Type.String({ maxLength: 64, description: 'Of one proxy; of all together unless said.' })),
  ...PERIOD_QUERY,
  step: Type.Optional(
    Type.Enum(Object.keys(PROXY_STEPS) as ProxyStep[] /* the object's own keys */, {
      description: '1h within the last seven days, 1d within the last 30; 1h for up to two days unless said.'
    })
  )
})

const ProxyTrafficView = Type.Object(
  {
    step: Type.Enum(Object.keys(PROXY_STEPS) as ProxyStep[] /* the object's own keys */),
    from: isoTime('Begin of the first step.'),
    to: isoTime('End of the last step.'),
    total: Type.Object(REQUESTS_VIEW, { title: 'ProxyRequests' }),
    points: Type.Array(Type.Object({ at: isoTime('Begin of the step.'), ...REQUESTS_VIEW }), {
      description: 'Steps without a request are left out.'
    }),
    proxies: Type.Array(Type.Object({ proxyId: Type.String(), ...REQUESTS_VIEW }), {
      description: 'Each proxy that was asked, the busiest first; removed ones are left out.'
    })
  },
  { title: 'ProxyTraffic' }
)
export type ProxyTrafficView = Static<typeof ProxyTrafficView>

const RequestQuery = Type.Object({
  proxyId: Type.String({ maxLength: 64 }),
  status: Type.Optional(Type.Enum([...STATUS_CLASSES])),
  paid: Type.Optional(Type.Boolean({ description: 'Served for a payment, or not.' })),
  text: Type.Optional(
    Type.String({ maxLength: 200, description: 'Part of the path, in upper or lower case; or the correlation id.' })
  ),
  ...keysetQuery
})

const RequestPage = Type.Object(
  {
    requests: Type.Array(
      Type.Object(
        {
          at: isoTime('When it arrived.'),
          method: Type.String(),
          path: Type.String({ description: 'Without the query; at most 500 characters.' }),
          status: Type.Integer(),
          isPaid: Type.Boolean({ description: 'Served for a payment.' }),
          latencyMs: Type.Integer({ description: 'Until the end of the response.' }),
          correlationId: Type.String({ description: 'As in X-Correlation-Id of the response.' })
        },
        { title: 'ProxyRequest' }
      )
    ),
    next: nextPage
  },
  { title: 'ProxyRequestPage' }
)
export type RequestPage = Static<typeof RequestPage>

const REQUEST_COLUMNS: CsvColumns<KeptRequest> = {
  at: ({ at }) => iso(at),
  method: ({ method }) => method,
  path: ({ path }) => path,
  status: ({ status }) => status,
  isPaid: ({ isPaid }) => isPaid,
  latencyMs: ({ latencyMs }) => latencyMs,
  correlationId: ({ correlationId }) => correlationId
}

export function merchantTrafficOperations(traffic: ProxyTraffic, log: RequestLogStore): AnyOperation[] {
  return [
    defineOperation({
      id: 'listRequests',
      method: 'GET',
      path: '/api/merchant/requests',
      mount: { use: 'merchant-api', chain: 'settings-read' },
      summary: 'The last 1,000 requests of a proxy, newest first, as a page or as CSV',
      description:
        'Without bodies, headers, queries and client addresses. Written every five seconds and kept for 30 days; under heavy load some are left out. Empty for a proxy of another account.',
      tag: 'Merchant',
      access: 'merchant',
      headers: listingHeaders,
      query: RequestQuery,
      responses: { 200: { description: 'One page, newest first.', schema: RequestPage, also: CSV } },
      handle: ({ ctx, query }) => {
        const { proxyId, status = null, paid = null, text = null } = query
        const filter = { merchantId: merchantOf(ctx).id, proxyId, status, paid, text, period: periodOf(query) }
        return listed(ctx, query, {
          name: 'requests',
          columns: REQUEST_COLUMNS,
          read: page => log.list(filter, page),
          keyOf: ({ at, id }) => ({ at, id: String(id) }),
          view: ({ id: _id, at, ...request }) => ({ at: iso(at), ...request })
        })
      }
    }),
    defineOperation({
      id: 'getTraffic',
      method: 'GET',
      path: '/api/merchant/traffic',
      mount: { use: 'merchant-api', chain: 'settings-read' },
      summary:
        "What requests of the account's proxies came to in the last 30 days, by step and by proxy, over all processes",
      description:
        "Kept by hour for seven days and by day for 30, from what each process measures of chains that have `metrics`; each writes once a minute. A request counts with the hour in which its minute began. `serverErrors` are the upstream's own and the gateway's; of these `upstreamFailures` are those where the upstream could not be reached, was late, or broke off. Percentiles are known to about a sixth. What was earned is at /api/merchant/earnings.",
      tag: 'Merchant',
      access: 'merchant',
      query: TrafficQuery,
      responses: { 200: { description: 'Sums of whole steps.', schema: ProxyTrafficView } },
      async handle({ ctx, query }) {
        const { step, from, to, total, points, proxies } = await traffic.sums(
          merchantOf(ctx).id,
          query.proxyId ?? null,
          periodOf(query),
          query.step
        )
        return {
          status: 200,
          body: {
            step,
            from: iso(from),
            to: iso(to),
            total: requestsOf(total),
            points: points.map(point => ({ at: iso(point.at), ...requestsOf(point) })),
            proxies: proxies.map(proxy => ({ proxyId: proxy.route, ...requestsOf(proxy) }))
          }
        }
      }
    })
  ]
}
