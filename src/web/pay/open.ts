import { pageOperations, type PayPageDependencies } from './operations.ts'

export function openPages(
  dependencies: Omit<PayPageDependencies, 'merchant' | 'watch'> & {
    readonly merchants: { byId: PayPageDependencies['merchant'] }
    readonly payments: PayPageDependencies['payments'] & PayPageDependencies['watch']
  }
) {
  const { merchants, payments } = dependencies
  return {
    operations: pageOperations({ ...dependencies, watch: payments, merchant: id => merchants.byId(id) }),
    jobs: [],
    close: () => {}
  }
}
