import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { boltgateVersion, startBoltgate, type GatewayOptions, type GatewayTarget } from '../peers/boltgate.ts'
import { absentRow } from '../peers/row.ts'
import type { Place } from '../peers/target.ts'
import { serversMissing, startServers, type Servers } from '../rig/servers.ts'
import type { LoadRequest } from '../load/request.ts'
import type { Row } from './scenario.ts'

/** What a gateway of a run is asked, made once it runs; it may throw when the gateway does not do what it is measured for. */
export type Prepare = (gateway: GatewayTarget, options: GatewayOptions) => Promise<LoadRequest>

interface Variant { readonly id: string, readonly label: string, readonly workers: number, readonly onServers: boolean }

const EMBEDDED: Variant = { id: 'boltgate', label: 'boltgate', workers: 1, onServers: false }
const ON_SERVERS: Variant = { id: 'boltgate-postgres', label: 'boltgate on PostgreSQL and Redis', workers: 1, onServers: true }
const TWO_WORKERS: Variant = { id: 'boltgate-two', label: 'boltgate on PostgreSQL and Redis, two workers', workers: 2, onServers: true }

/** The gateways of a scenario: embedded, and on PostgreSQL and Redis with one worker (where the database has a part in it) and with two. */
export async function gatewayRows (place: Place, prepare: Prepare, options: { readonly oneOnServers: boolean }): Promise<{ rows: Row[], servers: Servers | null }> {
  const rows: Row[] = []
  const started: GatewayTarget[] = []
  let servers: Servers | null = null
  const add = async (variant: Variant, reachable: Servers | null): Promise<void> => {
    const settings: GatewayOptions = { name: variant.id, workers: variant.workers, ...(reachable === null ? {} : { servers: reachable }) }
    let target: GatewayTarget | null = null
    try {
      target = await startBoltgate(place, settings)
      place.say(`preparing ${variant.label}`)
      const request = await prepare(target, settings)
      started.push(target)
      rows.push({ id: variant.id, label: variant.label, version: boltgateVersion(), target, absent: null, request })
    } catch (error) {
      await target?.stop()
      rows.push(absentRow(variant.id, variant.label, `did not start: ${error instanceof Error ? error.message : String(error)}`))
    }
  }
  try {
    await add(EMBEDDED, null)
    const missing = serversMissing()
    const wanted = options.oneOnServers ? [ON_SERVERS, TWO_WORKERS] : [TWO_WORKERS]
    if (missing === null) {
      servers = await startServers(place.folder, null)
      for (const variant of wanted) await add(variant, servers)
    } else {
      for (const { id, label } of wanted) rows.push(absentRow(id, label, missing))
    }
    const last = rows.findLastIndex(({ target }) => target !== null)
    const ending = rows[last]
    // The servers stop with the last gateway that uses them.
    if (servers !== null && ending !== undefined && ending.target !== null) {
      const { target } = ending
      const stopServers = servers
      rows[last] = { ...ending, target: { ...target, stop: async () => { await target.stop(); await stopServers.stop() } } }
    }
    return { rows, servers }
  } catch (error) {
    for (const target of started) await target.stop()
    await servers?.stop()
    throw error
  }
}

/** A file with a value of a header a line. */
export function valuesFile (place: Place, name: string, values: readonly string[]): string {
  const file = join(place.folder, `${name}.txt`)
  writeFileSync(file, `${values.join('\n')}\n`, { mode: 0o600 })
  return file
}
