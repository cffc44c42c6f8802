import { nullableInteger } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import type { Context } from '../../engine/message/context.ts'
import { CSV, memberColumns, type CsvColumns } from '../../engine/formats/csv.ts'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import {
  keysetQuery,
  nextPage,
  periodOf,
  listed,
  listingHeaders,
  type KeysetPage,
  type TimeSpan
} from '../../engine/operations/keyset.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import { merchantOf, adminOperation, settingsRead } from '../merchants/principal.ts'
import type { Database } from '../../platform/database/database.ts'
import { integer, json, moment, optional, records, text, type RecordOf } from '../../platform/database/rows.ts'

const Entry = Type.Object(
  {
    id: Type.String(),
    at: isoTime('When it was asked for.'),
    merchantId: nullableInteger('Null for what is of no account.'),
    by: Type.Object({
      kind: Type.Enum(['key', 'member', 'admin', 'operator', 'unknown']),
      name: Type.String({
        description: 'The hint of the key, the email address, or, for a failed sign-in, the network of the client.'
      })
    }),
    operation: Type.String({ description: 'Its operationId in this document, or `signInToJobs`.' }),
    target: Type.Unsafe<Readonly<Record<string, string | number>>>({
      type: 'object',
      additionalProperties: true,
      description: "IDs of the changed objects. For sign-ins, the client's network and the number of failed attempts."
    }),
    change: Type.Unsafe<object>({
      type: 'object',
      additionalProperties: true,
      description: 'What was asked for; texts that may be secret are "…".'
    }),
    status: nullableInteger('What it was answered; below 400 it was done. Null where the gateway stopped in between.')
  },
  { title: 'AuditEntry' }
)
const Page = Type.Object({ entries: Type.Array(Entry), next: nextPage })
export type AuditPage = Static<typeof Page>
const query = Type.Object({
  text: Type.Optional(
    Type.String({
      maxLength: 200,
      description: 'Searches the actor, operation and IDs. Case-insensitive.'
    })
  ),
  ...keysetQuery
})
type Query = Static<typeof query>
const responses = { 200: { description: 'A page, newest first.', schema: Page, also: CSV } }

const columns: CsvColumns<AuditEntry> = {
  at: ({ at }) => iso(at),
  merchantId: ({ merchantId }) => merchantId,
  by: ({ actorKind }) => actorKind,
  name: ({ actor }) => actor,
  operation: ({ operation }) => operation,
  target: ({ target }) => JSON.stringify(target),
  change: ({ change }) => JSON.stringify(change),
  ...memberColumns<AuditEntry>('status', 'id')
}

export function auditOperations(store: AuditStore): AnyOperation[] {
  const page = (ctx: Context, merchantId: number | null, search: Query): Promise<Result> => {
    const filter = { merchantId, text: search.text ?? '', ...periodOf(search) }
    return listed(ctx, search, {
      name: 'entries',
      file: 'changes',
      columns,
      read: wanted => store.list(filter, wanted),
      keyOf: entry => entry,
      view
    })
  }
  return [
    defineOperation({
      ...settingsRead,
      id: 'listAudit',
      path: '/api/merchant/audit',
      summary: "List the account's audit log, as JSON pages or CSV",
      description:
        'Every request to change the account, by its keys, its members and the operator, those that were refused too; also sign-ins and sign-outs; not its sales. Kept for a year.',
      headers: listingHeaders,
      query,
      responses,
      handle: ({ ctx, query: search }) => page(ctx, merchantOf(ctx).id, search)
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminListAudit',
      method: 'GET',
      path: '/api/admin/audit',
      summary: 'List the audit log of all accounts or one, as JSON pages or CSV',
      description:
        'What merchants and operators asked to change, and sign-ins, sign-outs and failed sign-ins. A failed one names no account, so it is in this list alone: one entry for each client network and minute, with the number of attempts. Kept for a year.',
      headers: listingHeaders,
      query: Type.Object({
        ...query.properties,
        merchantId: Type.Optional(Type.Integer({ minimum: 1, maximum: 0x7fff_ffff }))
      }),
      responses,
      handle: ({ ctx, query: { merchantId, ...search } }) => page(ctx, merchantId ?? null, search)
    })
  ]
}

function view({ id, at, merchantId, actorKind, actor, operation, target, change, status }: AuditEntry): object {
  const by = { kind: actorKind, name: actor }
  return { id, at: iso(at), merchantId, by, operation, target, change, status }
}

/**
 * Actor of a change: an API key by its hint, a member or operator by email address, or the admin key. Unknown for a
 * failed sign-in.
 */
export type ActorKind = 'key' | 'member' | 'admin' | 'operator' | 'unknown'

const entryColumns = {
  id: text(),
  at: moment(),
  /** Null outside accounts. */
  merchantId: optional(integer()),
  actorKind: text<ActorKind>(),
  actor: text(),
  operation: text(),
  /** Path parameters and created ids. */
  target: json((stored: Readonly<Record<string, string | number>>) => stored),
  change: json((stored: unknown) => stored),
  /** Response status; null while running, or when the end could not be written. */
  status: optional(integer())
}
export type AuditEntry = RecordOf<typeof entryColumns>
const rows = records(entryColumns)

interface AuditFilter extends TimeSpan {
  /** Null: all accounts. */
  readonly merchantId: number | null
  /** Case-insensitive substring of actor, operation or id; empty: any. */
  readonly text: string
}

export class AuditStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async insert(entry: AuditEntry): Promise<void> {
    const { sql } = this.#database
    await sql`insert into audit ${sql(rows.write(sql, entry))}`
  }

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
