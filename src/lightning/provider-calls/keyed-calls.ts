import { createHash } from 'node:crypto'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { guardedConnector, plainConnector, type Connector } from '../../engine/upstream/connector.ts'
import { AddressRefused, NameUnresolved, type AddressGuard } from '../../engine/upstream/guard.ts'
import { readKeyForCall } from './address-key.ts'
import { noBudget, type CallBudget, type CallPriority } from './budgets.ts'
import { NothingSent, ProviderRefused, ProviderUnavailable } from './errors.ts'
import { ProviderHttp, type CallProvider, type ProviderHttpOptions } from './provider-call.ts'
import { WebSocketConnection } from './web-socket.ts'

export interface KeyedServer {
  /** `scheme://host:port`, always with the port. */
  readonly origin: string
  /** With a path prefix, if any. */
  readonly base?: string
  /** Pinned certificate or authority as PEM; without one, public authorities are trusted. */
  readonly certificate?: string | null
  /** Certificate name where it differs from the host. */
  readonly servername?: string | null
}

export interface KeyedOptions {
  readonly guard: AddressGuard
  readonly timeout: number
  readonly clock: Clock
  readonly budget?: CallBudget
  readonly ownKey: Secret<string> | null
  /** The slot's url: a private address that merchants' keys may name too. */
  readonly url: string | null
}

export interface ServerWords {
  readonly server: string
  /** For untrusted certificates of kinds whose keys pin one, with and without a pin. */
  readonly untrusted?: { readonly pinned: string; readonly public: string }
  /** Advice for a merchant's address without TLS; absent where the scheme takes `+https`. */
  readonly secured?: string
}

/** Calls with a key. `elsewhere` calls another host, `scheme://host:port`, that the server named. */
export type KeyedCall<Server> = readonly [
  call: CallProvider,
  server: Server,
  elsewhere: (origin: string) => CallProvider
]

export interface KeyedStream<Server> {
  readonly server: Server
  /** Calls the server may hold open. */
  readonly call: CallProvider
  lines(call: Parameters<ProviderHttp['lines']>[0], line: (value: unknown) => void): Promise<void>
  messages(path: string, message: (text: string) => void): Promise<void>
}

export interface KeyedKind<Server extends KeyedServer>
  extends
    ServerWords,
    Pick<ProviderHttpOptions, 'authorize' | 'messageOf' | 'hasTexts' | 'refusals' | 'meaningOf' | 'largest'> {
  readonly kind: string
  /**
   * Parses a key offline.
   * @throws AddressKeyError
   */
  readonly read: (text: string) => Server
  secretOf(server: Server): Secret<string>
  /** Extends errors with common key mistakes. */
  explained?(error: unknown, server: Server): unknown
}

/**
 * A connection refused for a reason in the key. Unavailabilities pass the HTTP client unchanged; `refusal` is the
 * meaning.
 */
export class KeyUnusable extends ProviderUnavailable {
  readonly refusal: ProviderRefused

  constructor(message: string) {
    super()
    this.refusal = new ProviderRefused('key', message)
  }
}

interface Called {
  readonly http: ProviderHttp
  calls: number
}

/** Cached server connections; above it idle ones are evicted. */
const MAX_SERVERS = 1000

/** OpenSSL codes for non-TLS responses. */
const NO_TLS = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'])

const CERTIFICATE_FAULTS = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'INVALID_CA',
  'CERT_REJECTED',
  'ERR_TLS_CERT_ALTNAME_INVALID'
])

/**
 * Calls to servers that keys name. TLS trusts only the key's certificate where it has one. Merchants' addresses must be
 * public, resolved and checked at each connection (decisions 71 and 92). Follows no redirects and stores no secrets.
 */
export class KeyedCalls<Server extends KeyedServer> {
  readonly #kind: KeyedKind<Server>
  readonly #options: KeyedOptions
  readonly #budget: CallBudget
  readonly #ownOrigin: string | null
  /** By trust; least recently used first. */
  readonly #servers = new Map<string, Called>()

