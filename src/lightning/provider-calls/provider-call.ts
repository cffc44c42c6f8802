import { Pool } from 'undici'
import { plainConnector } from '../../engine/upstream/connector.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { CallBudget, CallStanding } from './budgets.ts'
import { NothingSent, ProviderRefused, ProviderUnavailable, type ProviderFault } from './errors.ts'
import { parsed } from './json-members.ts'

export { NothingSent } from './errors.ts'

/** How a connection is opened, where the system's own way will not do; `engine/upstream/connector.ts` makes some. */
export type ConnectHow = NonNullable<Pool.Options['connect']>

/** Where a kind is called, and how. */
export interface ProviderHttpOptions {
  /** Scheme, host and port, and a path that stands in front of every call's; what follows a `?` is left out. */
  readonly url: string
  /** Milliseconds for all calls of one `within` together, connecting and retries included. */
  readonly timeout: number
  readonly clock: Clock
  /** What every call is taken from. */
  readonly budget: CallBudget
  /** The headers that carry the key. */
  authorize(key: string): Readonly<Record<string, string>>
  /** What the provider's own error says, for people; null when its body says nothing. */
  messageOf(body: unknown): string | null
  /** A body of text/plain is an answer too, and is given as it is, as a string; left out, only JSON is. */
  readonly hasTexts?: true
  /**
   * Statuses above 499 with which the provider refuses a request where others answer 400. Only where its own message
   * stands in the body: what stands before it answers so as well, and that is a fault.
   */
  readonly refusals?: readonly number[]
  /**
   * What the kind means by an error answer of its own, such as a 404 for a bad key; asked before anything else is made of
   * the status. Null where the general rules hold.
   */
  meaningOf?(answer: ProviderAnswer, scope: string | null): ProviderRefused | ProviderUnavailable | null
  readonly connect?: ConnectHow
  /** Bytes of an answer that are read; 1 MiB where it is left out. */
  readonly largest?: number
}

/** One call. */
export interface ProviderCall {
  /** A GET is a read: it may be tried a second time. Nothing else is. */
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Begins with `/`, query included. */
  readonly path: string
  /** Sent as JSON. */
  readonly body?: object
  /** Sent as `application/x-www-form-urlencoded`; in the place of `body`. */
  readonly form?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** The scope that it needs in the provider's spelling, named when the answer is 403. */
  readonly scope?: string
  /** Statuses besides 2xx that the caller reads itself. */
  readonly answers?: readonly number[]
  /**
   * Names the provider's rate limit when that counts all calls from our address: after a 429 nobody is asked under it
   * until its Retry-After is over. A limit of one key is left out: then only that key waits.
   */
  readonly sharedLimit?: string
  /**
   * Calls that it takes of the budget, 1 where it is left out. Of some that belong together the first takes those of all, and
   * the others none: or many at once would each begin, and none could end.
   */
  readonly cost?: number
  /**
   * The answer is a stream of JSON lines that may stay open: its first line is the body, and the connection is ended
   * after it.
   */
  readonly firstLine?: true
  /**
   * The answer is a stream of JSON lines that stays open behind what it has to say. The body is `ReadLines`: what came
   * until nothing had come for `quiet` milliseconds, or `most` bytes had; then the connection is ended. Within `first`
   * milliseconds something must have come. @throws StreamSilent where nothing has
   */
  readonly lines?: { readonly first: number; readonly quiet: number; readonly most: number }
}

/** What was read of a stream. */
export interface ReadLines {
  readonly lines: readonly unknown[]
  /** Whether it had more to say. */
  readonly isCut: boolean
}

/** What the provider answered. */
export interface ProviderAnswer {
  readonly status: number
  /**
   * Parsed JSON, or a text where the kind has texts; null where the body was empty or is neither, which only answers that
   * the caller asked for can have.
   */
  readonly body: unknown
  /** The provider's own message as one short line without the key; null when it has none. */
  readonly said: string | null
  /** Where a redirect that the caller reads itself leads; null for none. */
  readonly location: string | null
}

/** Makes one call. @throws ProviderRefused, ProviderUnavailable */
export type CallProvider = (call: ProviderCall) => Promise<ProviderAnswer>

/** A stream said nothing in the time that it had for its first line. */
export class StreamSilent extends ProviderUnavailable {}

/** An answer that is larger than what is read: asking for it again will not help, asking for less may. */
export class AnswerTooLarge extends ProviderUnavailable {}

/**
 * What is known of a failed call: a code or a status. It stands in for the library's error, which may hold what was
 * sent or received.
 */
class CallFailure extends Error {
  override name = 'CallFailure'
}

/** Bytes of an answer that are read. */
const MAX_ANSWER = 1024 * 1024
/** Characters of a line of a stream. */
const MAX_LINE = 256 * 1024
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
const UNCONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'UND_ERR_CONNECT_TIMEOUT'
])
const BROKEN = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

