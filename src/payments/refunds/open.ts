import type { Payments } from '../payments/service.ts'
import type { PaymentStore } from '../payments/store-sql.ts'
import { refundAdminOperations, refundOperations } from './operations.ts'
import { Refunds, type RefundsDependencies } from './service.ts'
import { RefundSettlements } from './settlement.ts'
import { allSources, paymentSources, type RefundSources } from './destination.ts'
import { RefundStore } from './store.ts'

export function openRefunds(
  dependencies: Omit<RefundsDependencies, 'sources' | 'store'> & {
    /** Refundable money other than payments. */
    readonly others: readonly RefundSources[]
    readonly payments: { readonly payments: Payments; readonly store: PaymentStore }
  }
) {
  const { others, payments } = dependencies
  const store = new RefundStore(dependencies.database)
  const sources = allSources(paymentSources(payments.payments, payments.store), ...others)
  const refunds = new Refunds({ ...dependencies, store, sources })
  const settlements = new RefundSettlements({ ...dependencies, store, sources })
  return {
    operations: [...refundOperations(refunds), ...refundAdminOperations(settlements)],
    jobs: refunds.jobs
  }
}
