import type { ReloadNote } from '../../web/admin/schema.ts'
import type { Problem } from '../../engine/config/diagnose.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import type { Gateway } from '../../engine/pipeline/gateway.ts'
import { InternalUpstream } from '../../engine/pipeline/internal.ts'
import type { Plugin, Services } from '../../engine/pipeline/plugin.ts'
import type { ProviderKind } from '../../lightning/kinds/kind.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { haveMerchantsSold } from '../../accounts/merchants/holdings.ts'
import { openDemo } from '../demo/open.ts'
import { openDiscovery } from '../discovery/open.ts'
import type { Secrets } from '../secrets.ts'
import type { Closers } from './closers.ts'
import { openCore, type Core } from './core.ts'
import type { Suite } from './suite.ts'
import type { JobDeclaration } from '../../platform/jobs/jobs.ts'

export interface GatewayEnvironment {
  readonly clock: Clock
  readonly log: Log
  readonly database: Database
  readonly secrets: Secrets
  /** Plugins by the name or absolute path in chain entries. */
  readonly plugins: ReadonlyMap<string, Plugin>
  readonly providerKinds?: readonly ProviderKind[]
  /** A function, since port 0 is resolved late. */
  publicUrl(): string
  /** Called for each request that begins. */
  begun?(): void
  /** Receives configuration warnings; default: the log. */
  warn?(warning: Problem): void
}

/** Mutable state that operations read at each call. */
export interface Running {
  config: GatewayConfig
  serving: boolean
  /** Configuration at startup, for values that only a restart changes. */
  readonly started: GatewayConfig
  plugins: ReadonlyMap<string, Plugin>
  /** Outcome of the last reload; null before the first. */
  reload: ReloadNote | null
  /** Handles requests like the listener; null until the routes are compiled. */
  gateway: Gateway | null
}

/** Services of plugins for the life of the gateway. */
type SteadyServices = Omit<Services, 'policies'>

export type Domains = Awaited<ReturnType<typeof openDomains>>

/**
 * Opens the core, and the merchant suite if the configuration uses it (docs/explanation/architecture.md, Composition). `closers`
 * closes everything in reverse order, also after a failure.
 */
export async function openDomains(running: Running, environment: GatewayEnvironment, closers: Closers) {
  const operations: AnyOperation[] = []
  const api: AnyOperation[] = []
  const domains: Domain[] = []
  const opened: Open = domain => {
    domains.push(domain)
    api.push(...domain.operations)
    return closers.add(domain, part => part.close?.())
  }
  const core = await openCore(running, environment, closers, opened)
  const { events, jobs, ledger, providers, sale, sessions, traffic } = core
  let suite: Suite | null = null
  opened(
    openDiscovery({
      ...core,
      ready: () => running.serving,
      budgets: () => providers.budgets.report(),
      makers: providers.makers,
      prices: sale.priceList,
      operations: () => operations,
      webhooks: () => suite?.webhooks ?? {},
      stores: async () => (await suite?.listedStores()) ?? [],
      apis: async () => (await suite?.listedApis()) ?? [],
      api: async proxyId => (await suite?.publishedApi(proxyId)) ?? null
    })
  )
  const demo = opened(openDemo()).operations
  api.splice(-demo.length)
  let internals: ReadonlyMap<string, InternalUpstream> = new Map()
  const mount = (): void => {
    jobs.declare(domains.splice(0).flatMap(domain => domain.jobs ?? []))
    operations.splice(0, Infinity, ...api, ...demo)
    // Opened last, closed first: jobs use the other parts.
    closers.add(jobs, part => part.close())
    internals = new Map([
      ['api', new InternalUpstream(api, core.trail)],
      ['demo', new InternalUpstream(demo, core.trail)]
    ])
  }
  const openOnce = async (): Promise<void> => {
    const { openSuite } = await import('./suite.ts')
    suite = await openSuite(core, opened)
    mount()
  }
  let opening: Promise<void> | null = null
  /** A start and a reload may both find that it is needed. */
  const open = (): Promise<void> => (opening ??= openOnce())
  let hasStarted = false
  let isSuiteStarted = false
  /** Runs again when it failed without the database. */
  const startSuite = async (): Promise<void> => {
    if (suite === null || isSuiteStarted) return
    await jobs.start()
    await suite.start()
    isSuiteStarted = true
  }
  const openFor = async (config: GatewayConfig, plugins: ReadonlyMap<string, Plugin>): Promise<void> => {
    if (suite === null && usesSuite(config, plugins, api, core.services)) await open()
    if (hasStarted) await startSuite()
  }
  await openFor(running.config, environment.plugins)
  if (internals.size === 0) mount()
  return {
    metrics: core.metrics,
    /** Complete for every chain: one that uses a service of the suite opens it (`usesSuite`). */
    services: (): SteadyServices => ({ ...core.services, ...suite?.services }) as SteadyServices,
    internals: () => internals,
    /** Opens the suite if a configuration uses it; it stays open. */
    openFor,
    operations,
    configure: sale.configure,
    offer: sale.offer,
    /** Starts background work and change notifications. Idempotent. */
    async start(): Promise<void> {
      await sale.start()
      await ledger.start()
      await sessions.start()
      if (suite === null && (await haveMerchantsSold(core.database.sql))) await open()
      // The others may queue jobs as they start.
      await jobs.start()
      events.begin()
      hasStarted = true
      await startSuite()
      traffic.start()
    }
  }
}

/**
 * Whether a configuration needs the merchant suite: for a preset, an operation, a service of a plugin, or a billing
 * provider.
 */
function usesSuite(
  { billing, chains, routes, use }: GatewayConfig,
  plugins: ReadonlyMap<string, Plugin>,
  core: readonly AnyOperation[],
  services: Core['services']
): boolean {
  const paths = new Set(core.map(({ path }) => path))
  return (
    billing.kind !== 'none' ||
    use.some(preset => preset !== 'service' && preset !== 'sandbox') ||
    routes.some(
      ({ chain, match, upstream }) =>
        (upstream.kind === 'internal' && upstream.name === 'api' && match.path.some(path => !paths.has(path))) ||
        chains[chain]?.some(({ file, plugin }) =>
          plugins
            .get(file ?? plugin)
            // The core's sessions are those of a gateway without sign-in.
            ?.uses?.some(name => name === 'sessions' || (name !== 'policies' && !(name in services)))
        )
    )
  )
}

/** Common members of each domain's `open…()`. */
export interface Domain {
  readonly operations: readonly AnyOperation[]
  readonly jobs?: readonly JobDeclaration[]
  /** Closes what was opened; given dependencies are closed later. */
  close?(): void | Promise<void>
}

/** Registers an opened domain: mounts its operations, declares its jobs, and closes it before those opened earlier. */
export type Open = <T extends Domain>(domain: T) => T
