import type { Context } from '../message/context.ts'
import { prefersCsv } from '../message/accept.ts'
import { CSV, csvHeaders, csvStream, type CsvColumns } from '../formats/csv.ts'
import { allPages, keysetPage, onePage, type Keyset, type KeysetPage, type ListTotal } from './keyset.ts'
import type { Result } from './operation.ts'

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
