import { randomBytes } from 'node:crypto'
import * as fc from 'fast-check'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { SqlAdminStore } from '../../src/web/admin/store.ts'
import { mailedLinks } from '../web/sign-in/mails.ts'
import { defaultYaml, startGateway, type Answer } from '../support/gateway.ts'
import { unshed } from '../support/gateway-process.ts'
import { isWrong, malformed, sweep, targetsOf, type Known, type Malformed } from './malformed.ts'

/** How many requests are sent; more where all places and values are more. */
const REQUESTS = Number(process.env['FUZZ_REQUESTS'] ?? 10_000)
/** Another seed gives other requests; a failure's message names its seed. */
const SEED = Number(process.env['FUZZ_SEED'] ?? 20_261_121)
/** Concurrent requests. */
const AT_ONCE = 16
/** Milliseconds after which a request counts as hanging: far above what a busy processor and disk make one wait. */
const HANGS = 60_000

function told(request: Malformed, index: number) {
  const body = request.body === null ? 'no body' : Buffer.from(request.body).toString('latin1').slice(0, 300)
  return `seed ${SEED}, request ${index}: ${request.target.id}, ${request.target.method} ${request.path.slice(0, 200)}, ${request.how.join('; ')}\n${JSON.stringify(request.headers).slice(0, 300)}\n${body}`
}

