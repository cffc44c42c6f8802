import type { ChainEntryConfig, GatewayConfig, RouteConfig } from '../config/schema.ts'
import { Chain } from './chain.ts'
import type { Slot } from './context.ts'
import { conditional, conditionOf, observing } from './entry.ts'
import type { InternalUpstream } from './internal.ts'
import type { Hooks, Plugin, Scope } from './plugin.ts'
import type { RouteInfo } from './route.ts'
import { Router } from './router.ts'
import type { Services } from './services.ts'
import { Snapshot, type CompiledRoute } from './snapshot.ts'

/** What a configuration is compiled with. */
export interface Surroundings {
  readonly services: Services
  /** Plugins by the name or the absolute path that chain entries use. */
  readonly plugins: ReadonlyMap<string, Plugin>
  /** Internal upstreams by the name that routes use. */
  readonly internals: ReadonlyMap<string, InternalUpstream>
  readonly generation: number
}

/** Something that the configuration names and the gateway does not have, or a plugin that could not be set up. */
export class CompileError extends Error {
  constructor (entry: { readonly at: { readonly file: string, readonly line: number, readonly column: number } }, message: string, cause?: unknown) {
    super(`${entry.at.file}:${entry.at.line}:${entry.at.column}: ${message}`, { cause })
    this.name = 'CompileError'
  }
}

/**
 * Builds a snapshot: sets every plugin up for every route and lays the chains out. When a later route fails, the plugins
 * that were already set up are closed again, and nothing of the new configuration stays. Throws `CompileError`.
 */
export async function compile (config: GatewayConfig, around: Surroundings): Promise<Snapshot> {
  const router = new Router<CompiledRoute>()
  const chains: Chain[] = []
  try {
    for (const route of config.routes) {
      const info: RouteInfo = Object.freeze({ name: route.name, config: route, own: route.upstream.kind !== 'url' })
      const chain = await buildChain(config, route, info, around)
      chains.push(chain)
      const compiled: CompiledRoute = Object.freeze({ info, chain })
      for (const path of route.match.path) {
        router.add({ host: route.match.host ?? null, methods: route.match.method ?? [], path }, compiled)
      }
    }
  } catch (error) {
    await Promise.allSettled(chains.map(chain => chain.close()))
    throw error
  }
  return new Snapshot({ generation: around.generation, mode: config.mode, router, chains, clock: around.services.clock, log: around.services.log })
}

async function buildChain (config: GatewayConfig, route: RouteConfig, info: RouteInfo, around: Surroundings): Promise<Chain> {
  const slots = new Slots()
  const hooks: Hooks[] = []
  let guard = beforeCharge(route, around)
  try {
    for (const entry of withTerminal(config.chains[route.chain] ?? [], route, around)) {
      if (entry.disabled) continue
      if (guard !== null && around.plugins.get(entry.file ?? entry.plugin)?.provides?.includes('payment') === true) {
        hooks.push(guard)
        guard = null
      }
      hooks.push(await setUp(entry, route, info, config.mode, around, slots))
    }
    return new Chain(hooks, slots.count)
  } catch (error) {
    await Promise.allSettled(hooks.map(async hook => { await hook.close?.() }))
    throw error
  }
}

/** The terminal plugin follows from the route's upstream where the chain does not name one. */
function withTerminal (entries: readonly ChainEntryConfig[], route: RouteConfig, around: Surroundings): readonly ChainEntryConfig[] {
  const last = entries.findLast(entry => !entry.disabled)
  const named = last !== undefined && around.plugins.get(last.file ?? last.plugin)?.terminal === true
  if (named) return entries
  const plugin = route.upstream.kind === 'internal' ? 'internal' : 'forward'
  return [...entries, { plugin, config: {}, disabled: false, mode: 'enforce', at: route.at }]
}

async function setUp (entry: ChainEntryConfig, route: RouteConfig, info: RouteInfo, mode: 'development' | 'production', around: Surroundings, slots: Slots): Promise<Hooks> {
  if (entry.plugin === 'internal') return internalTerminal(entry, route, around)
  const plugin = around.plugins.get(entry.file ?? entry.plugin)
  if (plugin === undefined) throw new CompileError(entry, `there is no plugin "${entry.plugin}"`)
  let hooks: Hooks
  try {
    hooks = await plugin.setup(entry.config as never, scopeFor(plugin, info, mode, around.services, slots))
  } catch (cause) {
    throw new CompileError(entry, `plugin "${entry.plugin}" could not be set up for route "${route.name}": ${cause instanceof Error ? cause.message : String(cause)}`, cause)
  }
  if (entry.mode === 'observe') hooks = observing(hooks, entry, around.services.log)
  const condition = conditionOf(entry.when)
  return condition === null ? hooks : conditional(hooks, condition, slots.take<boolean>(`${entry.plugin} taken`))
}

/** Stands before what asks for payment: nobody pays for a 404 or 405 that is known beforehand (as decision 94 has it for proxies). */
function beforeCharge (route: RouteConfig, around: Surroundings): Hooks | null {
  const upstream = route.upstream.kind === 'internal' ? around.internals.get(route.upstream.name) : undefined
  return upstream === undefined ? null : { request: ctx => { upstream.requireServed(ctx) } }
}

function internalTerminal (entry: ChainEntryConfig, route: RouteConfig, around: Surroundings): Hooks {
  const name = route.upstream.kind === 'internal' ? route.upstream.name : ''
  const upstream = around.internals.get(name)
  if (upstream === undefined) throw new CompileError(entry, `there is no internal upstream "${name}"; there are ${[...around.internals.keys()].join(', ')}`)
  return { handle: ctx => upstream.handle(ctx) }
}

function scopeFor (plugin: Plugin, route: RouteInfo, mode: 'development' | 'production', services: Services, slots: Slots): Scope {
  const allowed: Partial<Record<keyof Services, unknown>> = {}
  for (const name of plugin.uses ?? []) allowed[name] = services[name]
  // Only what `uses` names is in it; the plugin's own type says the same.
  return { services: allowed as Services, route, mode, slot: name => slots.take(name) }
}

/** Hands out the places of one chain's slots. */
class Slots {
  count = 0

  take<T> (name: string): Slot<T> {
    return Object.freeze({ index: this.count++, name })
  }
}
