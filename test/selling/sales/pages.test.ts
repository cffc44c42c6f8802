import t from 'tap'
import { SaleStore, type SaleFilter } from '../../../src/selling/sales/store.ts'
import { eachDatabase } from '../../support/database.ts'
import { account, sell } from './fixture.ts'

const NOW = Date.parse('2026-11-25T12:00:00Z')

/** All pages of so many, and what each begins behind. */
async function pages(store: SaleStore, filter: SaleFilter, limit: number) {
  const found: string[][] = []
  let after: { readonly at: number; readonly id: string } | null = null
  for (;;) {
    const page = await store.list(filter, { after, limit })
    if (page.length === 0) return found
    found.push(page.map(({ paymentHash }) => paymentHash))
    const last = page.at(-1)
    after = last === undefined ? null : { at: last.soldAt, id: last.paymentHash }
  }
}

await eachDatabase(
  t,
  'sales of one moment are on one page each, though a page ends among them',
  async (t, database) => {
    await account(database, 1)
    const moments = [NOW, NOW - 1, NOW - 1, NOW - 1, NOW - 1, NOW - 1, NOW - 1, NOW - 1, NOW - 1, NOW - 2]
    const sold: Array<{ readonly at: number; readonly hash: string; readonly merchantId: string | null }> = []
    for (const [nth, at] of moments.entries()) {
      const merchantId = nth % 2 === 0 ? '1' : null
      sold.push({ at, merchantId, hash: await sell(database, at, { merchantId }) })
    }
    const store = new SaleStore(database)
    const which = {
      period: { from: null, to: null },
      source: null,
      scheme: null,
      state: null,
      proxyId: null,
      text: null
    }
    const expected = (of: (merchantId: string | null) => boolean) =>
      sold
        .filter(({ merchantId }) => of(merchantId))
        .toSorted((one, other) => other.at - one.at || (one.hash < other.hash ? 1 : -1))
        .map(({ hash }) => hash)
    for (const [owner, of] of [
      ['all', () => true],
      ['gateway', (merchantId: string | null) => merchantId === null],
      [{ merchantId: 1 }, (merchantId: string | null) => merchantId === '1']
    ] as const)
      for (const limit of [1, 3, 4, 50]) {
        const found = await pages(store, { ...which, owner }, limit)
        t.same(found.flat(), expected(of), `${JSON.stringify(owner)}, ${limit} a page`)
        t.ok(found.slice(0, -1).every(page => page.length === limit))
      }
  }
)
