import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compose } from '../compose.ts'
import type { Problem } from '../../engine/config/diagnose.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import { systemClock } from '../../platform/system/clock.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import { silentLog } from '../../platform/telemetry/log.ts'
import { loadSecrets } from '../secrets.ts'
import type { Loaded } from './configuration.ts'

const unasked = (): never => {
  throw new Error('a configuration that is only checked has no database')
}

/** Takes the place of the database. Services are made over it and none is started, so nothing asks it. */
const noDatabase: Database = {
  kind: 'postgres',
  // A handle is called or read when a statement is built, which is already too much here.
  sql: unasked as unknown as Sql,
  transaction: async () => unasked(),
  listen: async () => unasked(),
  notify: async () => unasked(),
  health: async () => unasked(),
  verify: async () => unasked(),
  close: async () => {}
}

interface Rehearsal {
  readonly config: GatewayConfig
  readonly warnings: readonly Problem[]
  readonly operations: readonly AnyOperation[]
}

/**
 * Composes the gateway that a configuration describes, as a start would, and closes it again: every plugin is set up
 * for every route, every provider is made. Nothing listens, and no database, provider or upstream is called; keys are
 * made in a folder that is gone afterwards.
 * @returns the configuration with the routes of the gateway's own, warnings, and every operation
 * @throws ConfigError, and what else would end a start
 */
export async function rehearse({ config, plugins }: Loaded): Promise<Rehearsal> {
  const data = mkdtempSync(join(tmpdir(), 'boltgate-check-'))
  const warnings: Problem[] = []
  try {
    const rehearsed = { ...config, data, state: { url: 'memory:', cluster: false } }
    const app = await compose(rehearsed, {
      clock: systemClock,
      log: silentLog,
      database: noDatabase,
      secrets: loadSecrets(rehearsed),
      plugins,
      publicUrl: () => config.server.publicUrl,
      warn: warning => {
        warnings.push(warning)
      }
    })
    const { operations } = app
    const { routes } = app.config
    await app.close()
    return { config: { ...config, routes }, warnings, operations }
  } finally {
    rmSync(data, { recursive: true, force: true })
  }
}
