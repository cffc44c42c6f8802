import type { Answer, TestGateway } from '../../support/gateway.ts'

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
