import type { Sql } from './database.ts'

/** A row as the client gives it. */
export type Row = Readonly<Record<string, unknown>>

/** A statement whose rows are read. */
type Rows = PromiseLike<readonly Row[]>

/** A value as it is sent: the client's own kinds, and what `sql.json` makes. */
type Sent = Parameters<Sql['unsafe']>[1] extends Array<infer P> | undefined ? P : never

/**
 * What the program has in one member, and the column or columns that keep it. `T` is claimed, not checked: what is read
 * was written by the same store, or is held to it by the table.
 */
export interface Column<T> {
  /** The column's name; null for the member's own in snake case. */
  readonly name: string | null
  /** Where there are several, or none. */
  readonly names?: readonly string[]
  read(row: Row, name: string): T
  /** Sets what is sent for `value` in `sent`. */
  write(sql: Sql, value: T, name: string, sent: Record<string, Sent>): void
}

type Columns = Readonly<Record<string, Column<unknown>>>

/** What a record of columns holds. */
type RecordOf<C extends Columns> = { readonly [K in keyof C]: C[K] extends Column<infer T> ? T : never }

/** Rows of a table, or of a statement, as records of the program: the one place that maps between the two. */
export interface Records<T> {
  /** Its columns. */
  readonly names: readonly string[]
  read(row: Row): T
  /** The first row of a statement, read; null when there is none. */
  one(statement: Rows): Promise<T | null>
  all(statement: Rows): Promise<T[]>
  /**
   * The columns of the members that are given, for `sql(…)` in an insert or a `set`; those that are undefined are left
   * out.
   */
  write(sql: Sql, record: { readonly [K in keyof T]?: T[K] | undefined }): Record<string, Sent>
}

/** Describes records by their members; a member's column has its name in snake case unless the column says another. */
export function records<C extends Columns>(columns: C): Records<RecordOf<C>> {
  const members = Object.entries(columns).map(([member, column]) => ({
    member,
    column,
    name: column.name ?? snakeCase(member)
  }))
  // A copy of an object that has its members keeps them as fields; one that is given so many by name becomes a table
  // that V8 searches, which takes three times as long, here and for whoever reads it.
  const blank = JSON.parse(JSON.stringify(Object.fromEntries(members.map(({ member }) => [member, null])))) as Record<
    string,
    null
  >
  const read = (row: Row): RecordOf<C> => {
    const record: Record<string, unknown> = { ...blank }
    for (const { member, column, name } of members) record[member] = column.read(row, name)
    // Each member was just read by its own column.
    return record as RecordOf<C>
  }
  return {
    names: members.flatMap(({ column, name }) => column.names ?? [name]),
    read,
    one: async statement => {
      const [row] = await statement
      return row === undefined ? null : read(row)
    },
    all: async statement => (await statement).map(read),
    write: (sql, record) => {
      const sent: Record<string, Sent> = {}
      for (const { member, column, name } of members) {
        const value = record[member]
        if (value !== undefined) column.write(sql, value, name, sent)
      }
      return sent
    }
  }
}

function snakeCase(member: string): string {
  return member.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

/** A column by what it is read as and what is sent for it. */
export function column<S, T>(
  name: string | null,
  read: (stored: S) => T,
  send: (value: T, sql: Sql) => Sent
): Column<T> {
  return {
    name,
    // The client gives what the column's type is read as (database.ts, Sql), which `S` says.
    read: (row, own) => read(row[own] as S),
    write: (sql, value, own, sent) => {
      sent[own] = send(value, sql)
    }
  }
}

/** A column that travels as it is: what text, whole numbers below 2^31, truth values and bytes do. */
function plain<T extends string | number | boolean | Uint8Array>(name: string | null): Column<T> {
  return column(
    name,
    (stored: T) => stored,
    value => value
  )
}

/** `text` or a like, perhaps of a few known words; `numeric` too. */
export const text = <T extends string = string>(name: string | null = null): Column<T> => plain(name)
/** `integer`, `smallint` or a float. */
export const integer = <T extends number = number>(name: string | null = null): Column<T> => plain(name)
export const flag = (name: string | null = null): Column<boolean> => plain(name)
/** `bytea`. */
export const bytes = (name: string | null = null): Column<Uint8Array> => plain(name)
/** `bigint` that is far below 2^53 by what may be written, such as satoshis and cents. */
export const amount = (name: string | null = null): Column<number> =>
  column(
    name,
    (stored: bigint) => Number(stored),
    value => value
  )
/** `timestamptz`, in milliseconds since the epoch. */
export const moment = (name: string | null = null): Column<number> =>
  column(
    name,
    (stored: Date) => stored.getTime(),
    value => new Date(value)
  )
/** `text[]`. */
export const texts = (name: string | null = null): Column<readonly string[]> =>
  column(
    name,
    (stored: readonly string[]) => stored,
    value => [...value]
  )
/** `jsonb`, written from such values only; `read` adds what rows of older versions lack. */
export const json = <T, S = T>(read: (stored: S) => T, name: string | null = null): Column<T> =>
  // The client's type of JSON wants index signatures, which interfaces do not have.
  column(name, read, (value, sql) => sql.json(value as never))

/** A moment for a statement that spells its columns; null for none. `at` in milliseconds since the epoch. */
export function dateOrNull(at: number | null): Date | null {
  return at === null ? null : new Date(at)
}

/** A column that may be null. */
export function optional<T>(inner: Column<T>): Column<T | null> {
  return {
    name: inner.name,
    read: (row, name) => (row[name] === null ? null : inner.read(row, name)),
    write: (sql, value, name, sent) => {
      if (value === null) sent[name] = null
      else inner.write(sql, value, name, sent)
    }
  }
}

/**
 * A column whose text means something only together with the `id` of its row, such as a ciphertext that is sealed for
 * it; may be null.
 */
export function ofRow<I extends string | number, T>(
  name: string,
  read: (stored: string, id: I) => T,
  send: (value: T) => string
): Column<T | null> {
  return optional({
    name,
    // `I` says what the table's id is read as.
    read: (row, own) => read(row[own] as string, row['id'] as I),
    write: (_sql, value, own, sent) => {
      sent[own] = send(value)
    }
  })
}

/** A member that is a record of several columns. */
export function group<C extends Columns>(columns: C): Column<RecordOf<C>> {
  const inner = records(columns)
  return {
    name: null,
    names: inner.names,
    read: inner.read,
    write: (sql, value, _name, sent) => {
      Object.assign(sent, inner.write(sql, value))
    }
  }
}

/** The same of columns that are null together, or hold something together. */
export function together<C extends Columns>(columns: C): Column<RecordOf<C> | null> {
  const whole = group(columns)
  const names = whole.names ?? []
  return {
    name: null,
    names,
    read: (row, name) => (names.some(each => row[each] === null) ? null : whole.read(row, name)),
    write: (sql, value, name, sent) => {
      if (value !== null) whole.write(sql, value, name, sent)
      else for (const each of names) sent[each] = null
    }
  }
}