const MESSAGES: Readonly<Record<Exclude<ProviderFault, 'size' | 'open' | 'other'> | 'front', string>> = Object.freeze({
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
      maxResponseSize: options.largest ?? MAX_ANSWER,
      // The time limit of the whole is the clock's.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: options.connect ?? plainConnector({ tls: null, timeout: options.timeout })
    })
  }

  /**
   * Runs calls with one key under one time limit; `standing` says for whom, and so how much of the budget they leave to
   * others. `limit` ends when the time is over.
   * @throws ProviderRefused 'key' for a key that cannot be sent at all
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

  /**
   * Calls with one key until the limit of another host's `within` is over.
   * @throws ProviderRefused as `within`
   */
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
    try {
      const answer = await this.#pool.request({
        method: 'GET',
        path: `${this.#prefix}${call.path}`,
        headers: { accept: 'application/json', 'user-agent': 'boltgate', ...this.#options.authorize(text) },
        signal
      })
      if (answer.statusCode !== 200) {
        const body = parsed(await answer.body.text())
        const reply = { status: answer.statusCode, location: null, retryAfter: null, body, isPage: false }
        this.#judge({ ...call, method: 'GET' }, reply, text)
        throw unusableAnswer(`status ${answer.statusCode} instead of a stream`)
      }
      await eachLine(answer.body, line)
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
  ): Promise<ProviderAnswer> {
    const exchange = async (): Promise<Reply> => {
      await this.#options.budget.spend(call.sharedLimit, key, standing, call.cost)
      return await this.#exchange(call, key, limit)
    }
    const reply = await exchange()
      .catch(async (error: unknown) => {
        const isAgain = call.method === 'GET' && !limit.aborted && BROKEN.has(codeOf(error))
        return await (isAgain ? exchange() : Promise.reject(error))
      })
      .catch((error: unknown) => {
        throw failure(error, limit.aborted)
      })
    if (reply.status === 429 && call.answers?.includes(429) !== true)
      await this.#options.budget.refused(call.sharedLimit, key, this.#seconds(reply.retryAfter))
    return this.#judge(call, reply, key)
  }

  /** One exchange as it comes; rejects with the library's errors. */
  async #exchange(call: ProviderCall, key: string | null, limit: AbortSignal): Promise<Reply> {
    if (limit.aborted) throw new NothingSent(MESSAGES.timeout, DEFAULT_WAIT, undefined, 'timeout')
    // undici hears of a signal only once it is connected: a name with several addresses that swallow everything takes
    // far longer.
    const late = Promise.withResolvers<never>()
    const end = (): void => {
      late.reject(limit.reason)
    }
    limit.addEventListener('abort', end)
    try {
      return await Promise.race([this.#request(call, key, limit), late.promise])
    } finally {
      limit.removeEventListener('abort', end)
    }
  }

  async #request(call: ProviderCall, key: string | null, limit: AbortSignal): Promise<Reply> {
    const { clock } = this.#options
    const silence = call.lines === undefined ? null : new AbortController()
    const timer =
      silence === null
        ? null
        : clock.after(call.lines?.first ?? 0, () => {
            silence.abort()
          })
    try {
      return await this.#read(call, key, silence === null ? limit : AbortSignal.any([limit, silence.signal]), () => {
        timer?.cancel()
      })
    } catch (error) {
      if (silence?.signal.aborted === true && !limit.aborted)
        throw new StreamSilent(MESSAGES.timeout, DEFAULT_WAIT, new CallFailure('a silent stream'), 'other')
      throw error
    } finally {
      timer?.cancel()
    }
  }

  /** `began` is called with the first byte of a stream. */
  async #read(call: ProviderCall, key: string | null, limit: AbortSignal, began: () => void): Promise<Reply> {
    const sent = sentBody(call)
    const answer = await this.#pool.request({
      method: call.method,
      path: `${this.#prefix}${call.path}`,
      headers: {
        accept: 'application/json',
        'user-agent': 'boltgate',
        ...(sent === null ? {} : { 'content-type': sent.type }),
        ...(key === null ? {} : this.#options.authorize(key)),
        ...call.headers
      },
      body: sent?.text ?? null,
      signal: limit
    })
    const retryAfter = one(answer.headers['retry-after'])
    const location = one(answer.headers['location'])
    if (call.lines !== undefined && answer.statusCode < 300) {
      return {
        status: answer.statusCode,
        location,
        retryAfter,
        body: await readLines(answer.body, call.lines, this.#options.clock, began),
        isPage: false
      }
    }
    const text = call.firstLine === true ? await firstLine(answer.body) : await answer.body.text()
    const isText = this.#options.hasTexts === true && /^text\/plain\b/i.test(one(answer.headers['content-type']) ?? '')
    return {
      status: answer.statusCode,
      location,
      retryAfter,
      body: isText ? text : parsed(text),
      isPage: text.trimStart().startsWith('<')
    }
  }

  #judge(call: ProviderCall, reply: Reply, key: string | null): ProviderAnswer {
    const { status, body, location } = reply
    const said = saidInShort(body === undefined ? null : this.#options.messageOf(body), key)
    const meant =
      status < 400
        ? null
        : this.#options.meaningOf?.({ status, body: body ?? null, said, location }, call.scope ?? null)
    if (meant !== null && meant !== undefined) throw meant
    if (call.answers?.includes(status) === true) return { status, body: body ?? null, said, location }
    if (status >= 200 && status < 300) {
      // An empty body is fine (204); a page where JSON was due is not the provider speaking.
      if (body !== undefined || reply.status === 204) return { status, body: body ?? null, said: null, location }
      throw unusableAnswer(`status ${status} without JSON`)
    }
    if (status === 429) throw unavailable('rate', MESSAGES.rate, this.#seconds(reply.retryAfter), 'status 429')
    if (status === 401) throw new ProviderRefused('key', 'The provider does not accept this key.')
    // A page comes from something in front of the provider, such as Cloudflare's challenge: it says nothing of the key.
    if (status === 403 && reply.isPage)
      throw unavailable('server', MESSAGES.front, this.#seconds(reply.retryAfter), 'status 403 with a page')
    if (status === 403) throw forbidden(call.scope ?? null)
    const isRefusal =
      (status >= 400 && status < 500 && status !== 408 && status !== 425) ||
      (said !== null && this.#options.refusals?.includes(status) === true)
    if (isRefusal) {
      throw new ProviderRefused(
        'request',
        said === null
          ? `The payment provider refused the request (${status}).`
          : `The payment provider refused the request: ${said}`
      )
    }
    // A redirect is not followed here: it would carry the key elsewhere.
    throw unavailable('server', MESSAGES.server, this.#seconds(reply.retryAfter), `status ${status}`)
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

/** What a call sends, as text, and of which type; null where it sends nothing. */
function sentBody({ body, form }: ProviderCall): { readonly type: string; readonly text: string } | null {
  if (form !== undefined)
    return { type: 'application/x-www-form-urlencoded', text: new URLSearchParams(form).toString() }
  return body === undefined ? null : { type: 'application/json', text: JSON.stringify(body) }
}

/** An answer that came and does not hold what it must; counted as a fault of the host. */
export function unusableAnswer(what: string): ProviderUnavailable {
  return unavailable('server', 'The payment provider gave an answer that cannot be used.', DEFAULT_WAIT, what)
}

/** Leaving the loop ends the connection. */
async function firstLine(body: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of body) {
    const end = piece.indexOf(0x0a)
    pieces.push(end === -1 ? piece : piece.subarray(0, end))
    if (end !== -1) break
  }
  return Buffer.concat(pieces).toString('utf8')
}

/** Gives each line of a stream, parsed. @throws ProviderUnavailable for a line that is too long */
async function eachLine(body: AsyncIterable<Buffer>, line: (value: unknown) => void): Promise<void> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const piece of body) {
    const lines = `${rest}${decoder.decode(piece, { stream: true })}`.split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > MAX_LINE) throw unusableAnswer('a line without an end')
    for (const one of lines) if (one.trim() !== '') line(parsed(one))
  }
}

/** Ends the connection when it has read enough. */
async function readLines(
  body: AsyncIterable<Buffer> & { destroy(): unknown },
  { quiet, most }: NonNullable<ProviderCall['lines']>,
  clock: Clock,
  began: () => void
): Promise<ReadLines> {
  const pieces: Buffer[] = []
  let bytes = 0
  let isQuiet = false
  let timer: Timer | null = null
  try {
    for await (const piece of body) {
      began()
      timer?.cancel()
      pieces.push(piece)
      bytes += piece.length
      if (bytes >= most) break
      timer = clock.after(quiet, () => {
        isQuiet = true
        body.destroy()
      })
    }
  } catch (error) {
    // Our own end of it reads as a broken one.
    if (!isQuiet) throw error
  } finally {
    timer?.cancel()
  }
  // The last piece is a part of a line, or nothing.
  const lines = Buffer.concat(pieces).toString('utf8').split('\n').slice(0, -1)
  return { lines: lines.filter(line => line.trim() !== '').map(parsed), isCut: bytes >= most }
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
  if (UNCONNECTED.has(code)) return new NothingSent(MESSAGES.network, DEFAULT_WAIT, cause, 'network')
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE')
    return new AnswerTooLarge('The payment provider gave an answer that is too large.', DEFAULT_WAIT, cause, 'size')
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
