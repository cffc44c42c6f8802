import { nullableInteger, nullableText } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, Health } from '../../platform/database/database.ts'

const Status = Type.Enum(['Healthy', 'Degraded', 'Unhealthy'])

/** Health report (contract, Other resources). Durations in milliseconds. */
const HealthReport = Type.Object(
  {
    status: Status,
    totalDuration: Type.Number(),
    checks: Type.Array(
      Type.Object({
        name: Type.String(),
        status: Status,
        duration: Type.Number(),
        description: nullableText(),
        exception: nullableText(),
        tags: Type.Array(Type.String())
      })
    )
  },
  { title: 'HealthReport' }
)

const STATUS = { healthy: 'Healthy', degraded: 'Degraded', unhealthy: 'Unhealthy' } as const

const DESCRIPTION: Readonly<Record<Health['status'], string | null>> = {
  healthy: null,
  degraded: 'The database answers slowly.',
  unhealthy: 'The database does not answer, or cannot be written.'
}

/** Whether the gateway can take traffic; false while starting or draining. */
export interface Readiness {
  ready(): boolean
  budgets?(): Promise<readonly Budget[]>
  /** Providers of the operator's invoices, in order; omitted or empty for a single one. */
  makers?(): ReadonlyArray<Omit<Maker, 'since'> & { readonly since: number | null }>
}

const Budget = Type.Object(
  {
    provider: Type.String(),
    limit: Type.String({
      description: 'A limit that the provider counts for our address, or `account` for those of single keys.'
    }),
    exhausted: Type.Boolean({
      description: 'No invoice can be made for anonymous clients at the moment; for accounts: of some key.'
    }),
    retryAfter: nullableInteger('Seconds until one can.')
  },
  { title: 'ProviderBudget' }
)
type Budget = Static<typeof Budget>

const Maker = Type.Object(
  {
    slot: Type.String(),
    provider: Type.String(),
    use: Type.Enum(['used', 'standby', 'passed over'], {
      description: '`used`: the next invoice is asked of it; `standby`: it is asked where that fails.'
    }),
    reason: nullableText('Why it is passed over.'),
    since: nullableText({ format: 'date-time' })
  },
  { title: 'InvoiceMaker' }
)
type Maker = Static<typeof Maker>

const Ready = Type.Object(
  {
    ready: Type.Boolean(),
    providers: Type.Optional(
      Type.Array(Budget, {
        description:
          'Budgets of calls to payment providers. One that is used up recovers automatically and does not affect readiness.'
      })
    ),
    makers: Type.Optional(
      Type.Array(Maker, {
        description:
          "Who makes the operator's invoices, in order, where there are several. One that is passed over takes nothing from being ready."
      })
    )
  },
  { title: 'Readiness' }
)

/** `GET /health` (contract, Health; decision 22) and `GET /ready` for probes. */
export function healthOperations(database: Database, clock: Clock, readiness: Readiness): AnyOperation[] {
  const health = defineOperation({
    id: 'getHealth',
    method: 'GET',
    path: '/health',
    mount: { use: 'service', chain: 'service-public' },
    summary: 'Health report',
    description:
      'For people and monitors: how the parts are that the gateway needs. Probes of an orchestrator ask /ready.',
    tag: 'health',
    access: 'public',
    responses: {
      200: { description: 'Healthy or degraded.', schema: HealthReport },
      503: { description: 'Unhealthy.', schema: HealthReport }
    },
    async handle() {
      const begun = clock.monotonic()
      const found = await database.health()
      const status = STATUS[found.status]
      return {
        status: found.status === 'unhealthy' ? 503 : 200,
        headers: found.status === 'unhealthy' ? ['Retry-After', '5'] : [],
        body: {
          status,
          // The check may have been started by an earlier request.
          totalDuration: rounded(Math.max(clock.monotonic() - begun, found.ms)),
          checks: [
            {
              name: 'database',
              status,
              duration: rounded(found.ms),
              description: DESCRIPTION[found.status],
              exception: found.error,
              tags: ['db', 'sql']
            }
          ]
        }
      }
    }
  })
  const ready = defineOperation({
    id: 'getReady',
    method: 'GET',
    path: '/ready',
    mount: { use: 'service', chain: 'service-probe' },
    summary: 'Whether the gateway takes traffic',
    description:
      'For load balancers and probes: false while it starts, while it drains, and without its database. It is not throttled.',
    tag: 'health',
    access: 'public',
    responses: {
      200: { description: 'Ready.', schema: Ready },
      401: 'A key was sent, and it is not the admin key.',
      503: { description: 'Starting, draining, or without its database.', schema: Ready }
    },
    async handle() {
      const ok = readiness.ready() && (await database.health()).status !== 'unhealthy'
      const budgets = (await readiness.budgets?.()) ?? []
      const makers = (readiness.makers?.() ?? []).map(({ since, ...maker }) => ({
        ...maker,
        since: since === null ? null : new Date(since).toISOString()
      }))
      const body = {
        ready: ok,
        ...(budgets.length === 0 ? {} : { providers: [...budgets] }),
        ...(makers.length === 0 ? {} : { makers })
      }
      return {
        status: ok ? 200 : 503,
        body,
        headers: ok ? [] : ['Retry-After', '2']
      }
    }
  })
  return [health, ready]
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000
}
