/** What revoking does to a session: its payment hash is what the operator revokes. */
import t from 'tap'
import { openShop } from './fixture.ts'

t.test('a revoked session serves nothing more, and its client gets back what is left by closing it', async t => {
  const shop = await openShop(t)
  const session = await shop.open()
  t.equal((await shop.get(session.bearer)).status, 200)
  t.equal((await shop.gateway.adminSend('DELETE', `/api/admin/tokens/${session.id}`)).status, 204)
  const served = shop.upstream.requests.length
  const refused = await shop.get(session.bearer)
  t.equal(refused.status, 402)
  t.match(refused.json(), { type: /session-closed$/, detail: /was revoked; what is left of it is paid back/ })
  t.equal(await shop.problem(await shop.topUp(session.id)), 'session-closed', 'nor does it take another deposit')
  t.not(await shop.problem(session.open), 200, 'and it is not opened again')
  t.equal(shop.upstream.requests.length, served)
  t.same(await shop.refund(session.close), [96, 'succeeded'])
})
