import { plainGet } from '../load/request.ts'
import { peerRow } from '../peers/row.ts'
import { mintCredentials } from '../peers/boltgate.ts'
import { nginx } from '../peers/nginx.ts'
import { undici } from '../peers/node-peers.ts'
import type { Place } from '../peers/target.ts'
import { gatewayRows, valuesFile } from './gateways.ts'
import { proveGate } from './guard.ts'
import type { Row, Scenario } from './scenario.ts'
import { narrowedTokens } from './tokens.ts'
import { MADE_UP } from './verified-l402.ts'

const PATH = '/paid/quote'
const ACCEPT = { Accept: 'application/json' }

/** Plain proxies, for the same bytes. */
async function plainRows (place: Place): Promise<Row[]> {
  const request = plainGet(PATH, { Authorization: MADE_UP, ...ACCEPT })
  const rows: Row[] = []
  for (const peer of [nginx, undici]) rows.push({ ...await peerRow(peer, place, request), request })
  return rows
}

/** Every request shows a token that the gateway has not seen. */
export const coldL402: Scenario = {
  id: 'cold-l402',
  title: 'Verified L402 request, cold token',
  text: 'Every request shows a token that the gateway has not seen: its macaroon is read and verified, and its payment claimed by one conditional UPDATE. The tokens were made from a few hundred payments by narrowing, as any holder can.',
  answerBytes: 1024,
  latency: [],
  once: { quick: 3_000, full: 20_000 },
  async prepare (place, count) {
    const { rows } = await gatewayRows(place, async (gateway, { name }) => {
      const paid = await mintCredentials(gateway.port, 400, { path: PATH })
      await proveGate(gateway, PATH, paid[0] ?? '')
      return { ...plainGet(PATH, ACCEPT), varied: { header: 'Authorization', file: valuesFile(place, `${name}-cold`, narrowedTokens(paid, count)) } }
    }, { oneOnServers: true })
    const request = plainGet(PATH, ACCEPT)
    return { rows: [...rows, ...await plainRows(place)], remarks: [], request }
  }
}

const LIVE = 10_000

/** As many tokens are in use as a busy gateway has payers. */
export const tenThousandTokens: Scenario = {
  id: 'ten-thousand-tokens',
  title: 'Verified L402 request, ten thousand live tokens',
  text: `${LIVE} tokens of 1,000 payments are shown in turn, all seen before: the warm path with a cache of real size.`,
  answerBytes: 1024,
  latency: [],
  once: null,
  async prepare (place) {
    const { rows } = await gatewayRows(place, async (gateway, { name }) => {
      const tokens = narrowedTokens(await mintCredentials(gateway.port, 1_000, { path: PATH }), LIVE)
      // In turn for as long as a window may last.
      const inTurn = Array.from({ length: 60 }, () => tokens).flat()
      return { ...plainGet(PATH, ACCEPT), varied: { header: 'Authorization', file: valuesFile(place, `${name}-live`, inTurn) } }
    }, { oneOnServers: false })
    return { rows: [...rows, ...await plainRows(place)], remarks: [], request: plainGet(PATH, ACCEPT) }
  }
}
