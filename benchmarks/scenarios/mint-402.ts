import { plainGet } from '../load/request.ts'
import { gatewayRows, valuesFile } from './gateways.ts'
import type { Scenario } from './scenario.ts'

/** A 402 with a fresh invoice of the sandbox. */
export const mint402: Scenario = {
  id: 'mint-402',
  title: 'A 402 with a fresh invoice',
  text: 'GET without a credential on a priced route: an invoice of the sandbox, signed by its thread, a macaroon, a Payment challenge, one row in the database. Every request comes from another client network, as the cap on open invoices of a client would hand them out again. All these invoices are open, and none is paid.',
  latency: [],
  once: { quick: 150, full: 3_000, warmUp: 1 },
  async prepare(fleet, count) {
    const networks = Array.from({ length: count }, (_, at) => `10.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}`)
    const file = valuesFile(fleet, 'networks', networks)
    const request = {
      ...plainGet('/paid/quote', { Accept: 'application/json' }),
      status: 402,
      varied: { header: 'X-Forwarded-For', file }
    }
    const rows = await gatewayRows(fleet, async () => request, { oneOnServers: true })
    return {
      rows,
      remarks: [
        'The column of the signature is part of the CPU: the thread that signs would not be there with a real provider.'
      ],
      request
    }
  }
}
