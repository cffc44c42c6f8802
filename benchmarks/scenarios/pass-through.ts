import { plainGet } from '../load/request.ts'
import { peerRows } from '../peers/all.ts'
import { gatewayRows } from './gateways.ts'
import type { Scenario } from './scenario.ts'

const request = plainGet('/passed/quote', { Accept: 'application/json' })

/** What the gateway costs where nothing is sold. */
export const passThrough: Scenario = {
  id: 'pass-through',
  plan: {
    rounds: { quick: 2, full: 3 },
    targets: { quick: 4, full: 7 },
    warmed: 2,
    compiled: 0,
    prepare: { quick: 1, full: 1 }
  },
  title: 'Pass-through',
  text: 'GET without a credential, answered by an upstream with 1 KiB. boltgate runs the paid chain without its price: correlation id, access log, metrics, CORS, throttle, forward. The peers only pass the bytes on.',
  latency: [],
  once: null,
  async prepare(fleet, _credentials, scale) {
    const [gateways, peers] = await Promise.all([
      gatewayRows(fleet, async () => request, { oneOnServers: false }),
      peerRows(fleet, request, scale)
    ])
    return { rows: [...gateways, ...peers], remarks: [], request }
  }
}
