import t, { type Test as T } from 'tap'
import type { Database } from '../../../src/platform/database/database.ts'
import { TrafficStore } from '../../../src/accounts/traffic/store.ts'
import { eachDatabase, openTestDatabase } from '../../support/database.ts'
import { eventually } from '../../support/gateway-process.ts'
import { defaultYaml } from '../../support/gateway.ts'
import { fillTraffic } from '../../accounts/traffic/fixture.ts'
import { asPerson, openConsole, sessionOf, wasOf } from './session.ts'

const ROUTES = (upstream: string) => `
  - { name: weather, match: { path: /weather/* }, price: 7 sats, description: "Weather <b>", chain: paid, upstream: { url: "${upstream}", headers: { X-Key: SECRET-header } } }
  - { name: free weather, match: { path: /free/* }, chain: public, upstream: { url: "${upstream}" } }`

/** The gateway's own file with two routes more. */
function yamlWith(routes: string) {
  return defaultYaml({ replace: [['routes:', `routes:${routes}`]] })
}

/** The operator's console; `page` reads a page or sends a form. */
async function opened(t: T, database: Database, yaml = yamlWith(ROUTES('http://127.0.0.1:9'))) {
  const { visit: page, ...others } = await openConsole(t, { database, yaml }, 'operator')
  return { ...others, page }
}

