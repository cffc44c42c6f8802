import t from 'tap'
import { sell } from '../../selling/sales/fixture.ts'
import { mailedLinks } from '../sign-in/mails.ts'
import { startGateway } from '../../support/gateway.ts'
import { TrafficStore } from '../../../src/accounts/traffic/store.ts'
import { asPerson, cookieOf, makeApi, openConsole, sessionOf, wasOf } from './session.ts'
import { nothingMeasured } from '../../../src/accounts/traffic/measured.ts'

t.test('a further key is made, works, is replaced with an overlap, and is removed', async t => {
  const { gateway, visit, read } = await openConsole(t)
  const created = await visit('/console/keys', { do: 'make', name: 'Kasse <b>', may: 'read' })
  const [key = ''] = /bg_[\w-]+/.exec(created.text.slice(created.text.indexOf('<main'))) ?? []
  const status = async (apiKey: string) =>
    (await gateway.send('GET', '/api/merchant/me', { headers: { 'x-api-key': apiKey } })).status
  t.equal(await status(key), 200)
  t.match(await read('/console/keys'), /Kasse &lt;b>/)
  const keyId = key.split('_')[1] ?? ''
  t.equal((await visit('/console/keys', { do: 'rotate', keyId, overlap: 'soon' })).status, 422)
  t.equal(await status(key), 200, 'an unknown overlap does not expire it')
  const replaced = await visit('/console/keys', { do: 'rotate', keyId, overlap: '3600' })
  const [other = ''] = /bg_[\w-]+/.exec(replaced.text.slice(replaced.text.indexOf('<main'))) ?? []
  t.not(other, key)
  t.same([await status(key), await status(other)], [200, 200], 'both work for an hour')
  const gone = await visit('/console/keys', { do: 'remove', keyId: other.split('_')[1] ?? '' })
  t.equal(gone.status, 303)
  t.equal(await status(other), 401)
  const again = await visit('/console/keys', { do: 'remove', keyId: other.split('_')[1] ?? '' })
  t.equal(again.status, 422, 'a second tab learns that it is gone')
  t.match((await visit('/console/keys', { do: 'first' })).text, /fetched already/)
  const changes = await read('/console/changes')
  t.match(changes, /Removed an API key/)
  t.notMatch(changes, new RegExp(other))
})

t.test(
  'the operator changes the state and the end of a subscription, and the second of two gets a conflict',
  async t => {
    const { gateway, visit, read } = await openConsole(t, {}, 'operator')
    const path = `/operator/merchants/${gateway.merchant.id}`
    const api = `/api/admin/merchants/${gateway.merchant.id}`
    const headers = { 'x-api-key': gateway.adminKey }
    const now = async () => (await gateway.send('GET', api, { headers })).json() as Record<string, unknown>
    const form = {
      do: 'subscription',
      was: wasOf(await read(path), 'subscription'),
      subscriptionStatus: 'past_due',
      currentPeriodEnd: '2026-12-31'
    }
    t.equal((await visit(path, form)).status, 303)
    t.match(await now(), { subscriptionStatus: 'past_due', currentPeriodEnd: '2026-12-31T23:59:59.000Z' })
    const late = await visit(path, { ...form, subscriptionStatus: 'active' })
    t.equal(late.status, 422)
    t.match(late.text, /it is now past_due, until 2026-12-31T23:59:59.000Z/)
    const told = { ...form, was: 'past_due, until 2026-12-31T23:59:59.000Z' }
    const wrong = await visit(path, { ...told, currentPeriodEnd: 'soon' })
    t.equal(wrong.status, 422)
    t.match(wrong.text, /value="soon"/, 'the fields keep their values')
    t.equal((await visit(path, { ...told, currentPeriodEnd: '2031-02-31' })).status, 422)
    t.equal((await visit(path, { do: 'plan', was: 'another', planTier: 'l402' })).status, 422, 'nor the plan')
    t.equal((await visit(path, { ...told, currentPeriodEnd: '' })).status, 303)
    t.match(await now(), { currentPeriodEnd: null })
    t.equal((await visit(path, { do: 'reactivate', was: 'deactivated' })).status, 422)
    t.equal((await visit(path, { do: 'deactivate', was: 'active' })).status, 303)
    t.match(await now(), { isActive: false })
  }
)

