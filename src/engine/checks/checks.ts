import { access, constants, stat } from 'node:fs/promises'
import { quote, type Path, type Findings } from '../config/diagnose.ts'
import type { FoundReference } from '../config/read.ts'
import type { PlacedRoute } from '../config/resolve.ts'
import type { FileConfig, PluginFacts, RouteConfig } from '../config/schema.ts'
import { formatUnit } from '../config/units.ts'
import type { ProviderFacts } from '../sections/lightning.ts'
import type { UpstreamConfig, UrlUpstreamConfig } from '../sections/upstream.ts'
import type { ReadEntry } from './chains.ts'
import {
  checkCallSchemes,
  checkX402,
  checkKeys,
  checkNames,
  checkOperatorKey,
  checkSessionProvider,
  writtenMember,
  placedProviders
} from './provider-checks.ts'
import { checkChain, checkDuplicates, checkFreeSiblings, checkReferences, checkRoute } from './route-checks.ts'
import { sells, sellsCalls } from './sale.ts'
import {
  checkBilling,
  checkDatabase,
  checkProduction,
  checkListen,
  checkProxyUrl,
  checkSettings,
  checkState,
  checkWorkers
} from './settings-checks.ts'
import { checkDoublePath, checkFallbacks, checkOwnAddress } from './upstream-checks.ts'
import { DEFAULT_PRICE } from '../sections/payment.ts'

/** A file as checks see it: read by its schema, with chains, upstreams and routes resolved. */
interface ReadFile {
  readonly config: FileConfig
  /** As it was parsed, before the schema's defaults. */
  readonly written: unknown
  readonly chains: ReadonlyMap<string, readonly ReadEntry[]>
  /** Plugins whose settings are known. */
  readonly plugins: readonly PluginFacts[]
  readonly references: readonly FoundReference[]
  readonly names: Readonly<Record<FoundReference['kind'], readonly string[]>>
  readonly upstreams: Readonly<Record<string, UrlUpstreamConfig>>
  readonly routes: readonly PlacedRoute[]
  readonly providers: readonly ProviderFacts[] | undefined
  readonly internals: readonly string[] | undefined
}

function checkUnpriced(file: ReadFile, findings: Findings): void {
  for (const placed of file.routes) {
    const { route, index } = placed
    if (route.price !== undefined || sellsCalls(file.chains.get(route.chain) ?? []) || !isSold(placed, file)) continue
    findings.warn(
      'BG_CHAIN_SALE',
      ['routes', index, 'chain'],
      `found no price beside the chain ${quote(route.chain)}, which asks for one: the route costs ${formatUnit('price', DEFAULT_PRICE)}, the default; allowed, but better written as price`
    )
  }
}

/** Tokens of a service are good for all paths, so it needs a name, and keys, of its own. */
function checkServices({ config, routes }: ReadFile, findings: Findings): void {
  const first = routes.find(({ route }) => route.keys)?.route
  for (const { route, index } of routes) {
    const { invoices, keys, service, upstream } = route
    const report = (setting: string, found: string): void => {
      findings.report('BG_CONFIG_CONFLICT', ['routes', index, setting], `found ${found}`, 'key')
    }
    if (upstream.kind === 'proxy' && (service ?? invoices) !== undefined)
      report(
        service === undefined ? 'invoices' : 'service',
        "a setting of the operator's tokens on a route of merchants' proxies, which sell their own; allowed: at routes of the operator"
      )
    else if (service === config.payment.serviceName)
      report(
        'service',
        `the name of payment.serviceName, so that its tokens would be good for every route without a service too; allowed: another name`
      )
    if (keys && service !== first?.service)
      report(
        'keys',
        `keys beside another service than at the first route with keys (line ${first?.at.line}), whose service all keys are for; allowed: one service for all routes with keys`
      )
  }
}

