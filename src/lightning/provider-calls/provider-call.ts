import { Pool } from 'undici'
import { plainConnector } from '../../engine/upstream/connector.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { CallBudget, CallStanding } from './budgets.ts'
import {
  CallFailure,
  NothingSent,
  ProviderRefused,
  ProviderUnavailable,
  unusableResponse,
  type ProviderFault
} from './errors.ts'
import { firstLine, linesOf, readLines, type LinesRead } from './json-lines.ts'
import { parseJson } from './responses.ts'

/** How a connection is opened, where the system's own way will not do; `engine/upstream/connector.ts` makes some. */
export type ConnectHow = NonNullable<Pool.Options['connect']>

/** Where a kind is called, and how. */
export interface ProviderHttpOptions {
  /** Scheme, host and port, and a path prefix for every call; what follows a `?` is left out. */
  readonly url: string
  /** Milliseconds for all calls of one `within` together, connecting and retries included. */
  readonly timeout: number
  readonly clock: Clock
  readonly budget: CallBudget
  /** The headers that carry the key. */
  authorize(key: string): Readonly<Record<string, string>>
  /** What the provider's own error says, for people; null when its body says nothing. */
  messageOf(body: unknown): string | null
  /** A text/plain body is returned as a string; otherwise only JSON is read. */
  readonly hasTexts?: true
  /** Statuses above 499 that refuse a request, as 400 does elsewhere, if the body holds the provider's own message. */
  readonly refusals?: readonly number[]
  /** What the kind means by an error response of its own, such as a 404 for a bad key. Null where the general rules hold. */
  meaningOf?(response: ProviderResponse, scope: string | null): ProviderRefused | ProviderUnavailable | null
  readonly connect?: ConnectHow
  /** Bytes of a response that are read; 1 MiB by default. */
  readonly largest?: number
}

/** One call. */
export interface ProviderCall {
  /** A GET may be retried once. Nothing else is. */
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Begins with `/`, query included. */
  readonly path: string
  /** Sent as JSON. */
  readonly body?: object
  /** Sent as `application/x-www-form-urlencoded`, instead of `body`. */
  readonly form?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** The scope that it needs in the provider's spelling, named when the response is 403. */
  readonly scope?: string
  /** Statuses besides 2xx that the caller reads itself. */
  readonly accepts?: readonly number[]
  /**
   * Names the provider's rate limit when that counts all calls from our address: after a 429 no call is made under it
   * until its Retry-After is over. Left out for the limit of one key, by which only that key waits.
   */
  readonly sharedLimit?: string
  /** Calls that it takes of the budget; 1 by default. The first of several takes those of all, so that each can end. */
  readonly cost?: number
  /** The response is a stream of JSON lines that may stay open; its first line is the body. */
  readonly firstLine?: true
  /** The response is a stream of JSON lines that stays open; the body is `ReadLines`. @throws StreamSilent */
  readonly lines?: LinesRead
}

/** What the provider answered. */
export interface ProviderResponse {
  readonly status: number
  /** Parsed JSON, or a text where the kind has texts; null where the body is empty or neither. */
  readonly body: unknown
  /** The provider's own message as one short line without the key; null when it has none. */
  readonly said: string | null
  /** Where a redirect leads that the caller reads itself; null for none. */
  readonly location: string | null
}

/** Makes one call. @throws ProviderRefused, ProviderUnavailable */
export type CallProvider = (call: ProviderCall) => Promise<ProviderResponse>

/** A stream said nothing in the time that it had for its first line. */
export class StreamSilent extends ProviderUnavailable {}

/** A response larger than what is read: a retry will not help, asking for less may. */
export class OversizedResponse extends ProviderUnavailable {}

const MAX_RESPONSE = 1024 * 1024
/** Characters of a provider's own message that are passed on. */
const MAX_MESSAGE = 200
/** Connections to one host; what comes on top waits within its own time. */
const CONNECTIONS = 32
/** Seconds to wait where a 429 or a 503 does not say. */
const DEFAULT_WAIT = 5
/** The longest wait that is believed, in seconds: Strike locks out for an hour. */
const LONGEST_WAIT = 86_400

