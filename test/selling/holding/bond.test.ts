import t from 'tap'
import type { Bond, SentChallenge } from '../../../src/selling/holding/challenge.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { fixtureOn, minted } from '../challenges/fixture.ts'

function bondOf({ payment, merchantId, query }: SentChallenge): Bond {
  const sold = { service: 'boltgate:0', method: 'GET', path: '/v1/quote', amountSats: 10, issuedAfter: null }
  return { paymentId: payment?.id ?? '', merchantId, query, ...sold }
}

await eachDatabase(
  t,
  'a lease with a bond is had only where the row says the same, and changes nothing else',
  async (t, database) => {
    const f = fixtureOn(t, database, new ManualClock())
    const { challengeStore: store } = f.selling
    const now = f.clock.now()
    const digest = `sha-256=:${'A'.repeat(43)}=:`
    const bound = await minted(f, {}, { digest })
    for (const challenge of [await minted(f, { query: 'a=1' }), await minted(f, { merchantId: '7' }), bound]) {
      const { paymentHash, merchantId } = challenge
      // Its texts are not kept: it is compared as its row has it.
      const made = await store.find(paymentHash)
      const lease = (changed: Partial<Bond>, leaseId = 'wrong') => {
        const bond = { ...bondOf(challenge), ...changed }
        return store.lease(database.sql, { paymentHash, leaseId, gateway: 'g', until: now + 20_000, now, bond })
      }
      const others: Array<Partial<Bond>> = [
        { paymentId: 'x' },
        { merchantId: '8' },
        { merchantId: merchantId === null ? '7' : null },
        { service: 'other:0' },
        { method: 'POST' },
        { path: '/v1/quote/' },
        { query: 'b' },
        { amountSats: 11 }
      ]
      for (const changed of others)
        t.equal(await lease(changed), null, `${merchantId ?? 'operator'}: ${JSON.stringify(changed)}`)
      if (challenge === bound) t.equal(await lease({}), null, 'the body was not read')
      t.same(await store.find(paymentHash), made, 'still unchanged')
      if (challenge === bound) continue
      t.match(await lease({}, 'right'), { first: true })
      t.match(await store.find(paymentHash), { state: 'leased', leaseId: 'right', scheme: 'payment' })
      t.equal(await lease({}, 'second'), null, 'leased already')
    }
  }
)
