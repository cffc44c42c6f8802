import { LRUCache } from 'lru-cache'
import { Type, type StaticDecode } from 'typebox'
import { jsonOrUndefined } from '../../../platform/system/json.ts'
import { orNull, part, Text } from '../../../engine/formats/response-schema.ts'
import { guardedConnector, plainConnector } from '../../../engine/upstream/connector.ts'
import { noBudget, type CallBudget, type CallPriority } from '../../provider-calls/budgets.ts'
import {
  NothingSent,
  ProviderRefused,
  ProviderUnavailable,
  unusableResponse,
  JsonRecord,
  requireResponse
} from '../../provider-calls/errors.ts'
import {
  inOurTerms,
  KeyUnusable,
  originOf,
  type KeyedOptions,
  type ServerWords
} from '../../provider-calls/keyed-calls.ts'
import { readKeyForCall } from '../../provider-calls/address-key.ts'
import { shortReason } from '../../provider-calls/provider-call.ts'
import type { Secret } from '../../../platform/keys/secrets.ts'
import { readAnnouncement } from './responses.ts'
import { KINDS, publicKeyOf, signEvent, type NostrEvent } from './event.ts'
import { readNwcKey, type NwcKey } from './key.ts'
import type { WebSocketAddress } from '../../provider-calls/web-socket.ts'
import { Conversation, UndecryptableError, type Encryption } from './conversation.ts'
import { WalletSilent } from './faults.ts'
import { Relay } from './relay.ts'

type NwcMethod = 'get_info' | 'make_invoice' | 'lookup_invoice' | 'list_transactions' | 'pay_invoice'

interface NwcError {
  /** As sent, in capitals. */
  readonly code: string
  readonly said: string
}

export interface NwcWallet {
  readonly key: NwcKey
  /**
   * Sends a request. Returns the result, or an error whose code `accepts` takes.
   * @throws ProviderRefused, ProviderUnavailable
   */
  ask(method: NwcMethod, parameters: JsonRecord, accepts?: (code: string) => boolean): Promise<NwcResponse>
  /** The newest announcement on its relays; null for none. */
  announced(): Promise<NostrEvent | null>
  /**
   * Passes the wallet's notifications to `heard` until the signal of `follow` aborts or no relay carries them.
   * @throws ProviderUnavailable
   */
  listen(heard: (message: unknown) => void): Promise<void>
}

type NwcResponse = { readonly result: JsonRecord } | { readonly error: NwcError }

const words: ServerWords = {
  server: 'relay of the nwc key',
  secured: 'take a relay with wss://'
}

/** Cached relay connections; above it idle ones are evicted. */
const MAX_RELAYS = 1000
/** Seconds for which relays and wallets accept a request: clocks differ. */
const REQUEST_LIFE = 60
/** Seconds. */
const RATE_WAIT = 5
/** Milliseconds of silence before the announcement is read, and its cache TTL. */
const PROBE_AFTER = 2_000
const CACHE_TTL = 3_600_000
const READS = new Set<NwcMethod>(['get_info', 'lookup_invoice', 'list_transactions'])

/**
 * Requests to wallets over the relays in keys (NIP-47, NIP-44). Keys with the same relay and trust share one
 * connection. Merchants' addresses are checked at each connection (decisions 71 and 92). Stores no secrets.
 */
