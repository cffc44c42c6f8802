import { addressKeyFault, addressKeyHost } from '../address-key.ts'
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
  keyFault: addressKeyFault(readClnKey),
  open: options => new ClnProvider(options)
}