/** A client is asked for its certificate in a handshake with the gateway itself. */
function checkClientCa({ chains, config }: ReadFile, findings: Findings): void {
  const { clientCa, tls } = config.server
  if (clientCa !== undefined && tls.length === 0)
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['server', 'clientCa'],
      'found without certificates in tls, so that no client is asked for one; allowed: with server.tls'
    )
  for (const { entry, path } of [...chains.values()].flat())
    if (
      clientCa === undefined &&
      entry.plugin === 'api-key' &&
      writtenMember(entry.config, 'certificates') !== undefined
    )
      findings.report(
        'BG_CONFIG_CONFLICT',
        path,
        'found certificates without server.clientCa, so that no client is asked for one; allowed: with server.clientCa'
      )
}

/** Without a verified payment a request counts by its address. */
function checkTokenPolicies(chain: readonly ReadEntry[], policies: FileConfig['policies'], findings: Findings): void {
  let isPaid = false
  for (const { entry, facts, path } of chain.filter(({ entry }) => !entry.disabled)) {
    if (facts?.provides?.includes('payment') === true) isPaid = true
    const name = facts?.provides?.includes('throttle') === true ? writtenMember(entry.config, 'policy') : undefined
    if (!isPaid && typeof name === 'string' && policies[name]?.by === 'token')
      findings.warn(
        'BG_CHAIN_ORDER',
        path,
        `found the policy ${quote(name)}, by token, before a payment is verified, so that it counts by client address; allowed, but better after credential`
      )
  }
}

/** Runs where nothing is wrong in the parts it `needs`, whose values then have their schema's types. */
interface Check {
  readonly needs?: ReadonlyArray<keyof FileConfig>
  run(file: ReadFile, findings: Findings): void | Promise<void>
}

const isSold = ({ route }: PlacedRoute, { chains }: ReadFile): boolean => sells(route, chains.get(route.chain) ?? [])

const CHECKS: readonly Check[] = [
  {
    run: ({ names, references }, findings) => {
      checkReferences(references, names, findings)
    }
  },
  {
    run({ chains, config, plugins }, findings) {
      for (const [name, chain] of chains)
        if (Object.hasOwn(config.chains ?? {}, name) && findings.isSound(['chains', name])) {
          checkChain(chain, plugins, findings)
          if (findings.isSound(['policies'])) checkTokenPolicies(chain, config.policies, findings)
        }
    }
  },
  ...simple(['server', 'state', 'database'], checkWorkers),
  ...simple(['database'], checkDatabase),
  ...simple(['state'], checkState),
  ...simple(['server'], checkProxyUrl),
  ...simple(['server'], checkListen),
  ...simple([], checkSettings),
  ...simple([], checkBilling),
  {
    needs: ['mode', 'server', 'secrets', 'database', 'lightning', 'prices', 'storefront', 'billing'],
    run: ({ config, providers, written }, findings) => {
      checkProduction(config, placedProviders(config, written), providers, findings)
    }
  },
  {
    run: ({ routes }, findings) => {
      checkDuplicates(routes, findings)
      checkDoublePath(routes, findings)
      checkFallbacks(routes, findings)
    }
  },
  {
    needs: ['server'],
    run: checkClientCa
  },
  {
    needs: ['server'],
    run: ({ config, routes }, findings) => {
      checkOwnAddress(config, routes, findings)
    }
  },
  {
    needs: ['payment'],
    run: (file, findings) => {
      checkUnpriced(file, findings)
      checkServices(file, findings)
    }
  },
  {
    run({ chains, internals, routes }, findings) {
      for (const { route, index } of routes) {
        // A chain with a problem may lack the entry that a route is judged by.
        const chain = findings.isSound(['chains', route.chain]) ? chains.get(route.chain) : undefined
        checkRoute(route, index, chain, internals, findings)
      }
    }
  },
  {
    run: (file, findings) => {
      checkFreeSiblings(
        file.routes.map(placed => ({ ...placed, isSold: isSold(placed, file) })),
        findings
      )
    }
  },
  {
    needs: ['lightning'],
    run: ({ config, providers, written }, findings) => {
      const placed = placedProviders(config, written)
      const kinds = (providers ?? []).map(({ name }) => name)
      checkNames(placed, kinds, findings)
      checkKeys(placed, providers, findings)
    }
  },
  {
    needs: ['lightning', 'payment'],
    run: ({ chains, config, providers, routes, written }, findings) => {
      checkSessionProvider(config, placedProviders(config, written), providers, routes, findings)
      checkCallSchemes(config, routes, chains, findings)
      checkX402(config, placedProviders(config, written), providers, findings)
    }
  },
  {
    needs: ['lightning'],
    run: (file, findings) => {
      const { config, providers, routes, written } = file
      const sold = routes.filter(placed => isSold(placed, file)).map(({ route }) => route)
      checkOperatorKey(config, placedProviders(config, written), providers, sold, findings)
    }
  },
  {
    async run({ routes, upstreams }, findings) {
      // A named upstream is checked once, not for every route that uses it.
      for (const { route, index } of routes)
        if (route.upstream.kind === 'files') await checkFolder(route, index, findings)
        else if (route.upstream.kind === 'url' && route.upstream.name === undefined)
          await checkFiles(route.upstream, ['routes', index, 'upstream'], findings)
      for (const [name, upstream] of Object.entries(upstreams))
        await checkFiles(upstream, ['upstreams', name], findings)
    }
  }
]

