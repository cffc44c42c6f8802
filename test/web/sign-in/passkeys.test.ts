import type { Page } from 'playwright-core'
import t, { type Test as T } from 'tap'
import { noBrowser, openBrowser, openPage } from '../pay/browser.ts'
import { freePort } from '../../support/free-port.ts'
import { defaultYaml, startGateway, type TestGateway } from '../../support/gateway.ts'
import { sessionOf } from '../console/session.ts'
import { linksTo, mailedLinks } from './mails.ts'

const OPERATOR = 'operator@example.com'
const PATIENCE = { timeout: 60_000 }
/** What a browser says of a request that a page of this origin makes. */
const HERE = { 'sec-fetch-site': 'same-origin' }

function yamlWith(server: string, limit: number) {
  const policy = `policies:\n  passkey: { limit: ${limit}, window: 15m, by: address }\n`
  return defaultYaml({
    replace: [
      ['policies:\n', policy],
      ['server:', server]
    ]
  })
}

/** A gateway that its clients call localhost: browsers make no passkeys for an IP address. */
async function localGateway(t: T, limit = 1000) {
  const port = await freePort()
  const local = `http://localhost:${port}`
  const gateway = await startGateway(t, {
    yaml: yamlWith(`operators: ${OPERATOR}\nserver:`, limit),
    env: { PORT: String(port), PUBLIC_URL: local }
  })
  return { ...gateway, local }
}

/** An authenticator with a fingerprint reader, which says yes, in a page. */
async function withAuthenticator(page: Page) {
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true
    }
  })
  return { cdp, id: authenticatorId }
}

async function byMail({ data, local, send }: TestGateway & { readonly local: string }, page: Page, email: string) {
  const before = linksTo(data, email).length
  const response = await send('POST', '/api/auth/magic-link', { body: { email } })
  if (response.status !== 202) throw new Error(response.text)
  const link = (await mailedLinks(data, email, before + 1)).at(-1) ?? ''
  await page.goto(link)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL(new RegExp(`^${local}/(console|operator)`), PATIENCE)
}

