import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { answers, freePort, start, until } from '../rig/child.ts'
import type { Reachable } from '../rig/servers.ts'
import type { Place, Target } from './target.ts'

const run = promisify(execFile)
const here = fileURLToPath(new URL('../..', import.meta.url))

/** Our own package.json, which has these members. */
const packageOf = (checkout: string): { readonly version: string; readonly bin: { readonly boltgate: string } } =>
  JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8'))

/** The version in the checkout's package.json. */
export function boltgateVersion(): string {
  return packageOf(here).version
}

/** How one gateway of a run is set up. */
export interface GatewayOptions {
  /** Tells several gateways of one run apart. */
  readonly name: string
  /** PostgreSQL and Redis; embedded ones when left out. */
  readonly servers?: Reachable
  /** 1 unless said. */
  readonly workers?: number
  /** `lightning.primary` of its file; the sandbox when left out. */
  readonly primary?: string
  /** Folder of the sources that it runs from; this checkout unless said. */
  readonly checkout?: string
  /** Folder of its data, which another gateway has made; a new one unless said. */
  readonly shares?: string
  /** Options of Node beside the usual ones. */
  readonly flags?: readonly string[]
  /** A second address with TLS and HTTP/2. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly port: number }
  /** A route that takes paid keys, which checkouts before 0.2 have no word for. */
  readonly keyed?: boolean
}

/** A gateway that runs. */
export interface GatewayTarget extends Target {
  readonly port: number
  readonly pid: number
  /** The merchant that the first start made. */
  readonly apiKey: string
  /** What it has written so far: its log, and what its imports print. */
  output(): string
}

const POLICIES = ['global', 'read', 'payment-create', 'write', 'admin', 'l402-proxy', 'webhook'] as const
/** Top-level sections that the benchmark writes itself. */
const SECTIONS = /^(?:server|data|database|state|policies):.*\n(?:[ \t].*\n)*/gm
const UNLIMITED = '{ limit: 1000000000, window: 1m }'

/**
 * The deployment that comes with the gateway, chains and all; only the limits of its policies and caps are raised,
 * nothing is left out, and routes to the upstream are added.
 */
