import type { ChallengeSettings } from '../../selling/offers/settings.ts'
import { metersProxies } from '../../engine/checks/sale.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Sealer } from '../../platform/keys/secrets.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Random } from '../../platform/system/ids.ts'
import type { State } from '../../platform/state/state.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import type { OutboundCall } from '../../engine/upstream/outbound.ts'
import { ProxyAdmission, RESPONSE_LIMIT } from './admission.ts'
import { ProxyDirectory } from './directory.ts'
import { proxyOperations } from './operations.ts'
import { MAX_TIMEOUT_SECONDS, type ProbeView } from './schema.ts'
import { openAuthValue, ProxyService, type ProxyServiceDependencies, type Probe } from './service.ts'
import { ProxyStore, type ProxyRow } from './store.ts'
import { AddressRefused, NameUnresolved } from '../../engine/upstream/guard.ts'
import { exampleOf, type PricedRoute } from '../../engine/openapi/paid.ts'
import type { ApiFile } from '../../engine/checks/api-file.ts'
import { pathAllowed, priceOf } from './pricing.ts'
import { isProxyId } from '../../accounts/merchants/holdings.ts'
import { keyInSlot } from '../../lightning/providers/slot-keys.ts'

export function openProxies(
  dependencies: Pick<ProxyServiceDependencies, 'production' | 'publicUrl'> & {
    readonly call: OutboundCall
    readonly clock: Clock
    readonly database: Database
    readonly log: Log
    readonly merchants: Merchants
    readonly metrics: Metrics
    readonly random: Random
    readonly sealer: Sealer
    readonly state: State
    config(): Pick<GatewayConfig, 'payment' | 'routes' | 'chains' | 'server'>
    settings(): ChallengeSettings
  }
) {
  const { call, clock, config, database, log, merchants, metrics, sealer, settings } = dependencies
  const store = new ProxyStore(database)
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
    ...dependencies,
    store,
    proxyUrl: () => config().server.proxyUrl || dependencies.publicUrl(),
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
      invoiceExpirySeconds: () => Math.floor(settings().invoiceExpiry / 1000),
      responseLimit: RESPONSE_LIMIT,
      proxyUrl: () => config().server.proxyUrl
    }),
    listed: () => listedApis(store, merchants),
    published: (proxyId: string) => publishedApi(store, merchants, proxyId),
    start: () => directory.start(),
    operations: proxyOperations(proxies),
    close: () => directory.stop()
  }
}

/**
 * Tests a target with one GET of its base address and the upstream header, through the address guard. Any response
 * counts as reachable (decision 90).
 */
function probeTarget(call: OutboundCall, clock: Clock): Probe {
  return async (row, authValue): Promise<ProbeView> => {
    const begun = clock.monotonic()
    const latency = (): number => Math.round(clock.monotonic() - begun)
    try {
      const headers = row.authHeader === null || authValue === null ? [] : [row.authHeader, authValue]
      const { status } = await call({
        method: 'GET',
        url: row.targetBaseUrl,
        headers,
        timeout: row.timeoutSeconds * 1000
      })
      const success = status < 400
      return {
        success,
        statusCode: status,
        latencyMs: latency(),
        message: success ? `The target answered ${status}.` : `The target was reached and answered ${status}.`
      }
    } catch (error) {
      return { success: false, statusCode: null, latencyMs: latency(), message: reason(error) }
    }
  }
}

/** Reason for the merchant; never a resolved address. */
function reason(error: unknown): string {
  if (error instanceof AddressRefused) return `The target was refused: ${error.message}`
  if (error instanceof NameUnresolved) return 'The target could not be reached: its name has no address.'
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'no answer'
  return `The target could not be reached (${code}).`
}

/** A text file names no more. */
const MOST = 200

/** Merchants' APIs that are published: those that their merchants list, and that can be sold. */
export async function listedApis(store: ProxyStore, merchants: Merchants): Promise<PricedRoute[]> {
  const rows = await store.listed(MOST)
  const sold = await soldOf(rows, merchants)
  return sold.map(published)
}

/** Those whose merchants can sell. */
async function soldOf(rows: readonly ProxyRow[], merchants: Merchants): Promise<readonly ProxyRow[]> {
  if (rows.length === 0) return []
  const sellers = await merchants.byIds([...new Set(rows.map(row => row.merchantId))])
  return rows.filter(({ merchantId }) => {
    const seller = sellers.get(merchantId)
    return seller?.isActive === true && keyInSlot(seller) !== null
  })
}

function published({ proxyId, allowedMethods, endpoints, examples, ...row }: ProxyRow): PricedRoute {
  const base = baseOf(proxyId)
  return {
    path: `${base}/{path}`,
    methods: allowedMethods.map(method => method.toLowerCase()),
    price: row.defaultPrice === null && endpoints.length === 0 ? row.defaultPriceSats : null,
    description: row.description === null ? row.name : `${row.name}: ${row.description}`,
    examples: examples.map(example => {
      const { target, ...more } = exampleOf(example)
      return { ...more, target: `${base}${target}` }
    })
  }
}

function baseOf(proxyId: string): string {
  return `/l402/proxy/${proxyId}`
}

/** A merchant's API as it is published: operations of its OpenAPI document with their prices, then the rest. */
export interface PublishedApi {
  readonly name: string
  readonly description: string
  readonly routes: readonly PricedRoute[]
}

/** Null for one that is not listed, or cannot be sold. */
async function publishedApi(store: ProxyStore, merchants: Merchants, proxyId: string): Promise<PublishedApi | null> {
  const found = isProxyId(proxyId) ? await store.listedApi(proxyId) : null
  const [row] = found === null ? [] : await soldOf([found.row], merchants)
  if (found === null || row === undefined) return null
  const whole = published(row)
  const operations = found.api?.operations.flatMap(operation => operationOf(row, whole, found.api, operation) ?? [])
  return { name: row.name, description: whole.description, routes: [...(operations ?? []), whole] }
}

/** Null for one that the proxy does not sell. */
function operationOf(
  row: ProxyRow,
  whole: PricedRoute,
  api: ApiFile | null,
  { path, method, summary, members }: ApiFile['operations'][number]
): PricedRoute | null {
  const upstream = new URL(row.targetBaseUrl).pathname.replace(/\/$/, '')
  const full = `${api?.base ?? ''}${path}`
  // A document may write its paths as the target's host has them, or below the target.
  const own =
    upstream !== '' && full.startsWith(`${upstream}/`) ? full.slice(upstream.length) : upstream === '' ? full : path
  const sample = own.replaceAll(/\{[^{}]*\}/g, 'x')
  const isSold = whole.methods.length === 0 || whole.methods.includes(method)
  if (!isSold || !pathAllowed(row.allowedPaths, row.blockedPaths, sample)) return null
  const { amountSats, meter, price } = priceOf(row, method.toUpperCase(), sample)
  return {
    ...whole,
    path: `${baseOf(row.proxyId)}${own}`,
    methods: [method],
    price: price === null && meter === null ? amountSats : null,
    description: summary ?? whole.description,
    examples: [],
    api: { members, components: api?.components ?? {} }
  }
}
