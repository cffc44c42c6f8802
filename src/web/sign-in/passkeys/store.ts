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

export interface StoredPasskey {
  /** Public id for lists and removal. */
  readonly id: string
  readonly personId: number
  /** Authenticator's id in base64url. */
  readonly credentialId: string
  /** COSE key. */
  readonly publicKey: Uint8Array
  /** The authenticator's use counter; 0 if unsupported. */
  readonly counter: number
  /** Transport hints for the browser. */
  readonly transports: readonly string[]
  /** Synced between devices. */
  readonly isSynced: boolean
  readonly name: string
  readonly createdAt: number
  /** Null: never. */
  readonly usedAt: number | null
}

export interface OwnedPasskey extends StoredPasskey {
  readonly email: string
  /** User handle as a UUID. */
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

/** Passkeys, and ceremonies by the digests of their tokens. */
export class SqlPasskeyStore {
  readonly #sql: Sql

  constructor({ sql }: Pick<Database, 'sql'>) {
    this.#sql = sql
  }

  /** Starts a sign-in ceremony, or a person's registration. */
  async begin(digest: Uint8Array, personId: number | null, expiresAt: number): Promise<void> {
    await this.#sql`
      insert into passkey_ceremonies (digest, person_id, expires_at) values (${digest}, ${personId}, ${new Date(expiresAt)})`
  }

  /** Consumes a ceremony; of concurrent calls one succeeds, and none with another purpose. */
  async take(digest: Uint8Array, personId: number | null, now: number): Promise<boolean> {
    const taken = await this.#sql`
      delete from passkey_ceremonies
      where digest = ${digest} and person_id is not distinct from ${personId}::integer and expires_at > ${new Date(now)}`
    return taken.count === 1
  }

  /** The person's user handle as a UUID, created on first use. */
  async handleOf(personId: number): Promise<string> {
    const [row] = await this.#sql<{ handle: string }[]>`select handle::text from people where id = ${personId}`
    if (row === undefined) throw new TypeError('there is no such person')
    return row.handle
  }

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

  /** Counts a person's passkeys under a lock against concurrent inserts. */
  async count(sql: TransactionSql, personId: number): Promise<number> {
    await sql`select 1 from people where id = ${personId} for no key update`
    const [row] = await sql<{ count: number }[]>`
      select count(*)::integer as count from passkeys where person_id = ${personId}`
    return row?.count ?? 0
  }

  /** False for a duplicate credential. */
  async insert(sql: TransactionSql, passkey: StoredPasskey): Promise<boolean> {
    const inserted = await sql`
      insert into passkeys ${sql(passkeyRows.write(this.#sql, passkey))} on conflict (credential_id) do nothing`
    return inserted.count === 1
  }

  /**
   * Records a use. False when the passkey is gone or its counter did not increase: a clone is in use (WebAuthn Level 3,
   * 7.2, step 22).
   */
  async used(sql: TransactionSql, id: string, counter: number, isSynced: boolean, now: number): Promise<boolean> {
    const used = await sql`
      update passkeys set counter = ${counter}, is_synced = ${isSynced}, used_at = ${new Date(now)}
      where id = ${id} and (counter < ${counter} or (counter = 0 and ${counter}::bigint = 0))`
    return used.count === 1
  }

  /** The database ends its sessions. False for an unknown passkey. */
  async remove(personId: number, id: string): Promise<boolean> {
    const removed = await this.#sql`delete from passkeys where id = ${id} and person_id = ${personId}`
    return removed.count === 1
  }
}
