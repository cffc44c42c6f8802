import t from 'tap'
import { asPerson, openConsole, sessionOf } from './session.ts'

t.test('a member is invited, gets another role and is removed; the second tab gets a conflict', async t => {
  const { gateway, visit, get } = await openConsole(t)
  const send = async (form: Readonly<Record<string, string>>) => (await visit('/console/members', form)).status
  t.equal(await send({ do: 'invite', email: 'ed@example.com', role: 'viewer' }), 303)
  t.equal(await send({ do: 'invite', email: 'no address', role: 'viewer' }), 422)
  const members = (await get('/api/merchant/members')) as Array<{
    memberId: number
    email: string
  }>
  const memberId = String(members.find(({ email }) => email === 'ed@example.com')?.memberId)
  t.equal(await send({ do: 'role', memberId, was: 'viewer', role: 'editor' }), 303)
  t.equal(await send({ do: 'role', memberId, was: 'viewer', role: 'owner' }), 422, 'it is editor by now')
  t.match((await gateway.merchantSend('GET', '/api/merchant/members')).text, /"role":"editor"/)
  t.equal(await send({ do: 'remove', memberId }), 303)
  t.equal(await send({ do: 'remove', memberId }), 422)
})

t.test('a signed-in owner gives the account its address', async t => {
  const { gateway, visit, get } = await openConsole(t)
  const was = (await get('/api/merchant/me')) as { email: string }
  const send = async (email: string) => await visit('/console/settings', { do: 'email', was: was.email, email })
  t.match((await send('new@example.com')).text, /Invite this address as an owner first/)
  await gateway.merchantSend('POST', '/api/merchant/members', { email: 'new@example.com', role: 'owner' })
  t.equal((await send('new@example.com')).status, 422, 'its mail is unread')
  await gateway.database.sql`
    update members set joined_at = now() from people p where p.id = person_id and p.email = 'new@example.com'`
  t.equal((await send(' New@example.com ')).status, 303)
  t.match(await get('/api/merchant/me'), { email: 'new@example.com' })
  t.equal((await send('new@example.com')).headers.location?.includes('sign-in'), true, 'everyone is signed out')
  const again = await sessionOf(gateway, gateway.merchant.apiKey)
  t.match((await asPerson(gateway, again, '/console/changes')).text, /Changed the email address of the account/)
  const members = await gateway.merchantSend('GET', '/api/merchant/members')
  t.same(
    (members.json() as Array<{ email: string }>).map(({ email }) => email),
    ['new@example.com']
  )
})
