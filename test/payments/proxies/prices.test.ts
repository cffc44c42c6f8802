import t from 'tap'
import { openShop, type Shop } from '../../security/shop.ts'
import { buy, challengeOf, type Answer } from '../../support/gateway.ts'

const post = (shop: Shop, path: string, body: string, more: Record<string, string> = {}) =>
  shop.gateway.send('POST', path, { body, headers: { 'content-type': 'application/json', ...more } })
const sats = (answer: Answer) => (answer.json() as { l402?: { amount_sats: number } }).l402?.amount_sats

t.test('a proxy sells in dollars, and its tokens stay valid while that is its price', async t => {
  const shop = await openShop(t)
  const { gateway } = shop
  const proxy = await shop.proxy({ defaultPriceSats: 100, defaultPrice: '$0.0020' })
  const path = `${proxy.path}/a`
  t.equal(sats(await gateway.send('GET', path)), 2)
  const token = await buy(gateway, path)
  t.equal((await gateway.send('GET', path, { headers: { authorization: token } })).status, 200)
  const change = (members: object) => gateway.merchantSend('PUT', `/api/proxy/${proxy.id}`, members)
  t.match((await change({ name: 'Other' })).json(), { defaultPrice: 'USD 0.002', defaultPriceSats: 100 })
  t.equal((await gateway.send('GET', path, { headers: { authorization: token } })).status, 200)
  await change({ defaultPrice: '0.002 EUR' })
  t.equal((await gateway.send('GET', path, { headers: { authorization: token } })).status, 401, 'of another currency')
  const grace = (await change({ priceGrace: 600, defaultPrice: '$0.003' })).json()
  t.match(grace, { defaultPrice: 'USD 0.003' })
  const euros = await buy(gateway, path)
  await change({ defaultPrice: '$0.004' })
  t.equal((await gateway.send('GET', path, { headers: { authorization: euros } })).status, 200, 'within the grace')
  t.strictNotSame((await change({ defaultPrice: null })).json(), { defaultPrice: null })
  t.equal(sats(await gateway.send('GET', path)), 100, 'satoshis again')
})

t.test('fiat that comes to more satoshis than its merchant allows is not sold', async t => {
  const shop = await openShop(t)
  const proxy = await shop.proxy({ defaultPriceSats: 10, defaultPrice: '$1' })
  t.match(await shop.gateway.send('GET', `${proxy.path}/a`), { status: 503, text: /Price over its limit/ })
})

t.test(
  "a proxy's endpoint is priced by model: no reading of the body gets the cheap price for the expensive model",
  async t => {
    const shop = await openShop(t)
    const { path } = await shop.proxy({
      defaultPriceSats: 10,
      priceGrace: 600,
      endpoints: [
        {
          method: 'POST',
          pathPattern: '/v1/chat',
          priceSats: 50,
          price: { by: { json: 'model' }, of: { small: '5 sats', large: '39001 msat', dollar: '$0.001' } }
        }
      ]
    })
    const chat = `${path}/v1/chat`
    t.equal(sats(await post(shop, chat, '{"model":"small"}')), 5)
    t.equal(sats(await post(shop, chat, '{"model":"large"}')), 40)
    t.equal(sats(await post(shop, chat, '{"model":"dollar"}')), 1)
    for (const body of ['{"model":"small","model":"large"}', '{}', '{"model":"huge"}', '{"model":["small"]}', 'small'])
      t.match(await post(shop, chat, body), { status: 400, text: /model|JSON/ }, body)
    const unpaid = challengeOf(await post(shop, chat, '{"model":"small"}'), 'l402')
    const preimage = await shop.gateway.pay(unpaid.parameters.get('invoice') ?? '')
    const authorization = `L402 ${unpaid.parameters.get('macaroon')}:${preimage}`
    t.equal((await post(shop, chat, '{"model":"small"}', { authorization })).status, 200)
    t.equal((await post(shop, chat, '{"model":"large"}', { authorization })).status, 401)
    t.equal(
      (await post(shop, `${path}//v1//chat`, '{"model":"small"}')).status,
      403,
      'of a path that can be read in two ways the more expensive reading is unknown'
    )
    t.equal(sats(await shop.gateway.send('GET', `${path}/b`)), 10, 'all else costs the default')
  }
)

t.test('of a table before the present one a payment is compared with what the same request cost', async t => {
  const shop = await openShop(t)
  const endpoint = (small: string, large: string) => ({
    endpoints: [
      { pathPattern: '/v1', priceSats: 99, price: { by: { query: 'model' }, of: { small, large }, else: '1 sat' } }
    ],
    priceGrace: 600
  })
  const { id, path } = await shop.proxy({ defaultPriceSats: 10, ...endpoint('5 sats', '7 sats') })
  const small = await buy(shop.gateway, `${path}/v1?model=small`)
  await shop.gateway.merchantSend('PUT', `/api/proxy/${id}`, endpoint('8 sats', '12 sats'))
  const ask = async (model: string) =>
    (await shop.gateway.send('GET', `${path}/v1?model=${model}`, { headers: { authorization: small } })).status
  t.same([await ask('small'), await ask('large')], [200, 401])
})

t.test('prices that cannot hold are refused by the name of the member', async t => {
  const shop = await openShop(t)
  const make = (members: object) =>
    shop.gateway.merchantSend('POST', '/api/proxy', {
      name: 'x',
      targetBaseUrl: shop.upstream.origin,
      defaultPriceSats: 10,
      ...members
    })
  const table = { by: { json: 'model' }, of: { small: '5 sats' } }
  for (const [members, message] of [
    [{ defaultPrice: 'cheap' }, /defaultPrice.*10 sats/i],
    [{ defaultPrice: '$0' }, /no amount that can be asked/],
    [{ defaultPrice: '11 sats' }, /more than defaultPriceSats/],
    [{ defaultPriceSats: 0, defaultPrice: '$1' }, /must not be 0/],
    [{ endpoints: [{ pathPattern: '/a', priceSats: 4, price: table }] }, /more than priceSats, 4 sats/],
    [{ endpoints: [{ pathPattern: '/a', priceSats: 9, price: { ...table, by: { path: 'x' } } }] }, /exactly one of/],
    [{ endpoints: [{ pathPattern: '/a', priceSats: 9, price: { ...table, of: {} } }] }, /Price.Of.*at least 1 member/],
    [{ defaultPrice: { ...table, of: { '': 5 } } }, /Must have a name that matches/],
    [
      { endpoints: [{ pathPattern: '/a', priceSats: 9, price: table, meter: { outputMsat: 1, usage: 'bytes' } }] },
      /one amount where there is a meter/
    ]
  ] as const)
    t.match(await make(members), { status: 400, text: message }, JSON.stringify(members))
})

t.test('a balance behind a proxy can be sold in dollars', async t => {
  const shop = await openShop(t)
  const { path } = await shop.proxy({
    defaultPriceSats: 10,
    endpoints: [
      { pathPattern: '/a', priceSats: 2000, price: '$1', meter: { unit: 'request', outputMsat: 9, usage: 'requests' } }
    ]
  })
  t.equal(sats(await shop.gateway.send('GET', `${path}/a`)), 1000)
})
