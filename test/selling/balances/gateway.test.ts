import { request as httpRequest } from 'node:http'
import t, { type Test as T } from 'tap'
import { startModelServer } from '../../fakes/model.ts'
import { loadText, type Answer } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import { JSON_TYPE, openMetered, routeYaml } from '../shop.ts'
import { balanceWhen } from './fixture.ts'

const CHAT = '/v1/chat/completions'
const MATCH = '{ path: /v1/*, method: POST }'
const TOKENS =
  'unit: token, bundle: 100 sats, prices: { by: { json: model }, of: { small: { input: 2 msat, output: 8 msat }, large: { input: 20 msat, output: 80 msat } }, else: refuse }, usage: openai, estimate: { json: max_tokens, else: 100 }'

const asking = (content: string, more: object = {}) => ({
  model: 'small',
  messages: [{ role: 'user', content }],
  max_tokens: 20,
  ...more
})

async function openShop(t: T, meter = TOKENS, scheme: 'l402' | 'payment' = 'l402') {
  const model = await startModelServer(t)
  const options = { upstream: model.url, match: MATCH, path: CHAT, body: asking('hello'), scheme }
  const shop = await openMetered(t, meter, undefined, options)
  const chat = (content = 'hello', more: object = {}, headers = {}) => shop.ask(asking(content, more), headers)
  return { ...shop, model, chat }
}

const msat = (answer: Answer, name: string) => Number(answer.headers[name] ?? Number.NaN)

t.test('a 402 says that the price buys a balance, and what is taken from it', async t => {
  const shop = await openShop(t)
  const words =
    'a balance, from which each token takes, by the JSON member model: small 2 msat in and 8 msat out; large 20 msat in and 80 msat out'
  t.match((await shop.gateway.send('POST', CHAT, { body: asking('hello') })).json(), {
    message: /^This resource is paid from a balance, and 100 satoshis buy one\./
  })
  const told = async (path: string) => await shop.gateway.send('GET', path)
  t.match((await told('/openapi.json')).json(), {
    paths: {
      '/v1/{path}': {
        post: {
          'x-payment-info': {
            offers: [{ amount: '100', currency: 'sat', description: new RegExp(words) }],
            terms: [{ buys: 'balance', unit: 'token' }]
          }
        }
      }
    }
  })
  t.match((await told('/llms.txt')).text, `- /v1/{path} (POST): 100 sats. Paid requests. The price buys ${words}`)
  t.match(
    (await told('/llms.txt')).text,
    /Where the price buys a balance, both are valid until it is used up; `GET \S+\/l402\/balance` with the credential returns the remainder/
  )
  t.match((await told('/.well-known/l402.json')).json(), {
    endpoints: [{ path: '/v1/{path}', pricing: { model: 'balance', base_price_sats: 100 } }]
  })
  t.match((await told('/api/l402/pricing')).json(), {
    endpoints: [{ pathPattern: '/v1/*', priceSats: 100, price: `100 sats for ${words}` }]
  })
})

