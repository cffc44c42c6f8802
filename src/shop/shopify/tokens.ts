import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../platform/system/clock.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import { StorePlatformError, type StoreAccess } from '../platform.ts'
import { statusFault, throttled } from './faults.ts'
import { jsonOf, requireSendable, type ShopifyHttp } from './http.ts'
import { ShopifyValue } from './reader.ts'

const PATH = '/admin/oauth/access_token'
/** Stores whose token is remembered. */
const MOST = 10_000
/**
 * Milliseconds that a token is no longer used before its end, so that none ends on the way; half its life where that is
 * shorter.
 */
const MARGIN = 5 * 60_000
/** Seconds that a token is taken to last where the answer does not say; a 401 fetches the next one all the same. */
const UNSAID = 3600
const LONGEST = 86_400

interface Held {
  readonly token: Promise<Secret<string>>
  /** In the clock's monotonic milliseconds; null while it is being fetched. */
  end: number | null
}

/**
 * What opens each store: a token for a day, got with id and secret of the merchant's own app (client-credentials
 * grant), or a legacy one that lasts. Kept in memory only, by the credentials themselves: changed ones get a token of
 * their own.
 */
export class ShopifyTokens {
  readonly #http: ShopifyHttp
  readonly #clock: Clock
  readonly #held = new LRUCache<string, Held>({ max: MOST })

  constructor(http: ShopifyHttp, clock: Clock) {
    this.#http = http
    this.#clock = clock
  }

  /** One fetch at a time for a store, however many ask. @throws StorePlatformError */
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

  /** The platform did not take this token. Answers whether another one can be fetched: a legacy one is all there is. */
  async drop(store: StoreAccess, token: Secret<string>): Promise<boolean> {
    if (store.clientId === null || store.clientSecret === null) return false
    const key = credentialsKey(store)
    const held = this.#held.get(key)
    // Another call may have fetched the next one already.
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
    const answer = new ShopifyValue(jsonOf(body), 'token')
    const token = answer.member('access_token').text()
    requireSendable(token)
    const seconds = answer.optional('expires_in')?.integer() ?? UNSAID
    return { token: new Secret(token), lifetime: Math.min(Math.max(seconds, 1), LONGEST) * 1000 }
  }
}

/** What distinguishes one store's credentials from all others', without holding them. */
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
