import { Closers } from './composition/closers.ts'
import { mounted } from './composition/mounts.ts'
import { openDomains, type Domains, type Running, type GatewayEnvironment } from './composition/domains.ts'
import { formatProblem, type Problem } from '../engine/config/diagnose.ts'
import { changesBetween, effective } from '../engine/config/effective.ts'
import type { GatewayConfig } from '../engine/config/schema.ts'
import { compile } from '../engine/pipeline/compile.ts'
import { Gateway } from '../engine/pipeline/gateway.ts'
import { Load } from '../engine/pipeline/load.ts'
import type { AnyOperation } from '../engine/operations/operation.ts'
import type { Plugin } from '../engine/pipeline/plugin.ts'
import type { Snapshot } from '../engine/pipeline/snapshot.ts'
import type { ListenAddress } from '../engine/config/listen-address.ts'
import { defaultLimits } from '../engine/listener/deadlines.ts'
import { createListener, type Listener } from '../engine/listener/listener.ts'
import { hasPaymentCredential } from '../engine/message/payment-headers.ts'
import type { Clock } from '../platform/system/clock.ts'
import { freshId } from '../platform/system/ids.ts'
import type { Metrics } from '../platform/telemetry/metrics.ts'
import { packageVersion } from './composition/version.ts'

/**
 * Milliseconds for closing plugins and settling hooks of aborted requests, as long as a last database query may take.
 */
const PLUGINS_MS = 10_000

/** Composes a gateway: opens every domain once and compiles the first snapshot. Closes opened parts on failure. */
export async function compose(config: GatewayConfig, environment: GatewayEnvironment): Promise<App> {
  const closers = new Closers(environment.log)
  try {
    return await build(config, environment, closers)
  } catch (error) {
    await closers.close()
    throw error
  }
}

