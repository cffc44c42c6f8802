import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { answers, freePort, start, until } from '../rig/child.ts'
import type { Place, Target } from './target.ts'

const run = promisify(execFile)
const cli = fileURLToPath(new URL('../../src/cli/boltgate.mjs', import.meta.url))

/** The version in the checkout's package.json. */
export function boltgateVersion (): string {
  // Our own package.json, which has this member.
  return (JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }).version
}

/**
 * The gateway with everything embedded: sandbox, PGlite and memory state in a folder of the run. The chains are those of
 * the gateway.yaml that comes with it; only the limits of the policies are raised, and nothing is left out.
 */
function configuration (folder: string, port: number, upstream: string): string {
  const data = join(folder, 'data')
  mkdirSync(data)
  return `mode: development
server: { listen: "127.0.0.1:${port}" }
data: ${JSON.stringify(data)}
policies:
  global: { limit: 1000000000, window: 1m }
chains:
  public: [ correlation, access-log, metrics, cors, { throttle: { policy: global } }, body-limit ]
  paid:   [ correlation, access-log, metrics, cors, { throttle: { policy: global } }, credential, challenge ]
routes:
  - match: { path: /paid/* }
    price: 10 sats
    description: What the benchmark asks for
    chain: paid
    upstream: { url: ${JSON.stringify(upstream)} }
  - match: { path: /* }
    chain: public
    upstream: { internal: api }
`
}

/**
 * Starts the gateway from the sources of this checkout. Its log, with one line for each request, goes to a file in the
 * run's folder, which is emptied after each round.
 */
export async function startBoltgate ({ folder, core, upstream }: Place): Promise<Target> {
  const port = await freePort()
  const file = join(folder, 'gateway.yaml')
  writeFileSync(file, configuration(folder, port, upstream))
  const child = start('boltgate', folder, core, [process.execPath, cli, 'start', '--config', file], { env: { NODE_ENV: 'production' } })
  try {
    await until('boltgate', child, 60, () => answers(`http://127.0.0.1:${port}/health`))
  } catch (error) {
    await child.stop()
    throw error
  }
  return { port, pid: child.pid, fault: () => child.fault(), afterRound: () => { truncateSync(join(folder, 'boltgate.out'), 0) }, stop: () => child.stop() }
}

/** Pays for one classic L402 token of a path, with the command that is there for load tests; the value of Authorization. */
export async function payForToken (port: number, path: string): Promise<string> {
  const { stdout } = await run(process.execPath, [cli, 'mint', '--count', '1', '--url', `http://127.0.0.1:${port}`, '--path', path])
  return stdout.trim()
}
