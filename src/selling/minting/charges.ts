import type { Database } from '../../platform/database/database.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'

interface ChallengeOfCharge {
  readonly chargeId: string
  readonly paymentHash: string
  /** Null for the operator's routes. */
  readonly merchantId: number | null
  readonly isSettled: boolean
}

export interface OpenChallenges {
  /** Null for the operator. */
  readonly merchantId: number | null
  /**
   * Oldest charge. One made ahead precedes its challenge by at most the challenge's
   * life.
   */
  readonly since: number
}

/** Milliseconds of polling after expiry, so that payments survive an outage. */
const LAST_NEWS = 24 * 3_600_000

export class ChallengeCharges {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async byCharge(slot: ProviderSlot, kind: KindName, chargeIds: readonly string[]): Promise<ChallengeOfCharge[]> {
    const rows = await this.#database.sql<
      Array<{ charge_id: string; payment_hash: string; merchant_id: string | null; is_settled: boolean }>
    >`
      select charge_id, payment_hash, merchant_id, settled_at is not null as is_settled from challenges
      where charge_id = any(${chargeIds.slice()}::text[]) and provider_slot = ${slot} and provider_kind = ${kind}`
    return rows.map(row => ({
      chargeId: row.charge_id,
      paymentHash: row.payment_hash,
      merchantId: ownerOf(row.merchant_id),
      isSettled: row.is_settled
    }))
  }

  /**
   * Accounts with challenges whose payment matters. Those of routes and proxies may be handed out again. Those of orders
   * and plans may never see a credential, so they count for a day after expiry. Producers' are handed out by key alone,
   * paid or not.
   */
  async open(slot: ProviderSlot, kind: KindName, now: number): Promise<OpenChallenges[]> {
    const rows = await this.#database.sql<Array<{ merchant_id: string | null; since: Date }>>`
      select merchant_id, min(since) as since
      from (
        -- Each by its own index (migrations 0015 and 0031): joined by "or" the whole table would be read.
        select merchant_id, created_at - (expires_at - created_at) as since from challenges
        where source in ('route', 'proxy', 'ping') and scheme is null
          and greatest(expires_at, token_expires_at) > ${new Date(now)} and expires_at > ${new Date(now)}
          and settled_at is null and provider_slot = ${slot} and provider_kind = ${kind}
        union all
        select merchant_id, created_at from challenges
        where source in ('storefront', 'subscription') and settled_at is null and expires_at > ${new Date(now - LAST_NEWS)}
          and scheme is null and provider_slot = ${slot} and provider_kind = ${kind}) as open
      group by merchant_id`
    return rows.map(row => ({ merchantId: ownerOf(row.merchant_id), since: row.since.getTime() }))
  }
}

function ownerOf(merchantId: string | null): number | null {
  return merchantId === null ? null : Number(merchantId)
}
