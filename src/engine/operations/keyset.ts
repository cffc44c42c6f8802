import { nullableText } from '../formats/text-patterns.ts'
import { Type, type Static, type TInteger, type TOptional, type TString, type TUnsafe } from 'typebox'
import { nearestWritable, isoTimeQuery, readFilterTime } from '../formats/iso-time.ts'
import { MOST_SUMMED } from '../../platform/database/own-plan.ts'
import { invalidField } from './field-errors.ts'
import type { Context } from '../message/context.ts'
import { prefersCsv } from '../message/accept.ts'
import { CSV, csvHeaders, csvStream, type CsvColumns } from '../formats/csv.ts'
import type { Result } from './operation.ts'

/** Default and maximum page size; also the rows per statement of a CSV. */
const PAGE = 50
const LARGEST_PAGE = 200
const CSV_PAGE = 500

/** Cursor of a list, newest first: milliseconds since the epoch and id of the last row. */
export interface Keyset {
  readonly at: number
  readonly id: string
}

export interface KeysetPage {
  readonly after: Keyset | null
  readonly limit: number
}

/** Includes `from`, excludes `to`. */
export interface TimeSpan {
  readonly from: number | null
  readonly to: number | null
}

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

/** Of a bare array without a total; out-of-range values are clamped (contract, Limits: Pagination; decision 12). */
export const pageQuery = {
  skip: Type.Optional(Type.Integer({ description: 'From 0, which it is unless said.' })),
  take: Type.Optional(Type.Integer({ description: 'From 1 to 100; 50 unless said.' }))
}

export interface PageRange {
  readonly skip: number
  readonly take: number
}

export function pageRange({ skip = 0, take = 50 }: Partial<PageRange>, mostSkipped = 2_147_483_647): PageRange {
  return { skip: Math.min(Math.max(skip, 0), mostSkipped), take: Math.min(Math.max(take, 1), 100) }
}

/** Adds the count and sum of all rows of a filter to its page. */
export const sumQuery = {
  sum: Type.Optional(Type.Boolean({ description: 'true: with `total`, over all that fit. Not in a CSV.' }))
}

export const ListTotal = Type.Object(
  {
    count: Type.Integer({ description: `At most ${MOST_SUMMED}, the newest.` }),
    sats: Type.Integer({ description: 'Satoshis that came in.' })
  },
  { title: 'ListTotal' }
)
export type ListTotal = Static<typeof ListTotal>

export const nextPage = nullableText('`after` of the next page; null on the last one.')

interface KeysetQuery {
  readonly after?: string
  readonly limit?: number
}

/**
 * Clamps values out of range (decision 12).
 * @throws ValidationError for an invalid `after`
 */
export function keysetPage({ after, limit }: KeysetQuery): KeysetPage {
  return { after: readAfter(after), limit: Math.min(LARGEST_PAGE, Math.max(1, limit ?? PAGE)) }
}

function readAfter(after: string | undefined): Keyset | null {
  if (after === undefined) return null
  const [, at, id] = /^(\d{1,15})-([A-Za-z0-9-]{1,128})$/.exec(after) ?? []
  if (at === undefined || id === undefined) throw invalidField('/after', 'Must be `next` of the page before.')
  return { at: nearestWritable(Number(at)), id }
}

function nextAfter({ at, id }: Keyset): string {
  return `${at}-${id}`
}

/** @throws ValidationError for an invalid time */
export function periodOf(query: { readonly from?: string; readonly to?: string }): TimeSpan {
  return { from: timeOf('/from', query.from), to: timeOf('/to', query.to) }
}

function timeOf(path: string, text: string | undefined): number | null {
  if (text === undefined) return null
  const time = readFilterTime(text)
  if (time === null) throw invalidField(path, 'Must be an ISO 8601 time such as 2026-11-21T00:54:00Z.')
  return time
}

type ReadRows<T> = (page: KeysetPage) => Promise<readonly T[]>

/** `next` is null after the last page. */
interface RowsAndNext<T> {
  readonly rows: readonly T[]
  readonly next: string | null
}

/** Reads one row more than requested, to detect a further page. */
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

export const listingHeaders = {
  Accept:
    '`text/csv` for all rows as CSV, streamed; JSON unless said. Cells that a spreadsheet would run begin with an apostrophe.'
}

export interface Listing<T> {
  /** Member of the JSON with the rows, and default name of the CSV file. */
  readonly name: string
  readonly file?: string
  readonly columns: CsvColumns<T>
  read(page: KeysetPage): Promise<readonly T[]>
  keyOf(row: T): Keyset
  /** Of all rows; absent where the list has no sum. */
  sum?(): Promise<ListTotal>
  view(row: T): unknown
}

/** @throws ValidationError for an invalid `after` */
export async function listed<T>(
  ctx: Context,
  query: { readonly after?: string; readonly limit?: number; readonly format?: 'json' | 'csv'; readonly sum?: boolean },
  { name, file = name, columns, read, keyOf, sum, view }: Listing<T>
): Promise<Result> {
  const page = keysetPage(query)
  if (wantsCsv(ctx, query.format)) {
    const body = csvStream(columns, () => allPages(page.after, read, keyOf))
    return { status: 200, body, mediaType: CSV, headers: csvHeaders(`${file}.csv`) }
  }
  const { rows, next } = await onePage(page, read, keyOf)
  const total = query.sum === true && sum !== undefined ? { total: await sum() } : {}
  return {
    status: 200,
    body: { [name]: rows.map(view), next, ...total },
    headers: ['Vary', 'Accept']
  }
}

/** The query's `format` (for links) overrides `Accept`. */
export function wantsCsv({ headers }: Pick<Context, 'headers'>, format: 'json' | 'csv' | undefined): boolean {
  return format === 'csv' || (format === undefined && prefersCsv(headers.all('accept').join(',')))
}
