import t from 'tap'
import { DatabaseStopped } from '../../../src/platform/database/errors.ts'
import { noBrowser, openBrowser, openPage } from '../pay/browser.ts'
import { declarePeriodic, declareQueue, openJobs } from '../../platform/jobs/jobs.ts'
import { openAnyDatabase } from '../../support/database.ts'
import { eventually } from '../../support/gateway-process.ts'
import { ADMIN_KEY, serveDashboard } from './jobs-dashboard-server.ts'

const database = await openAnyDatabase(t)
const jobs = openJobs(t, database)
const world = { broken: true, ran: 0 }
declareQueue<{ delivery: string }>(
  jobs,
  'webhooks',
  { title: 'Webhooks to merchants', concurrency: 2 },
  async ({ data }) => {
    world.ran++
    if (world.broken) throw new Error(`<b>${data.delivery}</b>: the receiver said 500`)
  }
)
declarePeriodic(jobs, 'tidy', 3_600_000, 'Tidies up', async () => {})
await jobs.start()
await jobs.enqueue(database.sql, 'webhooks', { delivery: 'first' }, { group: 'merchant 7' })
await jobs.enqueue(database.sql, 'webhooks', { delivery: 'second' })
await jobs.enqueue(database.sql, 'webhooks', { delivery: 'later' }, { startAfter: Date.now() + 3_600_000 })
await eventually('both failed', async () =>
  (await jobs.queues()).find(queue => queue.name === 'webhooks')?.failed === 2 ? true : null
)
await eventually('tidied', async () =>
  (await jobs.queues()).find(queue => queue.name === 'tidy')?.done === 1 ? true : null
)

await t.test('over HTTP', async t => {
  const { url, lines } = await serveDashboard(t, jobs)
  const ask = (path: string, init: RequestInit = {}) => fetch(url + path, { redirect: 'manual', ...init })
  const withKey = { headers: { 'X-Admin-Key': ADMIN_KEY } }

  await t.test('the admin key in X-Admin-Key opens it', async t => {
    const answer = await ask('/jobs', withKey)
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('content-type'), 'text/html; charset=utf-8')
    t.match(answer.headers.get('content-security-policy'), /default-src 'none'; script-src 'none'.*form-action 'self'/)
    t.equal(answer.headers.get('referrer-policy'), 'same-origin')
    t.equal(answer.headers.get('cache-control'), 'no-store')
    const text = await answer.text()
    t.match(text, '&lt;b>first&lt;/b>: the receiver said 500', 'escaped')
    t.notMatch(text, '<b>')
    t.match(text, 'Tidies up')
    t.match(text, 'every 1 h')
    t.notMatch(text, ADMIN_KEY)
  })

  await t.test('the key in the query becomes a cookie that is not the key, and a clean address', async t => {
    const answer = await ask(`/jobs?queue=webhooks&adminKey=${encodeURIComponent(ADMIN_KEY)}&state=failed`)
    t.equal(answer.status, 303)
    t.equal(answer.headers.get('location'), './jobs?queue=webhooks&state=failed')
    const cookie = answer.headers.get('set-cookie') ?? ''
    t.match(cookie, /^boltgate_jobs=\d+\.[\w-]{43}; Path=\/jobs; Max-Age=43200; HttpOnly; SameSite=Strict$/)
    t.notMatch(cookie, 'bgadmin')
    const value = cookie.split(';', 1)[0] ?? ''
    t.equal((await ask('/jobs', { headers: { cookie: `other=1; ${value}` } })).status, 200)
    t.equal(
      (await ask('/jobs', { headers: { cookie: value.replace(/=\d/, '=9') } })).status,
      401,
      'a later end is not what was signed'
    )
    await eventually('the line', async () => (lines.some(line => line.includes('adminKey=[redacted]')) ? true : null))
    t.notOk(
      lines.some(line => line.includes('bgadmin')),
      'the log does not have it'
    )
  })

  await t.test('lists by queue and state, in pages; what is not known is refused', async t => {
    const waiting = await (await ask('/jobs?queue=webhooks&state=waiting', withKey)).text()
    t.match(waiting, 'later')
    t.notMatch(waiting, 'the receiver said 500')
    t.match(await (await ask('/jobs?state=failed&page=2', withKey)).text(), 'There are none.')
    t.equal((await ask('/jobs?state=lost', withKey)).status, 400)
    t.equal((await ask('/jobs?page=0', withKey)).status, 400)
    t.equal((await ask('/jobs/webhooks/1/retry', { ...withKey, method: 'POST' })).status, 404)
    t.equal(
      (await ask('/jobs/webhooks/00000000-0000-4000-8000-000000000000/retry', { ...withKey, method: 'POST' })).status,
      404
    )
  })

  await t.test("a cookie acts for the dashboard's own page alone", async t => {
    const cookie =
      (await ask(`/jobs?adminKey=${encodeURIComponent(ADMIN_KEY)}`)).headers.get('set-cookie')?.split(';', 1)[0] ?? ''
    const path = '/jobs/webhooks/00000000-0000-4000-8000-000000000000/retry'
    const post = (headers: Record<string, string>) => ask(path, { method: 'POST', headers: { cookie, ...headers } })
    for (const foreign of [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site', origin: url },
      { origin: 'https://evil.example' },
      { origin: 'null' }
    ]) {
      t.equal((await post(foreign)).status, 403, JSON.stringify(foreign))
    }
    t.equal((await post({ 'sec-fetch-site': 'same-origin' })).status, 404)
    t.equal((await post({ origin: url })).status, 404)
    t.equal(world.ran, 2, 'nothing was run again')
  })

  await t.test('the failed-authentication throttle also covers the job dashboard', async t => {
    const { url } = await serveDashboard(t, jobs)
    const wrong = () => fetch(`${url}/jobs?adminKey=wrong`, { redirect: 'manual' })
    for (let n = 1; n <= 21; n++)
      t.equal((await (n % 2 === 0 ? wrong() : fetch(`${url}/jobs`))).status, 401, `failure ${n}`)
    const blocked = await wrong()
    t.equal(blocked.status, 429)
    t.match(blocked.headers.get('retry-after'), /^[1-9]\d*$/)
    t.match(await blocked.json(), { error: 'Too many failed authentication attempts' })
    t.equal((await fetch(`${url}/jobs`, withKey)).status, 429, 'even with the right key')
  })

  await t.test('while the database is down it is 503', async t => {
    const away = async (): Promise<never> => {
      throw new DatabaseStopped('killed')
    }
    const { url } = await serveDashboard(
      t,
      Object.assign(Object.create(jobs), { queues: away, list: away, retry: away })
    )
    t.equal((await fetch(`${url}/jobs`, withKey)).status, 503)
  })
})

