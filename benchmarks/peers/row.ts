import type { LoadRequest } from '../load/request.ts'
import type { Row } from '../scenarios/scenario.ts'
import type { Fleet } from '../measure/fleet.ts'
import type { Peer, Target } from './target.ts'

/**
 * A peer of the fleet for a row of the table, asked once; what does not start or answers otherwise is said in the row.
 */
export async function peerRow(
  peer: Peer,
  fleet: Fleet,
  request: Pick<LoadRequest, 'method' | 'path' | 'headers' | 'body'>
): Promise<Row> {
  const row = { id: peer.id, label: peer.label, version: peer.version ?? '' }
  if (peer.version === null) return { ...row, target: null, absent: `not installed here: \`${peer.install}\`` }
  try {
    const target = await fleet.peer(peer)
    const status = await statusOf(target, request)
    return status === 200 ? { ...row, target, absent: null } : { ...row, target: null, absent: `answered ${status}` }
  } catch (error) {
    return { ...row, target: null, absent: `did not start: ${error instanceof Error ? error.message : String(error)}` }
  }
}

/** The row of something that was to run here and could not. */
export function absentRow(id: string, label: string, absent: string): Row {
  return { id, label, version: '', target: null, absent }
}

/** Status of one request to a target. */
export async function statusOf(
  target: Target,
  { method, path, headers, body }: Pick<LoadRequest, 'method' | 'path' | 'headers' | 'body'>
): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${target.port}${path}`, { method, headers, body, redirect: 'manual' })
  await answer.arrayBuffer()
  return answer.status
}