function configuration(folder: string, port: number, upstream: string, options: GatewayOptions): string {
  const { servers, workers = 1, primary = '{ kind: sandbox }', tls } = options
  const listen =
    tls === undefined
      ? `"127.0.0.1:${port}"`
      : `[ "127.0.0.1:${tls.port}", "http://127.0.0.1:${port}" ], http2: true, tls: [ { cert: "${tls.cert}", key: "${tls.key}" } ]`
  const settings = [
    `server: { listen: ${listen}, workers: ${workers}, trustedProxies: [ 127.0.0.0/8 ] }`,
    `data: ${JSON.stringify(folder)}`,
    `database: { url: ${JSON.stringify(servers?.databaseUrl ?? 'pglite:')} }`,
    'payment: { maxOutstanding: { address: 10000 } }',
    `state: { url: ${JSON.stringify(servers?.redisUrl ?? 'memory:')} }`,
    `policies: { ${POLICIES.map(name => `${name}: ${UNLIMITED}`).join(', ')} }`
  ]
  const changes: ReadonlyArray<readonly [string, string]> = [
    ['  primary:   { kind: sandbox }', `  primary:   ${primary}`],
    [
      'chains:\n',
      'chains:\n  digested: [ correlation, access-log, metrics, cors, { throttle: { policy: global } }, body-limit, credential, challenge ]\n  # The paid chain without its price.\n  passed: [ correlation, access-log, metrics, cors, { throttle: { policy: global } } ]\n'
    ],
    [
      'routes:\n',
      `routes:\n${[
        `  - { match: { path: /paid/* }, price: 10 sats, description: What the benchmark asks for, chain: paid, upstream: { url: "${upstream}", connections: 8000 } }`,
        `  - { match: { path: /metered/* }, meter: { bundle: 1000000 sats, prices: 1 msat, usage: requests }, chain: paid, upstream: { url: "${upstream}", connections: 8000 } }`,
        ...(options.keyed === true
          ? [
              `  - { match: { path: /keyed/* }, keys: true, meter: { bundle: 1000000 sats, prices: 1 msat, usage: requests }, chain: paid, upstream: { url: "${upstream}", connections: 8000 } }`
            ]
          : []),
        `  - { match: { path: /digested/* }, price: 10 sats, chain: digested, bodyLimit: 1MiB, upstream: { url: "${upstream}", connections: 8000 } }`,
        `  - { match: { path: /passed/* }, chain: passed, upstream: { url: "${upstream}", connections: 8000 } }`,
        `  - { match: { path: /shared/* }, chain: passed, upstream: { url: "${upstream}" } }`
      ].join('\n')}\n`
    ]
  ]
  return changes.reduce(
    (text, [from, to]) => {
      if (!text.includes(from))
        throw new Error(`gateway.yaml has no ${JSON.stringify(from)}, which the benchmark changes`)
      return text.replace(from, () => to)
    },
    // Checkouts before this one had some of these sections in their file.
    `${settings.join('\n')}\n${readFileSync(join(options.checkout ?? here, 'gateway.yaml'), 'utf8').replace(SECTIONS, '')}`
  )
}

/**
 * Starts the gateway from the sources of this checkout. Its log, with one line for each request, goes to a file in the
 * run's folder, which is emptied after each round.
 */
export async function startBoltgate(
  { folder, core, upstream, imports: modules = [], data: before }: Place,
  options: GatewayOptions = { name: 'boltgate' }
): Promise<GatewayTarget> {
  const port = await freePort()
  const { name, checkout = here, flags = [] } = options
  const data = options.shares ?? join(folder, `${name}-data`)
  const file = join(folder, `${name}.yaml`)
  if (before !== undefined && existsSync(before) && options.servers === undefined)
    cpSync(before, data, { recursive: true })
  else if (options.shares === undefined) mkdirSync(data)
  writeFileSync(file, configuration(data, port, upstream, options))
  const imports = modules.map(module => `--import=${module}`)
  const child = start(
    name,
    folder,
    core,
    [
      process.execPath,
      '--max-semi-space-size=8',
      ...flags,
      ...imports,
      join(checkout, packageOf(checkout).bin.boltgate),
      'start',
      '--config',
      file
    ],
    {
      env: { NODE_ENV: 'production', BOLTGATE_SECRET: 'a secret of the benchmark, known to all its gateways' }
    }
  )
  try {
    await until(name, child, 60, () => answers(`http://127.0.0.1:${port}/health`))
  } catch (error) {
    await child.stop()
    throw error
  }
  // Written by the first start in development, before it listens.
  const keys = JSON.parse(readFileSync(join(data, 'keys.json'), 'utf8')) as { merchant?: { apiKey?: string } }
  return {
    port,
    pid: child.pid,
    compiles: true,
    ours: true,
    apiKey: keys.merchant?.apiKey ?? '',
    fault: () => child.fault(),
    afterRound: () => {
      truncateSync(join(folder, `${name}.out`), 0)
    },
    output: () => child.output(),
    stop: () => child.stop()
  }
}

/** Paid credentials of a path, one a line, with the command that is there for load tests. */
export async function mintCredentials(
  port: number,
  count: number,
  options: { path: string; scheme?: 'l402' | 'payment'; body?: string }
): Promise<string[]> {
  const { stdout } = await run(
    process.execPath,
    [
      join(here, packageOf(here).bin.boltgate),
      'mint',
      '--count',
      String(count),
      '--url',
      `http://127.0.0.1:${port}`,
      '--path',
      options.path,
      '--scheme',
      options.scheme ?? 'l402',
      '--parallel',
      '16',
      ...(options.body === undefined ? [] : ['--data', options.body])
    ],
    { maxBuffer: 1 << 30 }
  )
  return stdout.trim().split('\n')
}