t.test('of two tabs that change the same thing the second gets a conflict, and changes nothing', async t => {
  const { gateway, visit, get } = await openConsole(t)
  const proxyId = await makeApi(gateway)
  for (const [path, first, second] of [
    ['/console/settings', { do: 'colour', was: '', colour: '#c2410c' }, { do: 'colour', was: '', colour: '#000000' }],
    [
      '/console/webhooks',
      { do: 'url', was: '', webhookUrl: 'https://one.example.com/' },
      { do: 'url', was: '', webhookUrl: 'https://two.example.com/' }
    ],
    [`/console/apis/${proxyId}`, { do: 'price', was: '5', price: '6' }, { do: 'price', was: '5', price: '7' }]
  ] as const) {
    t.ok((await visit(path, first)).status < 400, path)
    const response = await visit(path, second)
    t.equal(response.status, 422, path)
    t.match(response.text, /This was changed/)
  }
  t.match(await get('/api/merchant/settings'), {
    colour: '#c2410c',
    webhook: { url: 'https://one.example.com/' }
  })
})

t.test(
  'a concurrent pause, creation or new key shows a conflict to the second of two tabs, also where one key replaced another',
  async t => {
    const { gateway, visit, read, get, make } = await openConsole(t)
    await gateway.database.sql`update merchants set plan_tier = 'individual'`
    const proxyId = await makeApi(gateway)
    const { endpointId } = (await make('/api/merchant/webhooks/endpoints', { url: 'https://books.example.com/' })) as {
      endpointId: string
    }
    const settings = async () => await read('/console/settings')
    const isTold = async (path: string, form: Readonly<Record<string, string>>) => {
      const response = await visit(path, form)
      t.equal(response.status, 422, `${path} ${form['do']}`)
      t.match(response.text, /This was changed/)
    }
    for (const path of [`/console/apis/${proxyId}`, `/console/webhooks/${endpointId}`]) {
      const pause = { do: 'pause', was: wasOf(await read(path), 'pause') }
      t.equal((await visit(path, pause)).status, 303, path)
      await isTold(path, pause)
      const resume = { do: 'resume', was: wasOf(await read(path), 'resume') }
      t.equal((await visit(path, resume)).status, 303, path)
      await isTold(path, resume)
    }
    const first = await settings()
    const save = { do: 'provider', slot: 'primary', was: wasOf(first, 'provider') }
    const remove = { do: 'remove', slot: 'primary', was: wasOf(first, 'remove') }
    t.equal((await visit('/console/settings', { ...save, key: 'sandbox-one' })).status, 200)
    await isTold('/console/settings', { ...save, key: 'sandbox-two' })
    await isTold('/console/settings', remove)
    const again = { ...save, was: wasOf(await settings(), 'provider') }
    t.equal((await visit('/console/settings', { ...again, key: 'sandbox-one' })).status, 200)
    await isTold('/console/settings', { ...again, key: 'sandbox-one' })
    t.notMatch(await settings(), /sandbox-one/)
    t.match(await get('/api/merchant/settings'), {
      providers: [{ slot: 'primary', hasKey: true }]
    })
  }
)

