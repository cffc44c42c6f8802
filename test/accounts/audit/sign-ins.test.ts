/** Sign-ins, sign-outs and failed sign-ins in the audit log. */
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { SignInRecord } from '../../../src/web/sign-in/record.ts'
import { asPerson, cookieOf, sessionOf } from '../../web/console/session.ts'
import { linksTo, mailedLinks } from '../../web/sign-in/mails.ts'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { until } from '../../support/until.ts'

const FORM = { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin' }
const behindProxy = defaultYaml({ replace: [['  publicUrl:', '  trustedProxies: [ 127.0.0.1 ]\n  publicUrl:']] })

interface Entry {
  readonly operation: string
  readonly merchantId: number | null
}

t.test('audit log: sign-ins and sign-outs are listed for the account and the operator', async t => {
  const gateway = await startGateway(t, { yaml: behindProxy })
  const { apiKey, id: merchantId } = gateway.merchant
  const entries = async (path: string, key: string) => {
    const answer = await gateway.send('GET', path, { headers: { 'x-api-key': key } })
    t.equal(answer.status, 200)
    return (answer.json() as { entries: Entry[] }).entries
  }
  const post = (path: string, from: string, body = '', cookie = '') =>
    gateway.send('POST', path, {
      headers: { ...FORM, cookie, 'x-forwarded-for': from, 'user-agent': 'Browser/1' },
      body
    })
  const signOut = async (cookie: string, from: string) => {
    const page = await asPerson(gateway, cookie, '/sign-in/account')
    const form = /name="form" value="([^"]*)"/.exec(page.text)?.[1] ?? ''
    t.equal((await post('/sign-in/sign-out', from, `form=${encodeURIComponent(form)}`, cookie)).status, 303)
  }

  const merchant = cookieOf(await post('/sign-in/key', '192.0.2.1', `key=${encodeURIComponent(apiKey)}`))
  await signOut(merchant, '192.0.2.2')
  const admin = cookieOf(await post('/sign-in/key', '192.0.2.3', `key=${encodeURIComponent(gateway.adminKey)}`))
  await signOut(admin, '192.0.2.4')
  const email = 'owner@example.com'
  const made = (await gateway.adminSend('POST', '/api/admin/merchants', { name: 'Mailed', email })).json() as {
    merchantId: number
    apiKey: string
  }
  const before = linksTo(gateway.data, email).length
  await gateway.send('POST', '/api/auth/magic-link', { body: { email } })
  const { pathname } = new URL((await mailedLinks(gateway.data, email, before + 1)).at(-1) ?? '')
  t.equal((await post(pathname, '192.0.2.5')).status, 303)
  t.equal((await post(pathname, '192.0.2.6')).status, 404)
  const credential = { id: 'AAAA', rawId: 'AAAA', type: 'public-key' }
  const response = { clientDataJSON: 'AAAA', authenticatorData: 'AAAA', signature: 'AAAA' }
  const withPasskey = (from: string) =>
    gateway.send('POST', '/api/auth/passkeys/sign-in', {
      headers: { 'sec-fetch-site': 'same-origin', 'x-forwarded-for': from },
      body: { ...credential, response }
    })
  const passkey = await withPasskey('192.0.2.11')
  t.equal(passkey.status, 401)
  t.match(String(passkey.headers['set-cookie']), /^boltgate-passkey=; .*Max-Age=0;/)
  await post('/sign-in/sign-out', '192.0.2.7', 'form=x', 'boltgate-session=made-up')
  t.equal(
    (await gateway.send('GET', '/jobs?adminKey=wrong', { headers: { 'x-forwarded-for': '192.0.2.8' } })).status,
    401
  )
  const query = encodeURIComponent(gateway.adminKey)
  t.equal(
    (await gateway.send('GET', `/jobs?adminKey=${query}`, { headers: { 'x-forwarded-for': '192.0.2.9' } })).status,
    303
  )
  for (const _ of [1, 2, 3]) t.equal((await post('/sign-in/key', '2001:db8::1', 'key=wrong-key')).status, 401)

  const own = { merchantId, change: { browser: 'Browser/1' }, by: { kind: 'key' }, status: 303 }
  t.match(await entries('/api/merchant/audit', apiKey), [
    { ...own, operation: 'signOut', target: { address: '192.0.2.2' } },
    { ...own, operation: 'signInWithKey', target: { address: '192.0.2.1' } }
  ])
  const mailed = { operation: 'useSignInLink', by: { kind: 'member', name: email }, merchantId: made.merchantId }
  t.match(await entries('/api/merchant/audit', made.apiKey), [mailed])
  const all = await entries('/api/admin/audit', gateway.adminKey)
  t.match(
    all.filter(({ operation }) => /sign/i.test(operation)),
    [
      {
        operation: 'signInWithKey',
        merchantId: null,
        by: { kind: 'unknown', name: '2001:db8:0:0::/64' },
        target: { address: '2001:db8:0:0::/64', attempts: 3 },
        status: 401
      },
      { operation: 'signInToJobs', by: { kind: 'admin' }, target: { address: '192.0.2.9' }, status: 303 },
      {
        operation: 'signInToJobs',
        by: { kind: 'unknown' },
        target: { address: '192.0.2.8', attempts: 1 },
        status: 401
      },
      { operation: 'signInWithPasskey', by: { kind: 'unknown', name: '192.0.2.11' }, status: 401 },
      { operation: 'useSignInLink', by: { kind: 'unknown' }, target: { attempts: 1 }, status: 404 },
      mailed,
      { operation: 'signOut', by: { kind: 'admin' }, merchantId: null },
      { operation: 'signInWithKey', by: { kind: 'admin' }, merchantId: null },
      { operation: 'signOut', by: { kind: 'key' } },
      { operation: 'signInWithKey', by: { kind: 'key' } }
    ]
  )
  const text = JSON.stringify(await gateway.database.sql`select * from audit`)
  for (const secret of ['wrong-key', apiKey, gateway.adminKey, pathname.split('/').at(-1) ?? '', admin, merchant])
    t.notOk(text.includes(secret), 'no key, token or cookie')

  const operator = await sessionOf(gateway, gateway.adminKey)
  t.match((await asPerson(gateway, operator, '/sign-in/account')).text, '<dd>operator, by admin key</dd>')
  const page = await asPerson(gateway, operator, '/operator/changes')
  t.match(page.text, /Signed in with an API key from 2001:db8:0:0::\/64, 3 attempts/)
  t.match(page.text, /not signed in/)

  await until(async () => (await post('/sign-in/key', '192.0.2.12', 'key=wrong-key')).status === 429)
  t.equal((await withPasskey('192.0.2.12')).status, 429)
  const blocked = (await entries('/api/admin/audit?limit=1', gateway.adminKey))[0]
  t.match(blocked, { operation: 'signInWithKey', target: { address: '192.0.2.12' } }, 'a blocked address tries nothing')

  await gateway.database.sql`alter table audit rename to audit_away`
  t.match(await sessionOf(gateway, apiKey), /^boltgate-session=./, 'signs in without an audit log')
  t.equal((await post('/sign-in/key', '192.0.2.10', 'key=wrong-key')).status, 401)
  await gateway.database.sql`alter table audit_away rename to audit`
})

