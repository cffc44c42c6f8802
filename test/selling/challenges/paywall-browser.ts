import type { Answer, TestGateway } from '../../support/gateway.ts'

/** Accept of a browser that opens an address. */
export const BROWSER_ACCEPT = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8'

/** What a browser does of HTTP: it says what it prefers, and keeps the passes that it is given. */
export class Visitor {
  readonly #gateway: Pick<TestGateway, 'send' | 'url'>
  readonly #headers: Readonly<Record<string, string>>
  /** Cookies by name. */
  readonly cookies = new Map<string, string>()

  constructor(gateway: Pick<TestGateway, 'send' | 'url'>, headers: Readonly<Record<string, string>> = {}) {
    this.#gateway = gateway
    this.#headers = headers
  }

  async open(path: string, headers: Readonly<Record<string, string>> = {}, method = 'GET'): Promise<Answer> {
    const cookie = this.#cookie
    const answer = await this.#gateway.send(method, path, {
      headers: {
        accept: BROWSER_ACCEPT,
        ...(cookie === '' ? {} : { cookie }),
        ...this.#headers,
        ...headers
      }
    })
    for (const line of linesOf(answer, 'set-cookie')) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      this.cookies.set(name, value)
    }
    return answer
  }

  /** What the page's own program asks for, between it and the gateway alone. */
  wish(path: string, wish: string, more: Readonly<Record<string, string>> = {}): Promise<Response> {
    return fetch(this.#gateway.url + path, {
      headers: { accept: 'text/event-stream', cookie: this.#cookie, 'x-boltgate-page': wish, ...more }
    })
  }

  get #cookie(): string {
    return [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  }
}

/** All lines of a field. */
export function linesOf(answer: Answer, name: string): string[] {
  const lines = answer.headers[name] ?? []
  return Array.isArray(lines) ? lines : [lines]
}

/** The invoice that a page asks for. Throws when there is none. */
export function invoiceOn(answer: Answer): string {
  const [, invoice] = /href="lightning:(ln[a-z0-9]+)"/.exec(answer.text) ?? []
  if (invoice === undefined)
    throw new Error(`no invoice on the page of a ${answer.status}: ${answer.text.slice(0, 200)}`)
  return invoice
}
