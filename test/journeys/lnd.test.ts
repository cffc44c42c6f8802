import t from 'tap'
import { ManualClock } from '../support/manual-clock.ts'
import { faults, hanging } from './provider-faults.ts'
import { journey } from './provider-journey.ts'
import { openShopFront } from './shop-front.ts'
import { lndTill } from './tills.ts'

void t.test('lnd in the primary slot of a whole gateway', async t => {
  const clock = new ManualClock(Date.now())
  const front = await openShopFront(t, await lndTill(t, clock), clock)
  await t.test('it hangs: 503 within its timeout, after five immediately with Retry-After, and again 10 s later', t =>
    hanging(t, front)
  )
  await t.test('from the key to the refund', t => journey(t, front))
  await t.test('failures', t => faults(t, front))
})
