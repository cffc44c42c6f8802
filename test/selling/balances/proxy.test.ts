import t from 'tap'
import { asPerson, sessionOf } from '../../web/console/session.ts'
import { startModelServer } from '../../fakes/model.ts'
import { defaultYaml, startGateway, paidFor } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'

t.test("a merchant's endpoint is metered, and its merchant sees each client's usage", async t => {
  const model = await startModelServer(t)
  const gateway = await startGateway(t)
  const endpoint = {
    method: 'POST',
    pathPattern: '/v1/chat/completions',
    priceSats: 100,
    meter: { unit: 'token', outputMsat: 0, models: { small: { inputMsat: 2, outputMsat: 8 } }, usage: 'openai' }
  }
  const make = (each: object) =>
    gateway.merchantSend('POST', '/api/proxy', {
      name: 'Model',
      targetBaseUrl: model.url,
      defaultPriceSats: 10,
      allowedMethods: ['GET', 'POST'],
      endpoints: [each]
    })
  t.equal((await make({ ...endpoint, priceSats: 0 })).status, 400)
  t.equal((await make({ ...endpoint, meter: { usage: 'tokens', outputMsat: 1 } })).status, 400)
  const useless = await make({ ...endpoint, priceSats: 3, meter: { usage: 'requests', outputMsat: 4_000 } })
  t.equal(useless.status, 400, 'a balance that covers no request is not sold')
  t.match(useless.text, /Endpoints\[0\]\.PriceSats.*holds 3000 millisatoshis, and a request reserves no less than 4000/)
  const created = await make(endpoint)
  t.equal(created.status, 201, created.text)
  t.match(created.json(), { endpoints: [endpoint] })
  const { proxyUrl } = created.json() as { proxyUrl: string }
  const ask = (authorization: string | null, model = 'small') =>
    gateway.send('POST', `${new URL(proxyUrl).pathname}v1/chat/completions`, {
      headers: authorization === null ? {} : { authorization },
      body: { model, messages: [{ role: 'user', content: 'hello' }], max_tokens: 20 }
    })
  const key = await paidFor(gateway, await ask(null), 'payment')
  for (let time = 0; time < 3; time++) t.equal((await ask(key)).status, 200)
  t.equal((await ask(key, 'large')).status, 400)
  const spent = model.calls.reduce((sum, { prompt, completion }) => sum + 2 * prompt + 8 * completion, 0)
  const [balance] = await eventually('it is written', async () => {
    const list = (await gateway.merchantSend('GET', '/api/merchant/balances')).json() as Array<{
      id: string
      spentMsat: number
    }>
    return list[0]?.spentMsat === spent ? list : null
  })
  t.match(balance, { kind: 'bundle', unit: 'token', depositedMsat: 100_000, merchantId: String(gateway.merchant.id) })
  const held = await gateway.send('GET', '/l402/balance', { headers: { authorization: key } })
  t.match(held.json(), { state: 'open', unit: 'token', balanceMsat: 100_000 - spent, spentMsat: spent })
  const entries = await gateway.merchantSend('GET', `/api/merchant/balances/${balance?.id}/entries`)
  t.match(entries.json(), [{ model: 'small' }, { model: 'small' }, { model: 'small', input: 5, output: 5, msat: 50 }])

  const calls = model.calls.length
  const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
  const revoked = await asPerson(gateway, cookie, '/console/tokens', { hash: balance?.id ?? '' })
  t.equal(revoked.status, 303)
  t.equal((await ask(key)).status, 402, 'a revoked key serves nothing more, though a part of it is in memory')
  t.equal(model.calls.length, calls)
  t.match((await gateway.merchantSend('GET', '/api/merchant/balances')).json(), [
    { isRevoked: true, state: 'open', spentMsat: spent }
  ])
  const page = (await asPerson(gateway, cookie, '/console/tokens')).text
  t.match(page, />revoked</)
  t.notMatch(page, /name="hash"/, 'and cannot be revoked again')
  const later = await gateway.send('GET', '/l402/balance', { headers: { authorization: key } })
  t.match(later.json(), { balanceMsat: 100_000 - spent }, 'the rest is still returned')
})

t.test(
  'where nothing takes from balances, an endpoint with a meter is refused, and a saved one asks for no payment',
  async t => {
    const model = await startModelServer(t)
    const gateway = await startGateway(t)
    const metered = {
      pathPattern: '/counted',
      priceSats: 100,
      meter: { unit: 'request', outputMsat: 1000, usage: 'requests' }
    }
    const send = (method: 'POST' | 'PUT', path: string) =>
      gateway.merchantSend(method, path, {
        name: 'Model',
        targetBaseUrl: model.url,
        defaultPriceSats: 10,
        endpoints: [metered]
      })
    const created = await send('POST', '/api/proxy')
    t.equal(created.status, 201, created.text)
    const { proxyId, proxyUrl } = created.json() as { proxyId: string; proxyUrl: string }
    const ask = (path: string) => gateway.send('GET', `${new URL(proxyUrl).pathname}${path}`)
    t.equal((await ask('counted')).status, 402)

    await gateway.reload(
      defaultYaml({
        replace: [
          [
            'chains:\n',
            'chains:\n  bare: [ { throttle: { policy: l402-proxy } }, proxy, body-limit, credential, challenge ]\n'
          ],
          [
            'routes:\n',
            'routes:\n  - { match: { path: [ /l402/proxy/:proxyId, /l402/proxy/:proxyId/* ] }, chain: bare, upstream: { proxy: ":proxyId" } }\n'
          ]
        ]
      })
    )
    const closed = await ask('counted')
    t.equal(closed.status, 503)
    t.match(closed.json(), { error: 'Metering unavailable', message: /adds meter to the chain "bare"/ })
    t.equal(closed.headers['www-authenticate'], undefined, 'no client pays for what cannot be used')
    t.equal((await ask('other')).status, 402, 'sales without a balance are unchanged')
    for (const [method, path] of [
      ['POST', '/api/proxy'],
      ['PUT', `/api/proxy/${proxyId}`]
    ] as const) {
      const refused = await send(method, path)
      t.equal(refused.status, 400, method)
      t.match(refused.text, /endpoints\[0\] has a meter, and no route of this gateway takes from balances/)
    }
  }
)
