import { pageOperations, type PageParts } from './operations.ts'

/** What the pages are opened with. */
export interface OpenPagesParts extends Omit<PageParts, 'merchant' | 'watch'> {
  readonly merchants: { byId: PageParts['merchant'] }
  readonly payments: PageParts['payments'] & PageParts['watch']
}

/** Opens the pages on which payers pay. */
export function openPages(parts: OpenPagesParts) {
  const { merchants, payments } = parts
  return {
    operations: pageOperations({ ...parts, watch: payments, merchant: id => merchants.byId(id) }),
    jobs: [],
    close: () => {}
  }
}
