import { Pool } from 'undici'
import { jsonOrUndefined } from '../../platform/system/json.ts'
import { plainConnector } from '../../engine/upstream/connector.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { CallBudget, CallPriority } from './budgets.ts'
import { beginCall, isTracing } from '../../platform/telemetry/tracing.ts'
import {
  CallFailure,
  NothingSent,
  ProviderRefused,
  ProviderUnavailable,
  unusableResponse,
  type ProviderFault
} from './errors.ts'
import { firstLine, linesOf, readLines, type LinesRead } from './web-socket.ts'

type ConnectHow = NonNullable<Pool.Options['connect']>

export interface ProviderHttpOptions {
  readonly url: string
  /** Milliseconds for all calls of one `within`, connecting and retries included. */
  readonly timeout: number
  readonly clock: Clock
  readonly budget: CallBudget
  authorize(key: string): Readonly<Record<string, string>>
  messageOf(body: unknown): string | null
  /** Returns text/plain as a string; otherwise reads JSON only. */
  readonly hasTexts?: true
  /** Statuses of 500 and up that mean a refused request, given the provider's own message. */
  readonly refusals?: readonly number[]
  /** The kind's meaning of an error response, such as 404 for a bad key; null for the general rules. */
  meaningOf?(response: ProviderResponse, scope: string | null): ProviderRefused | ProviderUnavailable | null
  readonly connect?: ConnectHow
  /** Response limit in bytes; 1 MiB by default. */
  readonly largest?: number
}

export interface ProviderCall {
  /** Only a GET may be retried, once. */
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly body?: object
  /** `application/x-www-form-urlencoded`, instead of `body`. */
  readonly form?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** Required scope as the provider spells it, named on a 403. */
  readonly scope?: string
  /** Other statuses that the caller handles. */
  readonly accepts?: readonly number[]
  /**
   * Names a limit by our address: after a 429 no call is made under it until Retry-After ends. Absent for a key's
   * limit, which stops only that key.
   */
  readonly sharedLimit?: string
  /** Budget cost; 1 by default. The first of several calls pays for all, so that each can finish. */
  readonly cost?: number
  readonly firstLine?: true
  /**
   * An open stream of JSON lines; the body is `ReadLines`.
   * @throws StreamSilent
   */
  readonly lines?: LinesRead
}

export interface ProviderResponse {
  readonly status: number
  /** JSON, or text where the kind has texts; null for neither. */
  readonly body: unknown
  /** The provider's message as one short line without the key; null for none. */
  readonly said: string | null
  /** Redirect target for callers that handle it; null for none. */
  readonly location: string | null
}

/** @throws ProviderRefused, ProviderUnavailable */
export type CallProvider = (call: ProviderCall) => Promise<ProviderResponse>

export class StreamSilent extends ProviderUnavailable {}

/** Too large to read: ask for less instead of retrying. */
export class OversizedResponse extends ProviderUnavailable {}

const MAX_RESPONSE = 1024 * 1024
/** Characters of a provider's message that are passed on. */
const MAX_MESSAGE = 200
/** Connections per host; further calls queue within their time limit. */
const CONNECTIONS = 32
/** Default seconds after a 429 or 503. */
const DEFAULT_WAIT = 5
/** Longest accepted wait in seconds: Strike locks out for an hour. */
const LONGEST_WAIT = 86_400

// Other characters prove an invalid key.
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
 * A kind's calls to one host: HTTP with JSON or forms, one time limit, the kinds' own errors. Stores no key, logs
 * nothing; errors hold no key or address.
 */
export class ProviderHttp {
  readonly #options: ProviderHttpOptions
  readonly #pool: Pool
  readonly #prefix: string
  readonly #host: string

