import t from 'tap'
import { flaky } from '../../faults/flaky-database.ts'
import { openGate } from '../../faults/tcp-gate.ts'
import { tmpdir } from 'node:os'
import { openDatabase } from '../../../src/platform/database/database.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { openTestDatabase, temporaryFolder } from '../../support/database.ts'
import { freshPostgres, freshRedis } from '../../support/gateway-process.ts'
import { defaultYaml, startGateway, type Answer, type TestGateway } from '../../support/gateway.ts'
import { stopwatch } from '../../support/passing-time.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { asPerson, sessionOf } from './session.ts'

/** The cookies that a response sets, as a request carries them. */
function cookiesOf(answer: Answer) {
  return [answer.headers['set-cookie'] ?? []]
    .flat()
    .map(cookie => cookie.split(';', 1)[0])
    .join('; ')
}

/** The cookies of a signed-in operator who has seen the console. */
async function operatorOf(gateway: TestGateway) {
  const session = await sessionOf(gateway, gateway.adminKey)
  return `${session}; ${cookiesOf(await asPerson(gateway, session, '/operator'))}`
}

const yaml = `${defaultYaml()}\noperators: [ops@example.com]\n`

await t.test('without the database a signed-in operator reads what is wrong, and nothing else', async t => {
  const clock = new ManualClock(Date.now())
  const database = flaky(await openTestDatabase(t))
  const gateway = await startGateway(t, { database, clock, yaml })
  const cookie = await operatorOf(gateway)
  const [session = '', standIn = ''] = cookie.split('; ')
  t.match(standIn, /^boltgate-operator=/)
  t.match(String((await asPerson(gateway, session, '/operator')).headers['set-cookie']), /; Max-Age=3600;/)
  const other = await operatorOf(gateway)
  const merchant = await sessionOf(gateway, gateway.merchant.apiKey)
  t.equal(cookiesOf(await asPerson(gateway, merchant, '/console')), '', 'a merchant gets none')

  database.away = true
  for (const path of ['/operator', '/operator/health']) {
    const { headers, status, text } = await asPerson(gateway, cookie, path)
    t.equal(status, 200, path)
    t.match(text, /class="notice bad"/)
    t.match(text, /The embedded database is unavailable.*Sales stop with 503/s)
    t.equal(headers['set-cookie'], undefined, 'it is not renewed')
  }
  for (const path of ['/operator/configuration', '/operator/providers'])
    t.equal((await asPerson(gateway, cookie, path)).status, 200, path)

  await t.test('pages that need the database are HTML with 503', async t => {
    for (const [what, path] of [
      [cookie, '/operator/merchants'],
      [cookie, '/operator/changes'],
      [session, '/operator'],
      [merchant, '/console'],
      [`${merchant}; ${standIn}`, '/operator']
    ] as const) {
      const { headers, status, text } = await asPerson(gateway, what, path)
      t.equal(status, 503, path)
      t.match(headers['content-type'], /text\/html/)
      t.equal(headers['retry-after'], '5')
      t.match(text, /The database is unavailable/)
      t.equal(text.includes('View health'), path.startsWith('/operator'))
    }
  })

  await t.test('a forged, foreign or changed cookie opens nothing', async t => {
    const value = standIn.slice('boltgate-operator='.length)
    const [, until = '', mac = ''] = value.split('.')
    const name = (text: string) => Buffer.from(text).toString('base64url')
    const foreign = other.split('; ')[1]?.slice('boltgate-operator='.length) ?? ''
    for (const forged of [
      foreign,
      `${name('ops@example.com')}.${until}.${mac}`,
      `${name('admin')}.${Number(until) + 1}.${mac}`,
      `${name('admin')}.${until}.`,
      `${name('admin')}.${until}`,
      `${until}.${mac}`,
      `${name('admin\n')}.${until}.${mac}`,
      'x'.repeat(4000)
    ])
      t.equal((await asPerson(gateway, `${session}; boltgate-operator=${forged}`, '/operator')).status, 503, forged)
    t.equal((await asPerson(gateway, standIn, '/operator')).status, 303, 'not without the session it is bound to')
  })

  await t.test('it changes nothing, is read by no other site, and is no key of the API', async t => {
    t.equal((await asPerson(gateway, cookie, '/operator/jobs', { queue: 'webhooks', id: 'x' })).status, 503)
    const headers = { cookie, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }
    t.equal((await gateway.send('GET', '/operator', { headers })).status, 403)
    const own = { cookie, 'sec-fetch-site': 'same-origin' }
    t.equal((await gateway.send('GET', '/api/admin/health', { headers: own })).status, 503)
    t.equal((await gateway.send('GET', '/jobs', { headers: own })).status, 503)
  })

  await t.test('the admin key signs in', async t => {
    const answer = await gateway.send('POST', '/sign-in/key', {
      headers: { 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' },
      body: `key=${encodeURIComponent(gateway.adminKey)}`
    })
    t.equal(answer.status, 303)
    t.match((await asPerson(gateway, cookiesOf(answer), '/operator')).text, /is unavailable/)
    t.equal((await asPerson(gateway, cookiesOf(answer), '/operator/merchants')).status, 503)
    database.away = false
    t.equal((await asPerson(gateway, cookiesOf(answer), '/operator')).status, 303, 'and again when it is back')
  })

  await t.test('it ends with the session, and after an hour', async t => {
    t.match((await asPerson(gateway, cookie, '/operator')).text, /Last 24 hours/)
    const sessions = (await asPerson(gateway, cookie, '/api/auth/sessions')).json() as Array<{
      sessionId: string
      isCurrent: boolean
    }>
    const theirs = sessions.find(({ isCurrent }) => !isCurrent)?.sessionId
    const headers = { cookie, 'sec-fetch-site': 'same-origin' }
    t.equal((await gateway.send('DELETE', `/api/auth/sessions/${theirs}`, { headers })).status, 204)
    database.away = true
    t.equal((await asPerson(gateway, other, '/operator')).status, 503, 'ended from another browser')
    t.equal((await asPerson(gateway, cookie, '/operator')).status, 200)
    clock.advance(3_600_001)
    // Idle connections have ended.
    await gateway.send('GET', '/health').catch(() => null)
    t.equal((await asPerson(gateway, cookie, '/operator')).status, 503, 'after an hour')
    database.away = false
    t.equal((await asPerson(gateway, cookie, '/operator')).status, 200, 'the session itself survives')
  })
})

await t.test('the cookie ends when the admin key is replaced', async t => {
  const database = flaky(await openTestDatabase(t))
  const data = temporaryFolder(t)
  const first = await startGateway(t, { database, data, yaml, env: { BOLTGATE_SECRET: 'test'.repeat(16) } })
  const cookie = await operatorOf(first)
  database.away = true
  t.equal((await asPerson(first, cookie, '/operator')).status, 200)
  t.equal((await asPerson(first, cookie, '/operator/health')).status, 200)
  database.away = false
  await first.close()
  const env = { BOLTGATE_SECRET: 'test'.repeat(16), BOLTGATE_ADMIN_KEY: 'another-admin-key-of-some-length' }
  database.away = false
  const second = await startGateway(t, { database, data, yaml, env })
  database.away = true
  t.equal((await asPerson(second, cookie, '/operator')).status, 503)
  const fresh = await second.send('POST', '/sign-in/key', {
    headers: { 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' },
    body: 'key=another-admin-key-of-some-length'
  })
  t.equal((await asPerson(second, cookiesOf(fresh), '/operator')).status, 200)
})

await t.test('silent PostgreSQL and Redis are on the page within 10 s, and gone after', async t => {
  const [postgres, redis] = [await freshPostgres(t), await freshRedis(t)]
  if (postgres === null || redis === null) return
  const through = async (address: string) => {
    const url = new URL(address)
    const gate = await openGate(t, { host: url.hostname, port: Number(url.port) })
    url.hostname = '127.0.0.1'
    url.port = String(gate.port)
    return { gate, url: url.href }
  }
  const [ofDatabase, ofState] = [await through(postgres), await through(redis)]
  const database = await openDatabase({ url: ofDatabase.url, dataDir: tmpdir(), log: silentLog, clock: systemClock })
  t.teardown(() => database.close())
  const gateway = await startGateway(t, {
    database,
    yaml: yaml.replace(/^state:.*$/m, `state: { url: "${ofState.url}" }`)
  })
  const cookie = await operatorOf(gateway)
  const noticeWithin = async (ms: number) => {
    const took = stopwatch(t)
    const { status, text } = await asPerson(gateway, cookie, '/operator')
    t.ok(took() < ms, `answered after ${took()} ms`)
    return status === 200 ? (/class="notice (\w+)".*?<\/(?:section|p)>/s.exec(text)?.[0] ?? '') : String(status)
  }
  t.match(await noticeWithin(10_000), /notice good/)
  ofState.gate.stall()
  t.match(await noticeWithin(10_000), /notice bad.*Redis does not respond/s)
  ofDatabase.gate.stall()
  t.match(await noticeWithin(10_000), /notice bad.*PostgreSQL is unavailable.*Redis does not respond/s)
  ofDatabase.gate.open()
  ofState.gate.open()
  for (let turn = 0; turn < 50; turn++) {
    const notice = await noticeWithin(20_000)
    if (!notice.includes('notice good')) continue
    t.pass('green again')
    return
  }
  t.fail('it stays red')
})
