import { addressKeyFault, addressKeyHost } from '../../provider-calls/address-key.ts'
import type { ProviderKind } from '../kind.ts'
import { ClnProvider } from './cln.ts'
import { readClnKey } from './key.ts'

/** A Core Lightning node of its owner's, by clnrest. It has no limits of its own: ours spare it and our database. */
export const cln: ProviderKind = {
  name: 'cln',
  isSandbox: false,
  calls: {
    address: null,
    counted: 'key',
    limits: (_url, perMinute) => ({
      ofAddress: {},
      ofAccount: perMinute === null ? { burst: 1_000, perMinute: 12_000 } : { burst: perMinute, perMinute }
    }),
    // It tells of one paid invoice a call.
    polling: () => ({ perMinute: 240, isShared: false, costs: { list: 10, lookUp: 1 } }),
    hostOf: addressKeyHost('cln', readClnKey)
  },
  scopes: [
    { scope: 'method=invoice', purpose: 'Make invoices' },
    { scope: 'method=listinvoices', purpose: 'See whether one was paid' },
    { scope: 'method=waitanyinvoice', purpose: 'Find what was paid' },
    { scope: 'method=getinfo', purpose: 'Check the key' },
    { scope: 'method=listpays', purpose: 'See what became of refunds' },
    { scope: 'method=xpay', purpose: 'Refunds' },
    { scope: 'method=pay', purpose: 'Refunds by nodes before 24.11' }
  ],
  keyFault: addressKeyFault(readClnKey),
  open: options => new ClnProvider(options)
}
