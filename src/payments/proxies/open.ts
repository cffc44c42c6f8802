import type { ChallengeSettings } from '../../selling/offers/settings.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { ProxyAdmission } from './admission.ts'
import { ProxyDirectory } from './directory.ts'
import { proxyOperations } from './operations.ts'
import { openAuthValue, ProxyService, type ProxyServiceDependencies } from './service.ts'
import { ProxyStore, type ProxyRow } from './store.ts'
import { exampleOf, type PricedRoute } from '../../engine/openapi/paid.ts'
import type { ApiFile } from '../../engine/checks/api-file.ts'
import { pathAllowed, priceOf } from './pricing.ts'
import { isProxyId } from '../../accounts/merchants/holdings.ts'
import { keyInSlot } from '../../lightning/providers/slot-keys.ts'

export function openProxies(
  dependencies: Omit<ProxyServiceDependencies, 'directory' | 'store'> & {
    readonly database: Database
    readonly log: Log
    readonly metrics: Metrics
    settings(): ChallengeSettings
  }
) {
  const { clock, database, log, merchants, metrics, sealer } = dependencies
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
  const proxies = new ProxyService({ ...dependencies, store, directory })
  return {
    admission: new ProxyAdmission({ ...dependencies, directory }),
    listed: () => listedApis(store, merchants),
    published: (proxyId: string) => publishedApi(store, merchants, proxyId),
    start: () => directory.start(),
    operations: proxyOperations(proxies),
    close: () => directory.stop()
  }
}

/** A text file names no more. */
const MOST = 200

/** Merchants' APIs that are published: those that their merchants list, and that can be sold. */
export async function listedApis(store: ProxyStore, merchants: Merchants): Promise<PricedRoute[]> {
  const rows = await store.listed(MOST)
  const sold = await soldOf(rows, merchants)
  return sold.map(published)
}

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
