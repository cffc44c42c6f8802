import { testMerchants } from '../../support/merchants.ts'
import t, { type Test as T } from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'

await eachDatabase(t, "accounts on a caller's transaction", async (t: T, database) => {
  let notified = 0
  const merchants = testMerchants(database, new ManualClock(), {
    keySaved: async () => {
      notified++
    }
  })

  await t.test('and falls with it', async t => {
    const { merchant } = await merchants.create({ name: 'Kept', email: 'kept@example.com' })
    await t.rejects(
      database.transaction(async tx => {
        const inside = merchants.within(tx)
        await inside.change(merchant.id, { name: 'Undone' })
        await inside.changeWebhook(merchant.id, { url: 'https://shop.example.com/' })
        await inside.create({ name: 'Out', email: 'out@example.com' })
        throw new Error('undone')
      }),
      { message: 'undone' }
    )
    t.same(await merchants.byId(merchant.id), merchant)
    t.equal(await merchants.byEmail('out@example.com'), null)
  })

  await t.test('after a refusal in a savepoint the transaction continues', async t => {
    const { merchant } = await merchants.create({ name: 'First', email: 'first@example.com' })
    await database.transaction(async tx => {
      await t.rejects(
        tx.savepoint(nested => merchants.within(nested).create({ name: 'Second', email: 'first@example.com' })),
        { status: 409 }
      )
      await merchants.within(tx).change(merchant.id, { name: 'Renamed' })
    })
    t.match(await merchants.byId(merchant.id), { name: 'Renamed' })
  })

  await t.test('a provider key that is rolled back is not announced', async t => {
    const { merchant } = await merchants.create({ name: 'Keyed', email: 'keyed@example.com' })
    await database.transaction(async tx => {
      await merchants.within(tx).setProviderKey(merchant.id, 'primary', new Secret('a key'))
    })
    t.equal(notified, 0)
    await merchants.setProviderKey(merchant.id, 'primary', new Secret('another key'))
    t.equal(notified, 1)
  })
})