t.test('passkeys in a browser', { skip: noBrowser }, async t => {
  const gateway = await localGateway(t)
  const { local } = gateway
  const browser = await openBrowser(t)
  const { email } = (await gateway.merchantSend('GET', '/api/merchant/me')).json() as { email: string }
  const { page, faults } = await openPage(t, browser)
  const { cdp, id: authenticatorId } = await withAuthenticator(page)
  const signOut = async () => {
    await page.getByRole('button', { name: 'Sign out' }).first().click()
    await page.getByRole('heading', { name: 'You are not signed in' }).waitFor(PATIENCE)
  }
  const withPasskey = async () => {
    await page.goto(`${local}/sign-in`)
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  }

  await t.test('it is offered after the first sign-in by mail, added, reported by mail, and then signs in', async t => {
    await byMail(gateway, page, email)
    await page.getByRole('link', { name: 'add a passkey' }).click()
    await page.getByRole('heading', { name: 'Passkeys' }).waitFor(PATIENCE)
    const status = await page.evaluate(`(async () => {
      const ask = async (path, body) => await fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
      const options = await (await ask('/api/auth/passkeys/options')).json()
      const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON({ ...options, attestation: 'direct' })
      const credential = await navigator.credentials.create({ publicKey })
      return (await ask('/api/auth/passkeys', JSON.stringify({ name: 'certified', credential }))).status
    })()`)
    t.equal(status, 400, 'a certificate of the authenticator, which was not requested, is refused unread')
    await cdp.send('WebAuthn.clearCredentials', { authenticatorId })
    await page.getByLabel('Name, such as Phone').fill('Phone <b> 🦊')
    await page.getByRole('button', { name: 'Add passkey' }).click()
    await page.getByText('Created.').waitFor(PATIENCE)
    t.ok(await page.getByRole('rowheader', { name: 'Phone <b> 🦊' }).isVisible())
    const { credentials } = await cdp.send('WebAuthn.getCredentials', { authenticatorId })
    t.match(credentials, [{ isResidentCredential: true, rpId: 'localhost' }])
    await signOut()
    await page.goto(`${local}/console/payments?status=paid`)
    await page.waitForURL(/\/sign-in\?next=/, PATIENCE)
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.waitForURL(`${local}/console/payments?status=paid`, PATIENCE)
    const session = (await (await page.request.get(`${local}/api/auth/session`)).json()) as object
    t.match(session, { merchantId: gateway.merchant.id, role: 'owner', signedInAs: email, isOperator: false })
    await page.goto(`${local}/console/settings/passkeys`)
    t.ok(await page.getByText('current sign-in', { exact: true }).isVisible())
    const trail = await gateway.merchantSend('GET', '/api/merchant/audit?limit=3')
    t.match(trail.json(), {
      entries: [
        {
          operation: 'signInWithPasskey',
          by: { kind: 'member', name: email },
          merchantId: gateway.merchant.id,
          status: 200
        },
        { operation: 'signOut' },
        { operation: 'addPasskey', by: { kind: 'member', name: email }, target: { passkeyId: String }, status: 201 }
      ]
    })
    t.notMatch(trail.text, 'Phone')
  })

  await t.test('the same device is not added twice', async t => {
    await page.goto(`${local}/console/settings/passkeys`)
    await page.getByRole('button', { name: 'Add passkey' }).click()
    await page.getByText('This device already has a passkey for you.').waitFor(PATIENCE)
    t.ok(true)
  })

  await t.test('an answer that was used signs in no second time, nor in another browser', async t => {
    await signOut()
    let sent: { body: string; cookie: string } | null = null
    await page.route('**/api/auth/passkeys/sign-in', async route => {
      const headers = await route.request().allHeaders()
      sent = { body: route.request().postData() ?? '', cookie: headers['cookie'] ?? '' }
      await route.continue()
    })
    await withPasskey()
    await page.waitForURL('**/console', PATIENCE)
    await page.unroute('**/api/auth/passkeys/sign-in')
    const { body, cookie } = sent ?? { body: '', cookie: '' }
    const again = (headers: Readonly<Record<string, string>>) =>
      gateway.send('POST', '/api/auth/passkeys/sign-in', {
        headers: { ...HERE, 'content-type': 'application/json', ...headers },
        body
      })
    t.match(cookie, /boltgate-passkey=/)
    t.equal((await again({ cookie })).status, 401, 'replayed')
    t.equal((await again({})).status, 401, 'without the cookie of the browser that began')
    t.equal((await again({ cookie, 'sec-fetch-site': 'cross-site' })).status, 403, 'from another site')
  })

  /** Has the page's browser make a response, and changes what it signed, as a man in the middle could not. */
  const answerTo = async (options: unknown) =>
    (await page.evaluate(
      `navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(${JSON.stringify(options)}) }).then(credential => JSON.parse(JSON.stringify(credential)))`
    )) as Record<string, unknown>
  const begin = async () => {
    const answer = await gateway.send('POST', '/api/auth/passkeys/sign-in/options', { headers: HERE })
    const [cookie = ''] = [answer.headers['set-cookie'] ?? []].flat()
    t.match(cookie, /^boltgate-passkey=[A-Za-z0-9_-]{43}; Path=\/; Max-Age=300; HttpOnly; SameSite=Strict$/)
    return { options: answer.json() as Record<string, unknown>, cookie: cookie.split(';', 1)[0] ?? '' }
  }
  const show = async (cookie: string, credential: object) =>
    (await gateway.send('POST', '/api/auth/passkeys/sign-in', { headers: { ...HERE, cookie }, body: credential }))
      .status

  await t.test('a challenge of another browser, a changed response and one without a finger are refused', async t => {
    await page.goto(`${local}/sign-in`)
    const [mine, theirs] = [await begin(), await begin()]
    const credential = await answerTo(mine.options)
    t.equal(await show(theirs.cookie, credential), 401, 'signed for the challenge of another ceremony')
    t.equal(await show(mine.cookie, credential), 200, 'and valid for its own, of which the other used nothing up')
    for (const [what, change] of [
      ['another signature', { signature: Buffer.alloc(70, 1).toString('base64url') }],
      ['another person', { userHandle: Buffer.alloc(16, 1).toString('base64url') }],
      ['nobody', { userHandle: undefined }],
      ['bytes that are no JSON', { clientDataJSON: Buffer.from('{').toString('base64url') }],
      ['authenticator data cut short', { authenticatorData: 'AAAA' }]
    ] as const) {
      const { options, cookie } = await begin()
      const made = await answerTo(options)
      const response = { ...(made['response'] as object), ...change }
      t.equal(await show(cookie, { ...made, response }), 401, what)
      if (what === 'nobody') t.equal(await show(cookie, made), 401, 'which uses the ceremony up')
    }
    await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false })
    const unverified = await begin()
    const weak = await answerTo({ ...unverified.options, userVerification: 'discouraged' })
    await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true })
    t.equal(await show(unverified.cookie, weak), 401, 'the device must have verified its user')
  })

  await t.test('a response that was made at another origin is refused', async t => {
    // The same host on another port: the browser makes one there, for the host is the same.
    const elsewhere = `http://localhost:${await freePort()}/`
    await page.route(elsewhere, route => route.fulfill({ contentType: 'text/html', body: '<h1>Elsewhere</h1>' }))
    const { options, cookie } = await begin()
    await page.goto(elsewhere)
    const made = await answerTo(options)
    t.match(
      Buffer.from(String((made['response'] as { clientDataJSON: string }).clientDataJSON), 'base64url').toString(),
      elsewhere.slice(0, -1)
    )
    t.equal(await show(cookie, made), 401)
  })

  await t.test('a copy whose counter is behind is refused', async t => {
    await page.goto(`${local}/sign-in`)
    await gateway.database.sql`update passkeys set counter = 1000000`
    const { options, cookie } = await begin()
    t.equal(await show(cookie, await answerTo(options)), 401)
    await gateway.database.sql`update passkeys set counter = 1`
  })

  await t.test('removed, it ends the sessions that it opened and no longer signs in', async t => {
    await withPasskey()
    await page.waitForURL('**/console', PATIENCE)
    await page.goto(`${local}/console/settings/passkeys`)
    await page.locator('summary', { hasText: 'Remove Phone' }).click()
    await page.getByRole('button', { name: /^Remove/ }).click()
    await page.waitForURL(/\/sign-in\?next=/, PATIENCE)
    t.equal((await page.request.get(`${local}/api/auth/session`)).status(), 401)
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByText('This passkey does not work here').waitFor(PATIENCE)
    t.match((await gateway.merchantSend('GET', '/api/merchant/audit?limit=1')).json(), {
      entries: [{ operation: 'removePasskey', status: 204 }]
    })
  })

  await t.test(
    'an operator has one too, of a console of its own; it is nothing once the file drops the address',
    async t => {
      await cdp.send('WebAuthn.clearCredentials', { authenticatorId })
      await byMail(gateway, page, OPERATOR)
      await page.getByRole('link', { name: 'add a passkey' }).click()
      await page.getByRole('button', { name: 'Add passkey' }).click()
      await page.getByText('Created.').waitFor(PATIENCE)
      await signOut()
      await withPasskey()
      await page.waitForURL('**/operator', PATIENCE)
      t.match((await page.request.get(`${local}/api/auth/session`)).status(), 200)
      await gateway.reload(yamlWith('server:', 1000))
      t.equal((await page.request.get(`${local}/api/auth/session`)).status(), 401)
      await withPasskey()
      await page.getByText('This passkey does not work here').waitFor(PATIENCE)
    }
  )

  await t.test('nothing of it went wrong on a page', async t => {
    t.same(
      faults.filter(text => !/40[01349]/.test(text)),
      []
    )
  })
})