for (const scheme of ['l402', 'payment', 'legacy'] as const) {
  t.test(`one payment (${scheme}) is the key to a balance until it is used up, then a fresh 402 says so`, async t => {
    const shop = await openShop(t, undefined, scheme === 'payment' ? scheme : 'l402')
    const legacy = `Payment method="lightning", preimage="${shop.authorization.split(':')[1]}"`
    const authorization = scheme === 'legacy' ? legacy : shop.authorization
    const chat = (more?: object) => shop.chat('hello', more, { authorization })
    const held = { headers: { authorization } }
    let spent = 0
    for (let time = 0; time < 5; time++) {
      const answer = await chat()
      t.equal(answer.status, 200)
      const { prompt, completion } = shop.model.calls[time] ?? { prompt: 0, completion: 0 }
      if (time > 0) t.equal(msat(answer, 'x-last-charged-msat'), 2 * 5 + 8 * (5 + time - 1))
      spent += 2 * prompt + 8 * completion
      const response = await shop.gateway.send('GET', '/l402/balance', held)
      t.match(
        response.json(),
        { state: 'open', depositedMsat: 100_000, balanceMsat: 100_000 - spent, reservedMsat: 0 },
        'immediately'
      )
    }
    const { balanceId } = await shop.spent(spent)
    const now = await shop.store.find(balanceId)
    t.match(now, { depositedMsat: 100_000, spentMsat: spent, unit: 'token', place: 'route:POST /v1/*' })
    const all = await shop.gateway.adminSend('GET', '/api/admin/balances')
    t.match(all.json(), [{ id: balanceId, kind: 'bundle', merchantId: null }])
    const each = await shop.gateway.adminSend('GET', `/api/admin/balances/${balanceId}/entries?take=2`)
    t.match(each.json(), [{ basis: 'usage' }, { basis: 'usage' }])
    t.equal((await shop.gateway.merchantSend('GET', `/api/merchant/balances/${balanceId}/entries`)).status, 404)
    const entries = await shop.store.entries(balanceId, { skip: 0, take: 10 })
    t.match(entries.at(-1), { model: 'small', input: 5, output: 5, msat: 50, unpaidMsat: 0, basis: 'usage' })

    const dear = await chat({ max_tokens: 12_480 })
    t.equal(dear.status, 402, 'more than there is')
    t.equal(msat(dear, 'x-balance-msat'), 100_000 - spent)
    t.match(dear.headers['x-l402-error'], /used up: [0-9]+ millisatoshis are left and this request needs [0-9]+/)
    t.ok(dear.headers['www-authenticate'])
    if (scheme === 'payment')
      t.match(dear.json(), { type: /payment-insufficient$/, detail: /used up/, challengeId: /./ })
    else
      t.match(dear.json(), { detail: /used up/, balance: { balance_msat: 100_000 - spent }, l402: { invoice: /^ln/ } })
    t.equal((await chat()).status, 200, 'and the rest is still valid')
  })
}

t.test('a request that no balance could cover is refused, without asking for another payment', async t => {
  const shop = await openShop(t)
  const beyond = await shop.chat('hello', { max_tokens: 12_500 })
  t.equal(beyond.status, 400)
  t.match(beyond.json(), {
    error: 'Beyond a balance',
    message: /may use up to 100[0-9]{3} millisatoshis, and a balance here holds 100000/
  })
  t.notOk(beyond.headers['www-authenticate'])
  t.equal((await shop.chat()).status, 200, 'the payment is not touched')

  const dollars = await openShop(t, 'bundle: $0.01, prices: 1 sat, usage: bytes, estimate: { else: 11 }')
  t.equal((await dollars.chat()).status, 400, 'a bundle in dollars at its rate of now')
})

t.test('a bundle that covers no request at one of its prices is refused when the file loads', async t => {
  const load = (meter: string) => loadText(routeYaml('http://127.0.0.1:9', `meter: ${meter}`), {})
  for (const [meter, least] of [
    ['{ bundle: 3 sats, prices: { by: { json: model }, of: { small: 1 sat, large: 4 sats } } }', 4_000],
    ['{ bundle: 3 sats, prices: 1 msat, usage: bytes }', 4_096],
    [
      '{ bundle: 3 sats, prices: { input: 2 msat, output: 1 msat }, per: 2, usage: events, estimate: { input: 3000, else: 1000 } }',
      3_500
    ]
  ] as const)
    await t.rejects(load(meter), {
      message: new RegExp(
        `meter\\.bundle: found a bundle of 3000 msat, of which a request may reserve no less than ${least} msat, so that it could not be used; allowed: a larger bundle, or a smaller estimate \\[BG_CONFIG_VALUE\\]`
      )
    })
  for (const meter of [
    '{ bundle: 3 sats, prices: 3 sats }',
    '{ bundle: 3 sats, prices: 1 msat, usage: bytes, estimate: { json: most } }',
    '{ bundle: 3 sats, prices: 1 msat, usage: openai }',
    '{ bundle: 3 sats, prices: $9 }'
  ])
    await t.resolves(load(meter), meter)
})

