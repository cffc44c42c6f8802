import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { FiatCurrency } from '../../src/lightning/money/prices.ts'
import type { SourceName } from '../../src/lightning/money/sources.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'

/** What goes wrong with a source's answers. `odd pair` answers about another pair than it was asked for. */
export type PriceFault =
  | 'hang'
  | 'server error'
  | 'rate limit'
  | 'redirect'
  | 'html'
  | 'empty'
  | 'broken off'
  | 'odd pair'
  | 'no price'
  | 'zero'
  | 'stale'
  | 'outlier'
  | 'own error'

/** All of them, for tests that try each. */
export const PRICE_FAULTS: readonly PriceFault[] = [
  'hang',
  'server error',
  'rate limit',
  'redirect',
  'html',
  'empty',
  'broken off',
  'odd pair',
  'no price',
  'zero',
  'stale',
  'outlier',
  'own error'
]

/** How the fake is made. */
export interface FakePricesOptions {
  readonly clock?: Clock
  /** 0 takes a free one. */
  readonly port?: number
}

/** One question as it came. */
export interface SeenQuestion {
  readonly source: SourceName
  readonly currency: string
  readonly headers: IncomingMessage['headers']
}

interface Reply {
  readonly status: number
  readonly body: string
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
}

const HTML =
  '<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Checking your browser</body></html>'
const CURRENCIES: readonly string[] = ['USD', 'EUR', 'GBP']
/** Milliseconds by which a stale answer is late. */
const STALE = 60 * 60_000

/** One server on loopback that speaks as all price sources do, each at its own paths (providers.md, Price feeds). */
export class FakePrices {
  /** Without a slash at the end. */
  url = ''
  readonly questions: SeenQuestion[] = []
  /** What one bitcoin costs, as decimals. */
  readonly prices: Record<FiatCurrency, string> = { USD: '97123.45', EUR: '89000.5', GBP: '76543.21' }
  /** Prices of single sources, in place of the common ones. */
  readonly own: Partial<Record<SourceName, string>> = {}
  readonly faults = new Map<SourceName, PriceFault>()
  readonly #clock: Clock
  readonly #server: Server

  constructor(options: FakePricesOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#server = createServer((request, response) => {
      this.#serve(request, response)
    })
  }

  async listen(port: number): Promise<this> {
    this.#server.listen(port, '127.0.0.1')
    await once(this.#server, 'listening')
    // A server that listens on TCP has an address object.
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    return this
  }

  /** Every source speaks well again. */
  heal(): void {
    this.faults.clear()
    for (const name of Object.keys(this.own)) Reflect.deleteProperty(this.own, name)
  }

  /** How often a source was asked; all of them where none is named. */
  asked(source?: SourceName): number {
    return this.questions.filter(question => source === undefined || question.source === source).length
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://fake')
    const requests = sourceOf(url)
    if (requests === null || request.method !== 'GET')
      return answer(response, { status: 404, body: '{"message":"NotFound"}' })
    const { source, currency } = requests
    this.questions.push({ source, currency, headers: request.headers })
    const fault = this.faults.get(source)
    if (fault === 'hang') return
    if (fault === 'broken off') {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '500' })
      response.write('{"data":')
      // Once the beginning is on its way.
      response.socket?.end()
      return
    }
    answer(
      response,
      fault === undefined ? this.#well(source, currency, request) : this.#badly(fault, source, currency, request)
    )
  }

  #well(source: SourceName, currency: string, request: IncomingMessage): Reply {
    if (source === 'coinbase-exchange' && request.headers['user-agent'] === undefined)
      return { status: 400, body: '{"message":"User-Agent header is required."}' }
    if (!CURRENCIES.includes(currency)) return unknownPair(source)
    return this.#priced(source, currency, this.own[source] ?? this.prices[currency as FiatCurrency], this.#clock.now())
  }

  #badly(fault: PriceFault, source: SourceName, currency: string, request: IncomingMessage): Reply {
    const now = this.#clock.now()
    switch (fault) {
      case 'server error':
        return { status: 500, body: '{"message":"internal"}' }
      case 'rate limit':
        return { status: 429, body: '{"status":{"error_code":429}}', headers: { 'retry-after': '60' } }
      case 'redirect':
        return { status: 302, body: '', headers: { location: 'https://elsewhere.example/' } }
      case 'html':
        return { status: 200, body: HTML, type: 'text/html' }
      case 'empty':
        return { status: 200, body: '' }
      case 'own error':
        return unknownPair(source)
      case 'no price':
        return this.#priced(source, currency, 'a lot', now)
      case 'zero':
        return this.#priced(source, currency, '0', now)
      case 'odd pair':
        return this.#priced(source, currency === 'JPY' ? 'USD' : 'JPY', '14000000', now)
      case 'stale':
        return this.#priced(source, currency, this.prices[currency as FiatCurrency], now - STALE)
      case 'outlier':
        return this.#priced(source, currency, String(Number(this.prices[currency as FiatCurrency]) * 1.5), now)
      default:
        return this.#well(source, currency, request)
    }
  }

  #priced(source: SourceName, currency: string, price: string, at: number): Reply {
    const bid = JSON.stringify(price)
    switch (source) {
      case 'coinbase':
        return { status: 200, body: `{"data":{"amount":${bid},"base":"BTC","currency":"${currency}"}}` }
      case 'coinbase-exchange':
        return {
          status: 200,
          // It never says the pair.
          body: `{"ask":${bid},"bid":${bid},"volume":"6231.1","trade_id":904512345,"price":${currency === 'JPY' ? '""' : bid},"size":"0.0012","time":"${new Date(at).toISOString().replace('Z', '123Z')}"}`
        }
      case 'kraken':
        return {
          status: 200,
          body: `{"error":[],"result":{"${currency === 'USD' ? 'XXBTZ' : 'XBT'}${currency}":{"a":[${bid},"1","1.000"],"b":[${bid},"1","1.000"],"c":[${bid},"0.0012"],"v":["1","2"],"p":["1","2"],"t":[1,2],"l":["1","2"],"h":["1","2"],"o":"1"}}}`
        }
      case 'coingecko':
        return {
          status: 200,
          body: `{"bitcoin":{"${currency.toLowerCase()}":${/^\d/.test(price) ? price : 'null'},"last_updated_at":${Math.floor(at / 1000)}}}`
        }
    }
  }
}

