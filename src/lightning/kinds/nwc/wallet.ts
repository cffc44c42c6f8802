import { hash } from 'node:crypto'
import { Type } from 'typebox'
import { AddressGuard } from '../../../engine/upstream/guard.ts'
import { readResponse } from '../../../engine/formats/response-schema.ts'
import { Secret } from '../../../platform/keys/secrets.ts'
import { systemClock } from '../../../platform/system/clock.ts'
import { decodeInvoice } from '../../codecs/bolt11.ts'
import { unusableResponse, Hash } from '../../provider-calls/errors.ts'
import { NwcCalls } from './calls.ts'

const PAYMENT_MS = 60_000

/**
 * Pays an invoice from the wallet of a connection and returns the preimage.
 * @throws ProviderRefused, ProviderUnavailable
 */
export async function payFromWallet(connection: string, invoice: string): Promise<string> {
  const key = new Secret(connection)
  const calls = new NwcCalls({
    guard: new AddressGuard({ production: false }),
    timeout: PAYMENT_MS,
    clock: systemClock,
    ownKey: key,
    url: null
  })
  try {
    const response = await calls.within(key, wallet => wallet.ask('pay_invoice', { invoice }))
    const paid = readResponse(Type.Object({ preimage: Hash }), 'result' in response ? response.result : null)
    if (
      paid === null ||
      hash('sha256', Buffer.from(paid.preimage, 'hex'), 'hex') !== decodeInvoice(invoice).paymentHash
    )
      throw unusableResponse('a payment without its preimage')
    return paid.preimage
  } finally {
    await calls.close()
  }
}
