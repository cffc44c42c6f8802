import type { GatewayConfig } from '../engine/config/schema.ts'
import { firstRunMerchant } from '../accounts/merchants/first-run.ts'
import { Merchants } from '../accounts/merchants/service.ts'
import { MerchantStore } from '../accounts/merchants/store.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Database } from '../platform/database/database.ts'
import { readKeys, writeKeys } from '../platform/keys/keyfile.ts'
import type { Log } from '../platform/telemetry/log.ts'
import { migrate } from '../platform/database/migrations.ts'
import { migrations } from '../platform/database/migrations/list.ts'
import { Sealer } from '../platform/keys/secrets.ts'
import { FIRST_STORE } from './cli/for-sale.ts'
import { checkMaster } from './master-check.ts'
import type { Secrets } from './secrets.ts'

interface Preparation {
  readonly config: GatewayConfig
  readonly database: Database
  readonly secrets: Secrets
  readonly clock: Clock
  readonly log: Log
  /** Creates the merchant of `keys.json` if missing; for one process only. */
  readonly firstMerchant: boolean
}

/**
 * Migrates the database and, in development, creates the merchant of `keys.json` (decision 75), with a store where
 * stores are the sandbox's. Idempotent.
 * @throws CodedError; database errors
 */
export async function prepare(dependencies: Preparation): Promise<void> {
  const { config, database, secrets, clock, log } = dependencies
  await database.verify()
  await migrate(database, migrations, { clock, log })
  const sealer = new Sealer(secrets.ring)
  await checkMaster(database, sealer, log)
  if (config.mode === 'production' || !dependencies.firstMerchant) return
  const keys = readKeys(config.data)
  const known = keys?.merchant ?? null
  const merchants = new Merchants({ store: new MerchantStore(database), sealer, clock, plans: () => config.plans })
  const merchant = await firstRunMerchant(
    merchants,
    known,
    config.lightning.primary.every(({ kind }) => kind === 'sandbox'),
    // An embedded database is in the data folder, so its keys.json was lost. A server may be shared with the gateway
    // that has the key.
    config.database.url.startsWith('pglite:')
  )
  if (merchant === null) {
    log.warn(
      'The first merchant exists already, and this data folder does not hold its API key. Use the key in keys.json of the gateway that created it, or issue another with POST /api/admin/merchants/{merchantId}/regenerate-key, which invalidates that one.'
    )
    return
  }
  if (merchant !== known) writeKeys(config.data, { adminKey: keys?.adminKey ?? secrets.adminKey, merchant })
  const sellsGoods =
    config.use.includes('storefront') ||
    config.routes.some(({ match }) => match.path.some(path => path.startsWith('/api/storefront/')))
  if (config.storefront.kind !== 'sandbox' || !sellsGoods) return
  const { openFirstStore } = await import('../shop/open.ts')
  await openFirstStore({ clock, database, sealer, publicUrl: config.server.publicUrl }, merchant.id, FIRST_STORE)
}
