/** What the console says of an account or an API that cannot sell. */
import t from 'tap'
import { defaultYaml, startGateway, type TestGateway } from '../../../support/gateway.ts'
import { asPerson, makeApi, openConsole, sessionOf, wasOf } from '../session.ts'

const KEY = 'a-good-sandbox-key'

function savedKey(gateway: TestGateway, key: string) {
  return gateway.merchantSend('PUT', '/api/merchant/primary-key', { primaryApiKey: key })
}

t.test('provider keys: a key whose form is wrong is 400 and keeps the saved key, tested or not', async t => {
  const yaml = defaultYaml({
    replace: [
      ['primary:   { kind: sandbox }', 'primary:   { kind: phoenixd, key: "phoenixd://127.0.0.1:9740?password=one" }']
    ]
  })
  const gateway = await startGateway(t, { yaml })
  const good = 'phoenixd+https://node.example.com:9740?password=one'
  t.equal((await savedKey(gateway, good)).status, 200)
  const version = async () => {
    const { providers } = (await gateway.merchantSend('GET', '/api/merchant/settings')).json() as {
      providers: Array<{ slot: string; keyVersion: string; keyHint: string }>
    }
    return providers.find(({ slot }) => slot === 'primary')
  }
  const before = await version()
  const refused = await savedKey(gateway, 'not a key')
  t.equal(refused.status, 400)
  t.match(refused.json(), { error: /The key was not saved\. The phoenixd key must have the form phoenixd:\/\// })
  t.same(await version(), before)
  t.match(before?.keyHint, /^phoenixd:\/\/host:port/)
  const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
  t.match((await asPerson(gateway, cookie, '/console/settings')).text, /phoenixd:\/\/host:port\?password/)
})

t.test('provider keys: a refused key is a red problem on overview and settings until a call succeeds', async t => {
  const { gateway, read, get } = await openConsole(t)
  const pay = (orderId: string) =>
    gateway.merchantSend('POST', '/api/payments', { orderId, amount: '0.0001', currency: 'BTC' })
  const failing = async () => {
    const { paymentProvider } = (await get('/api/merchant/settings')) as {
      paymentProvider: { failing: { reason: string; since: string } | null }
    }
    return paymentProvider.failing
  }
  const isRed = async () => {
    const texts = await Promise.all(['/console', '/console/settings'].map(async path => await read(path)))
    return texts.map(text => /class="notice bad"[^<]*(<[^>]*>\s*)*[^<]*(<[^>]*>)*[^<]*refuses its key/.test(text))
  }
  t.equal((await savedKey(gateway, KEY)).status, 200)
  t.equal(await failing(), null)
  // Saved without a test, as programs do.
  t.equal((await savedKey(gateway, 'sandbox-invalid')).status, 200)
  t.equal((await pay('one')).status, 502)
  const first = await failing()
  t.match(first, { reason: 'refuses its key' })
  t.same(await isRed(), [true, true])
  t.equal((await pay('two')).status, 502)
  t.same(await failing(), first, 'since the first failure')
  t.match(await read('/console/apis'), /No APIs yet/)
  t.equal((await savedKey(gateway, KEY)).status, 200)
  t.equal(await failing(), null, 'a new key has not failed')
  t.same(await isRed(), [false, false])
  t.equal((await savedKey(gateway, 'sandbox-invalid')).status, 200)
  t.equal((await gateway.merchantSend('POST', '/api/merchant/validate-primary')).status, 200)
  t.match(await failing(), { reason: /does not accept this key/ }, 'a test of the saved key counts')
})

t.test('apis: the page says why an API cannot be sold, and tests the target when it is made', async t => {
  const { gateway, visit, read, get } = await openConsole(t)
  await gateway.database.sql`update merchants set primary_key = null, alternate_key = null`
  const form = { do: 'make', name: 'Weather', targetBaseUrl: 'http://127.0.0.1:1024/v1', defaultPriceSats: '5' }
  const created = await visit('/console/apis', form)
  t.equal(created.status, 303)
  const path = `/console/apis/${/apis\/([a-z0-9-]+)/.exec(String(created.headers['location']))?.[1] ?? ''}`
  t.match(await read('/console/apis'), /cannot be sold: no provider key/)
  t.match(await read(path), /href="[^"]*console\/settings"/)
  await savedKey(gateway, KEY)
  const list = await read('/console/apis')
  t.match(list, /cannot be sold: the target could not be reached \(ECONNREFUSED\)/i)
  t.notMatch(list, />active</)
  const [api] = (await get('/api/proxy')) as Array<{ proxyId: string; problem: string }>
  t.match(api?.problem, /could not be reached/)
  const moved = { targetBaseUrl: gateway.url }
  t.match((await gateway.merchantSend('PUT', `/api/proxy/${api?.proxyId}`, moved)).json(), { problem: null })
  await gateway.merchantSend('POST', `/api/proxy/${api?.proxyId}/test`)
  t.match(await read(path), />active</)
})

t.test(
  'apis: name, target, paths and the header of the target are changed on the page; its value is never shown',
  async t => {
    const { gateway, visit, read, get } = await openConsole(t)
    const proxyId = await makeApi(gateway)
    const path = `/console/apis/${proxyId}`
    const page = async () => await read(path)
    const proxy = async () => (await get(`/api/proxy/${proxyId}`)) as object
    const form = async (more: Record<string, string>) => ({
      do: 'settings',
      was: wasOf(await page(), 'settings'),
      name: 'Wetter <b>',
      targetBaseUrl: 'https://api.example.org/v1',
      tokenValiditySeconds: '7200',
      authHeader: 'Authorization',
      authValue: '',
      allowedPaths: '/v1/*\r\n\r\n /v2/* ',
      blockedPaths: '/v1/secret',
      ...more
    })
    const secret = 'Bearer sk-very-secret'
    const first = await form({ authValue: secret })
    t.equal((await visit(path, first)).status, 303)
    t.match(await proxy(), {
      name: 'Wetter <b>',
      targetBaseUrl: 'https://api.example.org/v1',
      tokenValiditySeconds: 7200,
      hasAuthValue: true,
      allowedPaths: ['/v1/*', '/v2/*'],
      blockedPaths: ['/v1/secret']
    })
    t.notMatch(await page(), /sk-very-secret/)
    t.notMatch(await read('/console/changes'), /sk-very-secret/)
    const late = await visit(path, { ...first, name: 'Other' })
    t.equal(late.status, 422, 'a second tab gets a conflict')
    t.notMatch(late.text, /sk-very-secret/, 'the submitted secret is not shown again')
    t.equal((await visit(path, await form({}))).status, 303)
    t.match(await proxy(), { hasAuthValue: true }, 'an empty value keeps the saved one')
    for (const [name, value] of [
      ['targetBaseUrl', 'http://169.254.169.254/latest'],
      ['targetBaseUrl', 'nonsense'],
      ['tokenValiditySeconds', '1e9'],
      ['authHeader', 'Host'],
      ['blockedPaths', 'no slash']
    ] as const) {
      const refused = await visit(path, await form({ [name]: value }))
      t.equal(refused.status, 422, value)
      t.ok(refused.text.includes(value), `${value} stays in the form`)
      const notice = /<div class="notice bad".*?<\/div>/s.exec(refused.text)?.[0]
      t.match(notice, /<strong>[A-Z][^<]+:<\/strong>/, 'errors name the field by its label')
      t.notMatch(notice, /targetBaseUrl|tokenValidity|authHeader|blockedPaths/)
    }
    const long = await visit(path, await form({ allowedPaths: '/v1/*\n'.repeat(8_000) }))
    t.equal(long.status, 422)
    t.match(long.text, /This form is too long/)
    t.equal((await visit(path, await form({ forget: 'value' }))).status, 303)
    t.match(await proxy(), { hasAuthValue: false, name: 'Wetter <b>' })

    const price = async (more: Record<string, string>) =>
      await visit(path, { do: 'price', was: wasOf(await page(), 'price'), price: '', ...more })
    const amounts = 'gpt-4o = $0.01\r\nsmall=2'
    for (const wrong of [
      { price: '$0.01' },
      { amounts },
      { amounts: 'gpt-4o', most: '9' },
      { price: 'NaN', most: '9' }
    ])
      t.equal((await price(wrong)).status, 422, JSON.stringify(wrong))
    t.equal((await price({ price: '$0.01', most: '50' })).status, 303)
    t.match(await proxy(), { defaultPriceSats: 50, defaultPrice: 'USD 0.01' })
    t.equal((await price({ amounts, by: 'model', else: 'refuse', most: '50' })).status, 303)
    t.match(await proxy(), { defaultPrice: { by: { json: 'model' }, of: { 'gpt-4o': 'USD 0.01', small: '2 sats' } } })
    t.match(await page(), /small = 2 sats\ngpt-4o = USD 0\.01/)
    t.equal((await price({ price: '7' })).status, 303)
    t.match(await proxy(), { defaultPriceSats: 7, defaultPrice: undefined })
  }
)
