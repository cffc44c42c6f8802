import type { LoadRequest } from '../load/request.ts'
import type { Row } from '../scenarios/scenario.ts'
import { direct } from './direct.ts'
import { haproxy } from './haproxy.ts'
import { nginx } from './nginx.ts'
import { fastifyHttpProxy, httpProxy3, undici } from './node-peers.ts'
import { peerRow } from './row.ts'
import type { Peer, Place } from './target.ts'

const PEERS: readonly Peer[] = [nginx, haproxy, undici, httpProxy3, fastifyHttpProxy, direct]

/** Every plain proxy that is installed here, and the upstream without one. */
export async function peerRows (place: Place, request: Pick<LoadRequest, 'method' | 'path' | 'headers' | 'body'>): Promise<Row[]> {
  const rows: Row[] = []
  for (const peer of PEERS) rows.push(await peerRow(peer, place, request))
  return rows
}
