import type { Principal } from '../../engine/message/context.ts'
import type { Change, Trail } from '../../engine/operations/trail.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { rowId, type Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { ActorKind, AuditEntry, SqlAuditStore } from './store.ts'

/** What the trail is written with. */
export interface AuditTrailParts {
  readonly store: SqlAuditStore
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
}

/** Writes changes down before they are made, and how they ended. */
export class AuditTrail implements Trail {
  readonly #parts: AuditTrailParts

  constructor(parts: AuditTrailParts) {
    this.#parts = parts
  }

  /** @throws Unavailable while the database is away: then nothing may be changed */
  async begin({ principal, operation, target, asked }: Change): ReturnType<Trail['begin']> {
    const { clock, log, random, store } = this.#parts
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
      change: storable(asked ?? {}),
      status: null
    }
    await store.insert(entry)
    return async (status, made) => {
      try {
        await store.end(entry.id, status, made)
      } catch (error) {
        // The change stands, and so does its row: it says that the end is not known.
        log.error({ err: error, audit: entry.id, operation, status }, 'how a change ended could not be written')
      }
    }
  }
}

/** The same without what the database's JSON cannot hold: NUL, which a path may name, and half characters. */
function storable<T>(value: T): T {
  const told = (_name: string, part: unknown): unknown =>
    typeof part === 'string' ? part.replaceAll('\0', '\ufffd').toWellFormed() : part
  // Nothing but texts is changed.
  return JSON.parse(JSON.stringify(value), told) as T
}

function actorOf(principal: Principal | null, target: Change['target']): readonly [ActorKind, string] {
  if (principal === null) return ['unknown', target['address'] ?? '']
  if (principal.kind === 'admin') return [principal.id === 'admin' ? 'admin' : 'operator', principal.id]
  const { by } = principal
  return by.kind === 'key' ? ['key', by.keyId] : ['member', by.email]
}

/** The account that a change is made in: a merchant's own, or the one that an operator's path names. */
function accountOf(principal: Principal | null, target: Change['target']): number | null {
  if (principal?.kind === 'merchant') return Number(principal.id)
  const id = target['merchantId'] ?? ''
  return /^[1-9][0-9]{0,8}$/.test(id) ? Number(id) : null
}