await t.test('in a browser', { skip: noBrowser }, async t => {
  const { url } = await serveDashboard(t, jobs)
  const browser = await openBrowser(t)

  await t.test('it looks right without an error, bright and dark, wide and narrow', async t => {
    for (const options of [
      { colorScheme: 'light' },
      { colorScheme: 'dark', viewport: { width: 360, height: 740 } }
    ] as const) {
      const { page, faults } = await openPage(t, browser, options)
      await page.goto(`${url}/jobs?adminKey=${encodeURIComponent(ADMIN_KEY)}`)
      t.equal(page.url(), `${url}/jobs`, 'the key is removed from the address')
      t.equal(await page.title(), '2 failed · Jobs · boltgate')
      t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), 'nothing sticks out')
      t.not(
        await page.locator('.failed .state').first().evaluate('element => getComputedStyle(element).backgroundColor'),
        'rgba(0, 0, 0, 0)',
        'its style is there'
      )
      t.same(faults, [])
      if (process.env['PICTURES'] !== undefined)
        await page.screenshot({ path: `${process.env['PICTURES']}/jobs-${options.colorScheme}.png`, fullPage: true })
    }
  })

  await t.test('a failed delivery is shown with its reason and run again manually, without JavaScript', async t => {
    const { page } = await openPage(t, browser, { javaScriptEnabled: false })
    await page.goto(`${url}/jobs?adminKey=${encodeURIComponent(ADMIN_KEY)}`)
    const failed = page.locator('.job.failed').filter({ hasText: 'merchant 7' })
    t.equal(await failed.locator('.reason').textContent(), '<b>first</b>: the receiver said 500')
    world.broken = false
    await failed.getByRole('button', { name: 'Retry' }).click()
    const after = `${url}/jobs?queue=webhooks`
    await page.waitForURL(after)
    await eventually('it is done', async () => {
      await page.goto(after)
      return (await page.locator('.job.done').filter({ hasText: 'first' }).count()) === 1 ? true : null
    })
    t.equal(await page.locator('.job.failed').count(), 1, 'the other is left alone')
  })
})