// What a header may carry: a key with anything else in it never came from a provider.
const HEADER_SAFE = /^[\x21-\x7e]+$/
const UNCONNECTED =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT)$/
const BROKEN = /^(ECONNREFUSED|ECONNRESET|EPIPE|UND_ERR_SOCKET)$/

const MESSAGES = Object.freeze({
  network: 'The payment provider cannot be reached at the moment.',
  timeout: 'The payment provider did not answer in time.',
  server: 'The payment provider cannot do its work at the moment.',
  front: 'Something in front of the payment provider turns calls away at the moment.',
  rate: 'The payment provider asks us to wait before the next call.'
})

/**
 * The calls of one kind to one host: HTTP with JSON or forms, one time limit, errors in the kinds' own terms. It keeps no key
 * and logs nothing; no error holds a key, an address or the library's own error.
 */
export class ProviderHttp {
  readonly #options: ProviderHttpOptions
  readonly #pool: Pool
  readonly #prefix: string

  constructor(options: ProviderHttpOptions) {
    this.#options = options
    const url = new URL(options.url)
    this.#prefix = url.pathname.replace(/(?<!\/)\/+$/, '')
    this.#pool = new Pool(url.origin, {
      connections: CONNECTIONS,
      allowH2: false,
      maxResponseSize: options.largest ?? MAX_RESPONSE,
      // The time limit of the whole is the clock's.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: options.connect ?? plainConnector({ tls: null, timeout: options.timeout })
    })
  }

  /**
   * Runs calls with one key under one time limit, at whose end `limit` aborts; `standing` says for whom, and so how much of
   * the budget they leave to others. @throws ProviderRefused 'key' for a key that cannot be sent at all
   */
  async within<T>(
    key: Secret<string> | null,
    run: (call: CallProvider, limit: AbortSignal) => Promise<T>,
    standing: CallStanding = 'keyed'
  ): Promise<T> {
    const limit = new AbortController()
    const timer = this.#options.clock.after(this.#options.timeout, () => {
      limit.abort()
    })
    try {
      return await run(this.under(limit.signal, key, standing), limit.signal)
    } finally {
      timer.cancel()
    }
  }

  /** Calls with one key until the limit of another host's `within` is over. @throws ProviderRefused as `within` */
  under(limit: AbortSignal, key: Secret<string> | null, standing: CallStanding = 'keyed'): CallProvider {
    const text = key?.reveal() ?? null
    if (text !== null && !HEADER_SAFE.test(text))
      throw new ProviderRefused('key', 'The provider key holds characters that no key has.')
    return call => this.#call(call, text, limit, standing)
  }

  /**
   * Reads a stream of JSON lines, each given to `line`, until it or `signal` ends. Nothing but connecting has a time limit:
   * lnd sends no head before its first line. The caller spends of the budget. @throws ProviderRefused,
   * ProviderUnavailable
   */
  async lines(
    call: Pick<ProviderCall, 'path' | 'scope'>,
    key: Secret<string>,
    signal: AbortSignal,
    line: (value: unknown) => void
  ): Promise<void> {
    const text = key.reveal()
    const request: ProviderCall = { ...call, method: 'GET' }
    try {
      const { statusCode: status, body } = await this.#send(request, text, signal)
      if (status !== 200) {
        const json = parseJson(await body.text())
        this.#judge(request, { status, location: null, retryAfter: null, body: json, isPage: false }, text)
        throw unusableResponse(`status ${status} instead of a stream`)
      }
      for await (const one of linesOf(body)) if (one.trim() !== '') line(parseJson(one))
    } catch (error) {
      throw error instanceof ProviderRefused ? error : failure(error, false)
    }
  }

  /** Ends the connections; calls under way fail with `ProviderUnavailable`. */
  async close(): Promise<void> {
    await this.#pool.destroy()
  }

  async #call(
    call: ProviderCall,
    key: string | null,
    limit: AbortSignal,
    standing: CallStanding
  ): Promise<ProviderResponse> {
    const exchange = async (): Promise<Reply> => {
      await this.#options.budget.spend(call.sharedLimit, key, standing, call.cost)
      return await this.#exchange(call, key, limit)
    }
    const reply = await exchange()
      .catch(async (error: unknown) => {
        const isAgain = call.method === 'GET' && !limit.aborted && BROKEN.test(codeOf(error))
        return await (isAgain ? exchange() : Promise.reject(error))
      })
      .catch((error: unknown) => {
        throw failure(error, limit.aborted)
      })
    if (reply.status === 429 && call.accepts?.includes(429) !== true)
      await this.#options.budget.refused(call.sharedLimit, key, this.#seconds(reply.retryAfter))
    return this.#judge(call, reply, key)
  }

  /** One exchange as it comes; rejects with the library's errors, and StreamSilent. */
  async #exchange(call: ProviderCall, key: string | null, limit: AbortSignal): Promise<Reply> {
    if (limit.aborted) throw new NothingSent(MESSAGES.timeout, DEFAULT_WAIT, undefined, 'timeout')
    // undici hears of a signal only once it is connected: a name with several addresses that swallow everything takes
    // far longer.
    const late = Promise.withResolvers<never>()
    const ended = new AbortController()
    const end = (error: unknown): void => {
      late.reject(error)
      ended.abort(error)
    }
    const over = (): void => {
      end(limit.reason)
    }
    limit.addEventListener('abort', over)
    const silence =
      call.lines &&
      this.#options.clock.after(call.lines.first, () => {
        end(new StreamSilent(MESSAGES.timeout, DEFAULT_WAIT, new CallFailure('a silent stream'), 'other'))
      })
    try {
      return await Promise.race([this.#read(call, key, ended.signal, () => silence?.cancel()), late.promise])
    } finally {
      silence?.cancel()
      limit.removeEventListener('abort', over)
    }
  }

  /** `began` is called with each piece of a stream. */
  async #read(call: ProviderCall, key: string | null, limit: AbortSignal, began: () => void): Promise<Reply> {
    const { statusCode: status, headers, body } = await this.#send(call, key, limit)
    const head = { status, location: one(headers['location']), retryAfter: one(headers['retry-after']) }
    if (call.lines !== undefined && status < 300)
      return { ...head, body: await readLines(body, call.lines, this.#options.clock, began), isPage: false }
    const text = call.firstLine === true ? await firstLine(body) : await body.text()
    const isText = this.#options.hasTexts === true && /^text\/plain\b/i.test(one(headers['content-type']) ?? '')
    return { ...head, body: isText ? text : parseJson(text), isPage: text.trimStart().startsWith('<') }
  }

  async #send(call: ProviderCall, key: string | null, signal: AbortSignal): ReturnType<Pool['request']> {
    const { method, path, body, form, headers } = call
    const type = form !== undefined ? 'application/x-www-form-urlencoded' : 'application/json'
    const text =
      form !== undefined ? new URLSearchParams(form).toString() : body === undefined ? null : JSON.stringify(body)
    return await this.#pool.request({
      method,
      path: `${this.#prefix}${path}`,
      headers: {
        accept: 'application/json',
        'user-agent': 'boltgate',
        ...(text === null ? {} : { 'content-type': type }),
        ...(key === null ? {} : this.#options.authorize(key)),
        ...headers
      },
      body: text,
      signal
    })
  }

  #judge(
    call: ProviderCall,
    { status, body, location, retryAfter, isPage }: Reply,
    key: string | null
  ): ProviderResponse {
    const said = saidInShort(body === undefined ? null : this.#options.messageOf(body), key)
    const response = { status, body: body ?? null, said, location }
    const meant = status < 400 ? null : this.#options.meaningOf?.(response, call.scope ?? null)
    if (meant !== null && meant !== undefined) throw meant
    if (call.accepts?.includes(status) === true) return response
    if (status >= 200 && status < 300) {
      // An empty body is fine (204); a page where JSON was due is not the provider speaking.
      if (body !== undefined || status === 204) return { ...response, said: null }
      throw unusableResponse(`status ${status} without JSON`)
    }
    const wait = this.#seconds(retryAfter)
    if (status === 429) throw unavailable('rate', MESSAGES.rate, wait, 'status 429')
    if (status === 401) throw new ProviderRefused('key', 'The provider does not accept this key.')
    // A page comes from something in front of the provider, such as Cloudflare's challenge: it says nothing of the key.
    if (status === 403 && isPage) throw unavailable('server', MESSAGES.front, wait, 'status 403 with a page')
    if (status === 403) throw forbidden(call.scope ?? null)
    const isRefusal =
      (status >= 400 && status < 500 && status !== 408 && status !== 425) ||
      (said !== null && this.#options.refusals?.includes(status) === true)
    if (isRefusal)
      throw new ProviderRefused(
        'request',
        `The payment provider refused the request${said === null ? ` (${status}).` : `: ${said}`}`
      )
    // A redirect is not followed here: it would carry the key elsewhere.
    throw unavailable('server', MESSAGES.server, wait, `status ${status}`)
  }

  /** Whole seconds of a Retry-After, which is a number of them or a date. */
  #seconds(text: string | null): number {
    if (text === null) return DEFAULT_WAIT
    const seconds = /^\d{1,9}$/.test(text)
      ? Number(text)
      : Math.ceil((Date.parse(text) - this.#options.clock.now()) / 1000)
    return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 1), LONGEST_WAIT) : DEFAULT_WAIT
  }
}

