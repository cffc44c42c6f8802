import { LRUCache } from 'lru-cache'
import { Type, type StaticDecode } from 'typebox'
import { orNull, part, Text } from '../../../engine/formats/response-schema.ts'
import { guardedConnector, plainConnector } from '../../../engine/upstream/connector.ts'
import { noBudget, type CallBudget, type CallStanding } from '../../provider-calls/budgets.ts'
import { NothingSent, ProviderRefused, ProviderUnavailable, unusableResponse } from '../../provider-calls/errors.ts'
import { JsonRecord, parseJson, requireResponse } from '../../provider-calls/responses.ts'
import {
  inOurTerms,
  KeyUnusable,
  originOf,
  type KeyedOptions,
  type ServerWords
} from '../../provider-calls/keyed-calls.ts'
import { readKeyForCall } from '../../provider-calls/address-key.ts'
import { saidInShort } from '../../provider-calls/provider-call.ts'
import type { Secret } from '../../../platform/keys/secrets.ts'
import { readAnnouncement } from './responses.ts'
import { KINDS, publicKeyOf, signEvent, type NostrEvent } from './event.ts'
import { readNwcKey, type NwcKey } from './key.ts'
import type { WebSocketAddress } from '../../provider-calls/web-socket.ts'
import { Conversation, UndecryptableError, type Encryption } from './conversation.ts'
import { WalletSilent } from './faults.ts'
import { Relay } from './relay.ts'

/** What of NIP-47 is called. */
export type NwcMethod = 'get_info' | 'make_invoice' | 'lookup_invoice' | 'list_transactions' | 'pay_invoice'

/** An error of a wallet that the caller reads itself. */
export interface NwcError {
  /** As NIP-47 or the wallet has it, in capitals. */
  readonly code: string
  /** For people: one short line. */
  readonly said: string
}

/** A wallet within one time limit. */
export interface NwcWallet {
  readonly key: NwcKey
  /** Our public key in this connection. */
  readonly client: string
  /** What the two of us encrypt with. */
  readonly conversation: Conversation
  /** The relays of the key that are used. */
  readonly relays: readonly Relay[]
  /**
   * Asks for something; gives the result, or an error of a code that `accepts` takes.
   * @throws ProviderRefused, ProviderUnavailable
   */
  ask(method: NwcMethod, parameters: JsonRecord, accepts?: (code: string) => boolean): Promise<NwcResponse>
  /** The wallet's announcement, the newest that one of its relays has; null where none has one. */
  announced(): Promise<NostrEvent | null>
}

/** What a wallet answered: its result, or an error that was asked for. */
export type NwcResponse = { readonly result: JsonRecord } | { readonly error: NwcError }

const words: ServerWords = {
  server: 'relay of the nwc key',
  untrusted: {
    pinned: 'The relay in the nwc key shows a TLS certificate that is not trusted here.',
    public: 'No authority that is trusted here signed the TLS certificate of the relay in the nwc key.'
  },
  secured: 'take a relay with wss://'
}

/** Relays whose connections are kept; only idle ones above it are let go. */
const MAX_RELAYS = 1000
/** Seconds for which relays and wallets take a request for a present one: clocks differ. */
const REQUEST_LIFE = 60
/** Seconds to wait where a wallet asks for it. */
const RATE_WAIT = 5
/** Milliseconds without an answer after which the wallet's announcement is read, and for which that is believed. */
const PROBE_AFTER = 2_000
const BELIEVED = 3_600_000
/** Reads may be asked for a second time. */
const READS = new Set<NwcMethod>(['get_info', 'lookup_invoice', 'list_transactions'])

/**
 * Requests to wallets over the relays that keys name (NIP-47, NIP-44). A relay has one connection for all keys that name
 * it, and whoever trusts it alike; an address that a merchant gave is checked at each connection (decisions 71 and 92).
 * It keeps no secret.
 */
