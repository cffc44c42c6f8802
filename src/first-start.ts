import type { GatewayConfig } from './config/schema.ts'
import { firstRunMerchant } from './merchants/first-run.ts'
import { Merchants } from './merchants/service.ts'
import { SqlMerchantStore } from './merchants/store.ts'
import type { Clock } from './platform/clock.ts'
import type { Database } from './platform/database.ts'
import { readKeys, writeKeys } from './platform/keyfile.ts'
import type { Log } from './platform/log.ts'
import { migrate } from './platform/migrations.ts'
import { migrations } from './platform/migrations/list.ts'
import { Sealer } from './platform/secrets.ts'
import type { Secrets } from './secrets.ts'

/** What preparing needs. */
export interface Preparation {
  readonly config: GatewayConfig
  readonly database: Database
  readonly secrets: Secrets
  readonly clock: Clock
  readonly log: Log
  /** Make the merchant of `keys.json` where there is none; one process alone may do it. */
  readonly firstMerchant: boolean
}

/**
 * Brings the database to the shape that this program needs and, in development, makes the merchant of `keys.json` where
 * there is none (decision 75). Repeating is harmless. Throws what the database throws.
 */
export async function prepare (parts: Preparation): Promise<void> {
  const { config, database, secrets, clock, log } = parts
  await migrate(database, migrations, { clock, log })
  if (config.mode === 'production' || !parts.firstMerchant) return
  const keys = readKeys(config.data)
  const known = keys?.merchant ?? null
  const merchants = new Merchants({ store: new SqlMerchantStore(database), sealer: new Sealer(secrets.ring), clock, plans: () => config.plans })
  const merchant = await firstRunMerchant(merchants, known)
  if (merchant !== known) writeKeys(config.data, { adminKey: keys?.adminKey ?? secrets.adminKey, merchant })
}