export class NwcCalls {
  readonly #options: KeyedOptions
  readonly #budget: CallBudget
  readonly #ownOrigin: string | null
  /** Least recently used first. */
  readonly #relays = new Map<string, Relay>()
  /** Older encryption of wallets without NIP-44, null for none we support, with its expiry. */
  readonly #old = new LRUCache<string, { readonly encryption: Encryption | null; readonly until: number }>({
    max: MAX_RELAYS
  })

  constructor(options: KeyedOptions) {
    if (options.ownKey !== null) readNwcKey(options.ownKey.reveal().trim())
    this.#options = options
    this.#budget = options.budget ?? noBudget('nwc', options.clock)
    this.#ownOrigin = options.url === null ? null : originOf(options.url)
  }

  /**
   * Runs requests with a key under one time limit, on behalf of `standing`.
   * @throws ProviderRefused 'key' for a malformed key or a forbidden relay; what `run` throws
   */
  async within<T>(
    key: Secret<string> | null,
    run: (wallet: NwcWallet) => Promise<T>,
    priority: CallPriority = 'keyed'
  ): Promise<T> {
    const limit = new AbortController()
    const timer = this.#options.clock.after(this.#options.timeout, () => {
      limit.abort()
    })
    try {
      return await this.#run(key, limit.signal, priority, run)
    } finally {
      timer.cancel()
    }
  }

  /**
   * Runs without a time limit, until `signal` aborts. Its start counts against the budget.
   * @throws as `within`
   */
  async follow(key: Secret<string>, signal: AbortSignal, run: (wallet: NwcWallet) => Promise<void>): Promise<void> {
    await this.#run(key, signal, 'keyed', run)
  }

  async #run<T>(
    key: Secret<string> | null,
    limit: AbortSignal,
    priority: CallPriority,
    run: (wallet: NwcWallet) => Promise<T>
  ): Promise<T> {
    const read = readKeyForCall(key, 'nwc', readNwcKey)
    const isOwn = key !== null && key === this.#options.ownKey
    try {
      return await run(this.#wallet(read, isOwn, limit, priority))
    } catch (error) {
      throw error instanceof KeyUnusable ? error.refusal : error
    } finally {
      this.#trim()
    }
  }

  async close(): Promise<void> {
    const relays = [...this.#relays.values()]
    this.#relays.clear()
    for (const relay of relays) relay.close()
  }

  #wallet(key: NwcKey, isOwn: boolean, limit: AbortSignal, priority: CallPriority): NwcWallet {
    const secret = key.secret.reveal()
    const conversation = new Conversation(secret, key.wallet)
    const relays = key.relays.map(address => this.#relay(address, isOwn || address.origin === this.#ownOrigin))
    const once = async (method: NwcMethod, parameters: JsonRecord): Promise<Reply> => {
      const encryption = this.#encryptionOf(key)
      await this.#budget.spend(undefined, secret, priority)
      const content = conversation.encrypt(JSON.stringify({ method, params: parameters }), encryption)
      const event = this.#request(key, content, encryption)
      // A wallet without NIP-44 cannot read the request and stays silent.
      let isUnread = false
      // `AbortSignal.any` would fire last and let the relay be given up first.
      const until = new AbortController()
      const end = (): void => {
        until.abort()
      }
      limit.addEventListener('abort', end)
      if (limit.aborted) end()
      const probed = async (): Promise<void> => {
        // Unreadable means unknown.
        await announced().catch(() => null)
        // A payment waits regardless, since it must not be sent twice.
        isUnread = encryption === 'nip44_v2' && method !== 'pay_invoice' && this.#oldOf(key) !== null
        if (isUnread) end()
      }
      const probe = this.#options.clock.after(PROBE_AFTER, () => {
        void probed()
      })
      try {
        const response = await first(relays.map(relay => async () => await relay.ask(event, key.wallet, until.signal)))
        return readReply(response, method, conversation)
      } catch (error) {
        if (!isUnread || limit.aborted) throw error
        return await once(method, parameters)
      } finally {
        probe.cancel()
        limit.removeEventListener('abort', end)
      }
    }
    const ask: NwcWallet['ask'] = async (method, parameters, accepts) => {
      const response = await once(method, parameters).catch(async (error: unknown) => {
        const isHarmless = error instanceof NothingSent || READS.has(method)
        const isLost = error instanceof ProviderUnavailable && error.fault === 'network'
        if (!isHarmless || !isLost || limit.aborted) throw error
        return await once(method, parameters)
      })
      const error = errorOf(response, secret)
      if (error === null) {
        if (response.result === null) throw unusableResponse('neither a result nor an error')
        return { result: response.result }
      }
      if (accepts?.(error.code) === true) return { error }
      if (error.code === 'RATE_LIMITED') await this.#budget.refused(undefined, secret, RATE_WAIT)
      throw meaningOf(error, method)
    }
    const announced = async (): Promise<NostrEvent | null> => {
      const found = await all(relays.map(relay => async () => await relay.announcements(key.wallet, limit)))
      const newest = found.flat().toSorted((one, other) => other.created_at - one.created_at)[0] ?? null
      if (newest !== null) this.#learn(key, readAnnouncement(newest).encryption)
      return newest
    }
    const listen: NwcWallet['listen'] = async heard => {
      await this.#budget.spend(undefined, secret, priority)
      const client = publicKeyOf(secret)
      const opened = (event: NostrEvent): void => {
        heard(messageIn(event, conversation))
      }
      await first(relays.map(relay => async () => await relay.follow(key.wallet, client, limit, opened)))
    }
    return { key, ask, announced, listen }
  }

  /**
   * NIP-44, unless the wallet was seen to lack it.
   * @throws ProviderRefused 'key'
   */
  #encryptionOf(key: NwcKey): Encryption {
    const old = this.#oldOf(key)
    if (old === null) return 'nip44_v2'
    if (old.encryption === null) throw new ProviderRefused('key', NO_ENCRYPTION)
    return old.encryption
  }

  #oldOf({ origin }: NwcKey): { readonly encryption: Encryption | null } | null {
    const old = this.#old.get(origin)
    return old === undefined || old.until <= this.#options.clock.now() ? null : old
  }

  #learn({ origin }: NwcKey, encryption: Encryption | null): void {
    if (encryption === 'nip44_v2') this.#old.delete(origin)
    else this.#old.set(origin, { encryption, until: this.#options.clock.now() + CACHE_TTL })
  }

  #request({ wallet, secret }: NwcKey, content: string, encryption: Encryption): NostrEvent {
    const now = Math.floor(this.#options.clock.now() / 1000)
    return signEvent(secret.reveal(), {
      created_at: now,
      kind: KINDS.request,
      tags: [
        ['p', wallet],
        ['encryption', encryption],
        ['expiration', String(now + REQUEST_LIFE)]
      ],
      content
    })
  }

  /** Merchants' relays stay guarded. */
  #relay(address: WebSocketAddress, isTrusted: boolean): Relay {
    const { guard, timeout, clock } = this.#options
    const name = `${isTrusted ? 'own' : 'guarded'} ${address.url}`
    const known = this.#relays.get(name)
    this.#relays.delete(name)
    const connector = () =>
      isTrusted ? plainConnector({ tls: null, timeout }) : guardedConnector(guard, { tls: null, timeout })
    const relay =
      known ?? new Relay({ address, clock, connect: inOurTerms(connector(), words, false, 'in the nwc key') })
    this.#relays.set(name, relay)
    return relay
  }

  #trim(): void {
    for (const [name, relay] of this.#relays) {
      if (this.#relays.size <= MAX_RELAYS) return
      if (!relay.isIdle) continue
      this.#relays.delete(name)
      relay.close()
    }
  }
}

