import { boltgateVersion, payForToken, startBoltgate } from '../peers/boltgate.ts'
import { direct } from '../peers/direct.ts'
import { nginx } from '../peers/nginx.ts'
import { fastifyHttpProxy, httpProxy3, undici } from '../peers/node-peers.ts'
import type { Peer, Place, Target } from '../peers/target.ts'
import type { Row, Scenario } from './scenario.ts'

const PATH = '/paid/quote'
const PEERS: readonly Peer[] = [nginx, undici, httpProxy3, fastifyHttpProxy, direct]

/** As long as a real one, for a run in which there is no gateway to sell one. */
const MADE_UP = `L402 ${'A'.repeat(420)}:${'0'.repeat(64)}`

async function statusOf (target: Target, authorization: string | null): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${target.port}${PATH}`, { headers: authorization === null ? {} : { authorization } })
  await answer.arrayBuffer()
  return answer.status
}

/** A gateway that lets everybody in would be fast. This one must not. */
async function proveGate (gateway: Target, authorization: string): Promise<void> {
  const forged = `${authorization.slice(0, -1)}${authorization.endsWith('0') ? '1' : '0'}`
  const found = { paid: await statusOf(gateway, authorization), unpaid: await statusOf(gateway, null), forged: await statusOf(gateway, forged) }
  if (found.paid !== 200 || found.unpaid !== 402 || found.forged < 400 || found.forged > 499) {
    throw new Error(`boltgate does not guard the route, so there is nothing to measure: ${JSON.stringify(found)}`)
  }
}

async function startPeer (peer: Peer, place: Place): Promise<Row> {
  const row = { id: peer.id, label: peer.label, version: peer.version ?? '' }
  if (peer.version === null) return { ...row, target: null, absent: `not installed here: \`${peer.install}\`` }
  try {
    const target = await peer.start(place)
    const status = await statusOf(target, MADE_UP)
    if (status === 200) return { ...row, target, absent: null }
    await target.stop()
    return { ...row, target: null, absent: `answered ${status}` }
  } catch (error) {
    return { ...row, target: null, absent: `did not start: ${error instanceof Error ? error.message : String(error)}` }
  }
}

/** The main case: a token that has been seen before opens the way to an upstream of 1 KiB. */
export const verifiedL402: Scenario = {
  id: 'verified-l402',
  title: 'Verified L402 request, warm token',
  text: 'GET with one paid classic L402 token, answered by an upstream with 1 KiB. boltgate runs its whole paid chain: correlation id, access log (a line of JSON for each request, into a file), metrics, CORS, throttle, credential, challenge, forward, with the header rules and time limits of its front door. The peers get the same bytes and only pass them on: they verify, count, limit and log nothing.',
  answerBytes: 1024,
  async prepare (place) {
    const rows: Row[] = []
    const remarks: string[] = []
    let authorization = MADE_UP
    const row = { id: 'boltgate', label: 'boltgate, full paid chain', version: boltgateVersion() }
    try {
      const target = await startBoltgate(place)
      try {
        authorization = await payForToken(target.port, PATH)
        await proveGate(target, authorization)
      } catch (error) {
        await target.stop()
        throw error
      }
      rows.push({ ...row, target, absent: null })
    } catch (error) {
      rows.push({ ...row, target: null, absent: `did not start: ${error instanceof Error ? error.message : String(error)}` })
      remarks.push('boltgate did not run, so the token in the request is made up.')
    }
    for (const peer of PEERS) rows.push(await startPeer(peer, place))
    return { rows, remarks, request: { method: 'GET', path: PATH, headers: { Authorization: authorization, Accept: 'application/json' } } }
  }
}
