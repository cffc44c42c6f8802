import { Type, type Static } from 'typebox'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import { periodOf } from '../../engine/operations/keyset.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf } from '../merchants/principal.ts'
import { PROXY_STEPS, type ProxyStep, type ProxyTraffic } from './proxy-traffic.ts'
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

export function merchantTrafficOperations(traffic: ProxyTraffic): AnyOperation[] {
  return [
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