t.test('streams tell what they cost behind their last event, and usage is read as it passes', async t => {
  const shop = await openShop(t)
  const stream = { stream: true, stream_options: { include_usage: true } }
  const answer = await shop.chat('hello', stream, { 'accept-encoding': 'gzip' })
  t.equal(answer.status, 200)
  t.equal(shop.model.calls[0]?.acceptEncoding, 'identity')
  t.match(answer.text, /data: \[DONE\]\n\nevent: balance\ndata: \{"charged_msat":50,"balance_msat":99950\}\n\n$/)
  await shop.spent(50)
  const silent = await shop.chat('silent', stream)
  t.match(silent.text, /"charged_msat":([0-9]+)/)
  const charged = Number(/"charged_msat":([0-9]+)/.exec(silent.text)?.[1])
  t.ok(charged >= 160, 'without usage the reservation is taken')
  t.match(await shop.spent(50 + charged), { basis: 'reservation', input: null })
})

t.test(
  'a stream whose client does not ask for usage: is charged to the token, and the report is taken out',
  async t => {
    const shop = await openShop(t)
    let spent = 0
    for (const [options, isShown] of [
      [undefined, false],
      [{}, false],
      [{ include_usage: false }, false],
      [{ include_usage: true }, true]
    ] as const) {
      const answer = await shop.chat('hello', {
        stream: true,
        ...(options === undefined ? {} : { stream_options: options })
      })
      const { prompt, completion } = shop.model.calls.at(-1) ?? { prompt: 0, completion: 0 }
      const cost = 2 * prompt + 8 * completion
      spent += cost
      t.equal(answer.text.includes('"prompt_tokens"'), isShown, JSON.stringify(options))
      t.equal(answer.text.split('"content":"x "').length - 1, completion, 'every other event is there')
      t.match(answer.text, new RegExp(`data: \\[DONE\\]\n\nevent: balance\ndata: \\{"charged_msat":${cost},`))
    }
    await shop.spent(spent)
  }
)

t.test('a failure or a missing usage costs nothing; an unreadable one costs the reservation', async t => {
  const shop = await openShop(t)
  for (const [content, status] of [
    ['fail', 500],
    ['refuse', 400],
    ['empty', 200]
  ] as const) {
    const answer = await shop.chat(content)
    t.equal(answer.status, status, content)
  }
  t.equal((await shop.chat('long')).status, 200)
  const long = 2 * 4 + 8 * 5
  await shop.spent(long)
  await t.rejects(shop.chat('break', { stream: true }))
  const zipped = await shop.chat('gzip')
  t.equal(zipped.headers['content-encoding'], 'gzip')
  const now = await balanceWhen('the compressed one is settled', shop.store, one => one.spentMsat > long)
  t.match(await shop.store.entries(now?.id ?? '', { skip: 0, take: 1 }), [{ basis: 'reservation' }])
})

t.test('a client that leaves in the middle is charged what was reserved', async t => {
  const shop = await openShop(t)
  await new Promise<void>((resolve, reject) => {
    const sent = httpRequest(
      `${shop.gateway.url}${CHAT}`,
      { method: 'POST', agent: false, headers: { authorization: shop.authorization, ...JSON_TYPE } },
      response => {
        response.once('data', () => {
          sent.destroy()
          resolve()
        })
      }
    )
    sent.on('error', reject)
    sent.end(JSON.stringify(asking('hang', { stream: true })))
  })
  const now = await balanceWhen('it is settled', shop.store, one => one.spentMsat > 0)
  const [entry] = await shop.store.entries(now?.id ?? '', { skip: 0, take: 1 })
  t.match(entry, { basis: 'reservation' })
  t.ok((entry?.msat ?? 0) >= 160)
})

t.test('a client cannot make its request cheap by words that the upstream passes over', async t => {
  const shop = await openShop(t, TOKENS.replace('{ json: max_tokens, else: 100 }', '{ else: 10 }'))
  const charged = async (content: string, more: object) => {
    const answer = await shop.chat(content, { stream: true, ...more })
    return Number(/"charged_msat":([0-9]+)/.exec(answer.text)?.[1])
  }
  t.ok(
    (await charged('silent', { max_tokens: 500, max_completion_tokens: 1 })) >= 8 * 500,
    'the most of what it says may come out'
  )
  const most = await charged('deaf', { max_tokens: undefined, max_output_tokens: 1 })
  t.ok(most >= 8 * 90 && most < 8 * 150, `what was seen to come out is charged where nothing says it: ${most}`)
})

