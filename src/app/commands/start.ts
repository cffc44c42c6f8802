import cluster from 'node:cluster'
import type { App } from '../compose.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { takes } from '../../engine/config/presets.ts'
import { watchConfig } from '../../engine/config/watch.ts'
import { ownImage } from '../image.ts'
import { pause, systemClock, type Clock } from '../../platform/system/clock.ts'
import { BufferCollector, setCollectorFlags, garbageCollector } from '../../platform/system/collector.ts'
import {
  isConnectionFault,
  openDatabase,
  type Database,
  type DatabaseOptions
} from '../../platform/database/database.ts'
import { GrowthWatch } from '../../platform/database/growth.ts'
import { keysPath } from '../../platform/keys/keyfile.ts'
import { createLog, type Log } from '../../platform/telemetry/log.ts'
import { loadSecrets, type Secrets } from '../secrets.ts'
import { CONFIG_FLAG } from '../cli/help.ts'
import { defineCommand } from '../cli/command.ts'
import { filesBehind, loadWithPlugins, startFile, type Loaded, type StartFile } from '../cli/configuration.ts'
import { endAtLatest, endSoon } from '../cli/end.ts'
import { logged } from './explain.ts'
import { awaitsFirstWork, FirstWork, superviseWorkers } from '../cli/workers.ts'
import { FIRST_STORE, forSale, hasWallet } from '../cli/for-sale.ts'
import {
  hostAndPort,
  isWildcard,
  listenText,
  mainAddress,
  portOf,
  reachable,
  type ListenAddress
} from '../../engine/config/listen-address.ts'
import { needsRestart } from '../../engine/config/effective.ts'
import type { Output } from '../cli/output.ts'

export const start = defineCommand(
  {
    about: 'Starts the gateway',
    details: `Without a gateway.yaml, serves the demo that comes with the package. SIGHUP or a saved file reloads the configuration.
SIGTERM, SIGINT or SIGQUIT drains requests and stops.`,
    flags: CONFIG_FLAG,
    examples: ['boltgate start', 'PORT=9000 boltgate start --config gateway.production.yaml']
  },
  async (values, _words, out) => {
    setCollectorFlags()
    try {
      return await run(startFile(values.config), out)
    } finally {
      // The IPC channel would keep the process alive.
      cluster.worker?.disconnect()
    }
  }
)

/** Retry interval for an unavailable database. */
const RETRY_MS = 2_000

async function run(from: StartFile, out: Output): Promise<number> {
  const loaded = await loadWithPlugins(from.file, process.env, from.folder)
  if (from.folder !== undefined && cluster.isPrimary)
    out.complain(
      `There is no gateway.yaml here: this runs the demo of the package, with its data in ${loaded.config.data}. For an API of yours: npx boltgate init`
    )
  const log = createLog({ level: loaded.config.log.level })
  try {
    if (loaded.config.server.workers > 1 && cluster.isPrimary) {
      const work = new FirstWork()
      await prepareOnce(loaded.config, log, work)
      return await superviseWorkers(loaded.config, log, work)
    }
    return await new Process(from, loaded, log, out).run()
  } finally {
    endSoon(log)
  }
}

/**
 * Makes tables and keys in one process, before the first worker. Without the database, workers start and answer 503
 * (decision 22); this retries until the database answers, and no process is ready before.
 */
async function prepareOnce(config: GatewayConfig, log: Log, work: FirstWork): Promise<void> {
  const secrets = loadSecrets(config)
  const { prepare } = await import('../first-start.ts')
  const database = await openDatabase({ ...databaseOf(config), log, clock: systemClock, connections: 1 })
  try {
    await prepare({ config, database, secrets, clock: systemClock, log, firstMerchant: true })
    work.done()
  } catch (error) {
    if (!isConnectionFault(error)) throw error
    log.error(logged(error), 'database unavailable: workers start without it')
    prepareLater(config, log, work)
  } finally {
    await database.close()
  }
}

