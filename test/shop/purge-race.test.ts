/** A claim that begins while the purge is at work. */
import t from 'tap'
import type { TransactionSql } from '../../src/platform/database/database.ts'
import { OrderStore } from '../../src/shop/orders/store.ts'
import { DAY, openShop, type Shop } from './fixture.ts'

/**
 * A store of orders that has `between` happen once the first statement of a transaction is done, as if another process had
 * committed it by then.
 */
function interrupted(shop: Shop, between: (tx: TransactionSql) => Promise<void>) {
  const { database } = shop
  return new OrderStore({
    ...database,
    sql: database.sql,
    transaction: (run, options) =>
      database.transaction(async tx => {
        let isDone = false
        const spied = new Proxy(tx, {
          apply: (target, self, args: unknown[]) => {
            const made: unknown = Reflect.apply(target, self, args)
            // Parts of statements are not run.
            if (isDone || !Array.isArray(args[0]) || !/^\s*(?:select|with)\b/.test(String(args[0][0]))) return made
            isDone = true
            // A statement of the adapter, which runs when it is waited for.
            return (async () => {
              const rows: unknown = await (made as PromiseLike<unknown>)
              await between(tx)
              return rows
            })()
          }
        })
        return await run(spied)
      }, options)
  })
}

t.test('an order whose claim began at the last moment is not purged', async t => {
  const shop = await openShop(t)
  const { orderId } = await shop.paid()
  const { paymentHash } = await shop.paid()
  shop.clock.advance(30 * DAY + 1)
  const now = shop.clock.now()
  const limits = { unclaimedBefore: now, begunBefore: now - 90 * DAY, claimedBefore: now - 90 * DAY }
  const purging = interrupted(shop, async tx => {
    await tx`insert into storefront_claims (order_id, owner, lease_until, details) values (${orderId}, 'another', ${new Date(now + DAY)}, 'sealed')`
  })
  t.equal(await purging.purge(limits, 500), 1)
  t.match(await shop.orders.get(orderId), { status: /^PaidAwaitingDetails$/ })
  t.equal(await shop.selling.claims.find(paymentHash), null, 'the others are')
})