async function build(config: GatewayConfig, environment: GatewayEnvironment, closers: Closers): Promise<App> {
  const { clock, log } = environment
  const running: Running = {
    config,
    started: config,
    plugins: environment.plugins,
    reload: null,
    serving: false,
    gateway: null
  }
  const domains = await openDomains(running, environment, closers)
  const warn =
    environment.warn ??
    ((warning: Problem): void => {
      log.warn({ code: warning.code }, formatProblem(warning))
    })
  const shed = domains.metrics.counter(
    'boltgate_requests_shed_total',
    'Requests that were answered with 503 because the gateway was overloaded, by what was behind.',
    ['reason']
  )
  const reloaded = reloadMetrics(domains.metrics, clock)
  const load = closers.add(
    new Load({
      clock,
      isPaid: ({ headers }) => hasPaymentCredential(headers),
      probe: () => environment.database.sql`select 1`,
      shed: reason => {
        shed.inc({ reason })
      },
      report: count => {
        log.warn({ count }, 'overloaded: requests were answered with 503')
      }
    }),
    part => {
      part.stop()
    }
  )
  const mount: Mount = (next, plugins) => mounted(next, domains.operations, plugins)
  running.config = mount(config, environment.plugins)
  const compileFor: Compile = async (next, plugins, generation) => {
    for (const warning of next.warnings) warn(warning)
    return await compile(next, {
      services: { ...domains.services(), policies: next.policies },
      plugins,
      internals: domains.internals(),
      generation,
      load,
      warn
    })
  }
  const gateway = closers.add(
    new Gateway(await compileFor(running.config, environment.plugins, 1)),
    part => part.close(),
    PLUGINS_MS
  )
  running.gateway = gateway
  domains.offer(running.config)
  const [certificate, ...certificates] = config.server.tls
  const listener = createListener({
    limits: { ...defaultLimits, ...config.server.limits },
    trustedProxies: config.server.trustedProxies,
    tls:
      certificate === undefined
        ? null
        : {
            certificates: [certificate, ...certificates],
            clientCa: config.server.clientCa,
            ticketSecret: environment.secrets.ring.deriveAll('tls-tickets')[0],
            failed: error => {
              log.error({ err: error }, 'the changed certificate cannot be used; the former one stays')
            },
            renewed: notAfter => {
              log.info({ notAfter: notAfter.toISOString() }, 'certificate renewed')
            }
          },
    http2: running.config.server.http2,
    toHttps: httpsOrigins(running.config.server),
    clock,
    freshId,
    handle: (ctx, wire) => {
      environment.begun?.()
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
  return new App({
    running,
    environment,
    domains,
    closers,
    gateway,
    load,
    listener,
    mount,
    compile: compileFor,
    reloaded
  })
}

/** Undefined if plain requests are served: without TLS of our own, or for a public address in the clear. */
function httpsOrigins({
  tls,
  publicUrl,
  proxyUrl
}: GatewayConfig['server']): readonly [string, ...string[]] | undefined {
  if (tls.length === 0 || !publicUrl.startsWith('https:')) return undefined
  return proxyUrl.startsWith('https:') ? [publicUrl, proxyUrl] : [publicUrl]
}

/** As Prometheus and Caddy name theirs, so that common alerts fit. */
function reloadMetrics(metrics: Metrics, clock: Clock): (isUsed: boolean) => void {
  metrics
    .gauge('boltgate_build_info', '1; the labels are the versions.', ['version', 'node'])
    .set({ version: packageVersion(), node: process.version }, 1)
  const result = metrics.gauge('boltgate_config_last_reload_successful', '0 after a rejected reload, else 1.')
  const at = metrics.gauge('boltgate_config_last_reload_success_timestamp_seconds', 'Last used start or reload.')
  const succeeded = (isUsed: boolean): void => {
    result.set(isUsed ? 1 : 0)
    if (isUsed) at.set(clock.now() / 1000)
  }
  succeeded(true)
  return succeeded
}

type Mount = (config: GatewayConfig, plugins: ReadonlyMap<string, Plugin>) => GatewayConfig
type Compile = (config: GatewayConfig, plugins: ReadonlyMap<string, Plugin>, generation: number) => Promise<Snapshot>

interface AppDependencies {
  readonly running: Running
  readonly environment: GatewayEnvironment
  readonly domains: Domains
  readonly closers: Closers
  readonly gateway: Gateway
  readonly load: Load
  readonly listener: Listener
  readonly mount: Mount
  readonly compile: Compile
  readonly reloaded: (isUsed: boolean) => void
}

export class App {
  readonly #dependencies: AppDependencies

  constructor(dependencies: AppDependencies) {
    this.#dependencies = dependencies
  }

  /** Operations of the internal upstreams, for OpenAPI. */
  get operations(): readonly AnyOperation[] {
    return this.#dependencies.domains.operations
  }

  get config(): GatewayConfig {
    return this.#dependencies.running.config
  }

  get active(): number {
    return this.#dependencies.gateway.active
  }

  /**
   * Returns where, with the ports taken.
   * @throws CodedError
   */
  async listen(): Promise<readonly ListenAddress[]> {
    const { listener, load, running } = this.#dependencies
    await listener.listen(...running.config.server.addresses)
    load.start()
    return listener.addresses
  }

  /** Follows other processes' changes and makes the gateway ready; requires the tables. */
  async follow(): Promise<void> {
    await this.#dependencies.domains.start()
    this.#dependencies.running.serving = true
  }

  /** Applies a new configuration to new requests. Throws, changing nothing, when it does not compile. */
  async reload(file: GatewayConfig, plugins: ReadonlyMap<string, Plugin>): Promise<void> {
    const { running, environment, domains, gateway } = this.#dependencies
    await domains.openFor(file, plugins)
    const config = this.#dependencies.mount(file, plugins)
    // Compiling routes reads these settings.
    const takeBack = domains.configure(config)
    try {
      gateway.swap(await this.#dependencies.compile(config, plugins, gateway.generation + 1))
    } catch (error) {
      takeBack()
      throw error
    }
    const changes = changesBetween(effective(running.config, running.plugins), effective(config, plugins))
    running.reload = { at: environment.clock.now(), changes, problem: null }
    this.#dependencies.reloaded(true)
    running.config = config
    running.plugins = plugins
    domains.offer(config)
    environment.log.info({ generation: gateway.generation }, 'the configuration was reloaded')
  }

  /** Records a rejected reload for the operator. */
  refuse(problem: string): void {
    const { environment, running } = this.#dependencies
    running.reload = { at: environment.clock.now(), changes: [], problem }
    this.#dependencies.reloaded(false)
  }

  /** Drains for at most the drain timeout, and closes everything but the database. */
  async close(): Promise<void> {
    const { running, listener, closers } = this.#dependencies
    running.serving = false
    await listener.drain(running.config.server.limits.drainTimeout)
    await closers.close()
  }
}