function simple(needs: Check['needs'] & {}, check: (config: FileConfig, findings: Findings) => void): Check[] {
  return [
    {
      needs,
      run: ({ config }, findings) => {
        check(config, findings)
      }
    }
  ]
}

export async function runChecks(file: ReadFile, findings: Findings): Promise<void> {
  for (const { needs = [], run } of CHECKS) if (needs.every(key => findings.isSound([key]))) await run(file, findings)
}

/** A folder is served below a star, a file at its own path. */
async function checkFolder({ match, upstream }: RouteConfig, index: number, findings: Findings): Promise<void> {
  if (upstream.kind !== 'files') return
  const path: Path = ['routes', index, 'upstream', 'files']
  let isFolder: boolean
  try {
    isFolder = (await stat(upstream.path)).isDirectory()
    await access(upstream.path, constants.R_OK)
  } catch {
    // The reason matters little: this process cannot read it.
    findings.report(
      'BG_CONFIG_FILE',
      path,
      `found ${quote(upstream.path)}, which cannot be read; allowed: the path of a folder or a file, seen from this file`
    )
    return
  }
  const other = match.path.find(pattern => pattern.endsWith('/*') !== isFolder)
  if (other !== undefined)
    findings.report(
      'BG_CONFIG_CONFLICT',
      path,
      isFolder
        ? `found a folder behind the path ${quote(other)}; allowed: paths that end with /*, such as ${quote(`${other.replace(/\/$/, '')}/*`)}, or a file`
        : `found a file behind the path ${quote(other)}; allowed: a path without a star, or a folder`
    )
}

/** An upstream's files must be readable, and TLS settings need an https address. */
async function checkFiles(upstream: UpstreamConfig & { kind: 'url' }, path: Path, findings: Findings): Promise<void> {
  if (upstream.tls === undefined) return
  if (upstream.url.some(url => url.startsWith('http:')))
    findings.report(
      'BG_CONFIG_CONFLICT',
      [...path, 'tls'],
      'found tls beside a plain http address; allowed: tls beside an https address',
      'key'
    )
  for (const key of ['ca', 'cert', 'key'] as const) {
    const file = upstream.tls[key]
    if (file === undefined) continue
    try {
      await access(file)
    } catch {
      // The reason matters little: this process cannot read the file.
      findings.report(
        'BG_CONFIG_FILE',
        [...path, 'tls', key],
        'found a file that cannot be read; allowed: the path of a readable PEM file, seen from this file'
      )
    }
  }
}
