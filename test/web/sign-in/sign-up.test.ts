import t from 'tap'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { mailedLinks } from './mails.ts'

const open = (signUp: boolean) =>
  defaultYaml({
    replace: [
      ['mode: development', `pages: { signUp: ${signUp} }\nmode: development`],
      ['  publicUrl:', '  trustedProxies: [ 127.0.0.1 ]\n  publicUrl:']
    ]
  })

t.test('sign-up: a free account by its owner, whose link and first key work once', async t => {
  const gateway = await startGateway(t, { yaml: open(true), env: { PUBLIC_URL: 'https://gate.example.com' } })
  let from = 0
  const send = (name: string, email: string, headers: Readonly<Record<string, string>> = {}) =>
    gateway.send('POST', '/sign-up', {
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        origin: 'https://gate.example.com',
        'x-forwarded-for': `10.2.0.${++from}`,
        ...headers
      },
      body: new URLSearchParams({ name, email }).toString()
    })
  t.match((await gateway.send('GET', '/sign-up')).text, /<h1[^>]*>Create an account<\/h1>/)
  t.match((await gateway.send('GET', '/sign-in')).text, /href="\.\/sign-up"/)

  const wrong = await send('', 'no address"><script>')
  t.equal(wrong.status, 400)
  t.match(wrong.text, /value="no address&quot;/, 'the fields keep their values, escaped')
  t.match(wrong.text, /A name has 1 to 200 characters/)
  t.notMatch(wrong.text, '<script>')
  t.equal((await send('A', 'a@example.com', { origin: 'https://evil.example' })).status, 403)

  const created = await send('Ada & <Co>', 'Ada@Example.com')
  t.equal(created.status, 200)
  const [link = ''] = await mailedLinks(gateway.data, 'ada@example.com', 1)
  const signedIn = await gateway.send('POST', new URL(link).pathname, {
    headers: { origin: 'https://gate.example.com' }
  })
  t.equal(signedIn.status, 303)
  const cookie = String([signedIn.headers['set-cookie']].flat()[0]).split(';', 1)[0] ?? ''
  t.equal((await gateway.send('GET', '/console', { headers: { cookie } })).status, 200)

  const again = await send('Someone else', 'ada@example.com')
  t.same(
    [again.status, again.text],
    [created.status, created.text],
    'the same answer for an address that has an account'
  )
  const { rows } = {
    rows: await gateway.database.sql`select name, plan_tier from merchants where email = 'ada@example.com'`
  }
  t.match(rows, [{ name: 'Ada & <Co>', plan_tier: 'free' }], 'and no second account')

  const address = { 'x-forwarded-for': '10.9.9.9' }
  const statuses: number[] = []
  for (let count = 0; count < 4; count++) statuses.push((await send('B', `b${count}@example.com`, address)).status)
  t.same(statuses, [200, 200, 200, 429], 'three from an address')
})

t.test('sign-up: closed unless the operator opens it, and the first keys are shown to this machine alone', async t => {
  const gateway = await startGateway(t, { yaml: open(false) })
  t.equal((await gateway.send('GET', '/sign-up')).status, 404)
  t.equal((await gateway.send('POST', '/sign-up', { body: 'name=a&email=a@example.com' })).status, 404)
  const page = await gateway.send('GET', '/sign-in')
  t.notMatch(page.text, 'sign-up')
  t.match(page.text, /keys\.json<\/code>/)
  const elsewhere = await gateway.send('GET', '/sign-in', { headers: { 'x-forwarded-for': '203.0.113.5' } })
  t.notMatch(elsewhere.text, 'keys.json')
})