interface Reply {
  readonly status: number
  readonly location: string | null
  readonly retryAfter: string | null
  /** Undefined where the body is no JSON. */
  readonly body: unknown
  /** HTML, as something in front of a provider answers. */
  readonly isPage: boolean
}

function one(header: string | string[] | undefined): string | null {
  return (Array.isArray(header) ? header[0] : header)?.trim() ?? null
}

function unavailable(fault: ProviderFault, message: string, seconds: number, cause: string): ProviderUnavailable {
  return new ProviderUnavailable(message, seconds, new CallFailure(cause), fault)
}

function forbidden(scope: string | null): ProviderRefused {
  return new ProviderRefused(
    'scope',
    scope === null ? 'The provider key may not make this call.' : `The provider key lacks the scope ${scope}.`,
    scope
  )
}

/** What went wrong on the way, in our own terms. */
function failure(error: unknown, isLate: boolean): ProviderUnavailable {
  if (error instanceof ProviderUnavailable) return error
  if (isLate) return unavailable('timeout', MESSAGES.timeout, DEFAULT_WAIT, 'time limit')
  const code = codeOf(error)
  const cause = new CallFailure(code === '' ? 'the connection failed' : code)
  if (UNCONNECTED.test(code)) return new NothingSent(MESSAGES.network, DEFAULT_WAIT, cause, 'network')
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE')
    return new OversizedResponse('The payment provider gave an answer that is too large.', DEFAULT_WAIT, cause, 'size')
  return new ProviderUnavailable(MESSAGES.network, DEFAULT_WAIT, cause, 'network')
}

/** The code of a network fault, also where the attempts on several addresses were gathered into one. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return ''
  if ('code' in error && typeof error.code === 'string') return error.code
  return error instanceof AggregateError ? codeOf(error.errors[0]) : ''
}

/** A provider's own words as one short line, without the key; null where nothing is left of them. */
export function saidInShort(text: string | null, key: string | null): string | null {
  if (text === null) return null
  const hidden = key === null ? text : text.replaceAll(key, '[redacted]')
  const line = hidden.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
  if (line === '' || line.startsWith('<')) return null
  return line.length > MAX_MESSAGE ? `${line.slice(0, MAX_MESSAGE)}…` : line
}
