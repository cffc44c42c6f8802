import t from 'tap'
import { ManualClock } from '../support/manual-clock.ts'
import { journey } from './provider-journey.ts'
import { openShopFront } from './shop-front.ts'
import { strikeTill } from './tills.ts'

void t.test('strike: payments and challenges from the key to the refund', async t => {
  const clock = new ManualClock(Date.now())
  await journey(t, await openShopFront(t, await strikeTill(t, clock), clock))
})
