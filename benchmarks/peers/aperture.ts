import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { plainGet } from '../load/request.ts'
import type { Fleet } from '../measure/fleet.ts'
import { answers, freePort, start, until, type Core } from '../rig/child.ts'
import { proveGate } from '../scenarios/guard.ts'
import type { Row } from '../scenarios/scenario.ts'
import { startReturning } from './haproxy.ts'
import { absentRow } from './row.ts'
import type { Peer, Target } from './target.ts'

/** What Aperture needs and this program cannot make: it sells for a node, and its token has to be paid for. */
export interface ApertureSettings {
  readonly binary: string
  /** Its configuration, with `LISTEN` and `UPSTREAM` where the harness puts host and port. */
  readonly configuration: string
  /** The SQLite file that has the token's root key; a copy is used. */
  readonly database: string
  /** The value of Authorization: `L402 <macaroon>:<preimage>`. */
  readonly authorization: string
}

const VARIABLES = {
  binary: 'BOLTGATE_APERTURE',
  configuration: 'BOLTGATE_APERTURE_CONFIG',
  database: 'BOLTGATE_APERTURE_DATABASE',
  authorization: 'BOLTGATE_APERTURE_TOKEN'
} as const

/** Its settings, or why there are none, for the table. Not asked for is no fault, half asked for is one. */
export function apertureSettings(environment: NodeJS.ProcessEnv): ApertureSettings | string {
  const [binary = '', configuration = '', database = '', authorization = ''] = Object.values(VARIABLES).map(
    name => environment[name]
  )
  if (binary === '') return `not given by ${VARIABLES.binary} (benchmarks/README.md)`
  const missing = Object.values(VARIABLES).filter(name => (environment[name] ?? '') === '')
  if (missing.length > 0) return `given by ${VARIABLES.binary}, but without ${missing.join(', ')}`
  if (!/^(?:L402|LSAT) [\w+/=-]+:[0-9a-f]{64}$/.test(authorization))
    return `${VARIABLES.authorization} is not \`L402 <macaroon>:<preimage in hex>\``
  return { binary, configuration, database, authorization }
}

/** A configuration with its addresses. Throws when it has no place for one of them. */
export function apertureConfiguration(text: string, listen: string, upstream: string): string {
  for (const place of ['LISTEN', 'UPSTREAM'])
    if (!text.includes(place))
      throw new Error(`the configuration of Aperture has no ${place} for the harness to fill in`)
  return text.replaceAll('LISTEN', listen).replaceAll('UPSTREAM', upstream)
}

function peer(settings: ApertureSettings, upstreamCore: Core): Peer {
  return {
    id: 'aperture',
    label: 'Aperture',
    version: '',
    install: '',
    async start({ folder, core }) {
      // It sends a paid request on with two Authorization lines, which nginx refuses.
      const upstream = await startReturning(folder, upstreamCore, 1024)
      try {
        const configuration = readFileSync(settings.configuration, 'utf8')
        const target = await startApertureAt({ ...settings, configuration }, folder, core, `127.0.0.1:${upstream.port}`)
        return {
          ...target,
          stop: async () => {
            await target.stop()
            await upstream.stop()
          }
        }
      } catch (error) {
        await upstream.stop()
        throw error
      }
    }
  }
}

/**
 * Starts Aperture in front of `upstream`, a host and port. `configuration` is the text of one, with its places;
 * `database` null begins with an empty one.
 */
export async function startApertureAt(
  { binary, configuration, database }: Pick<ApertureSettings, 'binary' | 'configuration'> & { database: string | null },
  folder: string,
  core: Core,
  upstream: string
): Promise<Target> {
  const listen = `127.0.0.1:${await freePort()}`
  const file = join(folder, 'aperture.yaml')
  const db = join(folder, 'aperture.db')
  writeFileSync(file, apertureConfiguration(configuration, listen, upstream), { mode: 0o600 })
  if (database !== null) copyFileSync(database, db)
  // It takes the place of its database from its command line alone.
  const child = start('aperture', folder, core, [
    binary,
    `--configfile=${file}`,
    `--basedir=${folder}`,
    `--sqlite.dbfile=${db}`
  ])
  try {
    await until('aperture', child, 30, () => answers(`http://${listen}/`))
  } catch (error) {
    await child.stop()
    throw error
  }
  return {
    port: Number(listen.split(':')[1]),
    pid: child.pid,
    compiles: false,
    fault: () => child.fault(),
    stop: () => child.stop()
  }
}

/** Aperture's row for a GET of `path`: it must verify like the gateway, or it is not measured. */
export async function apertureRow(fleet: Fleet, path: string): Promise<Row> {
  const settings = apertureSettings(process.env)
  if (typeof settings === 'string') return absentRow('aperture', 'Aperture', settings)
  const { authorization } = settings
  try {
    const target = await fleet.peer(peer(settings, fleet.cores?.generator ?? null))
    await proveGate(target, path, authorization)
    return {
      id: 'aperture',
      label: 'Aperture',
      version: '',
      target,
      absent: null,
      request: plainGet(path, { Authorization: authorization, Accept: 'application/json' })
    }
  } catch (error) {
    return absentRow(
      'aperture',
      'Aperture',
      `did not start: ${(error instanceof Error ? error.message : String(error)).slice(0, 300)}`
    )
  }
}
