import t from 'tap'
import { landingOf, wantedPage } from '../../../src/web/sign-in/landing.ts'
import type { CurrentSession } from '../../../src/web/sign-in/sessions.ts'
import { defaultYaml, startGateway, type Answer } from '../../support/gateway.ts'
import { mailedLinks } from './mails.ts'

t.test('sign-in redirects only to pages of the consoles, however an address is spelled', async t => {
  for (const [text, page] of [
    ['console', 'console'],
    ['/console', 'console'],
    ['console/payments?status=paid&text=a%20b', 'console/payments?status=paid&text=a%20b'],
    ['operator/merchants/7', 'operator/merchants/7'],
    ['console/payments#x', 'console/payments'],
    ['console/a b\u202e', 'console/a%20b%E2%80%AE']
  ] as const)
    t.equal(wantedPage(text), page, text)
  for (const text of [
    null,
    undefined,
    '',
    '/',
    'consoles',
    'sign-in/account',
    'l402/proxy/evil/',
    'console/../l402/proxy/evil/',
    'console/%2e%2e/l402/proxy/evil/',
    'console/..\\l402',
    '//evil.example/console',
    '\\\\evil.example/console',
    '/\t/evil.example/console',
    'https://evil.example/console',
    'https:evil.example/console',
    'javascript:alert(1)//console',
    'data:text/html,console',
    `console/${'a'.repeat(2000)}`
  ])
    t.equal(wantedPage(text), null, String(text))
})

t.test('each goes to the console that is theirs, and to the wanted page where it is of that console', async t => {
  // What `landingOf` asks of them is only whether they are there.
  const account = {} as CurrentSession['account']
  const person = { id: 1, email: 'a@example.com', passkeyId: null }
  for (const [session, wanted, page] of [
    [{ account, operator: null, person }, null, 'console?welcome'],
    [{ account: null, operator: 'a@example.com', person }, null, 'operator?welcome'],
    [{ account, operator: null, person: { ...person, passkeyId: 'a' } }, null, 'console'],
    [{ account, operator: null, person }, 'console/keys', 'console/keys'],
    [{ account, operator: null }, null, 'console'],
    [{ account: null, operator: 'admin' }, null, 'operator'],
    [{ account, operator: 'a@example.com' }, null, 'sign-in/account'],
    [{ account, operator: null }, 'console/keys', 'console/keys'],
    [{ account, operator: null }, 'operator/refunds', 'console'],
    [{ account: null, operator: 'admin' }, 'console/keys', 'operator'],
    [{ account, operator: 'a@example.com' }, 'operator?of=day', 'operator?of=day'],
    [{ account, operator: null }, '//evil.example', 'console']
  ] as const)
    t.equal(landingOf({ person: null, ...session }, wanted), page, `${wanted} ${page}`)
})

t.test('the requested page opens after a key and after a mailed link, once', async t => {
  const gateway = await startGateway(t, {
    yaml: defaultYaml({ replace: [['server:', 'operators: operator@example.com\nserver:']] })
  })
  const cookiesOf = (answer: Answer) =>
    [answer.headers['set-cookie'] ?? []].flat().map(line => line.split(';', 1)[0] ?? '')
  const response = await gateway.send('GET', '/console/payments?status=paid')
  t.equal(response.headers['location'], '../sign-in?next=console%2Fpayments%3Fstatus%3Dpaid')
  const page = await gateway.send('GET', '/sign-in?next=console%2Fpayments%3Fstatus%3Dpaid')
  const [kept = ''] = cookiesOf(page)
  t.match(page.headers['set-cookie'], /^boltgate-next=[^;]+; Path=\/; Max-Age=900; HttpOnly; SameSite=Lax$/)
  t.equal((await gateway.send('GET', '/sign-in?next=https://evil.example')).headers['set-cookie'], undefined)
  const withKey = (key: string, cookie: string) =>
    gateway.send('POST', '/sign-in/key', {
      headers: { cookie, 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' },
      body: `key=${key}`
    })
  const byKey = await withKey(gateway.merchant.apiKey, kept)
  t.equal(byKey.headers['location'], '../console/payments?status=paid')
  t.same(cookiesOf(byKey).slice(1), ['boltgate-next='], 'the next time it is not wanted any more')
  for (const planted of ['boltgate-next=%E0%A4%A', 'boltgate-next=//evil.example', 'boltgate-next=operator'])
    t.equal((await withKey(gateway.merchant.apiKey, planted)).headers['location'], '../console', planted)
  t.equal((await withKey(gateway.adminKey, kept)).headers['location'], '../operator')

  await gateway.send('POST', '/api/auth/magic-link', { body: { email: 'operator@example.com' } })
  const [link = ''] = await mailedLinks(gateway.data, 'operator@example.com', 1)
  const byLink = await gateway.send('POST', new URL(link).pathname, {
    headers: { cookie: 'boltgate-next=operator%2Frefunds' }
  })
  t.equal(byLink.headers['location'], '../operator/refunds')
})
