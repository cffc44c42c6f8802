/** What revoking does to a session: its payment hash is what the operator revokes. */
import t, { type Test as T } from 'tap'
import { openShop, type Shop } from './fixture.ts'

async function revoke(t: T, { gateway }: Shop, id: string) {
  const { status } = await gateway.adminSend('DELETE', `/api/admin/tokens/${id}`)
  t.equal(status, 204)
}

t.test('a revoked session serves nothing more, and its client gets back what is left by closing it', async t => {
  const shop = await openShop(t)
  const session = await shop.open()
  t.equal((await shop.get(session.bearer)).status, 200)
  await revoke(t, shop, session.id)
  const served = shop.upstream.requests.length
  const refused = await shop.get(session.bearer)
  t.equal(refused.status, 402)
  t.match(refused.json(), { type: /session-closed$/, detail: /was revoked; what is left of it is paid back/ })
  const topUp = await shop.topUp(session.id)
  t.match((await shop.get(topUp)).json(), { type: /session-closed$/ }, 'nor does it take another deposit')
  t.notOk((await shop.get(session.open)).status === 200, 'and it is not opened again')
  t.equal(shop.upstream.requests.length, served)
  t.match((await shop.get(session.close)).json(), { status: 'closed', refundSats: 96, refundStatus: 'succeeded' })
})
