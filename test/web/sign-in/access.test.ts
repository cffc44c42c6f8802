import t from 'tap'
import { noBrowser, openBrowser, openPage } from '../pay/browser.ts'
import { defaultYaml, startGateway, type Answer, type TestGateway } from '../../support/gateway.ts'
import { cookieOf } from '../console/session.ts'
import { mailedLinks } from './mails.ts'

const OPERATOR = 'operator@example.com'
const FORM = 'application/x-www-form-urlencoded'
/** What a browser says of a request that a page of this origin makes. */
const HERE = { 'sec-fetch-site': 'same-origin' }

interface Account {
  readonly merchantId: number
  readonly apiKey: string
  readonly email: string
}

async function account(gateway: TestGateway, name: string, email = `${name}@example.com`) {
  const created = await gateway.adminSend('POST', '/api/admin/merchants', { name, email })
  if (created.status !== 201) throw new Error(`${created.status} ${created.text}`)
  return { ...(created.json() as Account), email }
}

/** Signs an address in by the newest of `count` mails; `former` is the cookie that the browser has. */
async function signIn(gateway: TestGateway, email: string, count = 1, former = '') {
  const link = (await mailedLinks(gateway.data, email, count)).at(-1) ?? ''
  const answer = await gateway.send('POST', new URL(link).pathname, {
    headers: former === '' ? {} : { cookie: former }
  })
  if (answer.status !== 303) throw new Error(`${answer.status} ${answer.text}`)
  return cookieOf(answer)
}

