import { accountLimits } from '../../provider-calls/budgets.ts'
import { addressKeyFault, addressKeyHost } from '../../provider-calls/address-key.ts'
import type { ProviderKind } from '../kind.ts'
import { BtcpayProvider } from './btcpay.ts'
import { readBtcpayKey } from './key.ts'

export const btcpay: ProviderKind = {
  name: 'btcpay',
  isSandbox: false,
  calls: {
    address: null,
    counted: 'key',
    limits: accountLimits({ burst: 300, perMinute: 1_200 }),
    polling: () => ({ perMinute: 60, isShared: false, costs: { list: 2, lookUp: 2 } }),
    hostOf: addressKeyHost('btcpay', readBtcpayKey)
  },
  scopes: [
    { scope: 'btcpay.store.cancreateinvoice', purpose: 'Make invoices' },
    { scope: 'btcpay.store.canviewinvoices', purpose: 'See whether they were paid' },
    { scope: 'btcpay.store.webhooks.canmodifywebhooks', purpose: 'Be told at once that one was paid' },
    { scope: 'btcpay.store.canuselightningnode', purpose: 'Refunds' }
  ],
  keyHint: 'btcpay+https://host/path?store=<store id>&key=<API key>',
  keyFault: addressKeyFault(readBtcpayKey),
  open: options => new BtcpayProvider(options)
}
