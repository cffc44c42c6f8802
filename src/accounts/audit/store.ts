import type { Database } from '../../platform/database/database.ts'
import { integer, json, moment, optional, records, text, type Records } from '../../platform/database/rows.ts'
import type { KeysetPage, TimeSpan } from '../../engine/operations/keyset.ts'

/**
 * Actor of a change: an API key by its hint, a member or operator by email address, or the admin key. Unknown for a
 * failed sign-in.
 */
export type ActorKind = 'key' | 'member' | 'admin' | 'operator' | 'unknown'

/** Times in milliseconds since the epoch. */
export interface AuditEntry {
  readonly id: string
  readonly at: number
  /** Null outside accounts. */
  readonly merchantId: number | null
  readonly actorKind: ActorKind
  readonly actor: string
  readonly operation: string
  /** Path parameters and created ids. */
  readonly target: Readonly<Record<string, string | number>>
  readonly change: unknown
  /** Response status; null while running, or when the end could not be written. */
  readonly status: number | null
}

interface AuditFilter extends TimeSpan {
  /** Null: all accounts. */
  readonly merchantId: number | null
  /** Case-insensitive substring of actor, operation or id; empty: any. */
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

export class SqlAuditStore {
  readonly #database: Pick<Database, 'sql'>

  constructor(database: Pick<Database, 'sql'>) {
    this.#database = database
  }

  async insert(entry: AuditEntry): Promise<void> {
    const { sql } = this.#database
    await sql`insert into audit ${sql(rows.write(sql, entry))}`
  }

  /** Records a change's outcome with the created ids. */
  async end(id: string, status: number, made: AuditEntry['target']): Promise<void> {
    const { sql } = this.#database
    await sql`update audit set status = ${status}, target = target || ${sql.json(made)} where id = ${id}`
  }

  async list({ merchantId, text: said, from, to }: AuditFilter, { after, limit }: KeysetPage): Promise<AuditEntry[]> {
    const { sql } = this.#database
    const whose = merchantId === null ? sql`coalesce(merchant_id, 0) >= 0` : sql`merchant_id = ${merchantId}`
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

  async purge(before: number): Promise<void> {
    const { sql } = this.#database
    await sql`delete from audit where at < ${new Date(before)}`
  }
}
