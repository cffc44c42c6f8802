/** The page of jobs for the admin key: `/jobs`. */
import t from 'tap'
import { createLog } from '../../../src/platform/telemetry/log.ts'
import { defaultYaml, startGateway } from '../../support/gateway.ts'

const NO_JOB = '/jobs/webhooks/00000000-0000-4000-8000-000000000000/retry'

await t.test('the dashboard of jobs', async t => {
  const lines: string[] = []
  const log = createLog({
    level: 'info',
    destination: {
      write: line => {
        lines.push(line)
      }
    }
  })
  const yaml = defaultYaml({ replace: [['  publicUrl:', '  trustedProxies: [ 127.0.0.1 ]\n  publicUrl:']] })
  const gateway = await startGateway(t, { yaml, log })
  await gateway.database.sql`
    insert into jobs (queue, data, state, next_at, ended_at, reason)
    values ('webhooks', '{"of":"first"}', 'failed', now() + interval '1 day', now(), '<b>first</b>: the receiver said 500'),
      ('webhooks', '{"of":"second"}', 'failed', now() + interval '1 day', now(), 'it said no'),
      ('webhooks', '{"of":"the last"}', 'waiting', now() + interval '1 day', null, null)`
  const key = encodeURIComponent(gateway.adminKey)
  const ask = (path: string, headers: Readonly<Record<string, string>> = {}, method = 'GET') =>
    gateway.send(method, path, { headers })
  const withKey = (path: string, method = 'GET') => ask(path, { 'x-admin-key': gateway.adminKey }, method)
  const signedIn = async () => {
    const answer = await ask(`/jobs?queue=webhooks&adminKey=${key}&state=failed`)
    const cookie = String(answer.headers['set-cookie'])
    return { answer, cookie, value: cookie.split(';', 1)[0] ?? '' }
  }

  await t.test('the admin key in X-Admin-Key opens it', async t => {
    const { headers, status, text } = await withKey('/jobs')
    t.equal(status, 200)
    t.match(headers, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': /default-src 'none'; script-src 'none'.*form-action 'self'/,
      'referrer-policy': 'same-origin',
      'cache-control': 'no-store'
    })
    t.match(text, '&lt;b>first&lt;/b>: the receiver said 500', 'escaped')
    t.match(text, 'every 1 hr')
    for (const absent of ['<b>', gateway.adminKey, 'the last']) t.notOk(text.includes(absent), absent)
  })

  await t.test('the key in the query becomes a cookie that is not the key, and a clean address', async t => {
    const { answer, cookie, value } = await signedIn()
    t.match(answer, { status: 303, headers: { location: './jobs?queue=webhooks&state=failed' } })
    t.match(cookie, /^boltgate_jobs=\d+\.[\w-]{43}; Path=\/jobs; Max-Age=43200; HttpOnly; SameSite=Strict$/)
    t.equal((await ask('/jobs', { cookie: `other=1; ${value}` })).status, 200)
    const changed = value.replace(/=\d/, '=9')
    t.equal((await ask('/jobs', { cookie: changed })).status, 401, 'a later end is not what was signed')
    t.ok(lines.some(line => line.includes('/jobs')))
    for (const secret of [gateway.adminKey, key])
      t.notOk(
        lines.some(line => line.includes(secret)),
        'not in the log'
      )
  })

  await t.test('lists by queue and state, in pages; what is not known is refused', async t => {
    const waiting = (await withKey('/jobs?queue=webhooks&state=waiting')).text
    t.match(waiting, 'the last')
    t.notMatch(waiting, 'the receiver said 500')
    const all = (await withKey('/jobs?queue=webhooks&state=')).text
    for (const each of ['the last', 'the receiver said 500']) t.match(all, each)
    t.match((await withKey('/jobs?state=failed&page=2')).text, 'No failed jobs.')
    for (const path of ['/jobs?state=lost', '/jobs?page=0']) t.equal((await withKey(path)).status, 400, path)
    for (const path of ['/jobs/webhooks/1/retry', NO_JOB]) t.equal((await withKey(path, 'POST')).status, 404, path)
  })

  await t.test('further pages of all jobs list all of them too', async t => {
    await gateway.database.sql`
      insert into jobs (queue, data, state, next_at, ended_at)
      select 'webhooks', '{"of":"sixty"}', 'done', now() + interval '1 day', now() from generate_series(1, 60)`
    const linked = (text: string, rel: 'next' | 'prev') =>
      `/${new RegExp(`rel="${rel}" href="([^"]*)"`).exec(text)?.[1]?.replaceAll('&amp;', '&') ?? 'no link'}`
    const second = await withKey(linked((await withKey('/jobs?queue=&state=')).text, 'next'))
    t.match(second.text, 'sixty')
    t.match((await withKey(linked(second.text, 'prev'))).text, 'sixty', 'and back')
  })

  await t.test("a cookie acts for the dashboard's own page alone", async t => {
    const { value: cookie } = await signedIn()
    const post = async (headers: Readonly<Record<string, string>>) =>
      (await ask(NO_JOB, { cookie, ...headers }, 'POST')).status
    for (const foreign of [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site', origin: gateway.url },
      { origin: 'https://evil.example' },
      { origin: 'null' }
    ])
      t.equal(await post(foreign), 403, JSON.stringify(foreign))
    for (const own of [{ 'sec-fetch-site': 'same-origin' }, { origin: gateway.url }])
      t.equal(await post(own), 404, JSON.stringify(own))
  })

  await t.test('the failed-authentication throttle also covers the job dashboard', async t => {
    const from = { 'x-forwarded-for': '203.0.113.7' }
    for (let n = 1; n <= 21; n++)
      t.equal((await ask(n % 2 === 0 ? '/jobs?adminKey=wrong' : '/jobs', from)).status, 401, `failure ${n}`)
    const blocked = await ask('/jobs?adminKey=wrong', from)
    t.match(blocked, { status: 429, headers: { 'retry-after': /^[1-9]\d*$/ } })
    t.match(blocked.json(), { error: 'Too many failed authentication attempts' })
    t.equal((await ask('/jobs', { ...from, 'x-admin-key': gateway.adminKey })).status, 429, 'even with the right key')
  })
})
