import { inspect } from 'node:util'
import t from 'tap'
import type { Log } from '../../../src/platform/telemetry/log.ts'
import { defaultYaml, startGateway, type Answer } from '../../support/gateway.ts'
import { linksTo, mailedLinks } from './mails.ts'

/** Each request comes from an address of its own, unless a test says which. */
const behindProxy = defaultYaml({ replace: [['  publicUrl:', '  trustedProxies: [ 127.0.0.1 ]\n  publicUrl:']] })
const FORM = 'application/x-www-form-urlencoded'

function cookieOf(answer: Answer) {
  const header = answer.headers['set-cookie']
  return String(Array.isArray(header) ? header[0] : header)
}

t.test('signing in at a gateway on https', async t => {
  const lines: string[] = []
  const write = (fields: object | string, message?: string) => {
    lines.push(inspect([fields, message], { depth: 10 }))
  }
  const log: Log = { debug: write, info: write, warn: write, error: write }
  const gateway = await startGateway(t, { yaml: behindProxy, env: { PUBLIC_URL: 'https://gate.example.com' }, log })
  let from = 0
  const send = (
    method: string,
    path: string,
    { headers = {}, body }: { headers?: Readonly<Record<string, string>>; body?: object | string } = {}
  ) =>
    gateway.send(method, path, {
      headers: { 'x-forwarded-for': `10.1.${from >> 8}.${++from & 255}`, ...headers },
      ...(body === undefined ? {} : { body })
    })
  const admin = (method: string, path: string, body: object = {}) =>
    send(method, path, { headers: { 'x-api-key': gateway.adminKey }, body })
  let accounts = 0
  const account = async () => {
    const email = `merchant-${++accounts}@example.com`
    const { merchantId } = (
      await admin('POST', '/api/admin/merchants', { name: `Merchant ${accounts}`, email })
    ).json() as { merchantId: number }
    return { email, merchantId }
  }
  const ask = (email: string, headers: Readonly<Record<string, string>> = {}) =>
    send('POST', '/api/auth/magic-link', { headers, body: { email } })
  const linkFor = async (email: string) => {
    const before = linksTo(gateway.data, email).length
    const answer = await ask(email)
    if (answer.status !== 202) throw new Error(answer.text)
    const link = (await mailedLinks(gateway.data, email, before + 1)).at(-1) ?? ''
    return new URL(link).pathname
  }
  /** Signs in and answers the cookie as a browser sends it back. */
  const signIn = async (email: string) => cookieOf(await send('POST', await linkFor(email))).split(';', 1)[0] ?? ''

  await t.test('decision 170: always 202 with the same bytes, whether or not an account has the address', async t => {
    const { email } = await account()
    const [known, unknown] = [await ask(email), await ask('nobody@example.com')]
    t.same([known.status, unknown.status], [202, 202])
    t.equal(known.text, unknown.text)
    const shape = (answer: Answer) => Object.keys(answer.headers).sort()
    t.same(shape(known), shape(unknown))
    t.match(known.json(), { message: String })
    await mailedLinks(gateway.data, email, 1)
  })

  await t.test('Limits | Magic link | 3 | 15 minutes, per IP | magic-link email requests', async t => {
    const here = { 'x-forwarded-for': '192.0.2.7' }
    const statuses: number[] = []
    for (const email of ['a@example.com', 'b@example.com', 'c@example.com', 'd@example.com'])
      statuses.push((await ask(email, here)).status)
    t.same(statuses, [202, 202, 202, 429])
    const refused = await ask('a@example.com', { ...here, 'x-api-key': gateway.merchant.apiKey })
    t.equal(refused.status, 429, 'a key does not make it another counter')
    const wait = Number(refused.headers['retry-after'])
    t.ok(wait > 60 && wait <= 900, `comes back within 15 minutes, not one: ${wait}`)
    t.equal(
      (await send('POST', '/sign-in', { headers: { ...here, 'content-type': FORM }, body: 'email=a@example.com' }))
        .status,
      429,
      'the page is counted with it'
    )
    t.equal((await ask('a@example.com', { 'x-forwarded-for': '192.0.2.8' })).status, 202, 'another address')
    const v6 = await Promise.all(
      ['2001:db8:1:2::1', '2001:db8:1:2::2', '2001:db8:1:2:ffff::3', '2001:db8:1:2::4'].map(address =>
        ask('a@example.com', { 'x-forwarded-for': address })
      )
    )
    t.same(v6.map(answer => answer.status).sort(), [202, 202, 202, 429], 'IPv6 by /64 (decision 32)')
  })

  await t.test('the whole way: mail, page, button, session, account, signing out', async t => {
    const { email, merchantId } = await account()
    const path = await linkFor(email)
    for (const look of ['a scanner', 'the reader', 'the reader again']) {
      const page = await send('GET', path)
      t.equal(page.status, 200, `${look} opens the link`)
      t.match(page.text, /<button class="button" type="submit">Sign in<\/button>/)
      t.equal(page.headers['set-cookie'], undefined, 'which does not sign in')
      t.match(page.headers['content-security-policy'], /form-action 'self'/)
      t.equal(page.headers['cache-control'], 'no-store')
      t.equal(
        page.headers['referrer-policy'],
        'strict-origin',
        'with none at all a browser that sends no Sec-Fetch-Site would send its form from "null"'
      )
      t.match(page.text, '<meta name="referrer" content="strict-origin"/>', 'and the address is not revealed')
    }
    t.equal((await send('HEAD', path)).status, 200)
    const signedIn = await send('POST', path)
    t.same([signedIn.status, signedIn.headers['location']], [303, '../console?welcome'])
    t.match(
      cookieOf(signedIn),
      /^__Host-boltgate-session=[A-Za-z0-9_-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Lax; Secure$/
    )
    t.equal((await send('POST', path)).status, 404, 'the link works once')
    t.equal((await send('GET', path)).status, 404)

    const cookie = cookieOf(signedIn).split(';', 1)[0] ?? ''
    const session = await send('GET', '/api/auth/session', { headers: { cookie: `theme=dark; ${cookie}` } })
    t.equal(session.status, 200)
    t.match(session.json(), {
      merchantId,
      email,
      planTier: 'free',
      subscriptionStatus: 'active',
      keyHint: /^[0-9a-z]{10}$/
    })
    t.equal(session.headers['access-control-allow-origin'], undefined)
    const page = await send('GET', '/sign-in/account', { headers: { cookie } })
    t.equal(page.status, 200)
    for (const text of [email, 'Merchant ', 'Free Producer Sandbox', 'active', 'Sign out'])
      t.ok(page.text.includes(text), text)
    t.ok(page.text.includes(`<dt>Signed in as</dt><dd>${email}</dd>`))
    t.equal(
      (await send('GET', '/api/merchant/me', { headers: { cookie } })).status,
      200,
      'decision 322: it opens the API'
    )
    t.equal(
      (await send('GET', '/api/merchant/me', { headers: { 'x-api-key': cookie } })).status,
      401,
      'and is no API key'
    )

    const form = /name="form" value="([^"]+)"/.exec(page.text)?.[1] ?? ''
    const signOut = (body: string, headers: Readonly<Record<string, string>> = {}) =>
      send('POST', '/sign-in/sign-out', { headers: { cookie, 'content-type': FORM, ...headers }, body })
    for (const body of ['', 'form=', `form=${'A'.repeat(43)}`])
      t.equal((await signOut(body)).status, 403, "not by another site's form")
    t.equal((await send('GET', '/api/auth/session', { headers: { cookie } })).status, 200)
    const out = await signOut(`form=${form}`)
    t.equal(out.status, 303)
    t.match(cookieOf(out), /^__Host-boltgate-session=; Path=\/; Max-Age=0;/)
    t.equal((await send('GET', '/api/auth/session', { headers: { cookie } })).status, 401, 'also with a kept cookie')
    t.equal((await send('GET', '/sign-in/account', { headers: { cookie } })).status, 401)
    t.equal((await signOut(`form=${form}`)).status, 303, 'a second time is harmless')
  })

  await t.test('no other site signs a browser in to an account of its own', async t => {
    const { email } = await account()
    const path = await linkFor(email)
    for (const headers of [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { origin: 'https://evil.example' },
      { origin: 'null' }
    ]) {
      const answer = await send('POST', path, { headers })
      t.equal(answer.status, 403, JSON.stringify(headers))
      t.equal(answer.headers['set-cookie'], undefined)
    }
    t.equal(
      (await send('POST', path, { headers: { origin: 'https://gate.example.com', 'sec-fetch-site': 'same-origin' } }))
        .status,
      303,
      'and the link is still valid'
    )
  })

  await t.test('the cookie of plain HTTP is nothing on https', async t => {
    const cookie = await signIn((await account()).email)
    t.equal(
      (await send('GET', '/api/auth/session', { headers: { cookie: cookie.replace('__Host-', '') } })).status,
      401
    )
    t.equal((await send('GET', '/api/auth/session', { headers: { cookie } })).status, 200)
  })

  await t.test('the page at /sign-in has an address field and gives every address the same response', async t => {
    const { email } = await account()
    const form = (body: string, type = FORM) => send('POST', '/sign-in', { headers: { 'content-type': type }, body })
    const page = await send('GET', '/sign-in')
    t.match(page.text, /<input id="email" name="email" type="email"/)
    t.match(page.headers, { 'referrer-policy': 'strict-origin', 'content-security-policy': "script-src 'self'" })
    const [known, unknown] = [
      await form(`email=${encodeURIComponent(email)}`),
      await form('email=nobody%40example.com')
    ]
    t.same([known.status, unknown.status, known.text], [200, 200, unknown.text])
    await mailedLinks(gateway.data, email, 1)
    const wrong = await form('email=%22%3E%3Cscript%3E')
    t.equal(wrong.status, 400)
    t.notOk(wrong.text.includes('"><script>'), 'the input runs no script')
    t.equal((await form(JSON.stringify({ email }), 'application/json')).status, 400)
    t.equal((await form(`email=${email}&x=${'y'.repeat(8000)}`)).status, 400)
  })

  await t.test('the addresses of sign-in links and pay pages are in no line of the log, however requested', async t => {
    const { payUrl } = (
      await gateway.merchantSend('POST', '/api/payments', { orderId: 'secret', amount: 1, currency: 'USD' })
    ).json() as { payUrl: string }
    for (const path of [await linkFor((await account()).email), new URL(payUrl).pathname]) {
      const [, folder = '', token = ''] = path.split('/')
      t.equal(token.length, 43)
      for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'POST']) await send(method, gateway.url + path)
      for (const [method, target] of [
        ['GET', `${path}/`],
        ['GET', `${path}?x=1`],
        ['GET', `${path}.`],
        ['POST', `${path}/events`],
        ['GET', `${path}/events/`],
        ['GET', `${path}/x/y`],
        ['GET', `/${folder}//${token}`],
        ['GET', `/${folder}/%61${token}`]
      ] as const)
        await send(method, gateway.url + target)
      await send('GET', '/health')
      t.ok(
        lines.some(line => line.includes('/health')),
        'the log was listened to'
      )
      t.equal(
        lines.find(line => line.includes(token)),
        undefined,
        folder
      )
    }
  })
})
