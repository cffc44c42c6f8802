import type { Database } from '../../platform/database/database.ts'
import { integer, json, moment, optional, records, text, type Records } from '../../platform/database/rows.ts'
import type { KeysetPage, TimeSpan } from '../../engine/operations/keyset.ts'

/**
 * Who made a change: an API key by its hint, a member or an operator by the email address, or the admin key. Unknown for a
 * failed sign-in.
 */
export type ActorKind = 'key' | 'member' | 'admin' | 'operator' | 'unknown'

/** One change. Times in milliseconds since the epoch. */
export interface AuditEntry {
  readonly id: string
  readonly at: number
  /** Whose account it was made in; null for what is of no account. */
  readonly merchantId: number | null
  readonly actorKind: ActorKind
  readonly actor: string
  readonly operation: string
  /** Path parameters, and the ids of what was made. */
  readonly target: Readonly<Record<string, string | number>>
  readonly change: unknown
  /** What it was answered; null while it runs, and where its end could not be written. */
  readonly status: number | null
}

/** Which changes. */
export interface AuditFilter extends TimeSpan {
  /** Null for all accounts. */
  readonly merchantId: number | null
  /** Stands in who made it, in the operation or in an id, in upper or lower case; empty for any. */
  readonly text: string
}

const rows: Records<AuditEntry> = records({
  id: text(),
  at: moment(),
  merchantId: optional(integer()),
  actorKind: text<ActorKind>(),
  actor: text(),
  operation: text(),
  target: json<AuditEntry['target']>(stored => stored),
  change: json<unknown>(stored => stored),
  status: optional(integer())
})

/** The audit trail in the SQL database. */
export class SqlAuditStore {
  readonly #database: Pick<Database, 'sql'>

  constructor(database: Pick<Database, 'sql'>) {
    this.#database = database
  }

  async insert(entry: AuditEntry): Promise<void> {
    const { sql } = this.#database
    await sql`insert into audit ${sql(rows.write(sql, entry))}`
  }

  /** How a change ended, with the ids of what was made. */
  async end(id: string, status: number, made: AuditEntry['target']): Promise<void> {
    const { sql } = this.#database
    await sql`update audit set status = ${status}, target = target || ${sql.json(made)} where id = ${id}`
  }

  /** Newest first; of one account, or of all. */
  async list({ merchantId, text: said, from, to }: AuditFilter, { after, limit }: KeysetPage): Promise<AuditEntry[]> {
    const { sql } = this.#database
    const whose = merchantId === null ? sql`true` : sql`merchant_id = ${merchantId}`
    const older = after === null ? sql`true` : sql`(at, id) < (${new Date(after.at)}, ${after.id})`
    const since = from === null ? sql`true` : sql`at >= ${new Date(from)}`
    const before = to === null ? sql`true` : sql`at < ${new Date(to)}`
    const words = said.toLowerCase()
    // Pages show `setColour` as "set colour".
    const about =
      words === ''
        ? sql`true`
        : sql`(position(${words} in lower(actor || ' ' || target::text)) > 0
            or position(${words.replaceAll(' ', '')} in lower(operation)) > 0)`
    return await rows.all(sql`
      select * from audit where ${whose} and ${older} and ${since} and ${before} and ${about}
      order by at desc, id desc limit ${limit}`)
  }

  /** Deletes what is older. */
  async purge(before: number): Promise<void> {
    const { sql } = this.#database
    await sql`delete from audit where at < ${new Date(before)}`
  }
}
