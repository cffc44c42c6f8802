import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Payments } from '../payments/service.ts'
import type { PaymentStore } from '../payments/store-sql.ts'
import { refundAdminOperations, refundOperations } from './operations.ts'
import { Refunds, type RefundsDependencies } from './service.ts'
import { RefundSettlements } from './settlement.ts'
import { allSources, paymentSources, type RefundSources } from './destination.ts'
import { RefundStore } from './store.ts'

export function openRefunds(
  dependencies: Omit<RefundsDependencies, 'merchant' | 'sources' | 'store'> & {
    readonly merchants: Merchants
    /** Refundable money other than payments. */
    readonly others: readonly RefundSources[]
    readonly payments: { readonly payments: Payments; readonly store: PaymentStore }
  }
) {
  const { clock, database, log, merchants, onConfirmed, others, payments } = dependencies
  const store = new RefundStore(database)
  const sources = allSources(
    paymentSources({
      refundable: (merchantId, invoiceId) => payments.payments.refundable(merchantId, invoiceId),
      lock: (sql, merchantId, invoiceId) => payments.store.lock(sql, merchantId, invoiceId),
      applyChange: (sql, payment, to, facts, tellMerchant) =>
        payments.payments.applyChange(sql, payment, to, facts, tellMerchant)
    }),
    ...others
  )
  const refunds = new Refunds({ ...dependencies, store, sources, merchant: id => merchants.byId(id) })
  const settlements = new RefundSettlements({ store, sources, onConfirmed, database, clock, log })
  return {
    operations: [...refundOperations(refunds), ...refundAdminOperations(settlements)],
    jobs: refunds.jobs,
    close: () => {}
  }
}
