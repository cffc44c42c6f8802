import type { Database } from '../../platform/database/database.ts'
import { periodic } from '../../platform/jobs/jobs.ts'
import { auditOperations, AuditStore, type ActorKind, type AuditEntry } from './operations.ts'
import type { Principal } from '../../engine/message/context.ts'
import type { Change, Trail } from '../../engine/operations/trail.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { rowId, type Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'

const DAY = 24 * 3_600_000
const KEPT = 366 * DAY

export function openAudit(dependencies: Omit<AuditTrailDependencies, 'store'> & { readonly database: Database }) {
  const store = new AuditStore(dependencies.database)
  return {
    trail: new AuditTrail({ ...dependencies, store }),
    operations: auditOperations(store),
    jobs: [
      periodic('audit-purge', DAY, 'Deletes what the audit trail has kept for a year', () =>
        store.purge(dependencies.clock.now() - KEPT)
      )
    ]
  }
}

export interface AuditTrailDependencies {
  readonly store: AuditStore
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
}

/** Records changes before they run, then their outcomes. */
export class AuditTrail implements Trail {
  readonly #dependencies: AuditTrailDependencies

  constructor(dependencies: AuditTrailDependencies) {
    this.#dependencies = dependencies
  }

  /** @throws Unavailable while the database is down: the change must not run */
  async begin({ principal, operation, target, input }: Change): ReturnType<Trail['begin']> {
    const { clock, log, random, store } = this.#dependencies
    const at = clock.now()
    const [actorKind, actor] = actorOf(principal, target)
    const entry: AuditEntry = {
      id: rowId(at, random),
      at,
      merchantId: accountOf(principal, target),
      actorKind,
      actor,
      operation,
      target: storable(target),
      change: storable(input ?? {}),
      status: null
    }
    await store.insert(entry)
    return async (status, made) => {
      try {
        await store.end(entry.id, status, made)
      } catch (error) {
        // The change stays, and its row has no outcome.
        log.error({ err: error, audit: entry.id, operation, status }, 'how a change ended could not be written')
      }
    }
  }
}

/** Drops what the database's JSON rejects: NUL and lone surrogates. */
function storable<T>(value: T): T {
  const redacted = (_name: string, part: unknown): unknown =>
    typeof part === 'string' ? part.replaceAll('\0', '\ufffd').toWellFormed() : part
  // Only strings change.
  return JSON.parse(JSON.stringify(value), redacted) as T
}

function actorOf(principal: Principal | null, target: Change['target']): readonly [ActorKind, string] {
  if (principal === null) return ['unknown', target['address'] ?? '']
  if (principal.kind === 'admin') return [principal.id === 'admin' ? 'admin' : 'operator', principal.id]
  // Subscribers of a route change nothing.
  if (principal.kind === 'subscriber') return ['unknown', principal.id]
  const { by } = principal
  return by.kind === 'key' ? ['key', by.keyId] : ['member', by.email]
}

function accountOf(principal: Principal | null, target: Change['target']): number | null {
  if (principal?.kind === 'merchant') return Number(principal.id)
  const id = target['merchantId'] ?? ''
  return /^[1-9][0-9]{0,8}$/.test(id) ? Number(id) : null
}
