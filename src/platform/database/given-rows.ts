import type { Sql } from './database.ts'
import type { Row } from './rows.ts'

/** A value of a row that is given to a statement; moments in milliseconds since the epoch. */
type Given = string | number | null

/** One column of the rows that are given: its type in PostgreSQL, and where its value comes from. */
export type GivenColumn<R> = readonly [
  // No boolean: the client takes a list of them for one.
  type: 'text' | 'integer' | 'bigint' | 'numeric' | 'timestamptz' | 'uuid',
  of: (row: R) => Given
]

/**
 * Milliseconds that a statement over several rows waits for a lock of somebody else's: the other rows' callers wait with
 * it. Shorter than the second after which PostgreSQL looks for a deadlock, which a plan that reads the table in its own
 * order can bring about. A single row waits as long as any statement.
 */
const LOCK_TIMEOUT = 250
// Local to the transaction that the statement is or is a part of; evaluated before the first row is locked.
const UNTIL_LOCKED = ` cross join (select set_config('lock_timeout', '${LOCK_TIMEOUT}', true)) as patience`

/** Runs a statement with rows. */
export interface OverRows<R> {
  /** Answers what it returned, in whatever order. */
  run(sql: Sql, rows: readonly R[]): Promise<readonly Row[]>
  /** Answers the row that it returned for each of them, in their order; null for none. */
  one(sql: Sql, rows: readonly R[]): Promise<Array<Row | null>>
  /** Answers all rows that it returned for each of them. */
  all(sql: Sql, rows: readonly R[]): Promise<Row[][]>
}

/**
 * A statement over any number of rows. `text` gets what stands in it for the rows, to be said once after `from`, and the
 * columns' names. The rows are a table `given` with the columns and `nth`, the row's number, which `one` and `all` want
 * returned as `nth`.
 *
 * Several rows travel as one list for each column; after five times PostgreSQL may keep a plan that supposes ten. A single
 * one travels as values: they dissolve into a statement whose plan is kept, as if it had been written for one row.
 *
 * `locks`: for one that changes rows that others may hold. Over several it fails soon with `isLockedOut`, and nothing is
 * done.
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
    // What a tagged template passes: the client tells one by `raw`.
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
