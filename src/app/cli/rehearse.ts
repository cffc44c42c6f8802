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

/** Stub database: services are made but not started, so no query runs. */
export const noDatabase: Database = {
  kind: 'postgres',
  // Any use of the handle is an error here.
  sql: unasked as unknown as Sql,
  transaction: async () => unasked(),
  listen: async () => unasked(),
  notify: async () => unasked(),
  health: async () => unasked(),
  load: unasked,
  verify: async () => unasked(),
  close: async () => {}
}

interface Rehearsal {
  readonly config: GatewayConfig
  readonly warnings: readonly Problem[]
  readonly operations: readonly AnyOperation[]
}

/**
 * Composes the configured gateway as a start would, and closes it: sets up every plugin on every route and makes every
 * provider. Opens no port and calls no database, provider or upstream; keys go to a temporary folder.
 * @returns the configuration with the gateway's own routes, warnings, and every operation
 * @throws ConfigError, and other errors of a start
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