function databaseOf(config: GatewayConfig): Omit<DatabaseOptions, 'log' | 'clock'> {
  return { ...config.database, dataDir: config.data, image: ownImage() }
}

function prepareLater(config: GatewayConfig, log: Log, work: FirstWork): void {
  systemClock.after(RETRY_MS, () => {
    prepareOnce(config, log, work).catch((fault: unknown) => {
      log.error(logged(fault), 'the database could not be prepared; trying again')
      prepareLater(config, log, work)
    })
  })
}

/** A serving process: the only one, or a worker. */
class Process {
  readonly #from: StartFile
  readonly #log: Log
  readonly #out: Output
  readonly #clock: Clock = systemClock
  #config: GatewayConfig
  #loaded: Loaded
  #publicUrl = ''
  #exitCode = 0
  /** Waits for the supervisor to prepare the database. */
  #waits: boolean

  constructor(from: StartFile, loaded: Loaded, log: Log, out: Output) {
    this.#from = from
    this.#loaded = loaded
    this.#config = loaded.config
    this.#log = log
    this.#out = out
    this.#waits = awaitsFirstWork(() => {
      this.#waits = false
    })
  }

  async run(): Promise<number> {
    const config = this.#config
    const secrets = loadSecrets(config)
    const { promise: stopped, resolve: stop } = Promise.withResolvers<void>()
    // The embedded database starts in parallel with loading the program.
    const [database, { compose }] = await Promise.all([
      openDatabase({
        ...databaseOf(config),
        log: this.#log,
        clock: this.#clock,
        onStopped: reason => {
          // It locks the folder; only a restart recovers, this process would answer 503 forever.
          this.#log.error(logged(reason), 'the embedded database has ended: stopping, to be started again')
          this.#exitCode = 1
          stop()
        }
      }),
      import('../compose.ts'),
      import('../first-start.ts')
    ])
    onStopSignal(stop)
    let app: App | null = null
    const growth = database.kind === 'postgres' ? new GrowthWatch(database, this.#clock, this.#log) : null
    const collecting = new BufferCollector(this.#clock, garbageCollector(), () => app?.active ?? 0)
    try {
      this.#publicUrl = publicUrlOf(config, config.server.listen.port)
      app = await compose(config, {
        clock: this.#clock,
        log: this.#log,
        database,
        secrets,
        plugins: this.#loaded.plugins,
        publicUrl: () => this.#publicUrl,
        begun: () => {
          collecting.begun()
        }
      })
      const ready = await this.#prepared(database, secrets)
      const addresses = await app.listen()
      this.#publicUrl = publicUrlOf(config, portOf(addresses))
      if (ready) await app.follow()
      else void this.#keepTrying(app, database, secrets)
      this.#announce(addresses, ready, app)
      const watch = await this.#watch(app)
      await stopped
      watch.close()
      this.#log.info('stopping: draining requests in flight')
      endAtLatest(this.#config.server.limits.drainTimeout, this.#log)
    } finally {
      collecting.cancel()
      await growth?.close()
      await app?.close()
      await database.close()
    }
    return this.#exitCode
  }

  /** False while the database is down or the supervisor is not done; other errors stop the start. */
  async #prepared(database: Database, secrets: Secrets): Promise<boolean> {
    const { prepare } = await import('../first-start.ts')
    try {
      await prepare({
        config: this.#config,
        database,
        secrets,
        clock: this.#clock,
        log: this.#log,
        firstMerchant: !cluster.isWorker
      })
      if (!this.#waits) return true
      this.#log.info({ pid: process.pid }, 'the database is there; the supervisor prepares it')
      return false
    } catch (error) {
      if (!isConnectionFault(error)) throw error
      this.#log.error(logged(error), 'database unavailable: answering 503 and retrying')
      return false
    }
  }

  async #keepTrying(app: App, database: Database, secrets: Secrets): Promise<void> {
    for (;;) {
      await pause(this.#clock, RETRY_MS)
      try {
        if (!(await this.#prepared(database, secrets))) continue
        await app.follow()
        this.#log.info('the database is there; ready')
        return
      } catch (error) {
        this.#log.error(logged(error), 'the database could not be prepared; trying again')
      }
    }
  }

  async #watch(app: App): Promise<{ close(): void }> {
    let others = filesBehind(this.#config, process.env)
    return await watchConfig({
      file: this.#from.file,
      others: () => others,
      clock: this.#clock,
      onChange: async () => {
        try {
          const next = await loadWithPlugins(this.#from.file, process.env, this.#from.folder)
          for (const setting of needsRestart(this.#config, next.config))
            this.#log.warn(`${setting} has changed; it takes effect after a restart`)
          await app.reload(next.config, next.plugins)
          others = filesBehind(next.config, process.env)
        } catch (error) {
          const problem = error instanceof Error ? error.message : String(error)
          app.refuse(problem)
          const { code, err } = logged(error)
          this.#log.error({ code, err }, `the changed configuration is not used, the old one stays:\n${problem}`)
        }
      },
      onError: error => {
        this.#log.error({ err: error }, 'the configuration could not be watched or reloaded')
      }
    })
  }

  #announce(addresses: readonly ListenAddress[], ready: boolean, { config, operations }: App): void {
    this.#log.info(
      { addresses: addresses.map(listenText), port: portOf(addresses), publicUrl: this.#publicUrl, pid: process.pid },
      ready ? 'ready' : 'listening without a database'
    )
    if (cluster.isWorker) return
    // A catch-all route answers every path, with 404 as a rule.
    const serves = (path: string): boolean =>
      config.routes.some(
        route => route.upstream.kind === 'internal' && !route.match.path.includes('/*') && takes(route, 'GET', path)
      )
    const { publicUrl } = config.server
    const hasTls = config.server.tls.length > 0
    const main = mainAddress(addresses)
    const isPublic = publicUrl === '' || (main !== undefined && isWildcard(main.host))
    const listens = addresses.map(address => {
      if (address.kind === 'unix') return listenText(address)
      if (address === main && isPublic && config.mode === 'development') return this.#publicUrl
      return `${hasTls && !address.isPlain ? 'https' : 'http'}://${hostAndPort(address)}`
    })
    this.#out.print(`boltgate is listening on ${listens.join(', ')}`)
    if (!listens.includes(this.#publicUrl) && config.mode === 'production')
      this.#out.print(`  Public:  ${this.#publicUrl}`)
    if (config.mode === 'development' && ready) {
      const [first, ...more] = forSale(config, this.#publicUrl, operations)
      if (first !== undefined) {
        const named = this.#from.folder === undefined ? '' : ` --config ${this.#from.file}`
        this.#out.print(
          `  Sells:   ${first.line}${more.length === 0 ? '' : `, and ${more.length} more (npx boltgate routes${named})`}`
        )
        if (first.order !== null && hasWallet(config)) this.#out.print(`  Try it:  npx boltgate pay ${first.order}`)
      }
      if (config.storefront.kind === 'sandbox' && serves(`/storefront/${FIRST_STORE}`))
        this.#out.print(`  Shop:    ${this.#publicUrl}/storefront/${FIRST_STORE}`)
    }
    if (serves('/console')) this.#out.print(`  Console: ${this.#publicUrl}/console`)
    if (serves('/operator')) this.#out.print(`  Operator: ${this.#publicUrl}/operator`)
    if (config.secrets.adminKey === '') this.#out.print(`  Keys:    ${keysPath(config.data)}`)
  }
}

/** Public address: as configured, else the listen address. */
function publicUrlOf(config: GatewayConfig, port: number): string {
  if (config.server.publicUrl !== '') return config.server.publicUrl.replace(/\/$/, '')
  const { addresses, listen, tls } = config.server
  const isSecure = tls.length > 0 && mainAddress(addresses)?.isPlain !== true
  return `${isSecure ? 'https' : 'http'}://${reachable({ host: listen.host, port })}`
}

function onStopSignal(stop: () => void): void {
  for (const name of ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const) process.once(name, stop)
  if (cluster.isWorker) process.on('disconnect', stop)
}
