import { Type, type Static } from 'typebox'
import { isoTime, iso } from '../../engine/formats/iso-time.ts'
import { periodOf } from '../../engine/operations/keyset.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import type { Measured } from './measured.ts'
import { TRAFFIC_STEPS, type TrafficStep, type Traffic } from './traffic.ts'
import { PERIOD_QUERY, REQUESTS_VIEW, requestsOf } from './views.ts'

export const TrafficView = Type.Object(
  {
    ...REQUESTS_VIEW,
    sales: Type.Integer({ description: 'What was sold: each payment once, however it was learnt.' }),
    sats: Type.Integer({ description: 'Satoshis of these sales.' })
  },
  { title: 'Traffic' }
)
export type TrafficView = Static<typeof TrafficView>

export const RouteTrafficView = Type.Object({ route: Type.String(), ...REQUESTS_VIEW }, { title: 'RouteTraffic' })

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
  route: Type.Optional(Type.String({ maxLength: 300, description: 'Of one route alone, by its name.' }))
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
  return { ...requestsOf(sums), sales: sums.sales, sats: sums.sats }
}

export function routeTrafficView(route: string, sums: Measured): Static<typeof RouteTrafficView> {
  return { route, ...requestsOf(sums) }
}

export function trafficOperations(traffic: Traffic): AnyOperation[] {
  return [
    defineOperation({
      id: 'adminGetMetrics',
      method: 'GET',
      path: '/api/admin/metrics',
      mount: { use: 'operator-api', chain: 'admin' },
      summary: 'What went through the gateway in the last 30 days, by step or by route, over all processes',
      description:
        "Kept by minute for 30 days, from what each process measures of chains that have `metrics`; each writes once a minute, so the last minute is not there yet. Percentiles are those of all requests of the step, known to about a sixth. What was earned to the satoshi is at /api/admin/earnings: a process that is killed takes its last minute's measurements with it.",
      tag: 'Admin',
      access: 'admin',
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
