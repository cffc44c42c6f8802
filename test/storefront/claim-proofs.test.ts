/** Which of several proofs of payment a claim goes by. */
import t from 'tap'
import { claimBody, openShop } from './fixture.ts'

t.test('Storefront claim | 401 | credential for a disabled protocol only: a claim token beside it stands for itself', async t => {
  const shop = await openShop(t, { schemes: ['l402'] })
  const { orderId, claimToken } = await shop.paid()
  const disabled = `Payment method="lightning", preimage="${'ab'.repeat(32)}"`
  t.equal((await shop.claim(claimBody('a'.repeat(43)), { authorization: disabled })).status, 404, 'one that is unknown is told so')
  const answer = await shop.claim(claimBody(claimToken), { authorization: disabled })
  t.equal(answer.status, 200)
  t.match(answer.data, { orderId, status: /^PaidWithDetails$/ })
  t.equal((await shop.claim(claimBody(null), { authorization: disabled })).status, 401, 'without a token it is all there is')
  t.equal((await shop.unpaid().then(order => shop.claim(claimBody(claimToken), { authorization: `${order.pay()}0` }))).status, 400, 'what is of a scheme that is on is judged all the same')
})
