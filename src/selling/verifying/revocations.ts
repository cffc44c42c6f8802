import type postgres from 'postgres'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { Rerun } from '../../platform/system/rerun.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import { REVOCATIONS_CHANNEL, type Challenge, type Listed, type RevokedKind } from '../holding/challenge.ts'
import type { ChallengeStore } from '../holding/store.ts'

// Milliseconds; below the promised 5 seconds, including the read.
const REFRESH = 4_000

interface RevocationsOptions {
  readonly store: ChallengeStore
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
}

/**
 * The revocation list in memory, read on notifications, and every 4 seconds in case one is lost. So a revocation
 * reaches every process within 5. An entry of a proxy or merchant covers what was issued until then.
 */
export class Revocations {
  readonly #options: RevocationsOptions
  #payments: ReadonlySet<string> = new Set()
  #proxies: ReadonlyMap<string, number> = new Map()
  #merchants: ReadonlyMap<string, number> = new Map()
  #empty = true
  #timer: Timer | null = null
  #stop: (() => Promise<void>) | null = null
  // A read may miss a concurrent change.
  readonly #reading = new Rerun(() => this.#read())

  constructor(options: RevocationsOptions) {
    this.#options = options
  }

  has(paymentHash: string, proxyId: string | null, merchantId: string | null, issuedAt: number): boolean {
    if (this.#empty) return false
    return this.#payments.has(paymentHash) || issuedAt <= (this.until(proxyId, merchantId) ?? -Infinity)
  }

  covers({ paymentHash, proxyId, merchantId, createdAt }: Challenge): boolean {
    return this.has(paymentHash, proxyId, merchantId, createdAt)
  }

  hasPayment(paymentHash: string): boolean {
    return !this.#empty && this.#payments.has(paymentHash)
  }

  /** Issuance for this proxy or merchant up to this moment is refused; milliseconds since the epoch. */
  until(proxyId: string | null, merchantId: string | null): number | null {
    if (this.#empty) return null
    const ofProxy = proxyId === null ? undefined : this.#proxies.get(proxyId)
    const ofMerchant = merchantId === null ? undefined : this.#merchants.get(merchantId)
    return ofProxy === undefined && ofMerchant === undefined
      ? null
      : Math.max(ofProxy ?? -Infinity, ofMerchant ?? -Infinity)
  }

  /** Reads and follows the list. Resolves even if the database is down. */
  async start(): Promise<void> {
    this.#timer ??= this.#options.clock.every(REFRESH, () => {
      void this.refresh()
    })
    await this.refresh()
  }

  /** Rereads the list. Never rejects; during a database outage the list stays. */
  refresh(): Promise<void> {
    return this.#reading.run()
  }

  /**
   * Revokes a payment, or all issued until now for a proxy or merchant: here immediately, in every process within 5
   * seconds. Returns the moment in milliseconds since the epoch.
   * @throws Unavailable without the database
   */
  async revoke(kind: RevokedKind, id: string): Promise<number> {
    const now = this.#options.clock.now()
    try {
      await this.#options.store.revoke({ kind, id }, now)
    } catch (error) {
      throw new Unavailable(
        'Revocation unavailable',
        'The revocation could not be written; nothing is known to be revoked. Send the same request again.',
        5,
        {},
        error
      )
    }
    await this.refresh()
    this.#options.log.info({ kind, id }, 'Credentials were revoked')
    return now
  }

  async close(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    await this.#reading.ended()
    await this.#stop?.()
    this.#stop = null
  }

  async #read(): Promise<void> {
    try {
      // Before the first read, so that no change is missed.
      this.#stop ??= await this.#options.database.listen(REVOCATIONS_CHANNEL, () => {
        void this.refresh()
      })
      const all = await this.#options.store.revocations()
      this.#payments = new Set(all.filter(entry => entry.kind === 'payment').map(entry => entry.id))
      this.#proxies = moments(all, 'proxy')
      this.#merchants = moments(all, 'merchant')
      this.#empty = all.length === 0
    } catch (error) {
      this.#options.log.warn({ err: error }, 'The revocation list could not be read')
    }
  }
}

function moments(all: readonly Listed[], kind: RevokedKind): ReadonlyMap<string, number> {
  return new Map(all.filter(entry => entry.kind === kind).map(({ id, at }) => [id, at]))
}

type Fragment = postgres.PendingQuery<postgres.Row[]>

interface SoldColumns {
  readonly payment: Fragment
  readonly proxy: Fragment
  readonly merchant: Fragment
  /** When it was issued, or last known as valid. */
  readonly since: Fragment
}

/** SQL condition: the row's payment, or all issued for its proxy or merchant until `since`, is revoked. */
export function isRevoked(sql: Sql, { payment, proxy, merchant, since }: SoldColumns): Fragment {
  return sql`exists (
    select from revocations where (kind, id) = ('payment', ${payment})
      or (kind, id) = ('proxy', ${proxy}) and revoked_at >= ${since}
      or (kind, id) = ('merchant', ${merchant}) and revoked_at >= ${since})`
}
