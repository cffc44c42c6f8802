import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { SubscriptionGate } from '../../accounts/merchants/gate.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { ProviderSlot } from '../../lightning/providers/account.ts'
import type { InvoiceNews } from '../../lightning/providers/invoice-news.ts'
import type { KindName } from '../../lightning/providers/provider.ts'
import type { OnPaymentChange } from './schema.ts'
import { checkoutOperations } from './checkout-sessions.ts'
import { openDemoInvoices } from './demo.ts'
import { paymentListOperations } from './listing.ts'
import { paymentOperations } from './operations.ts'
import { Payments, type PaymentsParts } from './service.ts'
import { SqlPaymentStore } from './store-sql.ts'
import type { ProviderSeatName } from './store.ts'
import { PaymentWatch } from './watch.ts'

export { hasPaidPayment } from './store-sql.ts'

type Taken = 'clock' | 'database' | 'log' | 'payees' | 'prices' | 'publicUrl' | 'random'

/** What payments are opened with. */
export interface OpenPaymentsParts extends Pick<PaymentsParts, Taken> {
  /** Called in this order for each change of a status, in its transaction. */
  readonly changed: readonly OnPaymentChange[]
  readonly gate: SubscriptionGate
  readonly merchants: Merchants
  readonly news: InvoiceNews
  /** Seats that a poller asks about. */
  readonly polled: readonly ProviderSeatName[]
  /** A provider has made an invoice for an account. Answers at once and never throws. */
  charged(account: Merchant, slot: ProviderSlot, kind: KindName): void
  config(): Pick<GatewayConfig, 'data' | 'payments'>
  /** Told once of each payment that has become paid, in satoshis; for figures: it must not throw. */
  sold(amountSats: number): void
}

/** Opens merchants' payments. */
export function openPayments(parts: OpenPaymentsParts) {
  const { changed, charged, clock, config, database, gate, log, merchants, news, polled, sold } = parts
  const store = new SqlPaymentStore(database)
  const payments = new Payments({
    ...parts,
    store,
    demo: openDemoInvoices(config().data, clock),
    watch: new PaymentWatch(database, log),
    settings: () => config().payments,
    merchant: id => merchants.byId(id),
    refusal: (merchant, feature, now) => gate.refusal(merchant, feature, now),
    polled: () => polled,
    paid: payment => {
      sold(payment.amountSats ?? payment.receivedSats ?? 0)
    },
    created: (merchant, payment) => {
      charged(merchant, payment.slot, payment.kind)
    },
    changed: async (sql, change) => {
      for (const tell of changed) await tell(sql, change)
    }
  })
  const settled = (paymentHash: string): Promise<void> => payments.settled(paymentHash)
  news.listen({ paid: settled, changed: settled })
  return {
    payments,
    store,
    /** Begins to hear changes and to sweep. Rejects when the database is away, and may be called again then. */
    start: () => payments.start(),
    operations: [...paymentOperations(payments), ...paymentListOperations(payments), ...checkoutOperations(payments)],
    jobs: payments.jobs,
    close: () => payments.close()
  }
}
