import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { SubscriptionGate } from '../../accounts/merchants/gate.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { ProviderEvents } from '../../lightning/providers/events.ts'
import type { OnPaymentChange } from './schema.ts'
import { paymentOperations } from './operations.ts'
import { openDemoInvoices } from './creator.ts'
import { paymentListOperations, customerOperations } from './listing.ts'
import { linkOperations, PaymentLinks } from './links.ts'
import { Payments, type PaymentsDependencies } from './service.ts'
import { PaymentStore } from './store-sql.ts'
import type { ProviderSeatName } from './store.ts'
import { PaymentWatch } from './watch.ts'

type Taken = 'clock' | 'database' | 'log' | 'payees' | 'prices' | 'publicUrl' | 'random'

export function openPayments(
  dependencies: Pick<PaymentsDependencies, Taken> & {
    /** Called in this order in the transaction of each status change. */
    readonly changed: readonly OnPaymentChange[]
    readonly gate: SubscriptionGate
    readonly merchants: Merchants
    readonly events: ProviderEvents
    config(): Pick<GatewayConfig, 'data'>
    /** Called for each paid payment, in satoshis. For metrics: must not throw. */
    sold(amountSats: number): void
  }
) {
  const { changed, clock, config, database, events, gate, log, payees, sold } = dependencies
  const polled = (['primary', 'alternate'] as const).flatMap(slot =>
    payees
      .inOrder(slot)
      .flatMap(({ polling, name }): ProviderSeatName[] => (polling === null ? [] : [`${slot} ${name}`]))
  )
  const store = new PaymentStore(database)
  const payments = new Payments({
    ...dependencies,
    store,
    demo: openDemoInvoices(config().data, clock),
    watch: new PaymentWatch(database, log),
    refusal: (merchant, feature, now) => gate.refusal(merchant, feature, now),
    polled: () => polled,
    paid: payment => {
      sold(payment.amountSats ?? payment.receivedSats ?? 0)
    },
    created: (merchant, payment) => {
      events.charged(merchant, payment.slot, payment.kind)
    },
    changed: async (sql, change) => {
      for (const tell of changed) await tell(sql, change)
    }
  })
  const settled = (paymentHash: string): Promise<void> => payments.settled(paymentHash)
  events.listen({ paid: settled, changed: settled })
  const links = new PaymentLinks({ ...dependencies, payments })
  return {
    payments,
    links,
    store,
    start: () => payments.start(),
    operations: [
      ...paymentOperations(payments),
      ...paymentListOperations(payments),
      ...customerOperations(database),
      ...linkOperations(links, dependencies.publicUrl)
    ],
    jobs: payments.jobs,
    close: () => payments.close()
  }
}
