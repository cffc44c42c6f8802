import { Type, type Static } from 'typebox'
import { isoTime, iso, isoTimeQuery } from '../../engine/formats/iso-time.ts'
import { periodOf, keysetQuery, nextPage, listed, listingHeaders } from '../../engine/operations/keyset.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { PROXY_STEPS, TRAFFIC_STEPS, type ProxyStep, type TrafficStep, type Traffic } from './traffic.ts'
import { CSV, memberColumns, type CsvColumns } from '../../engine/formats/csv.ts'
import { merchantOf, merchantOperation, adminOperation, settingsRead } from '../merchants/principal.ts'
import { STATUS_CLASSES, type KeptRequest, type RequestLogStore } from './request-log.ts'
import { eachNumber, percentileMs, REQUEST_NUMBERS, type Measured } from './measured.ts'

const milliseconds = (share: string) =>
  Type.Unsafe<number | null>({
    type: ['number', 'null'],
    description: `Milliseconds within which ${share} of the requests were over; null where there were none.`
  })

const REQUESTS_VIEW = {
  requests: Type.Integer({ description: 'Completed requests.' }),
  asked: Type.Integer({ description: 'Of these, 402 responses, without those to probes.' }),
  paidRequests: Type.Integer({ description: 'Of these, paid.' }),
  clientErrors: Type.Integer({ description: 'Of these, 4xx responses other than 402.' }),
  serverErrors: Type.Integer({ description: 'Of these, 5xx responses.' }),
  upstreamFailures: Type.Integer({
    description: 'Of these, upstream failures: unreachable, timed out or aborted.'
  }),
  unfinished: Type.Integer({ description: 'Of these, responses that did not reach the client completely.' }),
  p50: milliseconds('half'),
  p99: milliseconds('99 of 100')
}

function requestsOf(sums: Measured) {
  return {
    ...eachNumber(REQUEST_NUMBERS, name => sums[name]),
    p50: percentileMs(sums, 0.5),
    p99: percentileMs(sums, 0.99)
  }
}

const PERIOD_QUERY = {
  from: Type.Optional(isoTimeQuery('ISO 8601; the whole step that it is in. A day before `to` unless said.')),
  to: Type.Optional(isoTimeQuery('ISO 8601; the step before it is the last. Now unless said.'))
}

const PROBES_VIEW = {
  probes: Type.Integer({
    description:
      "Of the requests, 402 responses that are no demand: to crawlers of directories, HEAD, quotes, and the operator's own tests."
  })
}

export const TrafficView = Type.Object(
  {
    ...REQUESTS_VIEW,
    ...PROBES_VIEW,
    sales: Type.Integer({ description: 'Sales. Each payment counts once.' }),
    sats: Type.Integer({ description: 'Satoshis of these sales.' })
  },
  { title: 'Traffic' }
)
export type TrafficView = Static<typeof TrafficView>

export const RouteTrafficView = Type.Object(
  { route: Type.String(), ...REQUESTS_VIEW, ...PROBES_VIEW },
  { title: 'RouteTraffic' }
)

const MetricsQuery = Type.Object({
  ...PERIOD_QUERY,
  step: Type.Optional(
    Type.Enum(Object.keys(TRAFFIC_STEPS) as TrafficStep[] /* the object's own keys */, {
      description: 'Length of a step: at most 1500 of them, of=route at most 100. One that fits the period unless said.'
    })
  ),
  of: Type.Optional(
    Type.Enum(['time', 'route'], { description: 'time: `points` by step; route: `routes` over the whole period.' })
  ),
  route: Type.Optional(Type.String({ maxLength: 300, description: 'Filters by route name.' }))
})

const MetricsView = Type.Object(
  {
    step: Type.String(),
    from: isoTime('Begin of the first step.'),
    to: isoTime('End of the last step.'),
    total: TrafficView,
    points: Type.Optional(
      Type.Array(Type.Object({ at: isoTime('Begin of the step.'), ...TrafficView.properties }), {
        description: 'Steps without a request are left out.'
      })
    ),
    routes: Type.Optional(
      Type.Array(RouteTrafficView, { description: 'The busiest first; `…` has those beyond 200 of a minute.' })
    )
  },
  { title: 'GatewayMetrics' }
)
export type MetricsView = Static<typeof MetricsView>

export function trafficView(sums: Measured): Static<typeof TrafficView> {
  return { ...requestsOf(sums), probes: sums.probes, sales: sums.sales, sats: sums.sats }
}

