import type { Database, Sql, TransactionSql } from '../../../platform/database/database.ts'
import {
  amount,
  bytes,
  flag,
  integer,
  moment,
  optional,
  records,
  text,
  texts,
  type Records
} from '../../../platform/database/rows.ts'

/** A passkey as it is stored. Times in milliseconds since the epoch. */
export interface StoredPasskey {
  /** What it is listed and removed by; it opens nothing. */
  readonly id: string
  readonly personId: number
  /** What its authenticator calls it, in base64url. */
  readonly credentialId: string
  /** COSE key. */
  readonly publicKey: Uint8Array
  /** How often it was used, as its authenticator counts; 0 for those that do not. */
  readonly counter: number
  /** How it can be reached, as hints for the browser. */
  readonly transports: readonly string[]
  /** It is kept on several devices, by a password manager. */
  readonly isSynced: boolean
  readonly name: string
  readonly createdAt: number
  /** When somebody last signed in with it; null for never. */
  readonly usedAt: number | null
}

/** A passkey with whose it is. */
export interface OwnedPasskey extends StoredPasskey {
  readonly email: string
  /** What authenticators know the person by, as a UUID. */
  readonly handle: string
}

const stored = {
  id: text(),
  personId: integer(),
  credentialId: text(),
  publicKey: bytes(),
  counter: amount(),
  transports: texts(),
  isSynced: flag(),
  name: text(),
  createdAt: moment(),
  usedAt: optional(moment())
} as const
const passkeyRows: Records<StoredPasskey> = records(stored)
const ownedRows: Records<OwnedPasskey> = records({ ...stored, email: text(), handle: text() })

/** Passkeys, and the ceremonies that were begun by the digests of what their browser keeps. */
export class SqlPasskeyStore {
  readonly #sql: Sql

  constructor({ sql }: Pick<Database, 'sql'>) {
    this.#sql = sql
  }

  /** Notes that a ceremony has begun: for signing in, or for the person who adds a passkey. */
  async begin(digest: Uint8Array, personId: number | null, expiresAt: number): Promise<void> {
    await this.#sql`
      insert into passkey_ceremonies (digest, person_id, expires_at) values (${digest}, ${personId}, ${new Date(expiresAt)})`
  }

  /** Uses a ceremony up; of any number at once one succeeds, and none where it was begun for another purpose. */
  async take(digest: Uint8Array, personId: number | null, now: number): Promise<boolean> {
    const taken = await this.#sql`
      delete from passkey_ceremonies
      where digest = ${digest} and person_id is not distinct from ${personId}::integer and expires_at > ${new Date(now)}`
    return taken.count === 1
  }

  /** What authenticators know a person by, as a UUID; one that was made for each. */
  async handleOf(personId: number): Promise<string> {
    const [row] = await this.#sql<{ handle: string }[]>`select handle::text from people where id = ${personId}`
    if (row === undefined) throw new TypeError('there is no such person')
    return row.handle
  }

  /** Oldest first. */
  async list(personId: number): Promise<StoredPasskey[]> {
    return await passkeyRows.all(
      this.#sql`select * from passkeys where person_id = ${personId} order by created_at, id`
    )
  }

  async find(credentialId: string): Promise<OwnedPasskey | null> {
    return await ownedRows.one(this.#sql`
      select k.*, p.email, p.handle::text from passkeys k join people p on p.id = k.person_id
      where k.credential_id = ${credentialId}`)
  }

  /** How many a person has, under a lock that keeps others of the same person from being added meanwhile. */
  async count(sql: TransactionSql, personId: number): Promise<number> {
    await sql`select 1 from people where id = ${personId} for no key update`
    const [row] = await sql<{ count: number }[]>`
      select count(*)::integer as count from passkeys where person_id = ${personId}`
    return row?.count ?? 0
  }

  /** False where somebody has registered the same credential already. */
  async insert(sql: TransactionSql, passkey: StoredPasskey): Promise<boolean> {
    const inserted = await sql`
      insert into passkeys ${sql(passkeyRows.write(this.#sql, passkey))} on conflict (credential_id) do nothing`
    return inserted.count === 1
  }

  /**
   * Notes that a passkey was used. False where it is gone, or has counted as far already: then a copy of it is in use
   * (WebAuthn Level 3, 7.2, step 22).
   */
  async used(sql: TransactionSql, id: string, counter: number, isSynced: boolean, now: number): Promise<boolean> {
    const used = await sql`
      update passkeys set counter = ${counter}, is_synced = ${isSynced}, used_at = ${new Date(now)}
      where id = ${id} and (counter < ${counter} or (counter = 0 and ${counter}::bigint = 0))`
    return used.count === 1
  }

  /** Null for one that the person does not have. */
  async rename(personId: number, id: string, name: string): Promise<StoredPasskey | null> {
    return await passkeyRows.one(this.#sql`
      update passkeys set name = ${name} where id = ${id} and person_id = ${personId} returning *`)
  }

  /** The database ends the sessions that it opened. False for one that the person does not have. */
  async remove(personId: number, id: string): Promise<boolean> {
    const removed = await this.#sql`delete from passkeys where id = ${id} and person_id = ${personId}`
    return removed.count === 1
  }
}
