import type { ReloadNote } from '../../web/admin/configuration.ts'
import type { Problem } from '../../engine/config/diagnose.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import type { Gateway } from '../../engine/pipeline/gateway.ts'
import { InternalUpstream } from '../../engine/pipeline/internal.ts'
import type { Plugin } from '../../engine/pipeline/plugin.ts'
import type { Services } from '../../engine/pipeline/services.ts'
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
import type { Domain, Open } from './domain.ts'
import type { Suite } from './suite.ts'

/** What a gateway is composed from; its owner closes the database. */
export interface Surroundings {
  readonly clock: Clock
  readonly log: Log
  readonly database: Database
  readonly secrets: Secrets
  /** Plugins by the name or the absolute path that chain entries use. */
  readonly plugins: ReadonlyMap<string, Plugin>
  /** The kinds of provider that the configuration may name; those of `lightning/kinds/kinds.ts` when left out. */
  readonly providerKinds?: readonly ProviderKind[]
  /**
   * The address that clients use, without a slash at the end; asked for when it is needed, since port 0 is known late.
   */
  publicUrl(): string
  /** Told of each request that begins. */
  begun?(): void
  /** Told of what the configuration allows and probably does not mean; written to the log when left out. */
  warn?(warning: Problem): void
}

/** What operations ask for when they are called, since it changes while the gateway runs. */
export interface Running {
  config: GatewayConfig
  serving: boolean
  /** The configuration of the start: what only a restart changes is as it has it. */
  readonly started: GatewayConfig
  plugins: ReadonlyMap<string, Plugin>
  /** What became of the last reload; null before the first. */
  reload: ReloadNote | null
  /** Takes requests as the listener's; null until the routes are compiled. */
  gateway: Gateway | null
}

/** What plugins are given for as long as the gateway runs. */
export type SteadyServices = Omit<Services, 'policies'>

/** What a gateway is made of, as far as whoever serves it must know. */
export type Parts = Awaited<ReturnType<typeof openParts>>

/**
 * Opens the core, and the merchant suite where the configuration uses it (docs/architecture.md, Composition). What was
 * opened is closed by `closers` in the reverse order, also when a later part cannot be opened.
 */
export async function openParts(running: Running, around: Surroundings, closers: Closers) {
  /** All operations, as the OpenAPI document lists them. */
  const operations: AnyOperation[] = []
  const api: AnyOperation[] = []
  const domains: Domain[] = []
  const opened: Open = domain => {
    domains.push(domain)
    api.push(...domain.operations)
    return closers.add(domain, part => part.close())
  }
  const core = await openCore(running, around, closers, opened)
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
      stores: async () => (await suite?.listedStores()) ?? []
    })
  )
  const demo = opened(openDemo()).operations
  api.splice(-demo.length)
  let internals: ReadonlyMap<string, InternalUpstream> = new Map()
  const mount = (): void => {
    jobs.declare(domains.splice(0).flatMap(domain => domain.jobs))
    operations.splice(0, Infinity, ...api, ...demo)
    // Last opened, first closed: what a job uses outlives its runs.
    closers.add(jobs, part => part.close())
    internals = new Map([
      ['api', new InternalUpstream(api, core.trail)],
      ['demo', new InternalUpstream(demo, core.trail)]
    ])
  }
  let started = false
  const open = async (): Promise<void> => {
    const { openSuite } = await import('./suite.ts')
    suite = await openSuite(core, opened)
    mount()
    if (!started) return
    await jobs.start()
    await suite.start()
  }
  const openFor = async (config: GatewayConfig, plugins: ReadonlyMap<string, Plugin>): Promise<void> => {
    if (suite === null && usesSuite(config, plugins, api, core.services)) await open()
  }
  await openFor(running.config, around.plugins)
  if (internals.size === 0) mount()
  return {
    metrics: core.metrics,
    /** A chain whose plugins use a service of the suite opens it (`usesSuite`), so each service is there when it is used. */
    services: (): SteadyServices => ({ ...core.services, ...suite?.services }) as SteadyServices,
    /** By their names in `gateway.yaml`. */
    internals: () => internals,
    /** Opens the suite where a configuration uses it. Once open, it stays. */
    openFor,
    operations,
    configure: sale.configure,
    offer: sale.offer,
    /** Starts background work, and to follow what other processes change. May be called again. */
    async start(): Promise<void> {
      await sale.start()
      await ledger.start()
      await sessions.start()
      if (suite === null && (await haveMerchantsSold(core.database.sql))) await open()
      // What the others find at once may have to be passed on by a job.
      await jobs.start()
      events.begin()
      await suite?.start()
      started = true
      traffic.start()
    }
  }
}

/**
 * Whether a configuration needs the merchant suite: it uses one of its presets, a route leads to an operation that the
 * core does not have, a plugin uses a service that it does not have, or a billing provider is configured.
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
        chains[chain]?.some(({ plugin }) =>
          plugins.get(plugin)?.uses?.some(name => name !== 'policies' && !(name in services))
        )
    )
  )
}