export function routeTrafficView(route: string, sums: Measured): Static<typeof RouteTrafficView> {
  return { route, ...requestsOf(sums), probes: sums.probes }
}

export function trafficOperations(traffic: Traffic): AnyOperation[] {
  return [
    defineOperation({
      ...adminOperation,
      id: 'adminGetMetrics',
      method: 'GET',
      path: '/api/admin/metrics',
      summary: 'Traffic of all processes in the last 30 days, by time or by route',
      description:
        "Kept by minute for 30 days, from what each process measures of chains that have `metrics`; each writes once a minute, so the last minute is not there yet. Percentiles are those of all requests of the step, known to about a sixth. What was earned to the satoshi is at /api/admin/earnings: a process that is killed takes its last minute's measurements with it.",
      query: MetricsQuery,
      responses: { 200: { description: 'Sums of whole steps.', schema: MetricsView } },
      async handle({ query }) {
        const period = periodOf(query)
        if (query.of === 'route') {
          const { step, from, to, total, routes } = await traffic.byRoute(period, query.step)
          const shown = routes.filter(({ route }) => query.route === undefined || route === query.route)
          return {
            status: 200,
            body: {
              step,
              from: iso(from),
              to: iso(to),
              total: trafficView(total),
              routes: shown.map(({ route, ...sums }) => routeTrafficView(route, sums))
            }
          }
        }
        const { step, from, to, total, points } = await traffic.sums(period, query.step, query.route)
        return {
          status: 200,
          body: {
            step,
            from: iso(from),
            to: iso(to),
            total: trafficView(total),
            points: points.map(({ at, ...sums }) => ({ at: iso(at), ...trafficView(sums) }))
          }
        }
      }
    })
  ]
}

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
      description: 'Each proxy with requests, the busiest first, without removed ones.'
    })
  },
  { title: 'ProxyTraffic' }
)
export type ProxyTrafficView = Static<typeof ProxyTrafficView>

const RequestQuery = Type.Object({
  proxyId: Type.String({ maxLength: 64 }),
  status: Type.Optional(Type.Enum([...STATUS_CLASSES])),
  paid: Type.Optional(Type.Boolean({ description: 'Filters by paid or unpaid.' })),
  text: Type.Optional(
    Type.String({ maxLength: 200, description: 'Searches the path, case-insensitive; or equals the correlation ID.' })
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
          isPaid: Type.Boolean({ description: 'Paid.' }),
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
  ...memberColumns<KeptRequest>('method', 'path', 'status', 'isPaid', 'latencyMs', 'correlationId')
}

export function merchantTrafficOperations(traffic: Traffic, log: RequestLogStore): AnyOperation[] {
  return [
    defineOperation({
      ...settingsRead,
      id: 'listRequests',
      path: '/api/merchant/requests',
      summary: 'List the last 1,000 requests of a proxy, newest first, as JSON pages or CSV',
      description:
        'Without bodies, headers, queries and client addresses. Written every five seconds and kept for 30 days; under heavy load some are left out. Empty for a proxy of another account.',
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
    merchantOperation({
      ...settingsRead,
      id: 'getTraffic',
      path: '/api/merchant/traffic',
      summary:
        "What requests of the account's proxies came to in the last 30 days, by step and by proxy, over all processes",
      description:
        "Kept by hour for seven days and by day for 30, from what each process measures of chains that have `metrics`; each writes once a minute. A request counts with the hour in which its minute began. `serverErrors` are the upstream's own and the gateway's; of these `upstreamFailures` are those where the upstream could not be reached, was late, or broke off. Percentiles are known to about a sixth. What was earned is at /api/merchant/earnings.",
      query: TrafficQuery,
      responses: { 200: { description: 'Sums of whole steps.', schema: ProxyTrafficView } },
      async handle({ merchant, query }) {
        const { step, from, to, total, points, proxies } = await traffic.ofProxies(
          merchant.id,
          query.proxyId ?? null,
          periodOf(query),
          query.step
        )
        return {
          step,
          from: iso(from),
          to: iso(to),
          total: requestsOf(total),
          points: points.map(point => ({ at: iso(point.at), ...requestsOf(point) })),
          proxies: proxies.map(proxy => ({ proxyId: proxy.route, ...requestsOf(proxy) }))
        }
      }
    })
  ]
}
