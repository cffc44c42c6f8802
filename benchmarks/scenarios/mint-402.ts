import { plainGet } from '../load/request.ts'
import { gatewayRows, nginxRow, valuesFile } from './gateways.ts'
import type { Scenario } from './scenario.ts'

/** A 402 with a fresh invoice of the sandbox. */
export const mint402: Scenario = {
  id: 'mint-402',
  plan: {
    rounds: { quick: 3, full: 5 },
    targets: { quick: 4, full: 4 },
    warmed: 3,
    compiled: 0,
    prepare: { quick: 1, full: 1 }
  },
  title: 'A 402 with a fresh invoice',
  text: 'GET without a credential on a priced route: an invoice of the sandbox, signed here, a macaroon, a Payment challenge, one row in the database. Every request comes from another client network, as the cap on open invoices of a client would hand them out again. All these invoices are open, and none is paid.',
  latency: [],
  once: { quick: 150, full: 1_000, warmUp: 1 },
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
      rows: [...rows, await nginxRow(fleet)],
      remarks: [
        'Writing and signing the invoice is a part of it, which a real provider does elsewhere (`npm run bench:micro`, `invoice-sign`); there its invoice is read and its signature checked instead (`invoice-read`).'
      ],
      request
    }
  }
}