t.test(
  "10,000 malformed, oversized, deeply nested, wrongly typed or wrongly encoded requests get a 4xx in the contract's shape, never a 500",
  async t => {
    const gateway = await startGateway(t, {
      yaml: defaultYaml({
        replace: [
          [
            'policies:\n',
            'payment: { maxOutstanding: { address: 10000 } }\npolicies:\n  magic-link: { limit: 100000, window: 1m, by: address }\n  passkey: { limit: 100000, window: 1m, by: address }\n'
          ]
        ]
      })
    })
    const { adminKey, merchant, send } = unshed(gateway)
    const admin = (method: string, path: string, body?: object) =>
      send(method, path, { headers: { 'x-api-key': adminKey }, ...(body === undefined ? {} : { body }) })
    const targets = targetsOf((await send('GET', '/api/openapi.json')).json() as Record<string, unknown>)
    t.ok(targets.length >= 10, `${targets.length} operations: ${targets.map(target => target.id).join(', ')}`)

    const proxy = (
      await gateway.merchantSend('POST', '/api/proxy', {
        name: 'a',
        targetBaseUrl: 'https://api.example.com',
        defaultPriceSats: 1
      })
    ).json() as { proxyId: string }
    const challenge = (
      await gateway.merchantSend('POST', '/api/l402/challenges', { resource: 'a', priceSats: 1 })
    ).json() as { invoice: string; macaroon: string }
    const payment = (
      await gateway.merchantSend('POST', '/api/payments', { orderId: 'fuzz', amount: '0.001', currency: 'BTC' })
    ).json() as { invoiceId: string; lightningInvoice: string }
    await gateway.pay(payment.lightningInvoice)
    // What is changed or switched off by chance must not be the account that asks.
    const account = async (email: string) => {
      const answer = await admin('POST', '/api/admin/merchants', {
        name: 'Other',
        email,
        primaryApiKey: 'sandbox-other-key'
      })
      return answer.json() as { merchantId: number; apiKey: string }
    }
    const changing = await account('changing@example.com')
    await send('POST', '/api/merchant/storefront', {
      headers: { 'x-api-key': changing.apiKey },
      body: { slug: 'changing', storefrontDomain: 'books.example.com' }
    })
    const victim = String((await account('victim@example.com')).merchantId)
    const store = new SqlAdminStore(gateway.database)
    const pending = await Promise.all(
      Array.from({ length: 50 }, async (_, index) => {
        const subscription = {
          email: `buyer-${index}@example.com`,
          customerName: null,
          billingCustomerId: null,
          billingSubscriptionId: `sub_${index}`,
          planTier: 'individual',
          subscriptionStatus: 'active',
          currentPeriodEnd: null
        } as const
        return String((await store.insert(subscription, Date.now())).id)
      })
    )
    // The dashboard takes the admin key in a header of its own; without it 21 failures would throttle every other
    // request too.
    const own = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' }
    const sessionOf = ({ headers }: Answer) => {
      const cookies = [headers['set-cookie'] ?? []].flat().map(line => line.split(';', 1)[0] ?? '')
      return { 'sec-fetch-site': 'same-origin', cookie: cookies.find(cookie => cookie.includes('session')) ?? '' }
    }
    const byKey = sessionOf(
      await send('POST', '/sign-in/key', { headers: own, body: `key=${encodeURIComponent(merchant.apiKey)}` })
    )
    // Passkeys are a person's.
    const { email } = (await gateway.merchantSend('GET', '/api/merchant/me')).json() as { email: string }
    await send('POST', '/api/auth/magic-link', { body: { email } })
    const [link = ''] = await mailedLinks(gateway.data, email, 1)
    const byMail = sessionOf(await send('POST', link, { headers: own, body: '' }))
    const keyOf = ({ access, path }: Malformed['target']) =>
      access === 'public'
        ? path === '/api/auth/account'
          ? byKey
          : path.startsWith('/api/auth/passkeys')
            ? byMail
            : {}
        : path.startsWith('/jobs')
          ? { 'x-admin-key': adminKey }
          : {
              'x-api-key':
                access === 'admin' ? adminKey : path.startsWith('/api/merchant/') ? changing.apiKey : merchant.apiKey
            }

    const known: Known = {
      params: {
        slug: ['demo'],
        proxyId: [proxy.proxyId],
        merchantId: [victim],
        invoiceId: [payment.invoiceId],
        id: pending
      },
      members: {
        orderId: Array.from({ length: 50 }, (_, index) => `order-${index}`),
        amount: [0, '0.5', 1],
        currency: ['USD', 'BTC'],
        customerEmail: ['a@example.com'],
        successUrl: ['https://example.com/done'],
        invoiceId: [payment.invoiceId],
        refundAddress: ['bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080', 'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn'],
        refundType: ['chain'],
        amountSatoshis: [1, 2],
        invoice: [challenge.invoice],
        macaroon: [challenge.macaroon],
        preimage: ['0'.repeat(64)],
        targetBaseUrl: ['https://api.example.com'],
        defaultPriceSats: [1],
        priceSats: [1, 10],
        email: Array.from({ length: 50 }, () => `${randomBytes(4).toString('hex')}@example.com`),
        callbackUrl: ['https://example.com/hook'],
        webhookUrl: ['https://example.com/hook'],
        isActive: [true],
        slug: ['changing'],
        storefrontDomain: ['books.example.com'],
        clientId: ['client'],
        clientSecret: ['secret'],
        defaultTaxLocation: ['US-CA-94107'],
        registryCategories: ['[]'],
        claimWindowDays: [7]
      }
    }
    const swept = sweep(targets, known)
    t.ok(swept.length > 1_000, `${swept.length} of them with every hostile value in every place`)
    const requests = [
      ...swept,
      ...fc.sample(malformed(targets, known), {
        seed: SEED,
        numRuns: Math.max(Math.ceil(REQUESTS / 5), REQUESTS - swept.length)
      })
    ]

    const wrong = new Set(requests.filter(isWrong))
    t.ok(wrong.size > REQUESTS / 4, `${wrong.size} have a body that its schema does not take`)

    // Computing took long enough for idle connections to expire: both sides get turns to close them.
    for (let turn = 0; turn < 20; turn++) await setImmediate()
    const counts = new Map<string, { good: number; refused: number }>(
      targets.map(target => [target.id, { good: 0, refused: 0 }])
    )
    const failures: string[] = []
    const one = async (request: Malformed, index: number) => {
      const { target, path, headers, body } = request
      const late = Promise.withResolvers<never>()
      const timer = setTimeout(() => {
        late.reject(new Error(`no answer within ${HANGS} ms`))
      }, HANGS)
      try {
        const answer = await Promise.race([
          send(target.method, path, { headers: { ...keyOf(target), ...headers }, ...(body === null ? {} : { body }) }),
          late.promise
        ])
        const count = counts.get(target.id)
        if (answer.status < 400 && wrong.has(request))
          failures.push(`${answer.status} for what its schema does not take\n${told(request, index)}`)
        else if (answer.status >= 200 && answer.status < 300 && count !== undefined) count.good++
        else if (
          answer.status >= 400 &&
          answer.status < 500 &&
          // This gateway sells no paid keys.
          (answer.status !== 401 || target.id === 'topUpKey') &&
          answer.status !== 429 &&
          count !== undefined
        )
          count.refused++
        else failures.push(`${answer.status} ${answer.text.slice(0, 1500)}\n${told(request, index)}`)
      } catch (error) {
        failures.push(`${String(error)}\n${told(request, index)}`)
      } finally {
        clearTimeout(timer)
      }
    }
    let next = 0
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        while (next < requests.length && failures.length < 100) {
          const index = next++
          const request = requests[index]
          if (request !== undefined) await one(request, index)
        }
      })
    )
    t.equal(
      failures.length,
      0,
      `what a schema does not take is 4xx, the rest 2xx or 4xx${failures.length === 0 ? '' : ' and not: '} ${failures.join('\n\n')}`
    )
    for (const [id, { good, refused }] of counts) t.ok(refused > 0, `${id}: ${good} accepted, ${refused} refused`)
    const me = await gateway.merchantSend('GET', '/api/proxy')
    t.equal(me.status, 200, 'and it serves as before')
  }
)
