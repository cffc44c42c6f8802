import { periodic } from '../../../platform/jobs/jobs.ts'
import { addressKeyFault, addressKeyHost } from '../../provider-calls/address-key.ts'
import type { ProviderKind } from '../kind.ts'
import { readLnurlKey } from './key.ts'
import { LnurlProvider } from './lnurl.ts'
import { LnurlStore } from './store.ts'

const HOUR = 3_600_000
/** Milliseconds after the end of an invoice for which it can still be asked whether it was paid. */
const KEPT = 90 * 24 * HOUR
const PURGE_BATCH = 500

/** A Lightning address at anybody's server, which says whether its invoices were paid (LUD-21). */
export const lnurl: ProviderKind = {
  name: 'lnurl',
  isSandbox: false,
  onlyReceives: true,
  calls: {
    address: null,
    counted: 'key',
    // Hardly any server says what it allows: this is what a busy till asks.
    limits: (_url, perMinute) => ({
      ofAddress: {},
      ofAccount: perMinute === null ? { burst: 60, perMinute: 120 } : { burst: perMinute, perMinute }
    }),
    polling: () => ({ perMinute: 40, isShared: false, costs: { list: 1, lookUp: 1 } }),
    hostOf: addressKeyHost('lnurl', readLnurlKey)
  },
  keyFault: addressKeyFault(readLnurlKey),
  open: options => new LnurlProvider(options),
  jobs: ({ clock, database }) => {
    const store = new LnurlStore(database.sql)
    return [
      periodic('lnurl-purge', HOUR, 'Forgets old invoices of Lightning addresses', async () => {
        while ((await store.purge(clock.now() - KEPT, PURGE_BATCH)) === PURGE_BATCH) {
          /* there may be more */
        }
      })
    ]
  }
}
