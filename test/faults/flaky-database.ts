import type { Database, Sql } from '../../src/platform/database/database.ts'

/** A database that a test can stop. */
export interface FlakyDatabase extends Database {
  away: boolean
  /** Statements, and transactions begun, until it fails on its own; those of a transaction count too. */
  goesAfter: number
  /** Statements that were refused. */
  readonly refused: number
}

class Away extends Error {
  readonly code = 'ECONNREFUSED'
}

/** The same database, whose statements fail as those to a server that is down while `away` is set. */
export function flaky(database: Database): FlakyDatabase {
  let refused = 0
  const isAway = () => {
    if (!wrapped.away && wrapped.goesAfter-- <= 0) wrapped.away = true
    if (wrapped.away) refused++
    return wrapped.away
  }
  const check = () => {
    if (isAway()) throw new Away('connect ECONNREFUSED 10.1.2.3:5432')
  }
  const guarded = <S extends Sql>(handle: S) =>
    new Proxy(handle, {
      apply: (target, self, args: unknown[]) => {
        // sql(columns) only builds a part of a statement; a template runs one, and its fault is a rejection.
        if (Array.isArray(args[0]) && 'raw' in args[0] && isAway()) {
          const failed = Promise.reject(new Away('connect ECONNREFUSED 10.1.2.3:5432'))
          // A template that is put into another is part of that one: it never runs on its own, and has no waiter.
          failed.catch(() => {})
          return failed
        }
        return Reflect.apply(target, self, args)
      }
    })
  const wrapped: FlakyDatabase = {
    kind: database.kind,
    away: false,
    goesAfter: Number.POSITIVE_INFINITY,
    get refused() {
      return refused
    },
    sql: guarded(database.sql),
    async transaction(run, options) {
      check()
      return database.transaction(tx => run(guarded(tx)), options)
    },
    async listen(channel, heard) {
      check()
      return database.listen(channel, heard)
    },
    async notify(channel, payload, tx) {
      check()
      return database.notify(channel, payload, tx)
    },
    async health() {
      return wrapped.away
        ? { status: 'unhealthy', ms: 1, error: 'The database is not reachable (ECONNREFUSED)' }
        : database.health()
    },
    load: () => database.load(),
    async verify() {
      check()
      await database.verify()
    },
    close: () => database.close()
  }
  return wrapped
}
