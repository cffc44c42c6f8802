import type { Database, Sql, TransactionSql } from '../../platform/database/database.ts'
import { flag, integer, moment, optional, records, text, type Records } from '../../platform/database/rows.ts'
import type { Role } from '../../engine/operations/operation.ts'

/** Opener of a session: a person, perhaps for an account; a holder of an API key or the admin key. */
export type Opener =
  | {
      readonly kind: 'person'
      readonly personId: number
      readonly merchantId: number | null
      /** Passkey of the sign-in; null for a mailed link. */
      readonly passkeyId: string | null
    }
  | { readonly kind: 'key'; readonly merchantId: number; readonly keyId: string }
  /** `mark`: public fingerprint of the admin key. */
  | { readonly kind: 'admin'; readonly mark: string }

/** Times in milliseconds since the epoch. */
export interface StoredSession {
  /** Public id for lists and removal. */
  readonly id: string
  readonly personId: number | null
  readonly merchantId: number | null
  readonly keyId: string | null
  readonly adminMark: string | null
  /** Shows the account's test account. */
  readonly isTest: boolean
  /** The session ends with this passkey; null for none. */
  readonly passkeyId: string | null
  /** User agent, at most 200 characters. */
  readonly browser: string
  readonly createdAt: number
  readonly seenAt: number
  readonly expiresAt: number
}

/** A session with its person's current role. */
export interface FoundSession extends StoredSession {
  readonly email: string | null
  /** Null for a non-member. */
  readonly role: Role | null
}

export interface Membership {
  readonly merchantId: number
  readonly name: string
  readonly role: Role
}

const stored = {
  id: text(),
  personId: optional(integer()),
  merchantId: optional(integer()),
  keyId: optional(text()),
  adminMark: optional(text()),
  isTest: flag(),
  passkeyId: optional(text()),
  browser: text(),
  createdAt: moment(),
  seenAt: moment(),
  expiresAt: moment()
} as const
const sessionRows: Records<StoredSession> = records(stored)
const foundRows: Records<FoundSession> = records({ ...stored, email: optional(text()), role: optional(text<Role>()) })
const membershipRows: Records<Membership> = records({ merchantId: integer(), name: text(), role: text<Role>() })

/** Sessions by token digest. The database deletes those of ended memberships and accounts. */
export class SqlSessionStore {
  readonly #sql: Sql

  constructor({ sql }: Pick<Database, 'sql'>) {
    this.#sql = sql
  }

  async insert(
    sql: TransactionSql,
    digest: Uint8Array,
    opener: Opener,
    facts: Pick<StoredSession, 'id' | 'browser' | 'createdAt' | 'expiresAt'>
  ): Promise<void> {
    const [personId, merchantId, keyId, mark] =
      opener.kind === 'person'
        ? [opener.personId, opener.merchantId, null, null]
        : opener.kind === 'key'
          ? [null, opener.merchantId, opener.keyId, null]
          : [null, null, null, opener.mark]
    const passkeyId = opener.kind === 'person' ? opener.passkeyId : null
    const createdAt = new Date(facts.createdAt)
    await sql`
      insert into sign_in_sessions (id, digest, person_id, merchant_id, key_id, admin_mark, passkey_id, browser, created_at, seen_at, expires_at)
      values (${facts.id}, ${digest}, ${personId}, ${merchantId}, ${keyId}, ${mark}, ${passkeyId}, ${facts.browser}, ${createdAt}, ${createdAt}, ${new Date(facts.expiresAt)})`
  }

  /** Null for an unknown or expired one. */
  async find(digest: Uint8Array, now: number): Promise<FoundSession | null> {
    return await foundRows.one(this.#sql`
      select s.*, p.email, b.role from sign_in_sessions s
      left join people p on p.id = s.person_id
      left join members b on b.merchant_id = s.merchant_id and b.person_id = s.person_id
      where s.digest = ${digest} and s.expires_at > ${new Date(now)}`)
  }

  /** Records a use, unless one was recorded after `before`. */
  async seen(id: string, now: number, before: number): Promise<void> {
    await this.#sql`
      update sign_in_sessions set seen_at = ${new Date(now)} where id = ${id} and seen_at < ${new Date(before)}`
  }

  /** Valid sessions of the same person, API key or admin key, newest first. */
  async ofSame({ personId, keyId, adminMark }: StoredSession, now: number): Promise<StoredSession[]> {
    return await sessionRows.all(this.#sql`
      select * from sign_in_sessions
      where (person_id = ${personId} or key_id = ${keyId} or admin_mark = ${adminMark}) and expires_at > ${new Date(now)}
      order by created_at desc, id desc`)
  }

  /** Returns its digest; null for another's session. */
  async endOfSame({ personId, keyId, adminMark }: StoredSession, id: string): Promise<Uint8Array | null> {
    const [ended] = await this.#sql<Array<{ digest: Uint8Array }>>`
      delete from sign_in_sessions
      where id = ${id} and (person_id = ${personId} or key_id = ${keyId} or admin_mark = ${adminMark}) returning digest`
    return ended?.digest ?? null
  }

  async setTest(digest: Uint8Array, isTest: boolean): Promise<void> {
    await this.#sql`update sign_in_sessions set is_test = ${isTest} where digest = ${digest}`
  }

  async end(sql: Sql | TransactionSql, digest: Uint8Array): Promise<void> {
    await sql`delete from sign_in_sessions where digest = ${digest}`
  }

  async memberships(personId: number): Promise<Membership[]> {
    return await membershipRows.all(this.#sql`
      select m.id as merchant_id, m.name, b.role from members b join merchants m on m.id = b.merchant_id and m.is_active
      where b.person_id = ${personId} order by m.name, m.id`)
  }

  async purge(before: number): Promise<void> {
    await this.#sql`delete from sign_in_sessions where expires_at < ${new Date(before)}`
  }

  get sql(): Sql {
    return this.#sql
  }
}