/** The first success. Otherwise the fault of a relay that the request may have reached, or the first fault. */
async function first<T>(works: ReadonlyArray<() => Promise<T>>): Promise<T> {
  try {
    return await Promise.any(works.map(work => work()))
  } catch (error) {
    throw telling(error)
  }
}

/**
 * All successes.
 * @throws like `first` when there is none
 */
async function all<T>(works: ReadonlyArray<() => Promise<T>>): Promise<readonly T[]> {
  const ends = await Promise.allSettled(works.map(work => work()))
  const given = ends.filter(end => end.status === 'fulfilled').map(({ value }) => value)
  if (given.length > 0) return given
  throw telling(new AggregateError(ends.flatMap(end => (end.status === 'rejected' ? [end.reason] : []))))
}

/** The least certain of several faults: the request counts as sent if any relay sent it. */
function telling(error: unknown): unknown {
  if (!(error instanceof AggregateError)) return error
  const faults: readonly unknown[] = error.errors
  return (
    faults.find(fault => fault instanceof WalletSilent) ??
    faults.find(fault => !isNothing(fault)) ??
    faults.find(fault => fault instanceof NothingSent) ??
    faults[0]
  )
}

function isNothing(fault: unknown): boolean {
  return fault instanceof NothingSent || fault instanceof ProviderRefused || fault instanceof KeyUnusable
}

const Reply = Type.Object({
  result_type: orNull(Text),
  result: orNull(JsonRecord),
  error: part({ code: orNull(Text), message: orNull(Text) })
})
type Reply = StaticDecode<typeof Reply>

/** Undefined where it is not JSON encrypted for us. */
function messageIn({ content }: NostrEvent, conversation: Conversation): unknown {
  try {
    return jsonOrUndefined(conversation.decrypt(content))
  } catch (error) {
    if (!(error instanceof UndecryptableError)) throw error
    return undefined
  }
}

/** @throws ProviderUnavailable for unusable replies, without their content */
function readReply(event: NostrEvent, method: NwcMethod, conversation: Conversation): Reply {
  const reply = requireResponse(Reply, messageIn(event, conversation))
  if (reply.result_type !== null && reply.result_type !== method) throw unusableResponse('the result of another method')
  return reply
}

function errorOf({ error }: Reply, secret: string): NwcError | null {
  if (error === null) return null
  const code = error.code?.toUpperCase() ?? 'OTHER'
  return { code, said: shortReason(error.message, secret) ?? code }
}

function meaningOf({ code, said }: NwcError, method: NwcMethod): ProviderRefused | ProviderUnavailable {
  switch (code) {
    case 'UNAUTHORIZED':
      return new ProviderRefused('key', 'The wallet does not know this connection: it may have been deleted in it.')
    case 'EXPIRED':
      return new ProviderRefused('key', 'The connection in the nwc key has expired; make a new one in the wallet.')
    case 'UNSUPPORTED_ENCRYPTION':
      return new ProviderRefused('key', NO_ENCRYPTION)
    case 'RESTRICTED':
      return new ProviderRefused('scope', `The connection lacks the permission ${method}.`, method)
    case 'NOT_IMPLEMENTED':
      return new ProviderRefused('scope', `The wallet has no ${method}.`, method)
    case 'RATE_LIMITED':
      return new ProviderUnavailable(
        'The wallet asks us to wait before the next request.',
        RATE_WAIT,
        undefined,
        'rate'
      )
    default:
      return new ProviderRefused('request', `The wallet refused the request: ${said}`)
  }
}

export const NO_ENCRYPTION =
  'The wallet takes neither NIP-44 nor NIP-04, by which requests are encrypted here: another version of it, or another wallet, does.'
