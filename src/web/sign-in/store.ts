import type { Database, TransactionSql, Sql } from '../../platform/database/database.ts'
import {
  dateOrNull,
  integer,
  optional,
  records,
  text,
  type Records,
  flag,
  moment
} from '../../platform/database/rows.ts'
import type { Role } from '../../engine/operations/operation.ts'

export interface Person {
  readonly id: number
  /** Lower case, unique. */
  readonly email: string
}

export interface LinkTarget {
  readonly personId: number
  readonly merchantId: number | null
}

export interface NewLink extends LinkTarget {
  /** SHA-256 of its token. */
  readonly digest: Uint8Array
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

  async ofSame({ personId, keyId, adminMark }: StoredSession, now: number): Promise<StoredSession[]> {
    return await sessionRows.all(this.#sql`
      select * from sign_in_sessions
      where (person_id = ${personId} or key_id = ${keyId} or admin_mark = ${adminMark}) and expires_at > ${new Date(now)}
      order by created_at desc, id desc`)
  }

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
