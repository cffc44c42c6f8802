import { addressKeyFault, addressKeyHost } from '../../provider-calls/address-key.ts'
import type { ProviderKind } from '../kind.ts'
import { readPhoenixdKey } from './key.ts'
import { PhoenixdProvider } from './phoenixd.ts'

/** A phoenixd of its owner's. It has no limits: ours spare it and our database. */
export const phoenixd: ProviderKind = {
  name: 'phoenixd',
  isSandbox: false,
  calls: {
    address: null,
    counted: 'key',
    limits: (_url, perMinute) => ({
      ofAddress: {},
      ofAccount: perMinute === null ? { burst: 500, perMinute: 6_000 } : { burst: perMinute, perMinute }
    }),
    polling: () => ({ perMinute: 60, isShared: false, costs: { list: 2, lookUp: 1 } }),
    hostOf: addressKeyHost('phoenixd', readPhoenixdKey)
  },
  scopes: [
    { scope: 'http-password-limited-access', purpose: 'Make invoices, and see whether they were paid' },
    { scope: 'http-password', purpose: 'Refunds; it may do the other things too' }
  ],
  keyFault: addressKeyFault(readPhoenixdKey),
  open: options => new PhoenixdProvider(options)
}
