import { terminalOf } from '../checks/chains.ts'
import { ConfigError, type Problem, type ConfigurationCode } from '../config/diagnose.ts'
import type { ChainEntryConfig, GatewayConfig, Position, RouteConfig } from '../config/schema.ts'
import { Chain } from './chain.ts'
import type { Context, Slot, RouteInfo } from '../message/context.ts'
import { conditional, conditionOf, observing } from './entry.ts'
import type { InternalUpstream } from './internal.ts'
import type { HookResult, Hooks, Plugin, Scope, Services } from './plugin.ts'
import { checkReach, type BuiltRoute, type Establishes, asksAlways, requireMetering, requirePayment } from './reach.ts'
import { Router } from './router.ts'
import { hooksOf, requireServices, SetUpTooLate } from './set-up.ts'
import type { Load } from './load.ts'
import { Snapshot, type CompiledRoute } from './snapshot.ts'
import { FileServer } from './files.ts'

interface CompileOptions {
  readonly services: Services
  readonly plugins: ReadonlyMap<string, Plugin>
  readonly internals: ReadonlyMap<string, InternalUpstream>
  readonly generation: number
  /** Sheds requests under overload; default none. */
  readonly load?: Load
  warn?(warning: Problem): void
}

interface Compilation extends CompileOptions {
  /** Entries whose `setup` timed out: their other routes do not wait as long again. */
  readonly late: Set<ChainEntryConfig>
}

function refused(code: ConfigurationCode, at: Position, message: string, cause?: unknown): ConfigError {
  return new ConfigError([{ code, ...at, path: '', message }], { cause })
}

/**
 * Sets every plugin up for every route and lays the chains out. When one route fails, closes every plugin that was set
 * up.
 * @throws ConfigError with everything that plugins and operations find wrong, each with its place in the file
 */
export async function compile(config: GatewayConfig, options: CompileOptions): Promise<Snapshot> {
  const around: Compilation = { ...options, late: new Set() }
  const router = new Router<CompiledRoute>()
  const { proxyUrl } = config.server
  const apart = proxyUrl === '' ? null : { host: new URL(proxyUrl).hostname, router: new Router<CompiledRoute>() }
  const built: BuiltRoute[] = []
  const problems: Problem[] = []
  for (const route of config.routes) {
    const info: RouteInfo = Object.freeze({
      name: route.name,
      config: route,
      own: route.upstream.kind === 'internal' || route.upstream.kind === 'proxy'
    })
    try {
      const { chain, callers } = await buildChain(config, route, info, around)
      const { upstream } = route
      const operations = upstream.kind === 'internal' ? (around.internals.get(upstream.name) ?? null) : null
      const compiled: CompiledRoute = Object.freeze({ info, chain, operations })
      built.push({ compiled, callers, asks: asksAlways(route, config.chains[route.chain] ?? [], around.plugins) })
      for (const path of route.match.path) {
        const methods = route.match.method ?? []
        const { at, match } = route
        try {
          router.add({ ...match, host: match.host ?? null, methods, path }, compiled)
          if (route.upstream.kind === 'proxy') apart?.router.add({ ...match, host: null, methods, path }, compiled)
        } catch (cause) {
          if (!(cause instanceof Error && cause.message.includes('a maximum of 31'))) throw cause
          const message = `found too many routes for ${JSON.stringify(path)} that compare header or query; allowed: 30`
          throw refused('BG_CONFIG_CONFLICT', at, message, cause)
        }
      }
    } catch (error) {
      if (!(error instanceof ConfigError)) {
        await Promise.allSettled(built.map(({ compiled }) => compiled.chain.close()))
        throw error
      }
      // An entry fails identically on each of its routes; it is reported once.
      problems.push(
        ...error.problems.filter(
          problem =>
            !problems.some(
              ({ line, column, file }) => line === problem.line && column === problem.column && file === problem.file
            )
        )
      )
    }
  }
  const reach = checkReach(config, router, built, around.internals)
  problems.push(...reach.problems)
  if (problems.length > 0) {
    await Promise.allSettled(built.map(({ compiled }) => compiled.chain.close()))
    throw new ConfigError(problems)
  }
  for (const warning of reach.warnings) around.warn?.(warning)
  const { clock, log } = around.services
  return new Snapshot({
    generation: around.generation,
    mode: config.mode,
    isStrict: isStrict(config.server),
    router,
    apart,
    chains: built.map(({ compiled }) => compiled.chain),
    clock,
    log,
    load: around.load ?? null
  })
}

/** A browser that heard it leaves no plain port of the host usable, so not where others may have the default port. */
function isStrict({ tls, publicUrl }: GatewayConfig['server']): boolean {
  return tls.length > 0 && publicUrl.startsWith('https:') && new URL(publicUrl).port === ''
}

