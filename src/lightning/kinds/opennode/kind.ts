import { NO_LIMIT } from '../../provider-calls/budgets.ts'
import { headerKeyFault } from '../../provider-calls/address-key.ts'
import type { ProviderKind } from '../kind.ts'
import { OPENNODE_LIVE, OpenNodeProvider } from './opennode.ts'

/** OpenNode publishes no rate limit. */
export const opennode: ProviderKind = {
  name: 'opennode',
  isSandbox: false,
  calls: {
    address: OPENNODE_LIVE,
    counted: 'key',
    limits: (url, perMinute) => {
      if (perMinute !== null) return { ofAddress: {}, ofAccount: { burst: perMinute, perMinute } }
      return {
        ofAddress: {},
        ofAccount:
          url === null || new URL(url).host.endsWith('opennode.com') ? { burst: 300, perMinute: 600 } : NO_LIMIT
      }
    },
    polling: () => ({ perMinute: 20, isShared: true, costs: { list: 1, lookUp: 1 } })
  },
  scopes: [
    { scope: 'Read', purpose: 'See whether invoices were paid' },
    { scope: 'Invoices', purpose: 'Make invoices' },
    { scope: 'Withdrawals', purpose: 'Refunds' }
  ],
  keyHint: 'An API key of your OpenNode account with Invoices and Read.',
  keyFault: headerKeyFault,
  open: options => new OpenNodeProvider(options)
}
