import type { Sql } from './database.ts'
import type { Row } from './rows.ts'

/** A value of an input row; moments in milliseconds since the epoch. */
type Given = string | number | null

export type GivenColumn<R> = readonly [
  // No boolean: the client takes a list of them for one.
  type: 'text' | 'integer' | 'bigint' | 'numeric' | 'timestamptz' | 'uuid',
  of: (row: R) => Given
]

/**
 * Milliseconds that a statement over several rows waits for a lock, since all their callers wait with it. Shorter than
 * PostgreSQL's deadlock check after a second.
 */
const LOCK_TIMEOUT = 250
// Local to the transaction; evaluated before the first row is locked.
const UNTIL_LOCKED = ` cross join (select set_config('lock_timeout', '${LOCK_TIMEOUT}', true)) as patience`

export interface OverRows<R> {
  run(sql: Sql, rows: readonly R[]): Promise<readonly Row[]>
  /** One returned row for each input row, in order; null for none. */
  one(sql: Sql, rows: readonly R[]): Promise<Array<Row | null>>
  all(sql: Sql, rows: readonly R[]): Promise<Row[][]>
}

/**
 * A statement over any number of rows. `text` receives the source of the rows, to be used once after `from`, and the
 * columns' names. The rows are a table `given` with the columns and `nth`, the row's number, which `one` and `all` need
 * returned.
 *
 * Several rows travel as one array per column; after five runs PostgreSQL may keep a plan that assumes ten rows. A
 * single row travels as plain values, with a plan as if written for one row.
 *
 * `locks`: for updates of contended rows. Over several rows it fails fast with `isLockedOut` and changes nothing.
 */
export function overRows<R>(
  columns: Readonly<Record<string, GivenColumn<R>>>,
  text: (given: string, columns: string) => string,
  { locks = false }: { readonly locks?: boolean } = {}
): OverRows<R> {
  const given = [...Object.values(columns), ['integer', () => 0] as const]
  const [before = '', after = ''] = text('\0', Object.keys(columns).join(', ')).split('\0')
  const names = `as given (${[...Object.keys(columns), 'nth'].join(', ')})`
  const parts = (open: string, suffix: string, close: string, beside = ''): TemplateStringsArray => {
    const strings = given.map((_column, at) => (at === 0 ? `${before}${open}` : `::${given[at - 1]?.[0]}${suffix}, `))
    strings.push(`::${given.at(-1)?.[0]}${suffix}${close} ${names}${beside}${after}`)
    // What a tagged template passes: the client checks `raw`.
    return Object.assign(strings, { raw: strings })
  }
  const one = parts('(values (', '', '))')
  const several = parts('unnest(', '[]', ')', locks ? UNTIL_LOCKED : '')
  const run = async (sql: Sql, rows: readonly R[]): Promise<readonly Row[]> => {
    const [row] = rows
    if (row === undefined) return []
    if (rows.length === 1) return await sql(one, ...given.map(([, of]) => of(row)))
    return await sql(several, ...given.map(([, of], at) => (at === given.length - 1 ? [...rows.keys()] : rows.map(of))))
  }
  return {
    run,
    one: async (sql, rows) => {
      const answers: Array<Row | null> = rows.map(() => null)
      for (const found of await run(sql, rows)) answers[Number(found['nth'])] = found
      return answers
    },
    all: async (sql, rows) => {
      const answers: Row[][] = rows.map(() => [])
      for (const found of await run(sql, rows)) answers[Number(found['nth'])]?.push(found)
      return answers
    }
  }
}
