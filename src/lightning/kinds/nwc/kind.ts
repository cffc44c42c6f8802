import { addressKeyFault, addressKeyHost } from '../../provider-calls/address-key.ts'
import type { ProviderKind } from '../kind.ts'
import { readNwcKey } from './key.ts'
import { NwcProvider } from './nwc.ts'

/** A wallet over Nostr Wallet Connect. Wallets and relays publish no limits: ours spare them. */
export const nwc: ProviderKind = {
  name: 'nwc',
  isSandbox: false,
  calls: {
    address: null,
    counted: 'key',
    limits: (_url, perMinute) => ({
      ofAddress: {},
      ofAccount: perMinute === null ? { burst: 120, perMinute: 600 } : { burst: perMinute, perMinute }
    }),
    polling: () => ({ perMinute: 60, isShared: false, costs: { list: 2, lookUp: 1 } }),
    hostOf: addressKeyHost('nwc', readNwcKey)
  },
  scopes: [
    { scope: 'make_invoice', purpose: 'Make invoices' },
    { scope: 'lookup_invoice', purpose: 'See whether one was paid' },
    { scope: 'get_info', purpose: 'Check the key' },
    { scope: 'list_transactions', purpose: 'Find what was paid sooner than after a minute' },
    { scope: 'pay_invoice', purpose: 'Refunds' }
  ],
  keyFault: addressKeyFault(readNwcKey),
  open: options => new NwcProvider(options)
}