t.test('audit log: failed sign-ins from many networks share a bounded number of rows', async t => {
  const clock = new ManualClock()
  const rows: { address: string | undefined; attempts: unknown }[] = []
  const record = new SignInRecord({
    clock,
    log: { debug() {}, info() {}, warn() {}, error: () => t.fail() },
    trail: {
      begin: async ({ target }) => {
        const row = { address: target['address'], attempts: null as unknown }
        rows.push(row)
        return async (_status, made) => {
          row.attempts = made['attempts']
        }
      }
    }
  })
  const fail = (at: number) => record.failed({ clientAddress: `10.0.${at >> 8}.${at & 255}` }, 'a', 401)
  for (let at = 0; at < 1000; at++) await fail(at)
  await Promise.all(Array.from({ length: 50 }, () => fail(0)))
  await setImmediate()
  t.equal(rows.length, 21)
  t.same(
    [rows[0], rows[20]],
    [
      { address: '10.0.0.0', attempts: 51 },
      { address: 'other addresses', attempts: 980 }
    ]
  )
  clock.advance(60_000)
  await fail(0)
  t.same(rows.slice(21), [{ address: '10.0.0.0', attempts: 1 }], 'a new minute, a new row')
})

t.test('audit log: a failed sign-in that cannot be written is logged', async t => {
  const error = new Error('the table is gone')
  const logged: unknown[] = []
  const record = new SignInRecord({
    clock: new ManualClock(),
    log: { debug() {}, info() {}, warn() {}, error: fields => logged.push(fields) },
    trail: {
      begin: async () => {
        throw error
      }
    }
  })
  await record.failed({ clientAddress: '192.0.2.1' }, 'signInWithKey', 401)
  t.same(logged, [{ err: error, operation: 'signInWithKey' }])
})
