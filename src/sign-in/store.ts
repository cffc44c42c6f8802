import type { Database, TransactionSql } from '../database/database.ts'
import { bytes, integer, records, moment, type Records } from '../database/rows.ts'

/** A link that was mailed. Times in milliseconds since the epoch. */
export interface NewLink {
  /** SHA-256 of its token. */
  readonly digest: Uint8Array
  /** What it was made for; of several links for one request one stands. */
  readonly requestId: string
  readonly merchantId: number
  readonly createdAt: number
  readonly expiresAt: number
}

/** Somebody who is signed in. Times in milliseconds since the epoch. */
export interface Session {
  /** SHA-256 of its token. */
  readonly digest: Uint8Array
  readonly merchantId: number
  readonly createdAt: number
  readonly expiresAt: number
}

/**
 * Where links and sessions are kept, by the digests of their tokens. The database itself deletes both when their
 * account is deactivated.
 */
export interface SignInStore {
  /** False when the request has its link already. */
  insertLink(sql: TransactionSql, link: NewLink): Promise<boolean>
  /** How many links the account was given since then. */
  recentLinks(sql: TransactionSql, merchantId: number, since: number): Promise<number>
  /** Whose link it is; null for one that is unknown, used or over. Changes nothing. */
  link(digest: Uint8Array, now: number): Promise<number | null>
  /**
   * Uses a link up and answers whose it is. Of any number at once one succeeds; null for the others, and where `link`
   * says null.
   */
  useLink(sql: TransactionSql, digest: Uint8Array, now: number): Promise<number | null>
  insertSession(sql: TransactionSql, session: Session): Promise<void>
  /** A session that is not over; null for none. */
  session(digest: Uint8Array, now: number): Promise<Session | null>
  endSession(digest: Uint8Array): Promise<void>
  /** Deletes what has been over since before this time. */
  purge(before: number): Promise<void>
}

const sessionRows: Records<Session> = records({
  digest: bytes(),
  merchantId: integer(),
  createdAt: moment(),
  expiresAt: moment()
})

/** Links and sessions in the SQL database. */
export class SqlSignInStore implements SignInStore {
  readonly #database: Pick<Database, 'sql'>

  constructor(database: Pick<Database, 'sql'>) {
    this.#database = database
  }

  async insertLink(sql: TransactionSql, link: NewLink): Promise<boolean> {
    const inserted = await sql`
      insert into sign_in_links (digest, request_id, merchant_id, created_at, expires_at)
      values (${link.digest}, ${link.requestId}, ${link.merchantId}, ${new Date(link.createdAt)}, ${new Date(link.expiresAt)})
      on conflict (request_id) do nothing`
    return inserted.count === 1
  }

  async recentLinks(sql: TransactionSql, merchantId: number, since: number): Promise<number> {
    const [row] = await sql<{ count: number }[]>`
      select count(*)::int as count from sign_in_links where merchant_id = ${merchantId} and created_at > ${new Date(since)}`
    return row?.count ?? 0
  }

  async link(digest: Uint8Array, now: number): Promise<number | null> {
    const { sql } = this.#database
    const [row] = await sql<{ merchant_id: number }[]>`
      select l.merchant_id from sign_in_links l join merchants m on m.id = l.merchant_id and m.is_active
      where l.digest = ${digest} and l.used_at is null and l.expires_at > ${new Date(now)}`
    return row?.merchant_id ?? null
  }

  async useLink(sql: TransactionSql, digest: Uint8Array, now: number): Promise<number | null> {
    // The account's row is locked too, and first: a session must not come to be while the account is deactivated.
    const [owner] = await sql<{ id: number }[]>`
      select m.id from merchants m join sign_in_links l on l.merchant_id = m.id where l.digest = ${digest} and m.is_active for share of m`
    if (owner === undefined) return null
    const used = await sql`
      update sign_in_links set used_at = ${new Date(now)} where digest = ${digest} and used_at is null and expires_at > ${new Date(now)}`
    return used.count === 1 ? owner.id : null
  }

  async insertSession(sql: TransactionSql, session: Session): Promise<void> {
    await sql`insert into sign_in_sessions ${sql(sessionRows.write(sql, session))}`
  }

  async session(digest: Uint8Array, now: number): Promise<Session | null> {
    const { sql } = this.#database
    return await sessionRows.one(
      sql`select * from sign_in_sessions where digest = ${digest} and expires_at > ${new Date(now)}`
    )
  }

  async endSession(digest: Uint8Array): Promise<void> {
    const { sql } = this.#database
    await sql`delete from sign_in_sessions where digest = ${digest}`
  }

  async purge(before: number): Promise<void> {
    const { sql } = this.#database
    await sql`delete from sign_in_links where expires_at < ${new Date(before)}`
    await sql`delete from sign_in_sessions where expires_at < ${new Date(before)}`
  }
}
