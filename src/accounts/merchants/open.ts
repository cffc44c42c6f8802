import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Sealer, Secret } from '../../platform/keys/secrets.ts'
import type { ProviderEvents } from '../../lightning/providers/events.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { State } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { AdminKey } from './admin-key.ts'
import { ApiKeys, KeyUses } from './api-keys.ts'
import { AuthThrottle } from './auth-throttle.ts'
import { countProxies, hasChallenge, hasPaidPayment } from './holdings.ts'
import { apiKeyOperations } from './key-operations.ts'
import { merchantOperations, type MerchantOperationDependencies } from './operations.ts'
import { providerKeyOperations } from './provider-operations.ts'
import { Merchants } from './service.ts'
import { settingsOperations, type SettingsDependencies } from './settings-operation.ts'
import { MerchantStore } from './store.ts'
import { usageOperation } from './plans.ts'

export function openMerchants(
  dependencies: Pick<MerchantOperationDependencies, 'production' | 'publicUrl'> & {
    readonly adminKey: Secret<string>
    readonly clock: Clock
    readonly database: Database
    readonly payees: Payees
    readonly log: Log
    readonly sealer: Sealer
    readonly state: State
    readonly slotFacts: SettingsDependencies['slotFacts']
    config(): Pick<GatewayConfig, 'plans'>
    readonly events: ProviderEvents
  }
) {
  const { adminKey, clock, config, database, events, payees, sealer, state } = dependencies
  const plans = (): GatewayConfig['plans'] => config().plans
  const uses = new KeyUses(dependencies)
  const apiKeys = new ApiKeys({ database, clock })
  const merchants = new Merchants({
    store: new MerchantStore(database),
    sealer,
    clock,
    plans,
    keySaved: (id, slot) => events.keyIsGood(id, slot),
    keyUsed: keyId => {
      uses.note(keyId)
    }
  })
  return {
    merchants,
    apiKeys,
    adminKey: new AdminKey(adminKey),
    authThrottle: new AuthThrottle(state, clock),
    operations: [
      ...merchantOperations({
        ...dependencies,
        merchants,
        plans,
        countProxies: id => countProxies(database.sql, id),
        hasPaidPayment: id => hasPaidPayment(database.sql, id),
        hasChallenge: id => hasChallenge(database.sql, id)
      }),
      ...providerKeyOperations({
        merchants,
        validate: async (merchant, slot) => {
          const verdict = await payees.validate(merchant, slot)
          if (verdict?.isValid === true) await events.keyIsGood(merchant.id, slot)
          return verdict
        },
        keyFault: (key, slot) => payees.keyFault(key, slot),
        validateKey: (key, slot) => payees.validateKey(key, slot)
      }),
      ...apiKeyOperations(apiKeys),
      ...usageOperation(database.sql, merchant => merchants.caps(merchant)),
      ...settingsOperations({
        merchants,
        slotFacts: dependencies.slotFacts,
        failure: (merchant, slot) => payees.failure(merchant, slot)
      })
    ],
    close: () => uses.drained()
  }
}
