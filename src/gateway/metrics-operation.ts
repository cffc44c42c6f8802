import type { Metrics } from '../telemetry/metrics.ts'
import { LongError } from './errors.ts'
import { isLocalCaller } from './local-caller.ts'
import { defineOperation, type AnyOperation } from './operation.ts'

/**
 * `GET /metrics` in Prometheus' text form, for callers on the gateway's own machine and for the admin key (decision 23:
 * revenue figures are not public). Its chain has `auth` as admin, optional, in front, so that a wrong key is counted
 * there.
 */
export function metricsOperation(metrics: Metrics): AnyOperation {
  return defineOperation({
    id: 'getMetrics',
    method: 'GET',
    path: '/metrics',
    mount: { use: 'service', chain: 'service-probe' },
    summary: 'Measurements for Prometheus',
    description:
      'Figures of sales are among them, so it is not for everybody. For a scraper on another machine send the admin key.',
    example: {
      responses: {
        200: '# HELP process_cpu_user_seconds_total Total user CPU time spent in seconds.\n# TYPE process_cpu_user_seconds_total counter\n'
      }
    },
    tag: 'health',
    access: 'public',
    responses: {
      200: { description: "All measurements in Prometheus' text form.", mediaType: metrics.contentType },
      401: { description: 'A key was sent, and it is not the admin key.' },
      403: { description: 'The caller is neither on this machine nor the admin.' }
    },
    async handle({ ctx }) {
      const admin = ctx.principal !== null && ctx.principal.kind === 'admin'
      if (!admin && !isLocalCaller(ctx)) {
        throw new LongError(
          403,
          'Forbidden',
          "Measurements are given on the gateway's own machine, or with the admin key in X-API-Key."
        )
      }
      return { status: 200, headers: ['Cache-Control', 'no-store'], body: await metrics.render() }
    }
  })
}
