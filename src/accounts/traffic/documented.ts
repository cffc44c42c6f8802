import type { OperationText } from '../../engine/operations/operation.ts'

const requests = {
  requests: 5_210,
  asked: 410,
  paidRequests: 4_630,
  clientErrors: 12,
  serverErrors: 3,
  upstreamFailures: 2,
  unfinished: 5,
  p50: 4.2,
  p99: 61
}

/** What is measured, as it looks. */
export const exampleTraffic = { ...requests, sales: 380, sats: 3_800 }

/** What OpenAPI says of the gateway's own measurements. */
export const trafficTexts: Readonly<Record<string, OperationText>> = {
  adminGetMetrics: {
    description:
      "Kept by minute for 30 days, from what each process measures of chains that have `metrics`; each writes once a minute, so the last minute is not there yet. Percentiles are those of all requests of the step, known to about a sixth. What was earned to the satoshi is at /api/admin/earnings: a process that is killed takes its last minute's measurements with it.",
    example: {
      responses: {
        200: {
          step: '15m',
          from: '2026-11-21T10:00:00.000Z',
          to: '2026-11-22T10:00:00.000Z',
          total: exampleTraffic,
          points: [{ at: '2026-11-22T09:45:00.000Z', ...exampleTraffic }]
        }
      }
    }
  }
}

/** What OpenAPI says of what is measured of merchants' proxies. */
export const merchantTrafficTexts: Readonly<Record<string, OperationText>> = {
  getTraffic: {
    description:
      "Kept by hour for seven days and by day for 30, from what each process measures of chains that have `metrics`; each writes once a minute. A request counts with the hour in which its minute began. `serverErrors` are the upstream's own and the gateway's; of these `upstreamFailures` are those where the upstream could not be reached, was late, or broke off. Percentiles are known to about a sixth. What was earned is at /api/merchant/earnings.",
    example: {
      responses: {
        200: {
          step: '1h',
          from: '2026-11-21T10:00:00.000Z',
          to: '2026-11-22T11:00:00.000Z',
          total: requests,
          points: [{ at: '2026-11-22T09:00:00.000Z', ...requests }],
          proxies: [{ proxyId: 'weather-3fa9c1', ...requests }]
        }
      }
    }
  }
}