async function buildChain(
  config: GatewayConfig,
  route: RouteConfig,
  info: RouteInfo,
  around: Compilation
): Promise<{ chain: Chain; callers: readonly Establishes[] }> {
  const slots = new Slots()
  const hooks: Hooks[] = []
  const callers: Establishes[] = []
  const entries = config.chains[route.chain] ?? []
  const served = await servedBy(route, around)
  let guard = beforeCharge(served) ?? requireMetering(route, entries, around.plugins)
  try {
    const paid = requirePayment(route, entries, around.plugins)
    for (const entry of withTerminal(entries, route, around)) {
      if (entry.disabled) continue
      const plugin = around.plugins.get(entry.file ?? entry.plugin)
      if (guard !== null && plugin?.provides?.includes('payment') === true) {
        hooks.push(guard)
        guard = null
      }
      if (paid !== null && (entry.plugin === 'internal' || plugin?.terminal === true)) hooks.push(paid)
      const created = await setUp(entry, route, served, info, config.mode, around, slots)
      if (created.establishes !== undefined && entry.mode === 'enforce')
        callers.push({ kind: created.establishes, when: entry.when })
      hooks.push(fitted(created, entry, slots, around))
    }
    return { chain: new Chain(hooks, slots.count), callers }
  } catch (error) {
    await Promise.allSettled(
      hooks.map(async hook => {
        await hook.close?.()
      })
    )
    throw error
  }
}

/** The route's upstream determines the terminal plugin unless the chain names one. */
function withTerminal(
  entries: readonly ChainEntryConfig[],
  route: RouteConfig,
  around: CompileOptions
): readonly ChainEntryConfig[] {
  const last = entries.findLast(entry => !entry.disabled)
  const named = last !== undefined && around.plugins.get(last.file ?? last.plugin)?.terminal === true
  if (named) return entries
  return [
    ...entries,
    { plugin: terminalOf(route.upstream), config: {}, disabled: false, mode: 'enforce', at: route.at }
  ]
}

async function setUp(
  entry: ChainEntryConfig,
  route: RouteConfig,
  served: Served | null,
  info: RouteInfo,
  mode: 'development' | 'production',
  around: Compilation,
  slots: Slots
): Promise<Hooks> {
  if (entry.plugin === 'internal') {
    if (served !== null) return { handle: ctx => served.handle(ctx) }
    const names = [...around.internals.keys()].join(', ')
    throw refused('BG_CONFIG_REFERENCE', entry.at, `there is no such internal upstream; there are ${names}`)
  }
  const plugin = around.plugins.get(entry.file ?? entry.plugin)
  if (plugin === undefined) throw refused('BG_CONFIG_REFERENCE', entry.at, `there is no plugin "${entry.plugin}"`)
  try {
    if (around.late.has(entry)) throw new SetUpTooLate('setup has not settled in time for another route')
    const { services } = around
    requireServices(plugin.uses, services)
    return await hooksOf(
      plugin.setup(entry.config as never, scopeFor(plugin, info, mode, services, slots)),
      services.clock
    )
  } catch (cause) {
    if (cause instanceof SetUpTooLate) around.late.add(entry)
    throw refused(
      'BG_PLUGIN_SETUP',
      entry.at,
      `plugin "${entry.plugin}" could not be set up for route "${route.name}": ${cause instanceof Error ? cause.message : String(cause)}`,
      cause
    )
  }
}

function fitted(made: Hooks, entry: ChainEntryConfig, slots: Slots, around: CompileOptions): Hooks {
  const condition = conditionOf(entry.when)
  const hooks = condition === null ? made : conditional(made, condition, slots.take<boolean>(`${entry.plugin} taken`))
  return entry.mode === 'observe' ? observing(hooks, entry, around.services.log) : hooks
}

/** What answers on a route without an upstream server. */
interface Served {
  requireServed(ctx: Context): HookResult
  handle(ctx: Context): HookResult
}

async function servedBy({ at, upstream }: RouteConfig, { internals }: CompileOptions): Promise<Served | null> {
  if (upstream.kind === 'internal') return internals.get(upstream.name) ?? null
  if (upstream.kind !== 'files') return null
  try {
    return await FileServer.open(upstream.path)
  } catch (cause) {
    throw refused('BG_CONFIG_FILE', at, `the files at ${upstream.path} cannot be read`, cause)
  }
}

/** Runs before payment is requested: a known 404 or 405 must not be paid for (as decision 94 has it for proxies). */
function beforeCharge(served: Served | null): Hooks | null {
  return served === null ? null : { request: ctx => served.requireServed(ctx) }
}

function scopeFor(
  plugin: Plugin,
  route: RouteInfo,
  mode: 'development' | 'production',
  services: Services,
  slots: Slots
): Scope {
  const allowed: Partial<Record<keyof Services, unknown>> = {}
  for (const name of plugin.uses ?? []) allowed[name] = services[name]
  // Contains only what `uses` names, which the plugin's type matches.
  return { services: allowed as Services, route, mode, slot: name => slots.take(name) }
}

class Slots {
  count = 0

  take<T>(name: string): Slot<T> {
    return Object.freeze({ index: this.count++, name })
  }
}
