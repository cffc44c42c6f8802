import { addressKeyFault, addressKeyHost } from '../../provider-calls/address-key.ts'
import type { ProviderKind } from '../kind.ts'
import { readLnbitsKey } from './key.ts'
import { LnbitsProvider } from './lnbits.ts'

/** A wallet of an LNbits. As it comes, an instance takes 200 calls a minute from one address. */
export const lnbits: ProviderKind = {
  name: 'lnbits',
  isSandbox: false,
  calls: {
    address: null,
    counted: 'key',
    limits: (_url, perMinute) => ({
      ofAddress: {},
      ofAccount: perMinute === null ? { burst: 40, perMinute: 150 } : { burst: perMinute, perMinute }
    }),
    polling: () => ({ perMinute: 30, isShared: false, costs: { list: 1, lookUp: 1 } }),
    hostOf: addressKeyHost('lnbits', readLnbitsKey)
  },
  scopes: [
    { scope: 'Invoice/read key', purpose: 'Make invoices, and see whether they were paid' },
    { scope: 'Admin key', purpose: 'Refunds; it may do the other things too' }
  ],
  wantsAmounts: true,
  keyFault: addressKeyFault(readLnbitsKey),
  open: options => new LnbitsProvider(options)
}
