import { createLoad, type Load } from '../load/load.ts'
import { plainGet, type LoadRequest } from '../load/request.ts'
import { startBoltgate, type GatewayTarget } from '../peers/boltgate.ts'
import type { Peer, Place, Target } from '../peers/target.ts'
import { moveTrees } from '../rig/affinity.ts'
import { startServers, type Servers } from '../rig/servers.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'

/** Bytes that the one upstream answers with. */
const ANSWER_BYTES = 1024

/** Where processes are held while they are measured; null where nothing can be. */
export interface Cores {
  readonly proxy: number
  readonly generator: number
}

/** A way to run the gateway. */
export interface Variant {
  /** Id of its row; names its files and its database. */
  readonly id: string
  readonly label: string
  readonly workers: number
  readonly onServers: boolean
}

/** How the parts are started; a test has others. */
export interface Starters {
  readonly upstream: typeof startUpstream
  readonly servers: typeof startServers
  readonly gateway: typeof startBoltgate
}

/** How long a target is warmed up: until it has answered so many requests, or for so many seconds. */
export interface WarmUp {
  readonly requests: number
  readonly seconds: number
}

/**
 * Everything that the scenarios of a run measure, behind one upstream: each is started by the first scenario that needs
 * it and serves the later ones, so that code compiled for one is there for the next. Two that are asked for at a time
 * start at the same time. What did not start is not tried again.
 */
export class Fleet {
  readonly folder: string
  readonly cores: Cores | null
  readonly say: (line: string) => void
  readonly #start: Starters
  readonly #targets = new Map<string, Promise<Target>>()
  readonly #gateways = new Map<string, Promise<GatewayTarget>>()
  readonly #running: Target[] = []
  readonly #warm = new WeakSet<Target>()
  #upstream: Promise<Upstream> | null = null
  #servers: Promise<Servers> | null = null
  #load: Promise<Load> | null = null

  constructor(
    folder: string,
    cores: Cores | null,
    say: (line: string) => void,
    start: Starters = { upstream: startUpstream, servers: startServers, gateway: startBoltgate }
  ) {
    this.folder = folder
    this.cores = cores
    this.say = say
    this.#start = start
  }

  /** The one upstream, on the generator's core. */
  async upstream(): Promise<Upstream> {
    this.#upstream ??= this.#start.upstream(this.folder, this.cores?.generator ?? null, ANSWER_BYTES)
    return await this.#upstream
  }

  /** PostgreSQL and Redis, on any core. Throws where they are missing. */
  async servers(): Promise<Servers> {
    this.#servers ??= this.#start.servers(this.folder, null)
    return await this.#servers
  }

  /** A gateway, with a database of its own. @throws Error when it does not start */
  async gateway(variant: Variant): Promise<GatewayTarget> {
    let gateway = this.#gateways.get(variant.id)
    if (gateway === undefined) this.#gateways.set(variant.id, (gateway = this.#startGateway(variant)))
    return await gateway
  }

  /** A peer. @throws Error when it does not start */
  async peer(peer: Peer): Promise<Target> {
    let target = this.#targets.get(peer.id)
    if (target === undefined) {
      this.#targets.set(
        peer.id,
        (target = this.#place().then(async place => {
          const started = await peer.start(place)
          this.#running.push(started)
          return started
        }))
      )
    }
    return await target
  }

  /** The load, whose generator has run before it is measured with. */
  async load(): Promise<Load> {
    this.#load ??= (async () => {
      const upstream = await this.upstream()
      const load = createLoad(this.folder, this.cores?.generator ?? null, !upstream.favored)
      const window = {
        port: Number(new URL(upstream.origin).port),
        request: plainGet('/'),
        connections: 64,
        core: null,
        from: 0
      }
      await load.open({ ...window, seconds: 1.5, count: null }, 4000)
      await load.closed({ ...window, seconds: 2, count: 10_000 })
      return load
    })()
    return await this.#load
  }

  /**
   * Warms up what is compiled while it runs, each target once in a run: with its own request where that may be
   * repeated, else with `otherwise`. As many at a time as there are cores for them, before they are held on one.
   */
  async warmUp(
    subjects: ReadonlyArray<{ readonly label: string; readonly target: Target; readonly request: LoadRequest }>,
    otherwise: LoadRequest,
    { requests, seconds }: WarmUp
  ): Promise<ReadonlySet<Target>> {
    const load = await this.load()
    const cold = subjects.filter(({ target }) => target.compiles && !this.#warm.has(target))
    const warmed = new Set(cold.map(({ target }) => target))
    const next = cold.values()
    await Promise.all(
      Array.from({ length: this.cores === null ? 1 : 2 }, async () => {
        for (const { label, target, request } of next) {
          const own = request.varied === null && request.status === 200
          const begin = performance.now()
          let answered = 0
          while (answered < requests && performance.now() - begin < (seconds - 1) * 1000) {
            const window = {
              port: target.port,
              request: own ? request : otherwise,
              connections: 64,
              seconds: 2,
              core: null,
              from: 0,
              count: null
            }
            const result = await load.closed(window)
            if (result.requests === 0) throw new Error(`${label} answered nothing while it was warmed up`)
            answered += result.requests
          }
          this.#warm.add(target)
          target.afterRound?.()
          this.say(
            `warmed up ${label} with ${answered} requests in ${Math.round((performance.now() - begin) / 1000)} s`
          )
        }
      })
    )
    return warmed
  }

  /** Holds all targets on the proxies' core, to be measured. */
  async hold(): Promise<void> {
    if (this.cores !== null) await this.#move(String(this.cores.proxy))
  }

  /** Lets them run on both cores, to be prepared. */
  async free(): Promise<void> {
    if (this.cores !== null) await this.#move(`${this.cores.proxy},${this.cores.generator}`)
  }

  /** Ends everything that was started. */
  async stop(): Promise<void> {
    // What is on its way is waited for, or it would stay behind.
    await Promise.allSettled([...this.#targets.values(), ...this.#gateways.values()])
    await Promise.all(this.#running.map(target => target.stop()))
    for (const part of [this.#load, this.#servers, this.#upstream]) {
      const started = await part?.catch(() => null)
      await started?.stop()
    }
  }

  async #move(cores: string): Promise<void> {
    await moveTrees(
      this.#running.flatMap(({ pid }) => (pid === null ? [] : [pid])),
      cores
    )
  }

  async #place(): Promise<Place> {
    return { folder: this.folder, core: null, upstream: (await this.upstream()).origin, say: this.say }
  }

  async #startGateway({ id, workers, onServers }: Variant): Promise<GatewayTarget> {
    const place = await this.#place()
    const servers = onServers ? await (await this.servers()).another(id.replaceAll('-', '_')) : null
    const gateway = await this.#start.gateway(place, { name: id, workers, ...(servers === null ? {} : { servers }) })
    this.#running.push(gateway)
    return gateway
  }
}
