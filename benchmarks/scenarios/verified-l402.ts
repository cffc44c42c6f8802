import { plainGet } from '../load/request.ts'
import { peerRows } from '../peers/all.ts'
import { apertureRow } from '../peers/aperture.ts'
import { nginxModuleRow } from '../peers/gates.ts'
import { gatewayRows } from './gateways.ts'
import { proveGate } from './guard.ts'
import type { Scenario } from './scenario.ts'
import { PAID_PATH, paidTokens } from './tokens.ts'

/** As long as a real one: what peers get, who only pass it on. */
export const MADE_UP = `L402 ${'A'.repeat(420)}:${'0'.repeat(64)}`

/** The main case: a token that has been seen before opens the way to an upstream of 1 KiB. */
export const verifiedL402: Scenario = {
  id: 'verified-l402',
  plan: {
    rounds: { quick: 3, full: 5 },
    targets: { quick: 8, full: 8 },
    warmed: 0,
    compiled: 6,
    prepare: { quick: 9, full: 9 }
  },
  title: 'Verified L402 request, warm token',
  text: 'GET with one paid classic L402 token, answered by an upstream with 1 KiB. boltgate runs its whole paid chain: correlation id, access log (a line of JSON for each request, into a file), metrics, CORS, throttle, credential, challenge, forward, with the header rules and time limits of its front door. The peers get as many bytes and only pass them on: they verify, count, limit and log nothing, but for Aperture, which verifies a token of its own.',
  // The others' would make a quick run a long one.
  latency: ['boltgate', 'nginx', 'haproxy', 'undici', 'direct'],
  once: null,
  async prepare(fleet) {
    const request = plainGet(PAID_PATH, { Authorization: MADE_UP, Accept: 'application/json' })
    const [gateways, peers, aperture] = await Promise.all([
      gatewayRows(
        fleet,
        async gateway => {
          const [authorization = ''] = await paidTokens(gateway, 1)
          await proveGate(gateway, PAID_PATH, authorization)
          return plainGet(PAID_PATH, { Authorization: authorization, Accept: 'application/json' })
        },
        { oneOnServers: true }
      ),
      peerRows(fleet, request),
      apertureRow(fleet, PAID_PATH)
    ])
    return {
      rows: [...gateways, ...peers, aperture, nginxModuleRow()],
      remarks:
        aperture.target === null
          ? []
          : [
              'Aperture asks an upstream of its own for as many bytes, HAProxy: it sends two Authorization lines, which nginx refuses.'
            ],
      request
    }
  }
}
