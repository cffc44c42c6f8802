import type { ComponentChildren, VNode } from 'preact'
import { t } from '../../engine/formats/language.ts'
import { html } from '../kit/document.ts'
import { queryOf, type AsRead } from './api.ts'
import type { PageRequest } from './page.ts'
import { type Choices, input } from './parts.ts'

/** Members of a list's filter by their name in the query. */
export type Filter = Readonly<Record<string, string | null | undefined>>

export function isFiltered(filter: Filter): boolean {
  return Object.values(filter).some(Boolean)
}

/** A member of the query that is one of these; undefined for any other. */
export function oneOf<T extends string>(
  { query }: Pick<PageRequest, 'query'>,
  name: string,
  values: readonly T[]
): T | undefined {
  return values.find(value => value === query.get(name))
}

/** The chosen view of a page, the first by default. */
export function viewOf<T extends string>(
  { query }: Pick<PageRequest, 'query'>,
  name: string,
  [first, ...others]: readonly [readonly [T, string], ...Array<readonly [T, string]>]
): T {
  return others.find(([value]) => value === query.get(name))?.[0] ?? first[0]
}

export function filterChoice(name: string, label: string, options: Choices, chosen: string | null | undefined): VNode {
  return input(name, label, { options: [['', 'All'], ...options], value: chosen })
}

/** Form above a list. `more` follows its button. */
export function searchForm(label: string, fields: ComponentChildren, more: ComponentChildren = null): VNode {
  return html`<form method="get" class="filter" role="search" aria-label=${t(label)}>
      ${fields}
      <button class="button small" type="submit">Show</button>
      ${more}
    </form>`
}

/** Form beside a heading, or with a single select. */
export function viewForm(fields: ComponentChildren, more: ComponentChildren = null): VNode {
  return html`<form method="get" class="filter">${fields}<button class="button small second" type="submit">Show</button>${more}</form>`
}

export function csvLink({ root }: Pick<PageRequest, 'root'>, address: string, filter: object, name: string): VNode {
  return html`<a class="button small second" href=${`${root}${address.slice(1)}${queryOf({ ...filter, format: 'csv' })}`} download=${`${name}.csv`}>CSV</a>`
}

/** Pages that `back` remembers. */
const MOST_BACK = 20

/**
 * Links to the newest, newer and older page of a list. Cursors only lead to older rows, so `back` carries those of the
 * pages before. `path` is in the console.
 */
export function pager(
  { link, query }: Pick<PageRequest, 'link' | 'query'>,
  path: string,
  filter: Filter,
  next: string | null
): VNode | null {
  const after = query.get('after')
  if (next === null && after === null) return null
  const back = (query.get('back') ?? '').split('.').filter(each => each !== '')
  const to = (cursor: string | null, before: readonly string[] = []): string =>
    link(`${path}${queryOf({ ...filter, after: cursor, back: before.join('.') })}`)
  return html`
    <nav class="pager" aria-label="Pages">
      ${after === null || back.length === 0 ? null : html`<a href=${to(null)}>Newest</a>`}
      ${after === null ? null : html`<a rel="prev" href=${to(back.at(-1) ?? null, back.slice(0, -1))}>Newer</a>`}
      ${next === null ? null : html`<a rel="next" href=${to(next, after === null ? [] : [...back, after].slice(-MOST_BACK))}>Older</a>`}
    </nav>`
}

export const ROWS = 50

/** Number of the page that is asked for, from 1. */
export function pageOf({ query }: Pick<PageRequest, 'query'>): number {
  return Math.max(1, Math.trunc(Number(query.get('page'))) || 1)
}

/** Links to the numbered pages before and after. Keeps empty members: without one, a page may have another default. */
export function numberedPager(
  request: Pick<PageRequest, 'link' | 'query'>,
  path: string,
  filter: Filter,
  isMore: boolean,
  [before, next]: readonly [string, string] = [t('Newer'), t('Older')]
): VNode | null {
  const page = pageOf(request)
  const to = (at: number): string => {
    const parameters = Object.entries({ ...filter, page: at === 1 ? null : String(at) })
    const query = new URLSearchParams(
      parameters.flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : []))
    )
    return request.link(query.size === 0 ? path : `${path}?${query}`)
  }
  if (page === 1 && !isMore) return null
  return html`
    <nav class="pager" aria-label="Pages">
      ${page === 1 ? null : html`<a rel="prev" href=${to(page - 1)}>${before}</a>`}
      ${isMore ? html`<a rel="next" href=${to(page + 1)}>${next}</a>` : null}
    </nav>`
}

/**
 * Rows of a numbered page, of an operation that takes `skip` and `take`, with the links to the others.
 * @throws ApiRefusal
 */
export async function rowsOf<T>(
  request: Pick<PageRequest, 'api' | 'link' | 'query'>,
  address: string,
  path: string,
  filter: Filter = {}
): Promise<{ readonly rows: ReadonlyArray<AsRead<T>>; readonly pages: VNode | null }> {
  // One row more shows whether there is a next page.
  const parameters = { ...filter, skip: (pageOf(request) - 1) * ROWS, take: ROWS + 1 }
  // AsRead goes through arrays, which the compiler does not see of an unknown T.
  const read = (await request.api.get(`${address}${queryOf(parameters)}`)) as ReadonlyArray<AsRead<T>>
  return { rows: read.slice(0, ROWS), pages: numberedPager(request, path, filter, read.length > ROWS) }
}