t.test('members, sessions, operators and the trail, as they are used', async t => {
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        ['server:', `operators: ${OPERATOR}\nserver:`],
        ['  publicUrl:', '  trustedProxies: [ 127.0.0.1 ]\n  publicUrl:']
      ]
    })
  })
  const as = (cookie: string, method: string, path: string, body?: object) =>
    gateway.send(method, path, { headers: { cookie, ...HERE }, ...(body === undefined ? {} : { body }) })
  const withKey = (apiKey: string, method: string, path: string, body?: object) =>
    gateway.send(method, path, { headers: { 'x-api-key': apiKey }, ...(body === undefined ? {} : { body }) })

  await t.test(
    'a member of two accounts switches between them by pages alone, and is never switched automatically',
    async t => {
      const own = await account(gateway, 'ana')
      const other = await account(gateway, 'Bäcker <b>', 'baker@example.com')
      const foreign = await account(gateway, 'foreign')
      // Links are counted by address, and the others of this gateway ask for as many as one may.
      const headers = { 'x-forwarded-for': '10.9.9.8' }
      await gateway.send('POST', '/api/auth/magic-link', { headers, body: { email: own.email } })
      const cookie = await signIn(gateway, own.email)
      const signedIn = async (by: string) => (await as(by, 'GET', '/console/signed-in')).text
      t.notMatch(await signedIn(cookie), /Switch account/, 'a member of one is offered nothing')
      t.notMatch((await as(cookie, 'GET', '/sign-in/account')).text, /Your other accounts/)
      await withKey(other.apiKey, 'POST', '/api/merchant/members', { email: own.email, role: 'editor' })
      t.match(await signedIn(cookie), /sign-in\/account">Switch account/)
      const page = (await as(cookie, 'GET', '/sign-in/account')).text
      t.match(page, /Switch to <bdi>Bäcker &lt;b><\/bdi> \(editor\)/)
      t.notMatch(page, /Go to <bdi>ana/, 'not where it is already')
      const [, form = ''] = /name="form" value="([^"]+)"/.exec(page) ?? []
      const go = (by: string, merchantId: unknown, token: string) =>
        gateway.send('POST', '/sign-in/go-to', {
          headers: { cookie: by, 'content-type': FORM, ...HERE },
          body: String(new URLSearchParams({ form: token, merchantId: String(merchantId) }))
        })
      for (const forged of ['', 'A'.repeat(43)])
        t.equal((await go(cookie, other.merchantId, forged)).status, 403, "not by another site's form")
      for (const wrong of [foreign.merchantId, '', '0', '-1', '99999999999', 'x']) {
        const refused = await go(cookie, wrong, form)
        t.equal(refused.status, 404, String(wrong))
        t.match(refused.text, /not a member of this account/)
      }
      t.match((await as(cookie, 'GET', '/api/auth/session')).json(), { merchantId: own.merchantId })
      const gone = await go(cookie, other.merchantId, form)
      t.match([gone.status, gone.headers['location']], [303, '../console'])
      const there = cookieOf(gone)
      t.match((await as(there, 'GET', '/api/auth/session')).json(), { merchantId: other.merchantId, role: 'editor' })
      t.match((await as(there, 'GET', '/console')).text, /Bäcker &lt;b> · ana@example.com \(editor\)/)
      t.equal((await as(cookie, 'GET', '/api/auth/session')).status, 401, 'the session of before has ended')
      t.equal((await gateway.send('POST', '/api/merchant/regenerate-key', { headers: { cookie } })).status, 401)
      t.equal((await go(there, own.merchantId, form)).status, 403, 'and its form with it')
    }
  )

  await t.test(
    "a viewer who repeats another member's request gets its response again, and can make no other",
    async t => {
      const { apiKey } = await account(gateway, 'repeated')
      await withKey(apiKey, 'POST', '/api/merchant/members', { email: 'vi@example.com', role: 'viewer' })
      const cookie = await signIn(gateway, 'vi@example.com')
      const pay = (headers: Record<string, string>, orderId: string) =>
        gateway.send('POST', '/api/payments', {
          headers: { 'idempotency-key': 'order-1', ...headers },
          body: { orderId, amount: 0, currency: 'USD' }
        })
      const created = await pay({ 'x-api-key': apiKey }, 'one')
      t.equal(created.status, 201)
      const again = await pay({ cookie, ...HERE }, 'one')
      t.match(again, { status: 201, text: created.text })
      t.equal((await pay({ cookie, ...HERE }, 'two')).status, 400, 'nor with the key of that one')
      t.equal((await pay({ cookie, ...HERE, 'idempotency-key': 'order-2' }, 'one')).status, 403)
      const { payments } = (await withKey(apiKey, 'GET', '/api/payments')).json() as { payments: object[] }
      t.equal(payments.length, 1)
    }
  )

  await t.test(
    'an invited editor joins by the mailed link, changes what editors may, and is removed immediately',
    async t => {
      const { apiKey, email } = await account(gateway, 'acme')
      const invited = await withKey(apiKey, 'POST', '/api/merchant/members', {
        email: 'ed@example.com',
        role: 'editor'
      })
      t.match(invited.json(), { email: 'ed@example.com', role: 'editor', joinedAt: null })
      const { memberId } = invited.json() as { memberId: number }
      const cookie = await signIn(gateway, 'ed@example.com')
      const change = { webhookUrl: 'https://shop.example.com/hook-with-a-secret' }
      t.equal((await as(cookie, 'PUT', '/api/merchant/webhook-url', change)).status, 200)
      t.match((await as(cookie, 'POST', '/api/merchant/regenerate-key')).json(), { error: 'Role required' })
      t.equal((await withKey(apiKey, 'PUT', `/api/merchant/members/${memberId}`, { role: 'viewer' })).status, 200)
      t.equal((await as(cookie, 'PUT', '/api/merchant/webhook-url', change)).status, 403, 'from the next request on')
      t.equal((await as(cookie, 'GET', '/api/merchant/me')).status, 200)
      t.equal((await withKey(apiKey, 'DELETE', `/api/merchant/members/${memberId}`)).status, 204)
      t.match((await as(cookie, 'GET', '/api/merchant/me')).json(), { error: 'Authentication required' })

      const trail = await withKey(apiKey, 'GET', '/api/merchant/audit')
      const { entries } = trail.json() as { entries: Array<Record<string, unknown>> }
      t.match(
        entries.map(({ operation, by, status }) => [operation, by, status]),
        [
          ['removeMember', { kind: 'key' }, 204],
          ['changeMember', { kind: 'key' }, 200],
          ['setWebhook', { kind: 'member', name: 'ed@example.com' }, 200],
          ['useSignInLink', { kind: 'member', name: 'ed@example.com' }, 303],
          ['inviteMember', { kind: 'key' }, 201]
        ]
      )
      t.match(entries.at(-1), { change: { email: 'ed@example.com', role: 'editor' }, target: { memberId } })
      t.notMatch(trail.text, 'hook-with-a-secret')
      t.match((await withKey(apiKey, 'GET', '/api/merchant/members')).json(), [{ email, role: 'owner' }])
      const paged = await withKey(apiKey, 'GET', '/api/merchant/audit?limit=4')
      const { next } = paged.json() as { next: string }
      t.match((await withKey(apiKey, 'GET', `/api/merchant/audit?limit=3&after=${next}`)).json(), {
        entries: [{ operation: 'inviteMember' }],
        next: null
      })
    }
  )

  await t.test('the last owner stays, also when two owners remove each other concurrently', async t => {
    const { apiKey, email } = await account(gateway, 'pair')
    const members = async (): Promise<Array<{ memberId: number; email: string; role: string }>> =>
      (await withKey(apiKey, 'GET', '/api/merchant/members')).json() as never /* the documented shape */
    const [first] = await members()
    const path = `/api/merchant/members/${first?.memberId ?? 0}`
    t.equal((await withKey(apiKey, 'DELETE', path)).status, 409)
    t.equal((await withKey(apiKey, 'PUT', path, { role: 'viewer' })).status, 409)
    const again = await withKey(apiKey, 'POST', '/api/merchant/members', { email, role: 'viewer' })
    t.equal(again.status, 409, 'nor by an invitation')
    await withKey(apiKey, 'POST', '/api/merchant/members', { email: 'second@example.com', role: 'owner' })
    t.equal((await withKey(apiKey, 'DELETE', path)).status, 409, 'an invitation that was not accepted is no owner')
    const once = { email: 'second@example.com', role: 'owner' }
    t.equal((await withKey(apiKey, 'POST', '/api/merchant/members', once)).status, 201, 'invited again')
    await signIn(gateway, 'second@example.com', 2)
    const invite = async (address: string, role: string): Promise<Answer> =>
      await withKey(apiKey, 'POST', '/api/merchant/members', { email: address, role })
    for (const same of ['second@example.com', 'Second@Example.com'])
      t.match(await invite(same, 'viewer'), { status: 409, text: /is a member already/ })
    const both = await members()
    const removed = await Promise.all(
      both.map(({ memberId }) => withKey(apiKey, 'DELETE', `/api/merchant/members/${memberId}`))
    )
    t.same(removed.map(({ status }) => status).sort(), [204, 409])
    t.equal((await members()).length, 1)
  })

  await t.test('an account has at most 100 members, invitations included, which may be repeated', async t => {
    const { apiKey, merchantId } = await account(gateway, 'crowd')
    await gateway.database.sql`
      with crowd as (
        insert into people (email, created_at)
        select 'crowd-' || n || '@example.com', now() from generate_series(1, 98) n returning id
      )
      insert into members (merchant_id, person_id, role, created_at) select ${merchantId}, id, 'viewer', now() from crowd`
    const invite = (email: string) => withKey(apiKey, 'POST', '/api/merchant/members', { email, role: 'viewer' })
    t.equal((await invite('last@example.com')).status, 201)
    t.match(await invite('more@example.com'), { status: 409, text: /at most 100 members/ })
    t.equal((await invite('last@example.com')).status, 201)
    await gateway.database.sql`
      insert into sign_in_links (digest, request_id, person_id, merchant_id, created_at, expires_at)
      select sha256(n::text::bytea), 'invitation-' || n, (select id from people where email = 'crowd-1@example.com'),
        ${merchantId}, now(), now() from generate_series(1, 98) n`
    const refused = await invite('last@example.com')
    t.equal(refused.status, 429, 'and mails 100 invitations a day, those to removed members included')
  })

  await t.test('a session gets another id with each sign-in, is listed, and is ended from elsewhere', async t => {
    const { email, merchantId } = await account(gateway, 'rotating')
    const ask = () => gateway.send('POST', '/api/auth/magic-link', { body: { email } })
    await ask()
    const planted = await signIn(gateway, email)
    await ask()
    const fresh = await signIn(gateway, email, 2, planted)
    t.not(fresh, planted)
    t.equal((await as(planted, 'GET', '/api/merchant/me')).status, 401, "the browser's earlier cookie opens nothing")
    await ask()
    const elsewhere = await signIn(gateway, email, 3)
    const list = (await as(fresh, 'GET', '/api/auth/sessions')).json() as Array<{
      sessionId: string
      isCurrent: boolean
    }>
    t.same(
      list.map(({ isCurrent }) => isCurrent),
      [false, true]
    )
    const path = `/api/auth/sessions/${list[0]?.sessionId ?? ''}`
    t.equal((await gateway.send('DELETE', path, { headers: { cookie: fresh } })).status, 403, 'by our own pages alone')
    t.equal((await as(fresh, 'DELETE', '/api/auth/sessions/another')).status, 404)
    t.equal((await as(fresh, 'DELETE', path)).status, 204)
    t.equal((await as(elsewhere, 'GET', '/api/merchant/me')).status, 401)
    t.match((await as(fresh, 'GET', '/api/auth/session')).json(), { merchantId, role: 'owner', isOperator: false })
  })

  await t.test('a session of an API key ends with the key, and one of the admin key is the operator', async t => {
    const { apiKey, merchantId } = await account(gateway, 'keyed')
    const byKey = (key: string, headers: Readonly<Record<string, string>> = HERE) =>
      gateway.send('POST', '/sign-in/key', {
        headers: { 'content-type': FORM, ...headers },
        body: new URLSearchParams({ key }).toString()
      })
    const session = cookieOf(await byKey(apiKey))
    t.match((await as(session, 'GET', '/api/auth/session')).json(), { merchantId, role: 'owner', signedInAs: null })
    t.equal((await as(session, 'GET', '/api/admin/merchants')).status, 401)
    t.equal((await as(session, 'POST', '/api/merchant/regenerate-key')).status, 200)
    t.equal((await as(session, 'GET', '/api/merchant/me')).status, 401)
    const other = await account(gateway, 'keyring')
    const keys = { 'x-api-key': other.apiKey }
    const make = async (name: string, isReadOnly: boolean) =>
      (await gateway.send('POST', '/api/merchant/keys', { headers: keys, body: { name, isReadOnly } })).json() as {
        apiKey: string
        keyId: string
      }
    const [second, reading] = [await make('second', false), await make('reading', true)]
    const reader = cookieOf(await byKey(reading.apiKey))
    t.match((await as(reader, 'GET', '/api/auth/session')).json(), { merchantId: other.merchantId, role: 'viewer' })
    t.match((await as(reader, 'POST', '/api/merchant/regenerate-key')).json(), { error: 'Role required' })
    const named = cookieOf(await byKey(second.apiKey))
    t.equal((await as(named, 'GET', '/api/merchant/me')).status, 200)
    t.equal((await gateway.send('DELETE', `/api/merchant/keys/${second.keyId}`, { headers: keys })).status, 204)
    t.equal((await as(named, 'GET', '/api/merchant/me')).status, 401, 'it ends with the very key that opened it')
    t.equal((await byKey('nonsense')).status, 401)
    t.equal((await byKey(apiKey, { 'sec-fetch-site': 'cross-site' })).status, 403)
    const admin = cookieOf(await byKey(gateway.adminKey))
    t.equal((await as(admin, 'GET', '/api/admin/merchants')).status, 200)
    t.equal((await as(admin, 'GET', '/api/merchant/me')).status, 401)
  })

  await t.test('an address of the file is an operator after a mailed link, and the trail names it', async t => {
    const { merchantId } = await account(gateway, 'watched')
    const headers = { 'x-forwarded-for': '10.9.9.9' }
    await gateway.send('POST', '/api/auth/magic-link', { headers, body: { email: OPERATOR } })
    const cookie = await signIn(gateway, OPERATOR)
    t.match((await as(cookie, 'GET', '/api/auth/session')).json(), { merchantId: null, isOperator: true })
    t.equal((await as(cookie, 'POST', `/api/admin/merchants/${merchantId}/deactivate`)).status, 204)
    t.match((await as(cookie, 'GET', `/api/admin/audit?merchantId=${merchantId}`)).json(), {
      entries: [{ operation: 'adminDeactivateMerchant', by: { kind: 'operator', name: OPERATOR }, status: 204 }]
    })
  })
})

