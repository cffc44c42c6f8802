import { lightningCharge } from '../../provider-calls/lightning-charge.ts'
import { ProviderRefused, unusableResponse, requireResponse } from '../../provider-calls/errors.ts'
import type { CallProvider, ProviderResponse } from '../../provider-calls/provider-call.ts'
import type { Charge, ChargeRequest, ChargeState } from '../../provider-calls/provider.ts'
import type { BtcpayKey } from './key.ts'
import { btcpayError, BtcpayNodeInvoice } from './responses.ts'

export const BTCPAY_SCOPES = Object.freeze({
  create: 'btcpay.store.cancreateinvoice',
  view: 'btcpay.store.canviewinvoices',
  webhooks: 'btcpay.store.webhooks.canmodifywebhooks',
  pay: 'btcpay.store.canuselightningnode',
  createAtNode: 'btcpay.store.cancreatelightninginvoice',
  viewAtNode: 'btcpay.store.canviewlightninginvoice'
})
/** Starts the charge id of an invoice of the store's node. */
export const AT_NODE = 'ln_'

export function storePath({ store }: BtcpayKey): string {
  return `/api/v1/stores/${store}`
}

/**
 * Whether BTCPay reports an unknown item.
 * @throws ProviderRefused for an unknown store or store without Lightning; ProviderUnavailable for another 404
 */
export function isMissing({ status, body, said }: ProviderResponse, code: string): boolean {
  if (status !== 404) return false
  const found = btcpayError(body).code
  if (found === code) return true
  if (found === null) throw unusableResponse('status 404 of something else')
  throw new ProviderRefused('request', `BTCPay refused the request: ${said ?? found}`)
}

export async function newNodeInvoice(
  call: CallProvider,
  server: BtcpayKey,
  { amountSats, expirySeconds }: ChargeRequest,
  description: string
): Promise<Charge> {
  const response = await call({
    method: 'POST',
    path: `${storePath(server)}/lightning/BTC/invoices`,
    body: { amount: String(amountSats * 1000), description, descriptionHashOnly: true, expiry: expirySeconds },
    scope: BTCPAY_SCOPES.createAtNode
  })
  const { id, invoice } = requireResponse(BtcpayNodeInvoice, response.body)
  return { ...lightningCharge(invoice, null, amountSats), chargeId: AT_NODE + id }
}

export async function lookUpAtNode(
  call: CallProvider,
  server: BtcpayKey,
  id: string,
  now: number
): Promise<ChargeState | null> {
  const path = `${storePath(server)}/lightning/BTC/invoices/${id}`
  const response = await call({ method: 'GET', path, scope: BTCPAY_SCOPES.viewAtNode, accepts: [404] })
  if (isMissing(response, 'invoice-not-found')) return null
  const found = requireResponse(BtcpayNodeInvoice, response.body)
  if (found.id !== id) throw unusableResponse('another invoice')
  const { status, receivedSats, paidAt } = found
  return status === 'paid'
    ? { status, receivedSats, settledAt: paidAt ?? now }
    : { status, receivedSats: 0, settledAt: null }
}
