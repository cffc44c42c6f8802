import type { Database } from '../../platform/database/database.ts'
import { periodic } from '../../platform/jobs/jobs.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { Earnings } from './earnings.ts'
import { Margins } from './margins.ts'
import { salesOperations } from './operations.ts'
import { SaleStore } from './store.ts'

export function openSales({ clock, database }: { readonly clock: Clock; readonly database: Database }) {
  const sales = new SaleStore(database)
  const earnings = new Earnings(database)
  const margins = new Margins(database)
  return {
    sales,
    earnings,
    operations: salesOperations({ store: sales, earnings, margins, clock }),
    jobs: [
      periodic('earnings', 60_000, 'Adds what was sold to the sums of earnings', signal =>
        earnings.roll(clock.now(), signal)
      ),
      periodic('margins', 60_000, 'Adds what requests of models brought and cost to their sums', () =>
        margins.roll(clock.now())
      ),
      periodic('earnings-purge', 86_400_000, 'Deletes sums of earnings by hour after 90 days', () =>
        earnings.purge(clock.now())
      )
    ]
  }
}
