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

const unexpected = (): never => {
  throw new Error('a configuration that is only checked has no database')
}

/** Stub database: services are made but not started, so no query runs. */
export const noDatabase: Database = {
  kind: 'postgres',
  // Any use of the handle is an error here.
  sql: unexpected as unknown as Sql,
  transaction: async () => unexpected(),
  listen: async () => unexpected(),
  notify: async () => unexpected(),
  health: async () => unexpected(),
  load: unexpected,
  verify: async () => unexpected(),
  close: async () => {}
}

interface DryRun {
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
export async function dryRun({ config, plugins }: Loaded): Promise<DryRun> {
  const data = mkdtempSync(join(tmpdir(), 'boltgate-check-'))
  const warnings: Problem[] = []
  try {
    const dryRunResult = { ...config, data, state: { url: 'memory:' } }
    const app = await compose(dryRunResult, {
      clock: systemClock,
      log: silentLog,
      database: noDatabase,
      secrets: loadSecrets(dryRunResult),
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
