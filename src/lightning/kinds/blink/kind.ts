import { NO_LIMIT } from '../../provider-calls/budgets.ts'
import { headerKeyFault } from '../../provider-calls/key-form.ts'
import type { ProviderKind } from '../kind.ts'
import { BlinkProvider } from './blink.ts'
import { BLINK_LIVE } from './calls.ts'

/** Blink, a custodial wallet. It makes 60 invoices a minute for an account, and blocks it for five minutes after more. */
export const blink: ProviderKind = {
  name: 'blink',
  isSandbox: false,
  calls: {
    address: BLINK_LIVE,
    counted: 'key',
    limits: (url, perMinute) => {
      if (perMinute !== null) return { ofAddress: {}, ofAccount: { burst: perMinute, perMinute } }
      const isTheirs = url === null || /(^|\.)blink\.sv$/.test(new URL(url).hostname)
      // Together no more than 55 in any minute.
      return { ofAddress: {}, ofAccount: isTheirs ? { burst: 15, perMinute: 40 } : NO_LIMIT }
    },
    polling: () => ({ perMinute: 12, isShared: false, costs: { list: 1, lookUp: 1 } })
  },
  scopes: [
    { scope: 'READ', purpose: 'See whether invoices were paid' },
    { scope: 'RECEIVE', purpose: 'Make invoices' },
    { scope: 'WRITE', purpose: 'Refunds, and to be told at once that one was paid' }
  ],
  keyFault: headerKeyFault,
  open: options => new BlinkProvider(options)
}
