import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { storable } from '../schema.ts'
import { hash } from 'node:crypto'
import { randomToken, type Random } from '../../platform/system/ids.ts'
import { Secret, type SealedPlace, type Sealer } from '../../platform/keys/secrets.ts'

export interface HeldClaim {
  readonly owner: string
  readonly until: number
  /** When the platform was asked and may have made the order without a response; null when it certainly has not. */
  readonly askedAt: number | null
  /** Address and email, sealed. */
  readonly details: string
}

const NEVER = new Date(0)

/**
 * Who is making the platform's order: one row per order, held by one owner. A claim expires, so that that of a dead
 * process can be taken over.
 */
export class ClaimStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /**
   * Takes the claim of an order whose row the caller has locked, with new details, or the stored ones for null. Returns
   * null while another owner holds it, and without stored details. Exactly one of concurrent callers succeeds.
   */
  async take(
    sql: TransactionSql,
    orderId: string,
    owner: string,
    until: number,
    now: number,
    details: string | null
  ): Promise<HeldClaim | null> {
    const at = new Date(now)
    const rows =
      details === null
        ? await sql<Array<{ asked_at: Date | null; details: string }>>`
        update storefront_claims set owner = ${owner}, lease_until = ${new Date(until)} where order_id = ${orderId} and lease_until <= ${at} returning asked_at, details`
        : await sql<Array<{ asked_at: Date | null; details: string }>>`
        insert into storefront_claims (order_id, owner, lease_until, details) values (${orderId}, ${owner}, ${new Date(until)}, ${details})
        on conflict (order_id) do update set owner = excluded.owner, lease_until = excluded.lease_until, details = excluded.details
        where storefront_claims.lease_until <= ${at}
        returning asked_at, details`
    const [row] = rows
    return row === undefined ? null : { owner, until, askedAt: row.asked_at?.getTime() ?? null, details: row.details }
  }

  /** Records that the platform is about to be asked. False when the claim was lost. */
  async asking(orderId: string, owner: string, now: number): Promise<boolean> {
    const changed = await this.#database.sql`
      update storefront_claims set asked_at = ${new Date(now)}, look_at = null where order_id = ${orderId} and owner = ${owner} and lease_until > ${new Date(now)}`
    return changed.count === 1
  }

  /** Releases the claim and keeps its details; `fault` is the reason. No effect on another owner's claim. */
  async release(orderId: string, owner: string, askedAt: number | null, fault: string): Promise<void> {
    await this.#database.sql`
      update storefront_claims set lease_until = ${NEVER}, asked_at = ${askedAt === null ? null : new Date(askedAt)}, fault = ${storable(fault).slice(0, 1000)}
      where order_id = ${orderId} and owner = ${owner}`
  }

  /** When the platform was asked without a certain answer, while no claim is held; else null. */
  async doubt(orderId: string, now: number): Promise<number | null> {
    const [row] = await this.#database.sql<
      Array<{ asked_at: Date | null }>
    >`select asked_at from storefront_claims where order_id = ${orderId} and lease_until <= ${new Date(now)}`
    return row?.asked_at?.getTime() ?? null
  }

  /** Records that the request at `askedAt` had no effect. Ignored when it was asked since. */
  async cleared(orderId: string, askedAt: number, now: number): Promise<void> {
    await this.#database
      .sql`update storefront_claims set asked_at = null where order_id = ${orderId} and asked_at = ${new Date(askedAt)} and lease_until <= ${new Date(now)}`
  }

  async done(sql: TransactionSql, orderId: string): Promise<void> {
    await sql`update storefront_claims set lease_until = ${NEVER}, asked_at = null, fault = null where order_id = ${orderId}`
  }

  async details(orderId: string): Promise<string | null> {
    const [row] = await this.#database.sql<
      Array<{ details: string }>
    >`select details from storefront_claims where order_id = ${orderId}`
    return row?.details ?? null
  }

  /**
   * Takes unclaimed orders that the platform may have made without a response since `since` and that are due, and
   * postpones them by a quarter of the elapsed time, at least by `pause` milliseconds, in one statement.
   */
  async takeUnsure(since: number, now: number, pause: number, limit: number): Promise<string[]> {
    const at = new Date(now)
    const rows = await this.#database.sql<Array<{ order_id: string }>>`
      update storefront_claims set look_at = ${at}::timestamptz + greatest((${at}::timestamptz - asked_at) / 4, ${pause}::float8 * interval '1 millisecond')
      where order_id in (
        select order_id from storefront_claims join storefront_orders on id = order_id
        where asked_at >= ${new Date(since)} and lease_until <= ${at} and claimed_at is null and (look_at is null or look_at <= ${at})
        order by asked_at limit ${limit} for update of storefront_claims skip locked)
      returning order_id`
    return rows.map(row => row.order_id)
  }
}

interface NewClaimToken {
  readonly token: Secret<string>
  /** The lookup key. A slow hash would add nothing: the token has 256 random bits. */
  readonly digest: Buffer
  /** Sealed, to show it again. */
  readonly ciphertext: string
}

/** Makes a claim token (decision 134): 32 random bytes in base64url. */
export function newClaimToken(orderId: string, sealer: Sealer, random: Random): NewClaimToken {
  const token = randomToken(32, random)
  return {
    token: new Secret(token),
    digest: claimDigest(token),
    ciphertext: sealer.seal(token, claimTokenPlace(orderId))
  }
}

export function claimDigest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}

export function claimTokenPlace(orderId: string): SealedPlace {
  return { table: 'storefront_orders', column: 'claim_token', row: orderId }
}
