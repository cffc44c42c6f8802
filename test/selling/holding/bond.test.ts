import t from 'tap'
import type { Bond } from '../../../src/selling/holding/challenge.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { fixtureOn, freshAddress, offer } from '../challenges/fixture.ts'

await eachDatabase(
  t,
  'a lease with a bond is had only where the row says the same, and changes nothing else',
  async (t, database) => {
    const f = fixtureOn(t, database, new ManualClock())
    const { challengeStore: store } = f.selling
    for (const merchantId of [null, '7']) {
      const { challenge } = await f.selling.minting.mint(offer({ query: 'a=1', merchantId }), {
        clientKey: freshAddress(),
        digest: null
      })
      // Its texts are not kept: it is compared as its row has it.
      const made = await store.find(challenge.paymentHash)
      const bond: Bond = {
        paymentId: challenge.payment?.id ?? '',
        merchantId,
        service: 'boltgate:0',
        method: 'GET',
        path: '/v1/quote',
        query: challenge.query,
        amountSats: 10,
        issuedAfter: null
      }
      const lease = (changed: Partial<Bond>, leaseId = 'wrong') =>
        store.lease(
          database.sql,
          { paymentHash: challenge.paymentHash, leaseId },
          'gateway',
          f.clock.now() + 20_000,
          f.clock.now(),
          { ...bond, ...changed }
        )
      const others: Array<Partial<Bond>> = [
        { paymentId: `${bond.paymentId}x` },
        { merchantId: '8' },
        { merchantId: merchantId === null ? '7' : null },
        { service: 'other:0' },
        { method: 'POST' },
        { path: '/v1/quote/' },
        { query: '' },
        { amountSats: 11 }
      ]
      for (const changed of others)
        t.equal(await lease(changed), null, `${merchantId ?? 'operator'}: ${JSON.stringify(changed)}`)
      t.same(await store.find(challenge.paymentHash), made, 'still unchanged')
      t.match(await lease({}, 'right'), {
        first: true,
        challenge: { state: 'leased', leaseId: 'right', scheme: 'payment' }
      })
      t.equal(await lease({}, 'second'), null, 'leased already')
    }
    const digest = `sha-256=:${'A'.repeat(43)}=:`
    const { challenge: bound } = await f.selling.minting.mint(offer(), { clientKey: freshAddress(), digest })
    const made = await store.find(bound.paymentHash)
    const bond: Bond = {
      paymentId: bound.payment?.id ?? '',
      merchantId: null,
      service: 'boltgate:0',
      method: 'GET',
      path: '/v1/quote',
      query: '',
      amountSats: 10,
      issuedAfter: null
    }
    t.equal(
      await store.lease(
        database.sql,
        { paymentHash: bound.paymentHash, leaseId: 'x' },
        'gateway',
        f.clock.now() + 20_000,
        f.clock.now(),
        bond
      ),
      null,
      'the body was not read'
    )
    t.same(await store.find(bound.paymentHash), made)
  }
)

await eachDatabase(
  t,
  'two gateways that concurrently lease with a bond, without one, and claim: exactly one has it',
  async (t, database) => {
    const f = fixtureOn(t, database, new ManualClock())
    const other = f.another('gateway-2').selling
    const { challenge } = await f.selling.minting.mint(offer(), { clientKey: freshAddress(), digest: null })
    const bond: Bond = {
      paymentId: challenge.payment?.id ?? '',
      merchantId: null,
      service: 'boltgate:0',
      method: 'GET',
      path: '/v1/quote',
      query: '',
      amountSats: 10,
      issuedAfter: null
    }
    const taken = await Promise.all(
      Array.from({ length: 300 }, (_none, index) =>
        (index % 2 === 0 ? f.selling : other).claims.lease(challenge.paymentHash, null, index % 3 === 0 ? null : bond)
      )
    )
    t.equal(taken.filter(lease => lease !== null).length, 1)
  }
)
