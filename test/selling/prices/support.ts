import challenge from '../../../plugins/challenge.ts'
import credential from '../../../plugins/credential.ts'
import type { RouteConfig } from '../../../src/engine/config/schema.ts'
import { harness, type HarnessRequest, type HarnessResult } from '../../../src/engine/pipeline/harness.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { freshAddress, l402Parameters, route, type Fixture } from '../challenges/fixture.ts'

/** A route that sells by these settings, in the real engine, and a buyer that pays its invoices. */
export async function sellingRoute(f: Pick<Fixture, 'challenges' | 'clock' | 'payee'>, changes: Partial<RouteConfig>) {
  const config = route({ name: freshAddress(), ...changes })
  const chain = await harness([credential, challenge], {
    services: { challenges: f.challenges, clock: f.clock },
    route: { name: config.name, config }
  })
  const peerAddress = freshAddress()
  const ask = (request: HarnessRequest = {}) => chain.run({ target: '/v1/a?x=1', peerAddress, ...request })
  const pay = (result: HarnessResult) => {
    if (result.status !== 402) throw new Error(`no 402 but ${result.status}`)
    const { macaroon, invoice } = l402Parameters(result.headers.all('www-authenticate'))
    const { amountMsat, description } = decodeInvoice(invoice)
    const sats = Number((amountMsat ?? 0n) / 1000n)
    return { sats, description, authorization: () => `L402 ${macaroon}:${f.payee.pay(invoice)}` }
  }
  return { clock: f.clock, ask, pay }
}
