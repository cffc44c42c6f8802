import { pageOperations, type PageParts } from './operations.ts'

export function openPages(
  parts: Omit<PageParts, 'merchant' | 'watch'> & {
    readonly merchants: { byId: PageParts['merchant'] }
    readonly payments: PageParts['payments'] & PageParts['watch']
  }
) {
  const { merchants, payments } = parts
  return {
    operations: pageOperations({ ...parts, watch: payments, merchant: id => merchants.byId(id) }),
    jobs: [],
    close: () => {}
  }
}
