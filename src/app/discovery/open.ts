import type { Database } from '../../platform/database/database.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { healthOperations, type Readiness } from './health.ts'
import { discoveryOperations, type DiscoveryFacts } from './operations.ts'
import { FORBIDDEN } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { isLocalCaller } from '../../engine/message/caller.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'

export function openDiscovery(
  dependencies: DiscoveryFacts &
    Readiness & {
      readonly clock: Clock
      readonly database: Database
      readonly metrics: Metrics
      readonly production: boolean
    }
) {
  const { clock, database, metrics } = dependencies
  return {
    operations: [
      ...healthOperations(database, clock, dependencies),
      metricsOperation(metrics, dependencies.production),
      ...discoveryOperations(dependencies)
    ]
  }
}

/**
 * `GET /metrics` in Prometheus' text form, for the admin key and, outside production, for local callers (decision 23:
 * revenue figures are not public). In production a local reverse proxy may relay external clients undetectably. Needs
 * `auth` as optional admin in its chain, so that wrong keys are counted. Concurrent scrapes share one rendering.
 */
export function metricsOperation(metrics: Metrics, isProduction: boolean): AnyOperation {
  let rendering: Promise<string> | null = null
  const render = (): Promise<string> =>
    (rendering ??= metrics.render().finally(() => {
      rendering = null
    }))
  return defineOperation({
    id: 'getMetrics',
    method: 'GET',
    path: '/metrics',
    mount: { use: 'service', chain: 'service-probe' },
    summary: 'Measurements for Prometheus',
    description:
      'Includes sales figures. Needs the admin key, except for callers on the same machine outside production.',
    tag: 'health',
    access: 'public',
    responses: {
      200: { description: "All measurements in Prometheus' text form.", mediaType: metrics.contentType },
      401: 'A key was sent, and it is not the admin key.',
      403: 'The admin key is missing.'
    },
    async handle({ ctx }) {
      if (ctx.principal?.kind !== 'admin' && (isProduction || !isLocalCaller(ctx)))
        throw new LongError(
          FORBIDDEN,
          'Forbidden',
          isProduction
            ? 'Send the admin key in X-API-Key.'
            : "Send the admin key in X-API-Key, or call from the gateway's own machine."
        )
      return { status: 200, body: await render() }
    }
  })
}
