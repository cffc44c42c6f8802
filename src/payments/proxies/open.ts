import type { Challenges } from '../../selling/challenges/service.ts'
import { metersProxies } from '../../engine/checks/sale.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Sealer } from '../../platform/keys/secrets.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import type { OutboundCall } from '../../engine/upstream/outbound.ts'
import { ProxyAdmission, RESPONSE_LIMIT } from './admission.ts'
import { ProxyDirectory } from './directory.ts'
import { proxyOperations } from './operations.ts'
import { probeTarget } from './probe.ts'
import { MAX_TIMEOUT_SECONDS } from './schema.ts'
import { openAuthValue, ProxyService, type ProxyServiceParts } from './service.ts'
import { SqlProxyStore } from './store.ts'

/** What merchants' proxies are opened with. */
export interface OpenProxiesParts extends Pick<ProxyServiceParts, 'production' | 'publicUrl'> {
  /** Through the address guard. */
  readonly call: OutboundCall
  readonly challenges: Pick<Challenges, 'settings'>
  readonly clock: Clock
  readonly database: Database
  readonly log: Log
  readonly merchants: Merchants
  readonly metrics: Metrics
  readonly random: Random
  readonly sealer: Sealer
  config(): Pick<GatewayConfig, 'payment' | 'routes' | 'chains' | 'server'>
}

/** Opens merchants' proxies. */
export function openProxies(parts: OpenProxiesParts) {
  const { call, challenges, clock, config, database, log, merchants, metrics, sealer } = parts
  const store = new SqlProxyStore(database)
  const directory = new ProxyDirectory({
    store,
    database,
    clock,
    log,
    tallies: metrics.tallies,
    merchants: ids => merchants.byIds(ids),
    open: row => openAuthValue(sealer, row)
  })
  const proxies = new ProxyService({
    ...parts,
    store,
    proxyUrl: () => config().server.proxyUrl || parts.publicUrl(),
    defaults: () => ({
      tokenValiditySeconds: Math.floor(config().payment.tokenValidity / 1000),
      timeoutSeconds: MAX_TIMEOUT_SECONDS
    }),
    caps: merchant => merchants.caps(merchant),
    canMeter: () => metersProxies(config()),
    probe: probeTarget(call, clock),
    changed: proxyId => directory.refresh(proxyId)
  })
  return {
    admission: new ProxyAdmission(directory, clock, {
      invoiceExpirySeconds: () => Math.floor(challenges.settings.invoiceExpiry / 1000),
      responseLimit: RESPONSE_LIMIT,
      proxyUrl: () => config().server.proxyUrl
    }),
    /** Begins to follow changes. */
    start: () => directory.start(),
    operations: proxyOperations(proxies),
    jobs: [],
    close: () => directory.stop()
  }
}
