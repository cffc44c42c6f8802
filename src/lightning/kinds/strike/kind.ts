import { NO_LIMIT, type CallLimits } from '../../provider-calls/budgets.ts'
import { headerKeyFault } from '../../provider-calls/address-key.ts'
import type { ProviderKind } from '../kind.ts'
import { STRIKE_LIVE, StrikeProvider } from './strike.ts'

const LIVE_HOST = new URL(STRIKE_LIVE).host
const TEST_HOST = 'api.dev.strike.me'

const hostOf = (url: string | null): string => (url === null ? LIVE_HOST : new URL(url).host)

/**
 * Strike counts our address: 1,000 calls in 10 minutes and then an hour of nothing (its test host: 350), and 250 a
 * minute for each call of a payment quote (90). A bucket gives at most its burst and ten minutes of its rate in any ten
 * minutes.
 */
function limits(url: string | null, perMinute: number | null): CallLimits {
  const own = perMinute === null ? null : { burst: perMinute, perMinute }
  const host = hostOf(url)
  // Another address is a server of somebody's own, whose limits are not Strike's.
  if (host !== LIVE_HOST && host !== TEST_HOST)
    return { ofAddress: own === null ? {} : { others: own }, ofAccount: NO_LIMIT }
  const isLive = host === LIVE_HOST
  const others = own ?? (isLive ? { burst: 100, perMinute: 85 } : { burst: 35, perMinute: 30 })
  const quotes = isLive ? { burst: 40, perMinute: 200 } : { burst: 15, perMinute: 70 }
  return { ofAddress: { others, 'payment quotes': quotes, executions: quotes }, ofAccount: NO_LIMIT }
}

/** Strike, live or its test host. */
export const strike: ProviderKind = {
  name: 'strike',
  isSandbox: false,
  calls: {
    address: STRIKE_LIVE,
    counted: 'address',
    limits,
    // A fifth of the calls that lock an address out: charges and look-ups count too.
    polling: url => ({ perMinute: hostOf(url) === LIVE_HOST ? 20 : 7, isShared: true, costs: { list: 2, lookUp: 2 } })
  },
  scopes: [
    { scope: 'partner.receive-request.create', purpose: 'Make invoices' },
    { scope: 'partner.receive-request.read', purpose: 'See whether they were paid' },
    { scope: 'partner.webhooks.manage', purpose: 'Be told of payments at once; without it they are asked for' },
    { scope: 'partner.payment-quote.lightning.create', purpose: 'Refunds to Lightning invoices' },
    { scope: 'partner.payment-quote.onchain.create', purpose: 'Refunds to Bitcoin addresses' },
    { scope: 'partner.payment-quote.execute', purpose: 'Send refunds' },
    { scope: 'partner.payment.read', purpose: 'See what became of refunds' }
  ],
  keyFault: headerKeyFault,
  open: options => new StrikeProvider(options)
}
