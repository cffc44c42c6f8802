import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { dateOrNull, integer, optional, records, text, type Records } from '../../platform/database/rows.ts'

export interface Person {
  readonly id: number
  /** Lower case, unique. */
  readonly email: string
}

/** Person and account of a link; null for an operator without one. */
export interface LinkTarget {
  readonly personId: number
  readonly merchantId: number | null
}

/** Times in milliseconds since the epoch. */
export interface NewLink extends LinkTarget {
  /** SHA-256 of its token. */
  readonly digest: Uint8Array
  /** Deduplicates links of one request. */
  readonly requestId: string
  readonly createdAt: number
  readonly expiresAt: number
}

const personRows: Records<Person> = records({ id: integer(), email: text() })
const targetRows: Records<LinkTarget> = records({ personId: integer(), merchantId: optional(integer()) })

/**
 * People, and sign-in links by token digest. The database deletes links when their account is deactivated or their
 * membership ends.
 */
export class SqlSignInStore {
  readonly #database: Pick<Database, 'sql'>

  constructor(database: Pick<Database, 'sql'>) {
    this.#database = database
  }

  /** Gets or creates the person of a lower-case address. */
  async person(sql: TransactionSql, email: string, now: number): Promise<Person> {
    await sql`insert into people (email, created_at) values (${email}, ${new Date(now)}) on conflict (email) do nothing`
    const person = await personRows.one(sql`select id, email from people where email = ${email}`)
    // People are never deleted.
    return person!
  }

  /** The active account of an address: its own first, then memberships by joining time. Null for none. */
  async accountOf(email: string): Promise<LinkTarget | null> {
    const { sql } = this.#database
    return await targetRows.one(sql`
      select b.person_id, b.merchant_id from people p join members b on b.person_id = p.id
      join merchants m on m.id = b.merchant_id and m.is_active
      where p.email = ${email}
      order by m.email = p.email desc, b.joined_at is not null desc, m.id limit 1`)
  }

  /** False when the request already has its link. */
  async insertLink(sql: TransactionSql, link: NewLink): Promise<boolean> {
    const inserted = await sql`
      insert into sign_in_links (digest, request_id, person_id, merchant_id, created_at, expires_at)
      values (${link.digest}, ${link.requestId}, ${link.personId}, ${link.merchantId}, ${new Date(link.createdAt)}, ${dateOrNull(link.expiresAt)})
      on conflict (request_id) do nothing`
    return inserted.count === 1
  }

  async recentLinks(sql: TransactionSql, personId: number, since: number): Promise<number> {
    const [row] = await sql<{ count: number }[]>`
      select count(*)::int as count from sign_in_links where person_id = ${personId} and created_at > ${new Date(since)}`
    return row?.count ?? 0
  }

  /** Links of invitations to an account since `since`, those of removed members included. */
  async invitations(sql: TransactionSql, merchantId: number, since: number): Promise<number> {
    const [row] = await sql<{ count: number }[]>`
      select count(*)::int as count from sign_in_links
      where merchant_id = ${merchantId} and request_id like 'invitation-%' and created_at > ${new Date(since)}`
    return row?.count ?? 0
  }

  /** Null for an unknown, used or expired link. Does not consume it. */
  async link(digest: Uint8Array, now: number): Promise<LinkTarget | null> {
    const { sql } = this.#database
    return await targetRows.one(sql`
      select l.person_id, l.merchant_id from sign_in_links l left join merchants m on m.id = l.merchant_id
      where l.digest = ${digest} and l.used_at is null and l.expires_at > ${new Date(now)} and (m.id is null or m.is_active)`)
  }

  /** Consumes a link. Of concurrent calls one succeeds; null otherwise. */
  async useLink(sql: TransactionSql, digest: Uint8Array, now: number): Promise<LinkTarget | null> {
    // Lock the account's row first: no session may start during a deactivation.
    await sql`
      select m.id from merchants m join sign_in_links l on l.merchant_id = m.id where l.digest = ${digest} for share of m`
    const used = await targetRows.one(sql`
      update sign_in_links l set used_at = ${new Date(now)}
      where digest = ${digest} and used_at is null and expires_at > ${new Date(now)}
        and (merchant_id is null or exists (select 1 from merchants m where m.id = l.merchant_id and m.is_active))
      returning person_id, merchant_id`)
    if (used !== null && used.merchantId !== null) await this.#joined(sql, used, now)
    return used
  }

  /** Enters an account without a link and records the joining; false when the account or membership has ended. */
  async enter(sql: TransactionSql, { personId, merchantId }: LinkTarget, now: number): Promise<boolean> {
    if (merchantId === null) return true
    // Locked: no session may start during a deactivation.
    const [member] = await sql`
      select 1 from members b join merchants m on m.id = b.merchant_id and m.is_active
      where b.merchant_id = ${merchantId} and b.person_id = ${personId} for share of m, b`
    if (member !== undefined) await this.#joined(sql, { personId, merchantId }, now)
    return member !== undefined
  }

  async #joined(sql: TransactionSql, { personId, merchantId }: LinkTarget, now: number): Promise<void> {
    await sql`
      update members set joined_at = ${new Date(now)}
      where merchant_id = ${merchantId} and person_id = ${personId} and joined_at is null`
  }

  async purge(before: number): Promise<void> {
    const { sql } = this.#database
    await sql`delete from sign_in_links where expires_at < ${new Date(before)}`
    await sql`delete from passkey_ceremonies where expires_at < ${new Date(before)}`
  }
}
