import { hash } from 'node:crypto'
import type { Clock } from '../system/clock.ts'
import type { Database, TransactionSql } from './database.ts'
import type { Log } from '../telemetry/log.ts'

/**
 * One step of the database's shape. Steps are never changed once released: a later one corrects them. Each must work on
 * PostgreSQL 15 and on the embedded database, inside a transaction.
 */
export type Migration = {
  /** `NNNN-what-it-makes`, unique; steps run in the order of their names. */
  readonly name: string
} & (
  | { /** The statements as one text. */ readonly sql: string }
  | {
      /** The statements, run one after the other, as literal templates: they are what the checksum covers. */ up(
        sql: TransactionSql
      ): Promise<void>
    }
)

/** The database cannot be brought to the shape that this program needs. */
export class MigrationError extends Error {
  override name = 'MigrationError'
  readonly code = 'BG_DATABASE_MIGRATION'
}

/** What running the migrations takes. */
export interface MigrateOptions {
  clock: Clock
  log: Log
}

// Any number serves as long as all gateways agree on it and nothing else uses it: "boltgate" in a telephone's letters.
const lockNumber = 26_584_283

const namePattern = /^\d{4}-[a-z0-9]+(-[a-z0-9]+)*$/

interface Applied {
  name: string
  checksum: string
}

/**
 * Brings the database to the newest shape: runs the missing migrations in the order of their names, in one transaction,
 * so that either all of them count or none. Several gateways may start at once: one works, the others wait and find
 * nothing to do.
 * @returns the names that were run.
 * @throws MigrationError when the database is newer than this program, or a migration was changed after it had been
 *   applied.
 */
export async function migrate(
  database: Database,
  migrations: readonly Migration[],
  options: MigrateOptions
): Promise<string[]> {
  checkNames(migrations)
  return database.transaction(
    async tx => {
      if (database.kind === 'postgres') await tx`set local statement_timeout = 0`
      // Released by the end of the transaction, in whatever way it ends.
      await tx`select pg_advisory_xact_lock(${lockNumber})`
      await tx`create table if not exists schema_migrations (name text primary key, checksum text not null, applied_at timestamptz not null)`
      const applied = await tx<Applied[]>`select name, checksum from schema_migrations order by name`
      checkApplied(migrations, applied)
      const known = new Set(applied.map(row => row.name))
      const missing = migrations.filter(migration => !known.has(migration.name))
      for (const migration of missing) {
        await run(migration, tx)
        await tx`insert into schema_migrations (name, checksum, applied_at) values (${migration.name}, ${checksumOf(migration)}, ${new Date(options.clock.now())})`
      }
      const names = missing.map(migration => migration.name)
      if (names.length > 0) options.log.info({ migrations: names }, 'The database was brought up to date')
      return names
    },
    { slow: true }
  )
}

async function run(migration: Migration, tx: TransactionSql): Promise<void> {
  try {
    if ('sql' in migration) await tx.unsafe(migration.sql)
    else await migration.up(tx)
  } catch (error) {
    throw new MigrationError(
      `The migration ${migration.name} failed and nothing was changed: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error }
    )
  }
}

function checkNames(migrations: readonly Migration[]): void {
  let last = ''
  for (const { name } of migrations) {
    if (!namePattern.test(name))
      throw new MigrationError(`The migration ${JSON.stringify(name)} must be named like 0001-merchants`)
    if (name <= last)
      throw new MigrationError(`The migration ${name} stands after ${last} in the list; names must rise and be unique`)
    last = name
  }
}

function checkApplied(migrations: readonly Migration[], applied: readonly Applied[]): void {
  const byName = new Map(migrations.map(migration => [migration.name, migration]))
  for (const { name, checksum } of applied) {
    const migration = byName.get(name)
    if (migration === undefined) {
      throw new MigrationError(
        `The database has the migration ${name}, which this version does not know: it was used by a newer version. Run that version or a later one, or restore a copy from before it`
      )
    }
    if (checksumOf(migration) !== checksum) {
      throw new MigrationError(
        `The migration ${name} is not the one that was applied to this database. Released migrations must not be changed: add another one; in development, remove the data folder`
      )
    }
  }
}

/** A text that differs whenever the migrations would make other tables. */
export function shapeOf(migrations: readonly Migration[]): string {
  return migrations.map(migration => `${migration.name} ${checksumOf(migration)}`).join('\n')
}

/**
 * A digest of the statements alone. The text of `up` differs between the sources and the built package (types,
 * semicolons), but its template literals are the same in both; their white space does not count.
 */
function checksumOf(migration: Migration): string {
  const text =
    'sql' in migration ? migration.sql : (migration.up.toString().match(/`(?:[^`\\]|\\.)*`/gs) ?? []).join('\n')
  return hash('sha256', text.replaceAll(/\s+/g, ' ').trim())
}
