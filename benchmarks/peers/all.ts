import type { LoadRequest } from '../load/request.ts'
import type { Row } from '../scenarios/scenario.ts'
import { direct } from './direct.ts'
import { haproxy } from './haproxy.ts'
import { nginx } from './nginx.ts'
import { fastifyHttpProxy, httpProxy3, undici } from './node-peers.ts'
import { peerRow } from './row.ts'
import type { Fleet } from '../measure/fleet.ts'
import type { Peer } from './target.ts'

const PEERS: readonly Peer[] = [nginx, haproxy, undici, httpProxy3, fastifyHttpProxy, direct]

/** Every plain proxy that is installed here, and the upstream without one. */
export async function peerRows(
  fleet: Fleet,
  request: Pick<LoadRequest, 'method' | 'path' | 'headers' | 'body'>
): Promise<Row[]> {
  return await Promise.all(PEERS.map(peer => peerRow(peer, fleet, request)))
}
