import type { Test as T } from 'tap'
import { startGateway, type Answer, type TestGateway } from '../../support/gateway.ts'

/** The cookie of a session that a key opens. */
export async function sessionOf(gateway: TestGateway, key: string): Promise<string> {
  const answer = await gateway.send('POST', '/sign-in/key', {
    headers: { 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' },
    body: `key=${encodeURIComponent(key)}`
  })
  return cookieOf(answer)
}

/** The cookie that a response sets, as a request carries it. */
export function cookieOf(answer: Answer): string {
  const [cookie = ''] = [answer.headers['set-cookie'] ?? ''].flat()
  return cookie.split(';', 1)[0] ?? ''
}

/** Reads a page with a session, or sends one of its forms. */
export async function asPerson(
  gateway: TestGateway,
  cookie: string,
  path: string,
  form?: Readonly<Record<string, string>>
): Promise<Answer> {
  return await gateway.send(form === undefined ? 'GET' : 'POST', path, {
    headers: {
      cookie,
      'sec-fetch-site': 'same-origin',
      ...(form === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' })
    },
    ...(form === undefined ? {} : { body: String(new URLSearchParams(form)) })
  })
}

/** A signed-in reader of a console. */
export async function readerOf(gateway: TestGateway, key: string = gateway.merchant.apiKey) {
  const cookie = await sessionOf(gateway, key)
  /** Reads a page, or sends one of its forms. */
  const visit = (path: string, form?: Readonly<Record<string, string>>) => asPerson(gateway, cookie, path, form)
  return { cookie, visit, read: async (path: string) => (await visit(path)).text }
}

/** A gateway, its merchant or operator signed in to the console, and the API with the same rights. */
export async function openConsole(
  t: T,
  options: Parameters<typeof startGateway>[1] = {},
  as: 'merchant' | 'operator' = 'merchant'
) {
  const gateway = await startGateway(t, options)
  const key = as === 'merchant' ? gateway.merchant.apiKey : gateway.adminKey
  const headers = { 'x-api-key': key }
  return {
    gateway,
    ...(await readerOf(gateway, key)),
    /** What an operation of the API reads; the test says its type. */
    get: async <A>(path: string) => (await gateway.send('GET', path, { headers })).json() as A,
    /** Makes something by the API; the test says what is answered. */
    make: async <A>(path: string, body: object) => (await gateway.send('POST', path, { headers, body })).json() as A
  }
}

/** Makes an API of the account and answers its id. */
export async function makeApi({ merchantSend }: TestGateway, more: object = {}): Promise<string> {
  const body = { name: 'Weather', targetBaseUrl: 'https://api.example.com', defaultPriceSats: 5, ...more }
  return ((await merchantSend('POST', '/api/proxy', body)).json() as { proxyId: string }).proxyId
}

/** Makes a payment of 10,000 satoshis, unless `more` says otherwise, and pays it. */
export async function makePayment({ merchantSend, pay }: TestGateway, more: object = {}, isPaid = false) {
  const body = { orderId: 'order', amount: '0.0001', currency: 'BTC', ...more }
  const answer = await merchantSend('POST', '/api/payments', body)
  const made = answer.json() as { readonly invoiceId: string; readonly lightningInvoice: string }
  if (!isPaid) return made
  await pay(made.lightningInvoice)
  await merchantSend('POST', `/api/payments/${made.invoiceId}/sync`)
  return made
}

/** What the form of a page that does this showed when it was made; empty for one that does not say. */
export function wasOf(page: string, does: string): string {
  const form = page.split('<form').find(each => each.includes(`name="do" value="${does}"`)) ?? ''
  return / name="was" value="([^"]*)"/.exec(form.split('</form')[0] ?? '')?.[1] ?? ''
}
