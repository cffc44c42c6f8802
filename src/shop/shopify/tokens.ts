import { LRUCache } from 'lru-cache'
import { createHash } from 'node:crypto'
import { Type } from 'typebox'
import { jsonOrUndefined } from '../../platform/system/json.ts'
import { nullable, SafeInteger } from '../../engine/formats/response-schema.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { StorePlatformError, type StoreAccess } from '../platform.ts'
import { statusFault, throttled, requireSendable, type ShopifyHttp } from './http.ts'
import { requireShopify } from './responses.ts'

const PATH = '/admin/oauth/access_token'
const MOST = 10_000
/** Milliseconds before its end at which a token is replaced; half its life where that is shorter. */
const MARGIN = 5 * 60_000
/** Seconds of a token's life without a hint; a 401 fetches another one anyway. */
const DEFAULT_TTL = 3600
const LONGEST = 86_400

const TokenBody = Type.Object({ access_token: Type.String(), expires_in: nullable(SafeInteger) })

interface Held {
  readonly token: Promise<Secret<string>>
  end: number | null
}

/**
 * Access tokens of stores: valid for a day, obtained with id and secret of the merchant's app (client-credentials
 * grant), or a permanent legacy one. Kept in memory by credentials, so that changed ones get their own.
 */
export class ShopifyTokens {
  readonly #http: ShopifyHttp
  readonly #clock: Clock
  readonly #held = new LRUCache<string, Held>({ max: MOST })

  constructor(http: ShopifyHttp, clock: Clock) {
    this.#http = http
    this.#clock = clock
  }

  /**
   * Concurrent calls share one fetch.
   * @throws StorePlatformError
   */
  async get(store: StoreAccess): Promise<Secret<string>> {
    const { clientId, clientSecret } = store
    if (clientId === null || clientSecret === null) return legacyToken(store)
    const key = credentialsKey(store)
    const held = this.#held.get(key)
    if (held !== undefined && (held.end === null || held.end > this.#clock.monotonic())) return await held.token
    const token = this.#fetch(store.domain, clientId, clientSecret).then(fetched => {
      next.end = this.#clock.monotonic() + fetched.lifetime - Math.min(MARGIN, fetched.lifetime / 2)
      return fetched.token
    })
    const next: Held = { token, end: null }
    this.#held.set(key, next)
    try {
      return await token
    } catch (error) {
      this.#forget(key, next)
      throw error
    }
  }

  /** The platform rejected this token. Returns whether another can be fetched: a legacy one cannot. */
  async drop(store: StoreAccess, token: Secret<string>): Promise<boolean> {
    if (store.clientId === null || store.clientSecret === null) return false
    const key = credentialsKey(store)
    const held = this.#held.get(key)
    // Another call may have replaced it already.
    if (held !== undefined && held.end !== null && (await held.token) === token) this.#forget(key, held)
    return true
  }

  #forget(key: string, held: Held): void {
    if (this.#held.get(key) === held) this.#held.delete(key)
  }

  async #fetch(
    domain: string,
    clientId: string,
    clientSecret: Secret<string>
  ): Promise<{ token: Secret<string>; lifetime: number }> {
    const form = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: clientId,
      client_secret: clientSecret.reveal()
    })
    const headers = {
      'content-type': 'application/x-www-form-urlencoded',
      accept: 'application/json',
      'user-agent': 'boltgate'
    }
    const { status, body } = await this.#http.post(domain, PATH, headers, form.toString())
    if (status === 400 || status === 401 || status === 403) {
      throw new StorePlatformError(
        'credentials',
        `The store platform did not accept the client id and secret (status ${status}). Is the app installed in this store?`,
        { upstreamStatus: status }
      )
    }
    if (status === 429) throw throttled(status)
    if (status !== 200) throw statusFault(status, 'give a token')
    const { access_token: token, expires_in } = requireShopify(TokenBody, jsonOrUndefined(body), 'token')
    requireSendable(token)
    const seconds = expires_in ?? DEFAULT_TTL
    return { token: new Secret(token), lifetime: Math.min(Math.max(seconds, 1), LONGEST) * 1000 }
  }
}

/** Distinguishes credentials without holding them. */
export function credentialsKey({ domain, clientId, clientSecret, adminApiToken }: StoreAccess): string {
  return createHash('sha256')
    .update(JSON.stringify([domain, clientId, clientSecret?.reveal() ?? null, adminApiToken?.reveal() ?? null]))
    .digest('base64')
}

function legacyToken({ adminApiToken }: StoreAccess): Secret<string> {
  if (adminApiToken === null)
    throw new StorePlatformError(
      'credentials',
      'The store has no credentials: neither client id and secret nor an admin API token.'
    )
  requireSendable(adminApiToken.reveal())
  return adminApiToken
}
