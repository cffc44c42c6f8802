import { plainGet } from '../load/request.ts'
import { peerRow } from '../peers/row.ts'
import { nginx } from '../peers/nginx.ts'
import { undici } from '../peers/node-peers.ts'
import type { Fleet } from '../measure/fleet.ts'
import type { GatewayTarget } from '../peers/boltgate.ts'
import { cpuOfProcess, cpuOfTree } from '../rig/cpu.ts'
import type { LoadRequest } from '../load/request.ts'
import { gatewayRows, valuesFile } from './gateways.ts'
import { proveGate } from './guard.ts'
import type { Row, Scenario } from './scenario.ts'
import { narrowedTokens, paidTokens, PAID_PATH, TOKENS_OF_A_PAYMENT } from './tokens.ts'
import { MADE_UP } from './verified-l402.ts'

const ACCEPT = { Accept: 'application/json' }

/** Payments whose tokens are narrowed. */
const PAYMENTS = 200

/** Plain proxies, for as many bytes. */
async function plainRows(fleet: Fleet): Promise<Row[]> {
  const request = plainGet(PAID_PATH, { Authorization: MADE_UP, ...ACCEPT })
  return await Promise.all([nginx, undici].map(async peer => ({ ...(await peerRow(peer, fleet, request)), request })))
}

/** Every request shows a token that the gateway has not seen. */
export const coldL402: Scenario = {
  id: 'cold-l402',
  plan: {
    rounds: { quick: 3, full: 5 },
    targets: { quick: 5, full: 5 },
    warmed: 9,
    compiled: 0,
    prepare: { quick: 2, full: 4 }
  },
  title: 'Verified L402 request, cold token',
  text: `Every request shows a token that the gateway has not seen: its macaroon is read and verified, and its payment claimed by one conditional UPDATE. The tokens were made from ${PAYMENTS} payments by narrowing, as any holder can.`,
  latency: [],
  once: { quick: 400, full: 2_000, warmUp: 3 },
  async prepare(fleet, count) {
    const [gateways, peers] = await Promise.all([
      gatewayRows(
        fleet,
        async (gateway, { id }) => {
          const paid = await paidTokens(gateway, PAYMENTS)
          await proveGate(gateway, PAID_PATH, paid[0] ?? '')
          return {
            ...plainGet(PAID_PATH, ACCEPT),
            varied: {
              header: 'Authorization',
              file: valuesFile(fleet, `${id}-cold`, narrowedTokens(paid, count, TOKENS_OF_A_PAYMENT))
            }
          }
        },
        { oneOnServers: true }
      ),
      plainRows(fleet)
    ])
    return { rows: [...gateways, ...peers], remarks: [], request: plainGet(PAID_PATH, ACCEPT) }
  }
}

const LIVE = 10_000
/**
 * CPU microseconds of the database for each request, below which it can have claimed no payment; a claim takes
 * hundreds.
 */
const NO_CLAIM = 15
/**
 * How often the tokens are shown at most: a second worker may have been given none of the connections that showed one.
 */
const SHOWINGS = 12

/** Shows all tokens until the gateway, and each of its workers, knows them: until its database has no more to do. */
async function showAll(fleet: Fleet, gateway: GatewayTarget, onServers: boolean, request: LoadRequest): Promise<void> {
  const load = await fleet.load()
  const postgresPid = onServers ? (await fleet.servers()).postgresPid : null
  // The embedded database is a process that the gateway has started.
  const cpuOfDatabase = (): number =>
    postgresPid === null ? cpuOfTree(gateway.pid) - cpuOfProcess(gateway.pid) : cpuOfTree(postgresPid)
  for (let showing = 0; showing < SHOWINGS; showing++) {
    const before = cpuOfDatabase()
    // Other connections each time, so that in the end every worker has had every token.
    const { requests, refused, broken } = await load.closed({
      port: gateway.port,
      request,
      connections: 64 + 7 * showing,
      seconds: 120,
      core: null,
      from: showing * 13,
      count: LIVE
    })
    if (requests !== LIVE || refused > 0 || broken > 0) {
      throw new Error(
        `of ${LIVE} tokens ${requests} were answered, ${refused} of them refused, and ${broken} connections broke`
      )
    }
    if (showing > 0 && (cpuOfDatabase() - before) / LIVE < NO_CLAIM) return
  }
  throw new Error(`after ${SHOWINGS} showings some of the tokens were still claimed in the database`)
}

/** As many tokens are in use as a busy gateway has payers. */
export const tenThousandTokens: Scenario = {
  id: 'ten-thousand-tokens',
  plan: {
    rounds: { quick: 2, full: 4 },
    targets: { quick: 4, full: 4 },
    warmed: 2,
    compiled: 0,
    prepare: { quick: 10, full: 10 }
  },
  title: 'Verified L402 request, ten thousand live tokens',
  text: `${LIVE} tokens of ${PAYMENTS} payments are shown in turn, all seen before: the warm path with a cache of real size. They are shown, before anything is measured, until the database has nothing more to claim.`,
  latency: [],
  once: null,
  async prepare(fleet) {
    const plain = await plainRows(fleet)
    const again = (id: string, tokens: readonly string[]): LoadRequest => ({
      ...plainGet(PAID_PATH, ACCEPT),
      varied: { header: 'Authorization', file: valuesFile(fleet, `${id}-live`, tokens), again: true }
    })
    const rows = await gatewayRows(
      fleet,
      async (gateway, { id, onServers }) => {
        const request = again(id, narrowedTokens(await paidTokens(gateway, PAYMENTS), LIVE))
        await showAll(fleet, gateway, onServers, request)
        return request
      },
      { oneOnServers: false }
    )
    // The same generator for all rows, or its share of the work would differ.
    const request = again(
      'peers',
      Array.from({ length: 100 }, () => MADE_UP)
    )
    return {
      rows: [...rows, ...plain.map(row => ({ ...row, request }))],
      remarks: [],
      request: plainGet(PAID_PATH, ACCEPT)
    }
  }
}
