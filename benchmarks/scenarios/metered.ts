import { plainGet } from '../load/request.ts'
import { mintCredentials } from '../peers/boltgate.ts'
import { gatewayRows } from './gateways.ts'
import { proveGate } from './guard.ts'
import type { Scenario } from './scenario.ts'

/** What the metered requests ask for. */
export const METERED_PATH = '/metered/quote'

/** The same as the main case, but each request is reserved, counted and taken from a balance. */
export const metered: Scenario = {
  id: 'metered',
  plan: {
    rounds: { quick: 2, full: 4 },
    targets: { quick: 3, full: 3 },
    warmed: 3,
    compiled: 0,
    prepare: { quick: 2, full: 2 }
  },
  title: 'Metered L402 request, warm slice',
  text: 'GET with one paid classic L402 token that is the key to a balance, answered by an upstream with 1 KiB. Beside all that a verified request costs, a millisatoshi is reserved of the slice that the gateway holds, and settled with the head; an entry for each request is written to the database with those of others. To be compared with verified-l402 of the same run.',
  latency: [],
  once: null,
  async prepare(fleet) {
    const rows = await gatewayRows(
      fleet,
      async gateway => {
        const [authorization = ''] = await mintCredentials(gateway.port, 1, { path: METERED_PATH })
        await proveGate(gateway, METERED_PATH, authorization)
        return plainGet(METERED_PATH, { Authorization: authorization, Accept: 'application/json' })
      },
      { oneOnServers: true }
    )
    return { rows, remarks: [], request: plainGet(METERED_PATH, { Accept: 'application/json' }) }
  }
}