t.test('a user who signed in with a key has no passkeys, and at an IP address none is offered', async t => {
  const gateway = await localGateway(t, 20)
  const headers = { cookie: await sessionOf(gateway, gateway.merchant.apiKey), ...HERE }
  t.same((await gateway.send('GET', '/api/auth/passkeys', { headers })).json(), { canAdd: false, passkeys: [] })
  t.equal((await gateway.send('POST', '/api/auth/passkeys/options', { headers })).status, 403)
  t.match((await gateway.send('GET', '/console/settings/passkeys', { headers })).text, 'You cannot add a passkey here')
  t.match((await gateway.send('GET', '/sign-in')).text, 'Sign in with a passkey')
  const statuses: number[] = []
  for (let at = 0; at < 21; at++)
    statuses.push((await gateway.send('POST', '/api/auth/passkeys/sign-in/options', { headers: HERE })).status)
  t.same(statuses, [...Array<number>(20).fill(200), 429], 'counted by client address')
  const other = await startGateway(t)
  const page = await other.send('GET', '/sign-in')
  t.notMatch(page.text, 'Sign in with a passkey')
  t.match(page.headers['content-security-policy'], "script-src 'none'")
  t.equal((await other.send('POST', '/api/auth/passkeys/sign-in/options', { headers: HERE })).status, 409)
})
