import { routePrices } from './challenges/pricing.ts'
import { challengeSettings } from './challenges/settings.ts'
import type { Challenges } from './challenges/service.ts'
import { Closers } from './composition/closers.ts'
import { mountOperations } from './composition/operations.ts'
import { openParts, type Running, type Surroundings } from './composition/parts.ts'
import { formatProblem, type Problem } from './config/diagnose.ts'
import type { GatewayConfig } from './config/schema.ts'
import { compile } from './gateway/compile.ts'
import { Gateway } from './gateway/gateway.ts'
import { InternalUpstream } from './gateway/internal.ts'
import type { AnyOperation } from './gateway/operation.ts'
import type { Plugin } from './gateway/plugin.ts'
import type { Services } from './gateway/services.ts'
import type { Snapshot } from './gateway/snapshot.ts'
import { createListener, type Listener } from './http/listener.ts'
import { AdminKey } from './merchants/admin-key.ts'
import { AuthThrottle } from './merchants/auth-throttle.ts'
import { freshId } from './system/ids.ts'
import { ProxyAdmission, RESPONSE_LIMIT } from './proxies/admission.ts'

/**
 * Composes a gateway: builds every service once, in the order in which they need each other, mounts the operations, and
 * compiles the first snapshot. This is the only place that knows everyone. When a part cannot be made, those made
 * before are closed again.
 */
export async function compose(config: GatewayConfig, around: Surroundings): Promise<App> {
  const closers = new Closers(around.log)
  try {
    return await build(config, around, closers)
  } catch (error) {
    await closers.close()
    throw error
  }
}

async function build(config: GatewayConfig, around: Surroundings, closers: Closers): Promise<App> {
  const { clock, log, secrets } = around
  const running: Running = { config, serving: false }
  const parts = await openParts(running, around, closers)
  const { metrics, state, merchants, payees, challenges, directory, forwarder, payments, jobs, billing } = parts
  const mounted = mountOperations(parts, running, around)
  const internals: ReadonlyMap<string, InternalUpstream> = new Map([
    ['api', new InternalUpstream(mounted.api)],
    ['demo', new InternalUpstream(mounted.demo)]
  ])
  const services: SteadyServices = {
    clock,
    log,
    metrics,
    state,
    merchants,
    adminKey: new AdminKey(secrets.adminKey),
    authThrottle: new AuthThrottle(state, clock),
    payees,
    challenges,
    proxies: new ProxyAdmission(directory, clock, {
      invoiceExpirySeconds: () => Math.floor(challenges.settings.invoiceExpiry / 1000),
      responseLimit: RESPONSE_LIMIT
    }),
    forwarder
  }
  const warn =
    around.warn ??
    ((warning: Problem): void => {
      log.warn({ code: warning.code }, formatProblem(warning))
    })
  const compileFor: Compile = async (next, plugins, generation) => {
    for (const warning of next.warnings) warn(warning)
    return await compile(next, {
      services: { ...services, policies: next.policies },
      plugins,
      internals,
      generation,
      warn
    })
  }
  const gateway = closers.add(new Gateway(await compileFor(config, around.plugins, 1)), part => part.close())
  challenges.prices.ask(routePrices(config))
  const listener = createListener({
    limits: config.server.limits,
    trustedProxies: config.server.trustedProxies,
    clock,
    freshId,
    handle: (ctx, wire) => {
      around.begun?.()
      gateway.handle(ctx, wire)
    },
    takesAnySegment: (method, host, path) => gateway.answersItself(method, host, path),
    refused: event => {
      log.info(event, 'refused at the front door')
    },
    failed: error => {
      log.error({ err: error }, 'a connection could not be accepted')
    }
  })
  const follow = async (): Promise<void> => {
    await directory.start()
    await challenges.start()
    // What the others find out at once may have to be told by a job.
    await jobs.start()
    await payments.start()
    // Nobody waits for the billing provider but who buys a plan.
    void billing.start()
  }
  return new App({
    running,
    around,
    challenges,
    closers,
    gateway,
    listener,
    operations: mounted.all,
    compile: compileFor,
    follow
  })
}

type SteadyServices = Omit<Services, 'policies'>
type Compile = (config: GatewayConfig, plugins: ReadonlyMap<string, Plugin>, generation: number) => Promise<Snapshot>

interface AppParts {
  readonly running: Running
  readonly around: Surroundings
  readonly challenges: Challenges
  readonly closers: Closers
  readonly gateway: Gateway
  readonly listener: Listener
  readonly operations: readonly AnyOperation[]
  readonly compile: Compile
  follow(): Promise<void>
}

/** A composed gateway: listens, reloads, drains. */
export class App {
  readonly #parts: AppParts

  constructor(parts: AppParts) {
    this.#parts = parts
  }

  /** Every operation behind the internal upstreams, as the OpenAPI document lists them. */
  get operations(): readonly AnyOperation[] {
    return this.#parts.operations
  }

  /** Requests under way. */
  get active(): number {
    return this.#parts.gateway.active
  }

  /** Opens the port. Rejects with the system's error when it cannot. */
  async listen(): Promise<{ readonly host: string; readonly port: number }> {
    const { host, port } = this.#parts.running.config.server.listen
    await this.#parts.listener.listen(host, port)
    return this.#parts.listener.address ?? { host, port }
  }

  /**
   * Begins to follow what other processes change, once the database has its tables; from here on the gateway is ready.
   */
  async follow(): Promise<void> {
    await this.#parts.follow()
    this.#parts.running.serving = true
  }

  /** Takes a new configuration for new requests. Throws, and changes nothing, when it cannot be compiled. */
  async reload(config: GatewayConfig, plugins: ReadonlyMap<string, Plugin>): Promise<void> {
    const { running, around, challenges, gateway } = this.#parts
    const { keys, settings } = challenges
    const next = challengeSettings(config)
    // Offers are made with the settings of now, while their route is compiled.
    challenges.configure({ settings: next, keys })
    try {
      gateway.swap(await this.#parts.compile(config, plugins, gateway.generation + 1))
    } catch (error) {
      challenges.configure({ settings, keys })
      throw error
    }
    running.config = config
    challenges.prices.ask(routePrices(config))
    around.log.info({ generation: gateway.generation }, 'the configuration was reloaded')
  }

  /** Finishes what is under way, for at most the drain timeout, and ends everything but the database. */
  async close(): Promise<void> {
    const { running, listener, closers } = this.#parts
    running.serving = false
    await listener.drain(running.config.server.limits.drainTimeout)
    await closers.close()
  }
}
