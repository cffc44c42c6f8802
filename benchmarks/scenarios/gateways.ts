import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Fleet, Variant } from '../measure/fleet.ts'
import { boltgateVersion, type GatewayTarget } from '../peers/boltgate.ts'
import { nginx } from '../peers/nginx.ts'
import { absentRow, peerRow } from '../peers/row.ts'
import { serversMissing } from '../rig/servers.ts'
import { plainGet, type LoadRequest } from '../load/request.ts'
import type { Row } from './scenario.ts'

/**
 * What a gateway of a run is asked, made once it runs; it may throw when the gateway does not do what it is measured
 * for. Those of several gateways are made at the same time.
 */
export type Prepare = (gateway: GatewayTarget, variant: Variant) => Promise<LoadRequest>

const EMBEDDED: Variant = { id: 'boltgate', label: 'boltgate', workers: 1, onServers: false }
const ON_SERVERS: Variant = {
  id: 'boltgate-postgres',
  label: 'boltgate on PostgreSQL and Redis',
  workers: 1,
  onServers: true
}
const TWO_WORKERS: Variant = {
  id: 'boltgate-two',
  label: 'boltgate on PostgreSQL and Redis, two workers',
  workers: 2,
  onServers: true
}

/**
 * The gateways of a scenario: embedded, and on PostgreSQL and Redis with one worker (where the database has a part in
 * it) and with two.
 */
export async function gatewayRows(
  fleet: Fleet,
  prepare: Prepare,
  options: { readonly oneOnServers: boolean }
): Promise<Row[]> {
  const missing = serversMissing()
  return await Promise.all(
    [EMBEDDED, ...(options.oneOnServers ? [ON_SERVERS] : []), TWO_WORKERS].map(async (variant): Promise<Row> => {
      const { id, label, onServers } = variant
      if (onServers && missing !== null) return absentRow(id, label, missing)
      try {
        const target = await fleet.gateway(variant)
        return { id, label, version: boltgateVersion(), target, absent: null, request: await prepare(target, variant) }
      } catch (error) {
        return absentRow(
          id,
          label,
          `could not be prepared: ${(error instanceof Error ? error.message : String(error)).slice(0, 300)}`
        )
      }
    })
  )
}

/**
 * nginx, which passes on a GET with an answer of 1 KiB: what one request costs on this machine in this very run, where
 * no peer can do what is asked.
 */
export async function nginxRow(fleet: Fleet): Promise<Row> {
  const request = plainGet('/passed/quote', { Accept: 'application/json' })
  return { ...(await peerRow(nginx, fleet, request)), request }
}

/** A file with a value of a header a line. */
export function valuesFile(fleet: Fleet, name: string, values: readonly string[]): string {
  const file = join(fleet.folder, `${name}.txt`)
  writeFileSync(file, `${values.join('\n')}\n`, { mode: 0o600 })
  return file
}