export class NwcCalls {
  readonly #options: KeyedOptions
  readonly #budget: CallBudget
  readonly #ownOrigin: string | null
  /** The one used longest ago first. */
  readonly #relays = new Map<string, Relay>()
  /** What wallets without NIP-44 offer instead, null for nothing that is spoken here, and until when that is believed. */
  readonly #old = new LRUCache<string, { readonly encryption: Encryption | null; readonly until: number }>({
    max: MAX_RELAYS
  })

  /** @throws AddressKeyError for an operator's key that is none */
  constructor(options: KeyedOptions) {
    if (options.ownKey !== null) readNwcKey(options.ownKey.reveal().trim())
    this.#options = options
    this.#budget = options.budget ?? noBudget('nwc', options.clock)
    this.#ownOrigin = options.url === null ? null : originOf(options.url)
  }

  /**
   * Runs requests with a key under one time limit; `standing` says for whom.
   * @throws ProviderRefused 'key' for a key of another form and a relay that must not be called; what `run` throws
   */
  async within<T>(
    key: Secret<string> | null,
    run: (wallet: NwcWallet) => Promise<T>,
    standing: CallStanding = 'keyed'
  ): Promise<T> {
    const read = readKeyForCall(key, 'nwc', readNwcKey)
    const isOwn = key !== null && key === this.#options.ownKey
    const limit = new AbortController()
    const timer = this.#options.clock.after(this.#options.timeout, () => {
      limit.abort()
    })
    try {
      return await run(this.#wallet(read, isOwn, limit.signal, standing))
    } catch (error) {
      throw error instanceof KeyUnusable ? error.refusal : error
    } finally {
      timer.cancel()
      this.#trim()
    }
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    const relays = [...this.#relays.values()]
    this.#relays.clear()
    for (const relay of relays) relay.close()
  }

  #wallet(key: NwcKey, isOwn: boolean, limit: AbortSignal, standing: CallStanding): NwcWallet {
    const secret = key.secret.reveal()
    const conversation = new Conversation(secret, key.wallet)
    const relays = key.relays.map(address => this.#relay(address, isOwn || address.origin === this.#ownOrigin))
    const once = async (method: NwcMethod, parameters: JsonRecord): Promise<Reply> => {
      const encryption = this.#encryptionOf(key)
      await this.#budget.spend(undefined, secret, standing)
      const content = conversation.encrypt(JSON.stringify({ method, params: parameters }), encryption)
      const event = this.#request(key, content, encryption)
      // A wallet without NIP-44 cannot read the request and does not answer.
      let isUnread = false
      // Not `AbortSignal.any`, which ends after all that waits for the limit: the relay would be given up first.
      const until = new AbortController()
      const end = (): void => {
        until.abort()
      }
      limit.addEventListener('abort', end)
      if (limit.aborted) end()
      const probed = async (): Promise<void> => {
        // Nothing is known where it cannot be read.
        await announced().catch(() => null)
        // A payment waits whatever the wallet announces: it must not be asked for twice.
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
        const isLost =
          error instanceof ProviderUnavailable && error.fault === 'network' && !(error instanceof NothingSent)
        if (!isLost || !READS.has(method) || limit.aborted) throw error
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
    return { key, client: publicKeyOf(secret), conversation, relays, ask, announced }
  }

  /** How to encrypt for a wallet: by NIP-44, unless it was seen to offer less. @throws ProviderRefused 'key' */
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
    else this.#old.set(origin, { encryption, until: this.#options.clock.now() + BELIEVED })
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

  /** What a merchant's key names is guarded, even where the operator's names the same. */
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

/** The first that succeeds; else what the relay says that the request may have reached, or the first's fault. */
async function first<T>(works: ReadonlyArray<() => Promise<T>>): Promise<T> {
  try {
    return await Promise.any(works.map(work => work()))
  } catch (error) {
    throw telling(error)
  }
}

/** What those gave that succeeded. @throws what `first` does, where none did */
async function all<T>(works: ReadonlyArray<() => Promise<T>>): Promise<readonly T[]> {
  const ends = await Promise.allSettled(works.map(work => work()))
  const given = ends.filter(end => end.status === 'fulfilled').map(({ value }) => value)
  if (given.length > 0) return given
  throw telling(new AggregateError(ends.flatMap(end => (end.status === 'rejected' ? [end.reason] : []))))
}

/** Of several faults the one that says least of what certainly did not happen: a request counts as sent if one sent it. */
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

/** @throws ProviderUnavailable for what cannot be used, without a word of what stood there */
function readReply(event: NostrEvent, method: NwcMethod, conversation: Conversation): Reply {
  let text: string
  try {
    text = conversation.decrypt(event.content)
  } catch (error) {
    if (!(error instanceof UndecryptableError)) throw error
    throw unusableResponse('a message that is not encrypted for us')
  }
  const reply = requireResponse(Reply, parseJson(text))
  if (reply.result_type !== null && reply.result_type !== method) throw unusableResponse('the result of another method')
  return reply
}

function errorOf({ error }: Reply, secret: string): NwcError | null {
  if (error === null) return null
  const code = error.code?.toUpperCase() ?? 'OTHER'
  return { code, said: saidInShort(error.message, secret) ?? code }
}

/** What a wallet's error means for any method. */
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

/** For wallets with which no encryption is shared. */
export const NO_ENCRYPTION =
  'The wallet takes neither NIP-44 nor NIP-04, by which requests are encrypted here: another version of it, or another wallet, does.'
