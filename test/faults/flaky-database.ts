import type { Database, Sql } from '../../src/platform/database.ts'

/** A database that a test can take away. */
export interface FlakyDatabase extends Database {
  away: boolean
  /** Statements that were refused. */
  readonly refused: number
}

class Away extends Error {
  readonly code = 'ECONNREFUSED'
}

/** The same database, whose statements fail as those to a server that is down while `away` is set. */
export function flaky (database: Database): FlakyDatabase {
  let refused = 0
  const check = (): void => {
    if (!wrapped.away) return
    refused++
    throw new Away('connect ECONNREFUSED 10.1.2.3:5432')
  }
  const sql = new Proxy(database.sql, {
    apply: (target, self, args: unknown[]) => {
      // sql(columns) only builds a part of a statement; a template runs one, and its fault is a rejection.
      if (wrapped.away && Array.isArray(args[0]) && 'raw' in args[0]) {
        refused++
        const failed = Promise.reject(new Away('connect ECONNREFUSED 10.1.2.3:5432'))
        // A template that is put into another is part of that one: it never runs by itself, and nobody waits for it.
        failed.catch(() => {})
        return failed
      }
      return Reflect.apply(target, self, args)
    }
  }) as Sql // The proxy has the type of what it stands for.
  const wrapped: FlakyDatabase = {
    kind: database.kind,
    away: false,
    get refused () { return refused },
    sql,
    async transaction (run, options) {
      check()
      return database.transaction(run, options)
    },
    async listen (channel, heard) {
      check()
      return database.listen(channel, heard)
    },
    async notify (channel, payload, tx) {
      check()
      return database.notify(channel, payload, tx)
    },
    async health () {
      return wrapped.away ? { status: 'unhealthy', ms: 1, error: 'The database is not reachable (ECONNREFUSED)' } : database.health()
    },
    close: () => database.close()
  }
  return wrapped
}