t.test(
  'an API whose price is in dollars or by request gets one in satoshis, and the page says truly which',
  async t => {
    const { gateway, visit, read, get } = await openConsole(t)
    const proxyId = await makeApi(gateway, { defaultPriceSats: 1000, defaultPrice: '$0.002' })
    const path = `/console/apis/${proxyId}`
    const proxy = async () => (await get(`/api/proxy/${proxyId}`)) as object
    const inDollars = await read(path)
    t.match(inDollars, /USD 0\.002, never more than 1,000 sats/)
    t.notMatch(inDollars, /name="price" value="1000"/, 'the cap is not shown as the price')
    const set = { do: 'price', was: wasOf(inDollars, 'price'), price: '500' }
    t.equal((await visit(path, set)).status, 303)
    t.match(await proxy(), { defaultPriceSats: 500, defaultPrice: undefined })
    t.match(await read(path), /value="500"/)

    const byModel = (price: string) => ({ by: { query: 'model' }, of: { small: price }, else: 'USD 0.001' })
    const change = async (defaultPrice: unknown) =>
      t.equal((await gateway.merchantSend('PUT', `/api/proxy/${proxyId}`, { defaultPrice })).status, 200)
    const endpoints = (price: string) => [{ pathPattern: '/chat', priceSats: 500, price: byModel(price) }]
    const changeEndpoints = async (price: string) =>
      t.equal(
        (await gateway.merchantSend('PUT', `/api/proxy/${proxyId}`, { endpoints: endpoints(price) })).status,
        200,
        price
      )
    await changeEndpoints('USD 0.0001')
    const was = wasOf(await read(path), 'endpoint')
    await changeEndpoints('USD 0.0002')
    const removal = { do: 'endpoint-remove', was, method: '', pathPattern: '/chat' }
    t.equal((await visit(path, removal)).status, 422, 'so is one of an address')
    await change(byModel('USD 0.0001'))
    const byRequest = await read(path)
    t.match(byRequest, /by request, never more than 500 sats/)
    const late = { do: 'price', was: wasOf(byRequest, 'price'), price: '9' }
    await change(byModel('USD 0.0002'))
    const response = await visit(path, late)
    t.equal(response.status, 422, 'another table of prices is another price')
    t.match(response.text, /it is now by request, never more than 500 sats/)
    t.match(await proxy(), { defaultPriceSats: 500, defaultPrice: byModel('USD 0.0002') })
  }
)