await eachDatabase(
  t,
  'routes show their chain, price and traffic, and the last errors of a dead upstream',
  async (t, database) => {
    const { gateway } = await opened(t, database)
    await fillTraffic(database)
    const failed = await gateway.send('GET', '/free/today')
    t.equal(failed.status, 502)
    await gateway.close()
    const store = new TrafficStore(database)
    t.match(
      (await store.faults(0, 5)).filter(({ route }) => route === 'free weather'),
      [{ status: 502, message: /connection refused/, times: 1 }],
      'its final figures are written as it stops'
    )
    const again = await opened(t, database)
    const routes = await again.get<Array<Record<string, unknown>>>('/api/admin/routes?of=file')
    t.match(
      routes.find(({ name }) => name === 'weather'),
      {
        price: '7 sats',
        from: /^line \d+$/,
        chain: { name: 'paid' },
        upstream: { kind: 'url', address: 'http://127.0.0.1:9', state: 'good' },
        now: { requests: Number },
        faults: [{ status: 502, times: 81 }]
      }
    )
    const plugins = ((routes[0] ?? {})['chain'] as { plugins: Array<{ plugin: string }> }).plugins.map(
      ({ plugin }) => plugin
    )
    t.equal(plugins[0], 'correlation')
    t.ok(['forward', 'internal'].includes(plugins.at(-1) ?? ''), 'the end follows from the upstream')
    const all = await again.get<Array<{ from: string }>>('/api/admin/routes')
    t.ok(all.length > routes.length)
    const { text } = await again.page('/operator/routes')
    for (const words of ['7 sats', 'connection refused', '>challenge<', 'Weather &lt;b>', 'answers'])
      t.ok(text.includes(words), words)
    t.notMatch(text, 'SECRET-header')
    t.equal((await again.page('/operator/routes?view=presets')).status, 200)
    const overview = (await again.page('/operator')).text
    t.match(overview, /Requests by hour/)
    t.match(overview, /<path class="trace trace-0" d="M/)
    t.notMatch(overview, /NaN|undefined/)
  }
)

t.test('the configuration shows no secret, what a reload changed, and what waits for a restart', async t => {
  const { gateway, get, page } = await opened(t, await openTestDatabase(t))
  type Configuration = { yaml: string; reload: unknown; waitsForRestart: string[]; generation: number }
  const first = await get<Configuration>('/api/admin/configuration')
  t.equal(first.reload, null)
  t.same(first.waitsForRestart, [])
  t.match(first.yaml, /X-Key: \(hidden\)/)
  t.notMatch(first.yaml, /SECRET/)
  await gateway.reload(
    yamlWith(ROUTES('http://127.0.0.1:9')).replace('7 sats', '9 sats').replace('SECRET-header', 'SECRET-two')
  )
  const second = await get<Configuration>('/api/admin/configuration')
  t.match(second.reload, {
    isUsed: true,
    problem: null,
    changes: [
      { path: 'routes.weather.price', before: '7 sats', after: '9 sats' },
      { path: 'routes.weather.upstream.headers.X-Key', before: '(hidden)', after: '(hidden)' }
    ]
  })
  t.equal(second.generation, first.generation + 1)
  await gateway.reload(`${yamlWith(ROUTES('http://127.0.0.1:9'))}\nlog: { level: debug }\n`)
  t.same((await get<Configuration>('/api/admin/configuration')).waitsForRestart, ['log'])
  const { text } = await page('/operator/configuration')
  t.match(text, /Restart required/)
  t.match(text, /9 sats/)
  t.notMatch(text, /SECRET/)
})

t.test('a failed job is run again from the console, and /jobs takes the same session', async t => {
  const database = await openTestDatabase(t)
  const { cookie, gateway, get, page } = await opened(t, database)
  const [job] = await database.sql<Array<{ id: string; name: string }>>`
    insert into jobs (queue, data, state, next_at, ended_at, reason)
    values ('webhooks', '{"a":"<b>"}', 'failed', now() + interval '1 day', now(), 'it said <i>no</i>')
    returning id, queue as name`
  t.ok(job, 'there is one')
  const { text } = await page('/operator/jobs')
  t.match(text, 'it said &lt;i>no&lt;/i>')
  t.match(await get('/api/admin/jobs?state=failed'), { jobs: [{ id: job?.id, state: 'failed' }] })
  const done = await page('/operator/jobs', { queue: job?.name ?? '', id: job?.id ?? '' })
  t.equal(done.headers['location'], '../operator/jobs?done=retried')
  await eventually('it ran', async () => {
    const { jobs } = await get<{ jobs: Array<{ id: string; reason: string }> }>('/api/admin/jobs?state=failed')
    return jobs.some(({ id, reason }) => id === job?.id && reason.includes('it said')) ? null : true
  })
  t.equal((await page('/operator/jobs', { queue: 'webhooks', id: 'no such' })).status, 422)
  t.equal((await page('/jobs')).status, 200, 'the old page')
  const merchant = await sessionOf(gateway, gateway.merchant.apiKey)
  t.equal((await asPerson(gateway, merchant, '/jobs')).status, 401, 'is for operators')
  const ridden = await gateway.send('POST', `/jobs/webhooks/${job?.id}/retry`, {
    headers: { cookie, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }
  })
  t.equal(ridden.status, 403, 'and no other site')
})

await eachDatabase(
  t,
  "a session whose refund was lost is settled by hand, with the actor's name",
  async (t, database) => {
    const { get, page } = await opened(t, database)
    const id = 'a1'.repeat(32)
    const hourAgo = new Date(Date.now() - 3_600_000)
    await database.sql`
    insert into balances (id, kind, place, unit, deposited_msat, spent_msat, refunded_msat, state, opened_at, expires_at)
    values (${id}, 'session', '/x', 'request', 50000, 20000, 30000, 'closed', ${hourAgo}, ${new Date(Date.now() + 3_600_000)})`
    await database.sql`
    insert into sessions (id, open_challenge, network, charge_id, provider_slot, provider_kind, opened_at, idle_ms, used_at, closed_at,
      closed_by, return_invoice, return_hash, refund_status, refund_reference, refund_sats, refund_begun_at, refund_check_at)
    values (${id}, 'c', 'regtest', 'c', 'primary', 'sandbox', ${hourAgo}, 60000, ${hourAgo}, ${hourAgo}, 'idle', 'lnbcrt1', ${id}, 'pending',
      'ours', 30, ${hourAgo}, ${new Date(Date.now() + 3_600_000)})`
    t.ok((await page('/operator/sessions')).text.includes(`sessions/${id}`))
    t.match((await page(`/operator/sessions/${id}`)).text, /Settle manually/)
    const wrong = await page(`/operator/sessions/${id}`, { do: 'settle', outcome: 'sent', settledBy: '', reason: '' })
    t.equal(wrong.status, 422)
    const settled = await page(`/operator/sessions/${id}`, {
      do: 'settle',
      outcome: 'sent',
      settledBy: 'Ada',
      reason: 'its records'
    })
    t.equal(settled.status, 303, settled.text.slice(0, 2000))
    t.match(await get(`/api/admin/sessions/${id}`), {
      refund: { status: 'confirmed', settledBy: 'Ada', settledWhy: 'its records' }
    })
    t.notOk((await page('/operator/sessions')).text.includes(`sessions/${id}`), 'it needs no review any more')
    t.equal((await page('/operator/sessions/nope')).status, 404)
  }
)

t.test('operator console: the health page shows the result of each check', async t => {
  const { page, get } = await opened(t, await openTestDatabase(t))
  t.match(await get('/api/admin/health'), { ready: true, checks: [{ name: 'database', state: 'good' }] })
  const { text } = await page('/operator/health')
  t.match(text, /Nothing needs attention/)
  t.match(text, /The embedded database responds/)
})

await eachDatabase(t, 'every refund of the list can be reached, page by page', async (t, database) => {
  const { gateway, page } = await opened(t, database)
  await database.sql`
    insert into refunds (refund_id, merchant_id, invoice_id, status, refund_type, refund_address, amount_sats, provider_slot,
      provider_kind, created_at, updated_at, next_check_at)
    select 100000000000000 + n, ${gateway.merchant.id}, 'ord_' || n, 'pending', 'chain', 'bcrt1', 40, 'primary', 'sandbox',
      now() - n * interval '1 minute', now(), now() + interval '1 year'
    from generate_series(1, 51) n`
  const shown = async (path: string) =>
    [...(await page(path)).text.matchAll(/refunds\/(1000000000000\d\d)"/g)].map(([, id = '']) => id)
  const first = await shown('/operator/refunds?view=open')
  const [, next = ''] = /href="([^"]*)"[^>]*>Older/.exec((await page('/operator/refunds?view=open')).text) ?? []
  const second = await shown(`/operator/${next.replaceAll('&amp;', '&').replace(/^.*operator\//, '')}`)
  t.same([first.length, second.length], [50, 1])
  t.equal(new Set([...first, ...second]).size, 51)
})

await eachDatabase(
  t,
  "of two tabs that replace a merchant's key the second gets a conflict, and the first key stays",
  async (t, database) => {
    const { gateway, page } = await opened(t, database)
    const path = `/operator/merchants/${gateway.merchant.id}`
    const formOf = async () => ({ do: 'key', was: wasOf((await page(path)).text, 'key') })
    const [first, second] = [await formOf(), await formOf()]
    t.match(await page(path, first), { status: 200, text: /The API key/ })
    const late = await page(path, second)
    t.equal(late.status, 422)
    t.match(late.text, /This was changed after you opened the page/)
    const [{ keys } = { keys: 0 }] = await database.sql<{ keys: number }[]>`
      select count(*)::int as keys from audit where operation = 'adminRegenerateKey'`
    t.equal(keys, 1)
    t.match(
      await page(path, await formOf()),
      { status: 200, text: /The API key/ },
      'a client that has seen it may replace it again'
    )
  }
)

t.test('operator: limits of one account replace those of its plan, and an empty field brings them back', async t => {
  const { gateway, visit } = await openConsole(t, {}, 'operator')
  const get = async (path: string) => (await gateway.merchantSend('GET', path)).json()
  const page = `/operator/merchants/${gateway.merchant.id}`
  const usage = async () => await get('/api/merchant/usage')
  const save = async (limits: object) => {
    const was = wasOf((await visit(page)).text, 'limits')
    return { was, answer: await visit(page, { do: 'limits', was, ...limits }) }
  }
  const first = await save({ webhookEndpoints: '7', maxPriceSats: '0' })
  t.equal(first.answer.status, 303)
  t.match(await usage(), {
    webhookEndpoints: { limit: 7 },
    maxPriceSats: 0,
    ownLimits: { webhookEndpoints: 7, maxPriceSats: 0 }
  })
  const subscription = await get('/api/merchant/subscription')
  t.match(subscription, { limits: { maxWebhookEndpoints: 7 } })
  const api = { name: 'Dear', targetBaseUrl: 'https://api.example.com', defaultPriceSats: 1 }
  t.equal((await gateway.merchantSend('POST', '/api/proxy', api)).status, 402)
  t.equal((await visit(page, { do: 'limits', was: first.was })).status, 422, 'another tab')
  for (const wrong of ['-1', 'many', '99999999999'])
    t.equal((await save({ endpoints: wrong })).answer.status, 422, wrong)
  t.equal((await save({ endpoints: '', maxPriceSats: ' ' })).answer.status, 303)
  t.match(await usage(), { ownLimits: {} })
  t.equal((await gateway.merchantSend('POST', '/api/proxy', api)).status, 201)
})
