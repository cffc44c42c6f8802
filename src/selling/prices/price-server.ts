import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { Agent, buildConnector, request } from 'undici'
import { type PriceServerConfig, MAX_PRICE_SATS } from '../../engine/checks/price.ts'
import type { Context } from '../../engine/message/context.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import type { Maybe } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { overInterim } from '../../platform/system/interim-responses.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { headerValue } from '../../engine/message/request-values.ts'
import { nameOf, readField, unreadable } from './request-field.ts'
import { type Scalar, JsonText } from './json-text.ts'
import { defineError } from '../../platform/system/errors.ts'
import { readMoney, satoshisUp, type FiatText } from '../../engine/checks/money-text.ts'

const PRICE_UNAVAILABLE = defineError('BG_PRICE_UNAVAILABLE', {
  status: 503,
  title: 'Price unavailable',
  cause: "The route's price server did not respond in time or sent no price. Nothing was charged.",
  fix: 'Retry after `Retry-After`; the operator finds the reason in the log.'
})

interface NamedPrice extends ServerPrice {
  /** Digest of the question: equal for requests of equal price. */
  readonly question: string
}

/** Sends a question; returns the body of a 200. Rejects on anything else, or when `signal` aborts. */
export type AskServer = (url: string, body: string, signal: AbortSignal) => Promise<Uint8Array>

interface PriceServerDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly ask: AskServer
}

/** Maximum concurrent questions per server; beyond it 503. */
const MAX_ASKING = 256
const MAX_KNOWN = 10_000
/** Maximum bytes of an answer. */
const MAX_ANSWER = 16_384

interface Known {
  named: Maybe<NamedPrice>
  /** Monotonic milliseconds, counted from the question: what it answers may have changed since. */
  readonly until: number
}

/**
 * An operator's price server. An answer is for equal questions within `cache` of its own; hits are synchronous. Any fault is 503, never a price of our own.
 */
class PriceServer {
  readonly #config: PriceServerConfig
  readonly #dependencies: PriceServerDependencies
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN })
  #asking = 0
  #isFailing = false

  constructor(config: PriceServerConfig, dependencies: PriceServerDependencies) {
    this.#config = config
    this.#dependencies = dependencies
  }

  /**
   * @throws Unavailable 503: the server is down, slow, or names no price
   * @throws LongError 400, 413, 415: a field for it is unreadable
   */
  price(ctx: Context): Maybe<NamedPrice> {
    const values = this.#config.fields.map(field => readField(field, ctx))
    return values.some(value => value instanceof Promise)
      ? Promise.all(values).then(read => this.#priced(ctx, read))
      : // No promise is among them.
        this.#priced(ctx, values as Array<Scalar | null>)
  }

  #priced(ctx: Context, values: ReadonlyArray<Scalar | null>): Maybe<NamedPrice> {
    const { fields, headers } = this.#config
    const question = JSON.stringify({
      method: ctx.method,
      path: ctx.path,
      headers: Object.fromEntries(headers.map(name => [name.toLowerCase(), quotedHeader(ctx, name)])),
      fields: Object.fromEntries(fields.map((field, index) => [nameOf(field), values[index] ?? null]))
    })
    const now = this.#dependencies.clock.monotonic()
    const known = this.#known.get(question)
    if (known !== undefined && known.until > now) return known.named
    if (this.#asking >= MAX_ASKING) throw unpriced(new Error(`${MAX_ASKING} price requests are in flight`))
    const next: Known = { named: this.#ask(question), until: now + this.#config.cache }
    this.#known.set(question, next)
    return this.#answered(question, next)
  }

  async #answered(question: string, known: Known): Promise<NamedPrice> {
    this.#asking++
    try {
      return (known.named = await known.named)
    } catch (error) {
      if (this.#known.peek(question) === known) this.#known.delete(question)
      throw error
    } finally {
      this.#asking--
    }
  }

  async #ask(question: string): Promise<NamedPrice> {
    const { clock, ask } = this.#dependencies
    const { from, timeout } = this.#config
    const limit = new AbortController()
    const late = Promise.withResolvers<never>()
    const timer = clock.after(timeout, () => {
      const error = new Error(`no answer within ${timeout} ms`)
      limit.abort(error)
      late.reject(error)
    })
    try {
      // The HTTP client obeys the signal only once connected.
      const answer = readServerPrice(await Promise.race([ask(from, question, limit.signal), late.promise]))
      if (typeof answer === 'string') throw new Error(answer)
      const named = { ...answer, question: hash('sha256', question, 'base64url').slice(0, 22) }
      this.#isGood()
      return named
    } catch (error) {
      this.#isBad(error)
      throw unpriced(error)
    } finally {
      timer.cancel()
    }
  }

  /** Logs once per outage. */
  #isBad(error: unknown): void {
    if (this.#isFailing) return
    this.#isFailing = true
    const reason = error instanceof Error ? error.message : String(error)
    this.#dependencies.log.error(
      { from: this.#config.from, reason },
      'a price server names no price; what it prices is 503'
    )
  }

  #isGood(): void {
    if (this.#isFailing) this.#dependencies.log.info({ from: this.#config.from }, 'a price server names prices again')
    this.#isFailing = false
  }
}

