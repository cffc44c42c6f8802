import { pageOperations, type PageParts } from './operations.ts'

export interface OpenPagesParts extends Omit<PageParts, 'merchant' | 'watch'> {
  readonly merchants: { byId: PageParts['merchant'] }
  readonly payments: PageParts['payments'] & PageParts['watch']
}

export function openPages(parts: OpenPagesParts) {
  const { merchants, payments } = parts
  return {
    operations: pageOperations({ ...parts, watch: payments, merchant: id => merchants.byId(id) }),
    jobs: [],
    close: () => {}
  }
}
