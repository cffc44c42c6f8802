import { Type } from 'typebox'
import { defineOperation, type AnyOperation } from '../gateway/operation.ts'
import type { Clock } from './clock.ts'
import type { Database, Health } from './database.ts'

const Status = Type.Enum(['Healthy', 'Degraded', 'Unhealthy'])
const NullableText = Type.Unsafe<string | null>({ type: ['string', 'null'] })

/** Health report (contract, Other resources). Durations are milliseconds. */
const HealthReport = Type.Object({
  status: Status,
  totalDuration: Type.Number(),
  checks: Type.Array(Type.Object({
    name: Type.String(),
    status: Status,
    duration: Type.Number(),
    description: NullableText,
    exception: NullableText,
    tags: Type.Array(Type.String())
  }))
})

const STATUS = { healthy: 'Healthy', degraded: 'Degraded', unhealthy: 'Unhealthy' } as const

const DESCRIPTION: Readonly<Record<Health['status'], string | null>> = {
  healthy: null,
  degraded: 'The database answers slowly.',
  unhealthy: 'The database does not answer.'
}

/** Whether the gateway may be given traffic; false while it starts or drains. */
export interface Readiness {
  ready (): boolean
}

/** `GET /health` (contract, Health; decision 22) and `GET /ready` for probes. */
export function healthOperations (database: Database, clock: Clock, readiness: Readiness): AnyOperation[] {
  const health = defineOperation({
    id: 'getHealth',
    method: 'GET',
    path: '/health',
    summary: 'Health report',
    tag: 'health',
    access: 'public',
    answers: {
      200: { description: 'Healthy or degraded.', schema: HealthReport },
      503: { description: 'Unhealthy.', schema: HealthReport }
    },
    async handle () {
      const begun = clock.monotonic()
      const found = await database.health()
      const status = STATUS[found.status]
      return {
        status: found.status === 'unhealthy' ? 503 : 200,
        headers: found.status === 'unhealthy' ? ['Cache-Control', 'no-store', 'Retry-After', '5'] : ['Cache-Control', 'no-store'],
        body: {
          status,
          // The check may have been begun by somebody who asked a moment before.
          totalDuration: rounded(Math.max(clock.monotonic() - begun, found.ms)),
          checks: [{ name: 'database', status, duration: rounded(found.ms), description: DESCRIPTION[found.status], exception: found.error, tags: ['db', 'sql'] }]
        }
      }
    }
  })
  const ready = defineOperation({
    id: 'getReady',
    method: 'GET',
    path: '/ready',
    summary: 'Whether the gateway takes traffic',
    tag: 'health',
    access: 'public',
    answers: {
      200: { description: 'Ready.', schema: Type.Object({ ready: Type.Boolean() }) },
      401: { description: 'A key was sent, and it is not the admin key.' },
      503: { description: 'Starting, draining, or without its database.', schema: Type.Object({ ready: Type.Boolean() }) }
    },
    async handle () {
      const ok = readiness.ready() && (await database.health()).status !== 'unhealthy'
      return { status: ok ? 200 : 503, body: { ready: ok }, headers: ok ? ['Cache-Control', 'no-store'] : ['Cache-Control', 'no-store', 'Retry-After', '2'] }
    }
  })
  return [health, ready]
}

function rounded (ms: number): number {
  return Math.round(ms * 1000) / 1000
}
