import { accountLimits } from '../../provider-calls/budgets.ts'
import { addressKeyFault } from '../../provider-calls/address-key.ts'
import type { ProviderKind } from '../kind.ts'
import { keyOfFolder } from './folder.ts'
import { lndHost, LndProvider } from './lnd.ts'
import { readLndConnect } from './lndconnect.ts'

/** lnd publishes no limits: ours spare the node and our database. */
export const lnd: ProviderKind = {
  name: 'lnd',
  isSandbox: false,
  calls: {
    address: null,
    counted: 'key',
    limits: accountLimits({ burst: 1_000, perMinute: 12_000 }),
    // A merchant's own node has no limit but other work to do.
    polling: () => ({ perMinute: 60, isShared: false, costs: { list: 2, lookUp: 1 } }),
    hostOf: lndHost
  },
  scopes: [
    { scope: 'invoices:write', purpose: 'Make invoices' },
    { scope: 'invoices:read', purpose: 'See whether they were paid' },
    { scope: 'offchain:read', purpose: 'See whether the node has announced channels, and what became of refunds' },
    { scope: 'offchain:write', purpose: 'Refunds to Lightning invoices' },
    { scope: 'onchain:read', purpose: 'See what became of refunds to Bitcoin addresses' },
    { scope: 'onchain:write', purpose: 'Refunds to Bitcoin addresses' }
  ],
  keyHint: 'lndconnect://host:port?cert=<base64url>&macaroon=<base64url>',
  keyFault: addressKeyFault(readLndConnect),
  onMachine: { folder: '.lnd', keyOf: keyOfFolder },
  open: options => new LndProvider(options)
}
