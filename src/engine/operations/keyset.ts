import { Type, type TInteger, type TOptional, type TString, type TUnsafe } from 'typebox'
import { nearestWritable } from '../formats/calendar.ts'
import { isoTimeQuery, readFilterTime } from '../formats/iso-time.ts'
import { invalidField } from './validation.ts'

/** Rows of one page when the query says nothing, and at most; of one statement of a CSV. */
const PAGE = 50
const LARGEST_PAGE = 200
const CSV_PAGE = 500

/** Where a list goes on: after the row of this moment (milliseconds since the epoch) and id, newest first. */
export interface Keyset {
  readonly at: number
  readonly id: string
}

/** A part of a list, newest first. */
export interface KeysetPage {
  readonly after: Keyset | null
  readonly limit: number
}

/** Which moments a list is about, in milliseconds since the epoch: `from` is among them, `to` is not. */
export interface TimeSpan {
  readonly from: number | null
  readonly to: number | null
}

/** Members of a list's query. */
export const keysetQuery: {
  readonly format: TOptional<TUnsafe<'json' | 'csv'>>
  readonly after: TOptional<TString>
  readonly limit: TOptional<TInteger>
  readonly from: TOptional<TString>
  readonly to: TOptional<TString>
} = {
  format: Type.Optional(
    Type.Unsafe<'json' | 'csv'>({
      type: 'string',
      enum: ['json', 'csv'],
      description: 'For links, which send no Accept.'
    })
  ),
  after: Type.Optional(Type.String({ maxLength: 200, description: '`next` of the page before.' })),
  limit: Type.Optional(
    Type.Integer({ description: `${PAGE} unless said; clamped to 1 to ${LARGEST_PAGE}. A CSV has all rows.` })
  ),
  from: Type.Optional(isoTimeQuery('ISO 8601, UTC without a zone; this moment or later.')),
  to: Type.Optional(isoTimeQuery('ISO 8601; before this moment.'))
}

/** Member of a page's response. */
export const nextPage = Type.Unsafe<string | null>({
  type: ['string', 'null'],
  description: '`after` of the next page; null on the last one.'
})

interface KeysetQuery {
  readonly after?: string
  readonly limit?: number
}

/** The page that a query asks for; out of range is clamped (decision 12). @throws ValidationError for an `after` that is none */
export function keysetPage({ after, limit }: KeysetQuery): KeysetPage {
  return { after: readAfter(after), limit: Math.min(LARGEST_PAGE, Math.max(1, limit ?? PAGE)) }
}

function readAfter(after: string | undefined): Keyset | null {
  if (after === undefined) return null
  const [, at, id] = /^(\d{1,15})-([A-Za-z0-9-]{1,128})$/.exec(after) ?? []
  if (at === undefined || id === undefined) throw invalidField('/after', 'Must be `next` of the page before.')
  return { at: nearestWritable(Number(at)), id }
}

/** Where a list goes on after a row. */
function nextAfter({ at, id }: Keyset): string {
  return `${at}-${id}`
}

/** @throws ValidationError for what is no time */
export function periodOf(query: { readonly from?: string; readonly to?: string }): TimeSpan {
  return { from: timeOf('/from', query.from), to: timeOf('/to', query.to) }
}

function timeOf(path: string, text: string | undefined): number | null {
  if (text === undefined) return null
  const time = readFilterTime(text)
  if (time === null) throw invalidField(path, 'Must be an ISO 8601 time such as 2026-11-21T00:54:00Z.')
  return time
}

/** Reads a page: `read` answers at most `limit` rows that follow `after`. */
type ReadRows<T> = (page: KeysetPage) => Promise<readonly T[]>

/** A page's rows, and where the next begins; null after the last. */
export interface RowsAndNext<T> {
  readonly rows: readonly T[]
  readonly next: string | null
}

/** One page; a row more than asked for is read, which tells whether another follows. */
export async function onePage<T>(
  page: KeysetPage,
  read: ReadRows<T>,
  keyOf: (row: T) => Keyset
): Promise<RowsAndNext<T>> {
  const found = await read({ ...page, limit: page.limit + 1 })
  const rows = found.slice(0, page.limit)
  const last = rows.at(-1)
  return { rows, next: found.length > page.limit && last !== undefined ? nextAfter(keyOf(last)) : null }
}

/** All rows from `after` on, page by page. */
export async function* allPages<T>(
  after: Keyset | null,
  read: ReadRows<T>,
  keyOf: (row: T) => Keyset
): AsyncGenerator<readonly T[]> {
  for (;;) {
    const rows = await read({ after, limit: CSV_PAGE })
    yield rows
    const last = rows.at(-1)
    if (rows.length < CSV_PAGE || last === undefined) return
    after = keyOf(last)
  }
}