/** Starts one; `close` ends it. */
export async function startFakePrices(options: FakePricesOptions = {}): Promise<FakePrices> {
  return await new FakePrices(options).listen(options.port ?? 0)
}

/** Lines of gateway.yaml that point a gateway at it. */
export function pricesYaml(fake: FakePrices): string {
  return [
    '# PageRequest unless both sides of lightning are the sandbox.',
    'prices:',
    '  urls:',
    ...['coinbase', 'coinbase-exchange', 'kraken', 'coingecko'].map(name => `    ${name}: ${fake.url}`)
  ].join('\n')
}

function sourceOf(url: URL): { source: SourceName; currency: string } | null {
  const spot = /^\/v2\/prices\/BTC-([A-Z]{3})\/spot$/.exec(url.pathname)
  if (spot !== null) return { source: 'coinbase', currency: spot[1] ?? '' }
  const ticker = /^\/products\/BTC-([A-Z]{3})\/ticker$/.exec(url.pathname)
  if (ticker !== null) return { source: 'coinbase-exchange', currency: ticker[1] ?? '' }
  const pair = /^XBT([A-Z]{3})$/.exec(url.searchParams.get('pair') ?? '')
  if (url.pathname === '/0/public/Ticker' && pair !== null) return { source: 'kraken', currency: pair[1] ?? '' }
  const currency = url.searchParams.get('vs_currencies') ?? ''
  const whole =
    url.searchParams.get('ids') === 'bitcoin' &&
    url.searchParams.get('include_last_updated_at') === 'true' &&
    /^[a-z]{3}$/.test(currency)
  return url.pathname === '/api/v3/simple/price' && whole
    ? { source: 'coingecko', currency: currency.toUpperCase() }
    : null
}

function unknownPair(source: SourceName): Reply {
  switch (source) {
    case 'coinbase':
      return { status: 404, body: '{"errors":[{"id":"not_found","message":"Invalid base currency"}]}' }
    case 'coinbase-exchange':
      return { status: 404, body: '{"message":"NotFound"}' }
    // A refusal with 200.
    case 'kraken':
      return { status: 200, body: '{"error":["EQuery:Unknown asset pair"]}' }
    case 'coingecko':
      return { status: 200, body: '{"bitcoin":{"last_updated_at":1795219200}}' }
  }
}

function answer(response: ServerResponse, { status, body, type, headers }: Reply): void {
  response.writeHead(status, { 'content-type': type ?? 'application/json; charset=utf-8', ...headers })
  response.end(body)
}