t.test('a page of another origin cannot ride a session', { skip: noBrowser }, async t => {
  const gateway = await startGateway(t)
  const browser = await openBrowser(t)
  const { page } = await openPage(t, browser)
  const { apiKey, email } = await account(gateway, 'ridden')
  await page.goto(`${gateway.url}/sign-in`)
  await page.getByLabel('Or an API key').fill(apiKey)
  await page.getByRole('button', { name: 'Sign in with key' }).click()
  await page.waitForURL('**/console')
  await page.goto(`${gateway.url}/sign-in/account`)
  t.ok(await page.getByText(email).first().isVisible())

  // Another origin of the same site: its requests carry the cookie, whatever SameSite says.
  const evil = `${(await startGateway(t)).url}/evil`
  await page.route(evil, route => route.fulfill({ contentType: 'text/html', body: '<h1>Evil</h1>' }))
  const target = `${gateway.url}/api/merchant/regenerate-key`
  for (const [what, path, run, expected] of [
    [
      'a form',
      '/api/merchant/regenerate-key',
      `const form = document.createElement('form'); form.method = 'post'; form.action = '${target}'; document.body.append(form); form.submit()`,
      403
    ],
    [
      'a link, which shows its reader what is its own',
      '/api/merchant/me',
      `location.href = '${gateway.url}/api/merchant/me'`,
      200
    ]
  ] as const) {
    await page.goto(evil)
    const answered = page.waitForResponse(`${gateway.url}${path}`)
    // The next page must not begin before this one has come.
    const arrived = page.waitForURL(`${gateway.url}${path}`)
    await page.evaluate(`(() => { ${run} })()`)
    t.equal((await answered).status(), expected, what)
    await arrived
  }
  t.equal(
    (await gateway.send('GET', '/api/merchant/me', { headers: { 'x-api-key': apiKey } })).status,
    200,
    'the key is kept'
  )
})