  constructor(options: ProviderHttpOptions) {
    this.#options = options
    const url = new URL(options.url)
    this.#host = url.host
    this.#prefix = url.pathname.replace(/(?<!\/)\/+$/, '')
    this.#pool = new Pool(url.origin, {
      connections: CONNECTIONS,
      allowH2: false,
      maxResponseSize: options.largest ?? MAX_RESPONSE,
      // The clock enforces the total.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: options.connect ?? plainConnector({ tls: null, timeout: options.timeout })
    })
  }

  /**
   * Runs calls with a key under one time limit, which aborts `limit`. `standing` sets how much budget they leave to
   * others.
   * @throws ProviderRefused 'key' for an unsendable key
   */
  async within<T>(
    key: Secret<string> | null,
    run: (call: CallProvider, limit: AbortSignal) => Promise<T>,
    priority: CallPriority = 'keyed'
  ): Promise<T> {
    const limit = new AbortController()
    const timer = this.#options.clock.after(this.#options.timeout, () => {
      limit.abort()
    })
    try {
      return await run(this.under(limit.signal, key, priority), limit.signal)
    } finally {
      timer.cancel()
    }
  }

  /**
   * Calls with a key within another host's time limit.
   * @throws ProviderRefused as `within`
   */
  under(limit: AbortSignal, key: Secret<string> | null, priority: CallPriority = 'keyed'): CallProvider {
    const text = key?.reveal() ?? null
    if (text !== null && !HEADER_SAFE.test(text))
      throw new ProviderRefused('key', 'The provider key holds characters that no key has.')
    return async call => {
      const { method } = call
      const span = isTracing ? beginCall(method, { 'http.request.method': method, 'server.address': this.#host }) : null
      try {
        const response = await this.#call(call, text, limit, priority)
        span?.end()
        return response
      } catch (error) {
        span?.end(error)
        throw error
      }
    }
  }

  /**
   * Passes each JSON line of a stream to `line` until it ends or `signal` aborts. Only connecting has a time limit: lnd
   * sends no head before its first line. The caller spends the budget.
   * @throws ProviderRefused, ProviderUnavailable
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
        const json = jsonOrUndefined(await body.text())
        this.#judge(request, { status, location: null, retryAfter: null, body: json, isPage: false }, text)
        throw unusableResponse(`status ${status} instead of a stream`)
      }
      for await (const one of linesOf(body)) if (one.trim() !== '') line(jsonOrUndefined(one))
    } catch (error) {
      throw error instanceof ProviderRefused ? error : failure(error, false)
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy()
  }

  async #call(
    call: ProviderCall,
    key: string | null,
    limit: AbortSignal,
    priority: CallPriority
  ): Promise<ProviderResponse> {
    const exchange = async (): Promise<Reply> => {
      await this.#options.budget.spend(call.sharedLimit, key, priority, call.cost)
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

  async #exchange(call: ProviderCall, key: string | null, limit: AbortSignal): Promise<Reply> {
    if (limit.aborted) throw new NothingSent(MESSAGES.timeout, DEFAULT_WAIT, undefined, 'timeout')
    // undici notices a signal only once connected: a name with several blackholed addresses takes far longer.
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

  async #read(call: ProviderCall, key: string | null, limit: AbortSignal, began: () => void): Promise<Reply> {
    const { statusCode: status, headers, body } = await this.#send(call, key, limit)
    const head = { status, location: one(headers['location']), retryAfter: one(headers['retry-after']) }
    if (call.lines !== undefined && status < 300)
      return { ...head, body: await readLines(body, call.lines, this.#options.clock, began), isPage: false }
    const text = call.firstLine === true ? await firstLine(body) : await body.text()
    const isText = this.#options.hasTexts === true && /^text\/plain\b/i.test(one(headers['content-type']) ?? '')
    return { ...head, body: isText ? text : jsonOrUndefined(text), isPage: text.trimStart().startsWith('<') }
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
    const said = shortReason(body === undefined ? null : this.#options.messageOf(body), key)
    const response = { status, body: body ?? null, said, location }
    const meant = status < 400 ? null : this.#options.meaningOf?.(response, call.scope ?? null)
    if (meant !== null && meant !== undefined) throw meant
    if (call.accepts?.includes(status) === true) return response
    if (status >= 200 && status < 300) {
      // Empty is fine (204); a page instead of JSON is not the provider's.
      if (body !== undefined || status === 204) return { ...response, said: null }
      throw unusableResponse(`status ${status} without JSON`)
    }
    const wait = this.#seconds(retryAfter)
    if (status === 429) throw unavailable('rate', MESSAGES.rate, wait, 'status 429')
    if (status === 401) throw new ProviderRefused('key', 'The provider does not accept this key.')
    // A page comes from a proxy, such as Cloudflare's challenge: it says nothing of the key.
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
    // Following it would leak the key.
    throw unavailable('server', MESSAGES.server, wait, `status ${status}`)
  }

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
  readonly body: unknown
  /** HTML, as from a proxy. */
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

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return ''
  if ('code' in error && typeof error.code === 'string') return error.code
  return error instanceof AggregateError ? codeOf(error.errors[0]) : ''
}

export function shortReason(text: string | null, key: string | null): string | null {
  if (text === null) return null
  const hidden = key === null ? text : text.replaceAll(key, '[redacted]')
  const line = hidden.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
  if (line === '' || line.startsWith('<')) return null
  return line.length > MAX_MESSAGE ? `${line.slice(0, MAX_MESSAGE)}…` : line
}