t.test('an upgrade is forwarded only where its usage is known without a response', async t => {
  for (const [usage, status] of [
    ['bytes', 400],
    ['openai', 400],
    ['requests', 101],
    ['seconds', 101]
  ] as const) {
    const meter = `bundle: 100 sats, prices: 1 msat, usage: ${usage}, estimate: { else: 1 }`
    const { gateway, authorization, upstream } = await openMetered(t, meter)
    let switched = 0
    const { upgrade } = upstream
    upstream.upgrade = (...upgrading) => {
      switched++
      upgrade(...upgrading)
    }
    const answered = await new Promise((resolve, reject) => {
      const headers = { authorization, connection: 'Upgrade', upgrade: 'websocket', 'content-length': '0' }
      const sent = httpRequest(`${gateway.url}/v1/a`, { method: 'POST', agent: false, headers }, response => {
        response.resume()
        resolve(response.statusCode)
      })
      sent.on('upgrade', (response, socket) => {
        socket.destroy()
        resolve(response.statusCode)
      })
      sent.on('error', reject)
      sent.end()
    })
    t.equal(answered, status, usage)
    t.equal(switched, status === 101 ? 1 : 0)
  }
})

t.test('an unknown model is refused, and what was paid is not touched', async t => {
  const shop = await openShop(t)
  for (const body of [
    '{"model":"small","model":"large","messages":[{"content":"a"}]}',
    '{"Model":"small","messages":[{"content":"a"}]}',
    '{"model":"other","messages":[{"content":"a"}]}',
    '{"messages":[{"content":"a"}]}',
    '{"model":"small","max_tokens":"5","messages":[{"content":"a"}]}',
    '{"model":"small","max_tokens":-5,"messages":[{"content":"a"}]}',
    '{"model":"small","models":["small","large"],"messages":[{"content":"a"}]}',
    '{"models":["large"],"model":"small","messages":[{"content":"a"}]}',
    '{"model":"small","\\u006dodels":["large"],"messages":[{"content":"a"}]}',
    '{"model":"small","Models":["large"],"messages":[{"content":"a"}]}',
    '{"model":"small","fallbacks":[{"model":"large"}],"messages":[{"content":"a"}]}',
    '{"model":"small","extra_body":{"model":"large"},"messages":[{"content":"a"}]}'
  ])
    t.equal((await shop.ask(body, JSON_TYPE)).status, 400, body)
  t.equal(shop.model.calls.length, 0)
})

t.test('a bundle in dollars holds as many satoshis as were sold', async t => {
  for (const prices of ['1 sat', '$0.001']) {
    const shop = await openShop(t, `bundle: $0.01, prices: ${prices}, usage: requests, estimate: { else: 100 }`)
    for (let time = 1; time <= 10; time++) {
      const answer = await shop.chat()
      t.same([msat(answer, 'x-charged-msat'), msat(answer, 'x-balance-msat')], [1_000, 10_000 - time * 1_000], prices)
    }
    const over = await shop.chat()
    t.same([over.status, msat(over, 'x-balance-msat')], [402, 0])
  }
})

t.test('fifty concurrent requests take together what they used and never more than there is', async t => {
  const shop = await openShop(t)
  const gate = Promise.withResolvers<void>()
  shop.model.gate = gate.promise
  let refused = 0
  const pending = Array.from({ length: 50 }, async () => {
    const answer = await shop.chat('hello', { max_tokens: 300 })
    if (answer.status === 402) refused++
    return answer
  })
  await eventually('some were refused', async () => (refused >= 5 ? true : null))
  gate.resolve()
  const answers = await Promise.all(pending)
  const served = answers.filter(({ status }) => status === 200).length
  t.ok(served >= 30 && served < 50, `${served} of 50 found enough`)
  t.equal(answers.filter(({ status }) => status === 402).length, 50 - served)
  t.equal(shop.model.calls.length, served)
  await shop.spent(shop.model.calls.reduce((sum, { prompt, completion }) => sum + 2 * prompt + 8 * completion, 0))
})