t.test('addresses of an API get a price of their own, and what else their entries say stays', async t => {
  const { gateway, visit, read, get } = await openConsole(t)
  const meter = { unit: 'token', usage: 'openai', inputMsat: 2, outputMsat: 8, estimate: 100 }
  const proxyId = await makeApi(gateway, {
    endpoints: [
      {
        pathPattern: '/in-dollars',
        priceSats: 1000,
        price: '$0.002',
        description: 'Maps',
        tokenValiditySeconds: 600
      },
      { method: 'POST', pathPattern: '/chat', priceSats: 2000, meter }
    ]
  })
  const endpoints = async () => ((await get(`/api/proxy/${proxyId}`)) as { endpoints: object[] }).endpoints
  const path = `/console/apis/${proxyId}`
  const wasNow = async () => wasOf(await read(path), 'endpoint')
  const before = await endpoints()
  const was = await wasNow()
  const set = { do: 'endpoint', was, method: 'GET', pathPattern: '/reports/*', price: '40' }
  t.equal((await visit(path, set)).status, 303)
  t.match(await endpoints(), [...before, { method: 'GET', pathPattern: '/reports/*', priceSats: 40 }])
  const late = await visit(path, { ...set, price: '41' })
  t.equal(late.status, 422)
  t.match(late.text, /This was changed/)
  const bad = await visit(path, { ...set, was: await wasNow(), pathPattern: 're ports' })
  t.equal(bad.status, 422)
  t.match(bad.text, /Must begin with \//)
  t.match(bad.text, /value="re ports"/, 'the fields keep their values')
  await visit(path, {
    ...set,
    was: await wasNow(),
    method: 'POST',
    pathPattern: '/chat',
    price: '3000'
  })
  t.match(await endpoints(), [before[0], { ...before[1], priceSats: 3000 }, { pathPattern: '/reports/*' }])
  await visit(path, {
    ...set,
    was: await wasNow(),
    method: '',
    pathPattern: '/in-dollars',
    price: '7'
  })
  const { price: _price, ...first } = before[0] as { price: string }
  t.same((await endpoints())[0], { ...first, priceSats: 7 }, 'in satoshis from now on')
  await visit(path, {
    do: 'endpoint-remove',
    was: await wasNow(),
    method: 'POST',
    pathPattern: '/chat'
  })
  t.match(await endpoints(), [{ pathPattern: '/in-dollars' }, { pathPattern: '/reports/*' }])
  t.equal((await endpoints()).length, 2)
})

t.test('a further webhook endpoint: of two tabs the second gets a conflict, and its secret is replaced', async t => {
  const { gateway, visit, get } = await openConsole(t)
  await gateway.database.sql`update merchants set plan_tier = 'free'`
  const add = { do: 'add', url: 'https://ledger.example.com/' }
  const refused = await visit('/console/webhooks', add)
  t.equal(refused.status, 422)
  t.match(refused.text, /This plan allows 1 webhook endpoint;/)
  t.match(refused.text, /value="https:\/\/ledger.example.com\/"/, 'the fields keep their values')
  await gateway.database.sql`update merchants set plan_tier = 'individual'`
  t.match((await visit('/console/webhooks', add)).text, /whsec_/)
  const [{ endpointId }] = (await get('/api/merchant/webhooks/endpoints')) as [{ endpointId: string }]
  const path = `/console/webhooks/${endpointId}`
  const change = { do: 'change', was: 'https://ledger.example.com/: *', url: 'https://books.example.com/' }
  t.equal((await visit(path, { ...change, events: 'payment.paid' })).status, 303)
  const response = await visit(path, change)
  t.equal(response.status, 422)
  t.match(response.text, /This was changed/)
  t.match(await get('/api/merchant/webhooks/endpoints'), [
    { url: 'https://books.example.com/', events: ['payment.paid'] }
  ])
  t.match((await visit(path, { do: 'rotate' })).text, /whsec_/)
  t.equal((await visit('/console/webhooks/first')).status, 404)
  t.equal((await visit('/console/webhooks/nothing', change)).status, 404)
})

t.test('settings say which provider makes the invoices, why, and what its key needs; a key is removed', async t => {
  const { visit, read } = await openConsole(t)
  const shown = await read('/console/settings')
  t.match(shown, /Active provider: \w+, because/)
  const was = wasOf(shown, 'remove')
  await visit('/console/settings', { do: 'remove', was, slot: 'primary' })
  t.match(await read('/console/settings'), /No key is saved yet/)
})

t.test('a viewer sees every page and no form that changes something, and is refused one that is made up', async t => {
  const gateway = await startGateway(t)
  const email = 'viewer@example.com'
  await gateway.merchantSend('POST', '/api/merchant/members', { email, role: 'viewer' })
  const proxyId = await makeApi(gateway)
  const [link = ''] = await mailedLinks(gateway.data, email, 1)
  const cookie = cookieOf(await gateway.send('POST', new URL(link).pathname))
  const paths = gateway.operations
    .filter(({ method, path }) => method === 'GET' && /^\/console(\/|$)/.test(path))
    .map(({ path }) => path.replace(':proxyId', proxyId).replaceAll(/:\w+/g, '1'))
  for (const path of paths) {
    const main = (await asPerson(gateway, cookie, path)).text.split('<main')[1] ?? ''
    t.notMatch(main, /<form method="post"/, path)
  }
  for (const [path, form] of [
    ['/console/settings', { do: 'colour', was: '', colour: '#c2410c' }],
    ['/console/keys', { do: 'make', name: 'mine', may: 'all' }],
    ['/console/apis', { name: 'mine', targetBaseUrl: 'https://api.example.com', defaultPriceSats: '5' }],
    [`/console/apis/${proxyId}`, { do: 'remove' }]
  ] as const) {
    const refused = await asPerson(gateway, cookie, path, form)
    t.equal(refused.status, 422, path)
    t.match(refused.text, /needs the role/)
  }
})

t.test('the pages of APIs show earnings and requests, over a day and over 30, with the figures as a table', async t => {
  const { gateway, visit, read } = await openConsole(t)
  const proxyId = await makeApi(gateway)
  t.match(await read(`/console/apis/${proxyId}`), /No requests in this period/)
  const at = Date.now() - 3_600_000
  await new TrafficStore(gateway.database).write({
    process: { id: 'p', pid: 1, host: 'h', generation: 1, startedAt: at, seenAt: at, written: 1, lostMinutes: 0 },
    rows: [],
    proxies: [
      {
        at: Math.floor(at / 3_600_000) * 3_600_000,
        route: proxyId,
        ...nothingMeasured(),
        requests: 1234,
        asked: 77,
        paidRequests: 55,
        serverErrors: 11,
        latencies: new Map([[20, 1234]])
      }
    ],
    faults: []
  })
  // Later than what the sums have been made of already.
  const now = Date.now()
  const proxy = { source: 'proxy', merchantId: String(gateway.merchant.id) } as const
  await sell(gateway.database, now, { ...proxy, proxyId, amountSats: 1234321 })
  await sell(gateway.database, now, { ...proxy, proxyId: 'other-1', amountSats: 17 })
  const own = await read(`/console/apis/${proxyId}`)
  t.match(own, /1,234,321 sats/, 'its earnings')
  t.match(own, /Satoshis earned by day/)
  t.notMatch(own, /1,234,338/, 'and not what others did')
  t.match(await read('/console/apis'), /data-label="Earnings \(30 days\)"[^>]*>1,234,321 sats/)
  for (let other = 0; other < 20; other++)
    await sell(gateway.database, now, { ...proxy, proxyId: `more-${other}`, amountSats: 2_000_000 })
  t.match(await read('/console/apis'), /30 days\)"[^>]*>less than the top 20/)
  t.match(await read(`/console/apis/${proxyId}`), /1,234,321 sats/, 'its own page says it')
  const chosen = await read(`/console/apis/${proxyId}?over=month&by=hour`)
  const form = (heading: string) =>
    /<form method="get".*?<\/form>/s.exec(chosen.slice(chosen.indexOf(`id="${heading}"`)))?.[0] ?? ''
  t.match(form('traffic'), /<input type="hidden" name="by" value="hour"/, 'one form keeps what the other chose')
  t.match(form('earned'), /<input type="hidden" name="over" value="month"/)
  const mixed = await gateway.merchantSend('GET', `/api/merchant/earnings?of=scheme&proxyId=${proxyId}`)
  t.equal(mixed.status, 400)
  for (const path of ['/console/apis', `/console/apis/${proxyId}`, `/console/apis/${proxyId}?over=month`]) {
    const { text } = await visit(path)
    t.match(text, /1,234/, path)
    t.match(text, /p99 [\d.]+ ms/, path)
    t.match(text, path.endsWith('month') ? /Requests by day/ : /Requests by hour/, path)
    t.match(text, /<td>55<\/td>/, `${path}: the table behind the picture`)
  }
})

t.test('a sale is revoked by a second step, and the same part of the list is shown after it', async t => {
  const gateway = await startGateway(t)
  let hash = ''
  for (const [root, key] of [
    ['/console', gateway.merchant.apiKey],
    ['/operator', gateway.adminKey]
  ] as const) {
    const cookie = await sessionOf(gateway, key)
    await sell(gateway.database, Date.now(), {
      source: 'producer',
      merchantId: String(gateway.merchant.id),
      resource: '/map?a=1&b',
      amountSats: 5
    })
    const path = `${root}/sales?source=producer&text=map`
    const { text } = await asPerson(gateway, cookie, path)
    const [, step = ''] = /<details class="danger-zone"><summary>Revoke<\/summary>(.*?)<\/details>/s.exec(text) ?? []
    const value = (name: string) =>
      new RegExp(`name="${name}" value="([^"]*)"`).exec(step)?.[1]?.replaceAll('&amp;', '&') ?? ''
    hash = value('hash')
    const revoked = await asPerson(gateway, cookie, path, { hash, list: value('list') })
    t.equal(revoked.status, 303, root)
    t.match(revoked.headers['location'], new RegExp(`${root}/sales\\?source=producer&text=map&done=revoked$`))
  }
  const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
  const tokens = { hash, list: 'page=2&done=saved' }
  t.match(
    (await asPerson(gateway, cookie, '/console/tokens', tokens)).headers['location'],
    /console\/tokens\?page=2&done=revoked$/
  )
})