export class PriceServers {
  readonly #servers = new Map<string, PriceServer>()
  readonly #agent = new Agent({
    connections: 16,
    allowH2: false,
    maxResponseSize: MAX_ANSWER,
    connect: overInterim(buildConnector({ allowH2: false }))
  })
  readonly #dependencies: PriceServerDependencies

  constructor(dependencies: Omit<PriceServerDependencies, 'ask'> & Partial<PriceServerDependencies>) {
    this.#dependencies = { ask: (url, body, signal) => this.#send(url, body, signal), ...dependencies }
  }

  /** Equal configurations share a server. */
  of(config: PriceServerConfig): PriceServer {
    const key = JSON.stringify(config)
    let server = this.#servers.get(key)
    if (server === undefined) {
      server = new PriceServer(config, this.#dependencies)
      this.#servers.set(key, server)
    }
    return server
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  /** Redirects are refused: they could lead elsewhere. */
  async #send(url: string, body: string, signal: AbortSignal): Promise<Uint8Array> {
    const answer = await request(url, {
      dispatcher: this.#agent,
      signal,
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json', 'user-agent': 'boltgate' },
      body
    })
    const bytes = await answer.body.bytes()
    if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`)
    return bytes
  }
}

function quotedHeader(ctx: Context, name: string): string | null {
  const read = headerValue(ctx.headers, name)
  if (read.kind === 'fault') throw unreadable(read.message)
  return read.kind === 'missing' ? null : String(read.value)
}

function unpriced(cause: unknown): Unavailable {
  return new Unavailable(
    PRICE_UNAVAILABLE,
    'What this request costs is not known at the moment. Nothing was charged.',
    1,
    {},
    cause
  )
}

interface ServerPrice {
  /** Whole satoshis, or fiat. */
  readonly amount: number | FiatText
  /** On the invoice; null for none. */
  readonly description: string | null
}

const MAX_DESCRIPTION = 500

/**
 * Reads `{amountSats | amountMsat | usd, description?}`: exactly one amount, above 0. Returns a text that names the
 * fault.
 */
export function readServerPrice(bytes: Uint8Array): ServerPrice | string {
  const text = JsonText.of(bytes)
  if (typeof text === 'string') return `its answer ${text}`
  const amounts: Array<number | FiatText> = []
  for (const [name, read] of [
    ['amountSats', satoshis],
    ['amountMsat', (raw: string) => satoshisOfMsat(raw)],
    ['usd', dollars]
  ] as const) {
    const member = text.raw(name)
    if (member.kind === 'fault') return `of its answer ${member.message}`
    if (member.kind === 'missing') continue
    const amount = read(member.text)
    if (amount === null) return `${name} of its answer is no price: ${member.text.slice(0, 40)}`
    amounts.push(amount)
  }
  const [amount] = amounts
  if (amount === undefined || amounts.length > 1)
    return `its answer names ${amounts.length === 0 ? 'none' : 'more than one'} of amountSats, amountMsat and usd`
  const said = text.member(['description'])
  if (said.kind === 'fault') return `of its answer ${said.message}`
  if (said.kind === 'missing') return { amount, description: null }
  if (typeof said.value !== 'string') return 'description of its answer is no text'
  // Whole characters that an invoice allows.
  const description = [...said.value.replaceAll(/\p{Cc}+/gu, ' ')].slice(0, MAX_DESCRIPTION).join('')
  return { amount, description: description.trim() === '' ? null : description }
}

function whole(raw: string): number | null {
  return /^[1-9][0-9]{0,14}$/.test(raw) ? Number(raw) : null
}

function satoshis(raw: string): number | null {
  const amount = whole(raw)
  return amount === null || amount > MAX_PRICE_SATS ? null : amount
}

function satoshisOfMsat(raw: string): number | null {
  const amount = whole(raw)
  return amount === null || amount > MAX_PRICE_SATS * 1000 ? null : satoshisUp(amount)
}

/** Reads the digits of a number or text as written, never as a double. */
function dollars(raw: string): FiatText | null {
  const digits = /^"([0-9.]+)"$|^([0-9.]+)$/.exec(raw)
  const money = readMoney(`$${digits?.[1] ?? digits?.[2] ?? ''}`)
  return money !== undefined && 'fiat' in money ? money.fiat : null
}
