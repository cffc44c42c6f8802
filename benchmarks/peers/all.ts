import type { LoadRequest } from '../load/request.ts'
import type { Row } from '../scenarios/scenario.ts'
import { direct } from './direct.ts'
import { haproxy } from './haproxy.ts'
import { nginx } from './nginx.ts'
import { fastifyHttpProxy, httpProxy3, undici } from './node-peers.ts'
import { peerRow } from './row.ts'
import type { Fleet } from '../measure/fleet.ts'
import type { Scale } from '../measure/plan.ts'
import type { Peer } from './target.ts'

const PEERS: readonly Peer[] = [nginx, haproxy, undici, httpProxy3, fastifyHttpProxy, direct]

/** What others are compared with: one proxy written in C, and the least that Node takes. */
const YARDSTICKS: readonly Peer[] = [nginx, undici]

/** Every plain proxy that is installed here, and the upstream without one; in a quick run the yardsticks alone. */
export async function peerRows(
  fleet: Fleet,
  request: Pick<LoadRequest, 'method' | 'path' | 'headers' | 'body'>,
  scale: Scale = 'full'
): Promise<Row[]> {
  return await Promise.all((scale === 'full' ? PEERS : YARDSTICKS).map(peer => peerRow(peer, fleet, request)))
}
