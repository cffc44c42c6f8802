import type { Sql } from './database.ts'
import type { SealedValue } from '../keys/secrets.ts'
import { Batch } from './batch.ts'

export type Row = Readonly<Record<string, unknown>>

type Rows = PromiseLike<readonly Row[]>

type Sent = Parameters<Sql['unsafe']>[1] extends Array<infer P> | undefined ? P : never

/** `T` is claimed, not checked: the same store wrote it, or the table constrains it. */
export interface Column<T> {
  /** Null for the member's name in snake case. */
  readonly name: string | null
  /** Where there are several, or none. */
  readonly names?: readonly string[]
  read(row: Row, name: string): T
  write(sql: Sql, value: T, name: string, sent: Record<string, Sent>): void
}

type Columns = Readonly<Record<string, Column<unknown>>>

export type RecordOf<C extends Columns> = { readonly [K in keyof C]: C[K] extends Column<infer T> ? T : never }

export interface Records<T> {
  readonly names: readonly string[]
  read(row: Row): T
  one(statement: Rows): Promise<T | null>
  all(statement: Rows): Promise<T[]>
  write(sql: Sql, record: { readonly [K in keyof T]?: T[K] | undefined }): Record<string, Sent>
}

export function records<C extends Columns>(columns: C): Records<RecordOf<C>> {
  const members = Object.entries(columns).map(([member, column]) => ({
    member,
    column,
    name: column.name ?? snakeCase(member)
  }))
  // A copy of an object with all members keeps them as fields; adding them by name makes a dictionary, three times as
  // slow for every reader.
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

export function containing(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`
}

function snakeCase(member: string): string {
  return member.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

export function column<S, T>(
  name: string | null,
  read: (stored: S) => T,
  send: (value: T, sql: Sql) => Sent
): Column<T> {
  return {
    name,
    // The client parses the column's type (database.ts, Sql), which `S` names.
    read: (row, own) => read(row[own] as S),
    write: (sql, value, own, sent) => {
      sent[own] = send(value, sql)
    }
  }
}

/** For text, whole numbers below 2^31, booleans and bytes, which need no conversion. */
function plain<T extends string | number | boolean | Uint8Array>(name: string | null): Column<T> {
  return column(
    name,
    (stored: T) => stored,
    value => value
  )
}

/** `text` and similar, perhaps of a few known words; `numeric` too. */
export const text = <T extends string = string>(name: string | null = null): Column<T> => plain(name)
/** `integer`, `smallint` or a float. */
export const integer = <T extends number = number>(name: string | null = null): Column<T> => plain(name)
export const flag = (name: string | null = null): Column<boolean> => plain(name)
/** `bytea`. */
export const bytes = (name: string | null = null): Column<Uint8Array> => plain(name)
/** `bigint` that stays far below 2^53, such as satoshis and cents. */
export const amount = (name: string | null = null): Column<number> =>
  column(
    name,
    (stored: bigint) => Number(stored),
    value => value
  )
/** `timestamptz`, as milliseconds. */
export const moment = (name: string | null = null): Column<number> =>
  column(
    name,
    (stored: Date) => stored.getTime(),
    value => new Date(value)
  )
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

export function dateOrNull(at: number | null): Date | null {
  return at === null ? null : new Date(at)
}

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

/** A nullable ciphertext, sealed for this column of its row's `id`. */
export function sealed(table: string, column: string): Column<SealedValue | null> {
  return optional({
    name: column,
    read: row => ({ ciphertext: String(row[column]), place: { table, column, row: String(row['id']) } }),
    write: (_sql, { ciphertext }, name, sent) => {
      sent[name] = ciphertext
    }
  })
}

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

/** Whether an id fits the database's integer type: beyond it a query is an error instead of no row. */
export function isRowId(id: number): boolean {
  return Number.isInteger(id) && id > 0 && id <= 0x7fff_ffff
}

export interface SharedLookupOptions<Q, V> {
  readonly key: (question: Q) => string
  /** Answers distinct questions in one statement, in order. */
  readonly find: (questions: readonly Q[]) => Promise<readonly V[]>
}

/**
 * Batches concurrent look-ups (batch.ts) and shares the answer of equal ones. Caches nothing: each answer's statement
 * was sent after its question.
 */
export function sharedLookup<Q, V>({ key, find }: SharedLookupOptions<Q, V>): (question: Q) => Promise<V> {
  const batch = new Batch<Q, V>({
    key: () => null,
    write: async questions => {
      if (questions.length === 1) return await find(questions)
      const places = new Map<string, number>()
      const distinct: Q[] = []
      const placed = questions.map(question => {
        const name = key(question)
        const place = places.get(name) ?? distinct.push(question) - 1
        places.set(name, place)
        return place
      })
      const answers = await find(distinct)
      // `find` returns one for each.
      return placed.map(place => answers[place] as V)
    }
  })
  return question => batch.add(question)
}