  /** @throws AddressKeyError for an invalid operator's key */
  constructor(kind: KeyedKind<Server>, options: KeyedOptions) {
    if (options.ownKey !== null) kind.read(options.ownKey.reveal().trim())
    this.#kind = kind
    this.#options = options
    this.#budget = options.budget ?? noBudget(kind.kind, options.clock)
    this.#ownOrigin = options.url === null ? null : originOf(options.url)
  }

  /**
   * Runs calls under one time limit, on behalf of `standing`. A host `elsewhere` needs a public authority and a public
   * address.
   * @throws ProviderRefused 'key' for a malformed key, a forbidden address or another certificate; what `run` throws
   */
  async within<T>(
    key: Secret<string> | null,
    run: (...at: KeyedCall<Server>) => Promise<T>,
    priority?: CallPriority
  ): Promise<T> {
    const server = readKeyForCall(key, this.#kind.kind, this.#kind.read)
    const isTrusted = this.#isTrusted(key, server)
    const secret = this.#kind.secretOf(server)
    const used: Called[] = []
    const httpOf = (wanted: KeyedServer, trusted: boolean, place: string): ProviderHttp => {
      const called = this.#called(wanted, trusted, place)
      called.calls++
      used.push(called)
      return called.http
    }
    const elsewhere =
      (limit: AbortSignal) =>
      (origin: string): CallProvider => {
        const trusted = (isTrusted && origin === server.origin) || origin === this.#ownOrigin
        return httpOf({ origin }, trusted, `to which the ${this.#kind.kind} key leads`).under(limit, secret, priority)
      }
    try {
      return await httpOf(server, isTrusted, inKey(this.#kind)).within(
        secret,
        (call, limit) => run(call, server, elsewhere(limit)),
        priority
      )
    } catch (error) {
      throw error instanceof KeyUnusable ? error.refusal : (this.#kind.explained?.(error, server) ?? error)
    } finally {
      for (const called of used) called.calls--
      this.#trim()
    }
  }

  /**
   * Runs streams of a key's server, without a time limit: until `run` resolves or `signal` aborts. Its start counts
   * against the budget.
   * @throws as `within`
   */
  async follow(
    key: Secret<string>,
    signal: AbortSignal,
    run: (stream: KeyedStream<Server>) => Promise<void>
  ): Promise<void> {
    const server = readKeyForCall(key, this.#kind.kind, this.#kind.read)
    const secret = this.#kind.secretOf(server)
    const isTrusted = this.#isTrusted(key, server)
    const called = this.#called(server, isTrusted, inKey(this.#kind))
    called.calls++
    try {
      await this.#budget.spend(undefined, secret.reveal(), 'keyed')
      await run({
        server,
        call: called.http.under(signal, secret),
        lines: (call, line) => called.http.lines(call, secret, signal, line),
        messages: (path, message) => this.#messages(server, isTrusted, path, signal, message)
      })
    } catch (error) {
      if (!signal.aborted) throw error instanceof KeyUnusable ? error.refusal : error
    } finally {
      called.calls--
      this.#trim()
    }
  }

  async close(): Promise<void> {
    const servers = [...this.#servers.values()]
    this.#servers.clear()
    await Promise.all(servers.map(({ http }) => http.close()))
  }

  #isTrusted(key: Secret<string> | null, { origin }: Server): boolean {
    return (key !== null && key === this.#options.ownKey) || origin === this.#ownOrigin
  }

  async #messages(
    server: Server,
    isTrusted: boolean,
    path: string,
    signal: AbortSignal,
    message: (text: string) => void
  ): Promise<void> {
    if (signal.aborted) return
    const { origin, base = origin } = server
    const over = Promise.withResolvers<void>()
    const connection = new WebSocketConnection(
      {
        address: { origin, url: `${base}${path}`.replace(/^http/, 'ws') },
        headers: this.#kind.authorize(this.#kind.secretOf(server).reveal()),
        connect: this.#connector(server, isTrusted, inKey(this.#kind)),
        unreached: cause => unreached(this.#kind, cause),
        clock: this.#options.clock
      },
      {
        opened() {},
        said: message,
        looked() {},
        ended(fault, wasOpen) {
          if (wasOpen) over.resolve()
          else over.reject(fault)
        }
      }
    )
    const end = (): void => {
      over.resolve()
    }
    signal.addEventListener('abort', end)
    try {
      await over.promise
    } finally {
      signal.removeEventListener('abort', end)
      connection.end()
    }
  }

  /** Connections to a server, marked as most recent. `place` says where its host is named. */
  #called(server: KeyedServer, isTrusted: boolean, place: string): Called {
    const name = createHash('sha256')
      .update(JSON.stringify([server.base ?? server.origin, server.certificate, server.servername, isTrusted]))
      .digest('base64')
    const called = this.#servers.get(name) ?? { http: this.#open(server, isTrusted, place), calls: 0 }
    this.#servers.delete(name)
    this.#servers.set(name, called)
    return called
  }

  #open(server: KeyedServer, trusted: boolean, place: string): ProviderHttp {
    const { timeout, clock } = this.#options
    return new ProviderHttp({
      ...this.#kind,
      url: server.base ?? server.origin,
      timeout,
      clock,
      budget: this.#budget,
      connect: this.#connector(server, trusted, place)
    })
  }

  #connector({ certificate = null, servername = null }: KeyedServer, trusted: boolean, place: string): Connector {
    const { guard, timeout } = this.#options
    const tls = certificate === null ? null : { ca: certificate, ...(servername === null ? {} : { servername }) }
    const connector = trusted ? plainConnector({ tls, timeout }) : guardedConnector(guard, { tls, timeout })
    return inOurTerms(connector, this.#kind, certificate !== null, place)
  }

  #trim(): void {
    for (const [name, called] of this.#servers) {
      if (this.#servers.size <= MAX_SERVERS) return
      if (called.calls > 0) continue
      this.#servers.delete(name)
      void called.http.close()
    }
  }
}

/**
 * A connector with the kinds' errors: failures before a connection mean nothing was sent. `isPinned`: only the key's
 * certificate is trusted. `place` says where the host is named.
 */
export function inOurTerms(connector: Connector, words: ServerWords, isPinned: boolean, place: string): Connector {
  return (wanted, callback) => {
    connector(wanted, (...result) => {
      const [error, socket] = result
      if (error === null) callback(null, socket)
      else callback(connectionFault(error, words, isPinned, place), null)
    })
  }
}

function connectionFault(
  error: Error,
  words: ServerWords,
  isPinned: boolean,
  place: string
): KeyUnusable | NothingSent {
  const { server, secured } = words
  const signedBy = `No authority that is trusted here signed the TLS certificate of the ${server}.`
  const { pinned, public: unknown } = words.untrusted ?? { pinned: signedBy, public: signedBy }
  if (error instanceof AddressRefused && error.reason === 'scheme')
    return new KeyUnusable(
      `The host ${place} is named without TLS, by which only a host in gateway.yaml may be called; ${secured ?? 'put TLS in front of it, and +https:// into the key'}.`
    )
  if (error instanceof AddressRefused) return new KeyUnusable(`The host ${place} cannot be called: ${error.message}`)
  if (error instanceof NameUnresolved)
    return new NothingSent(`The host name ${place} has no address.`, 5, undefined, 'network')
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (CERTIFICATE_FAULTS.has(code)) return new KeyUnusable(isPinned ? pinned : unknown)
  if (NO_TLS.has(code))
    return new KeyUnusable(
      `What answers at the host and port ${place} speaks no TLS: the port may be that of something else.`
    )
  if (code === 'CERT_HAS_EXPIRED')
    return new KeyUnusable('The TLS certificate of the node has expired; make a new one and save the key again.')
  // Code only: the message holds the address.
  return unreached(words, code === '' ? 'the connection failed' : code)
}

function unreached({ server }: ServerWords, cause: string): NothingSent {
  return new NothingSent(`The ${server} cannot be reached at the moment.`, 5, new Error(cause), 'network')
}

function inKey({ kind }: Pick<KeyedKind<never>, 'kind'>): string {
  return `in the ${kind} key`
}

/**
 * `scheme://host:port` as in keys.
 * @throws TypeError for an invalid address
 */
export function originOf(text: string): string {
  const url = new URL(text)
  return `${url.protocol}//${url.hostname}:${url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port}`
}
