import { hash } from 'node:crypto'
import type { Clock } from '../system/clock.ts'
import type { Database, Sql, TransactionSql } from './database.ts'
import { isLockedOut } from './errors.ts'
import type { Log } from '../telemetry/log.ts'
import { defineError, CodedError } from '../system/errors.ts'

const DATABASE_MIGRATION = defineError('BG_DATABASE_MIGRATION', {
  cause: 'A migration failed, or a newer version has migrated the database. Nothing was changed.',
  fix: 'Run the version named in the message, or fix the reported cause and restart.'
})

/**
 * Never changed once released: a later one corrects it. Must work on PostgreSQL 15 and on the embedded database, inside
 * a transaction.
 */
export type Migration = {
  /** `NNNN-what-it-makes`, unique; steps run in the order of their names. */
  readonly name: string
} & (
  | { readonly sql: string }
  | {
      up(sql: TransactionSql): Promise<void>
    }
)

interface MigrateOptions {
  clock: Clock
  log: Log
}

// Shared by all gateways and unused otherwise: "boltgate" in telephone letters.
const lockNumber = 26_584_283

/** Milliseconds that a migration waits for a lock, and between two attempts. */
const LOCK_TIMEOUT = 200
const RETRY_MS = 1_000

const namePattern = /^\d{4}-[a-z0-9]+(-[a-z0-9]+)*$/

interface Applied {
  name: string
  checksum: string
}

/**
 * Runs the missing migrations in the order of their names. Several gateways may start together: one works, the others
 * wait.
 *
 * On a PostgreSQL in use each migration is its own transaction, and waits at most `LOCK_TIMEOUT` for a lock before it
 * starts over: a pending exclusive lock blocks every later request. A new or embedded database, not yet in use, gets
 * all of them in one transaction.
 * @returns the names that were run.
 * @throws MigrationError when the database is newer than this program, or a migration failed or was changed after it
 * had been applied. Earlier ones stay applied.
 */
export async function migrate(
  database: Database,
  migrations: readonly Migration[],
  options: MigrateOptions
): Promise<string[]> {
  checkNames(migrations)
  const progress = new Progress(options)
  for (let attempt = 1; ; attempt++) {
    try {
      const isDone = await database.transaction(tx => step(database.kind, tx, migrations, progress), { slow: true })
      if (isDone) return progress.end()
      attempt = 0
    } catch (error) {
      if (!(error instanceof CodedError) || !isLockedOut(error.cause)) throw error
      await progress.blocked(attempt)
    }
  }
}

/** Runs the next missing migration, or all of them in an unused database; true when all have run. */
async function step(
  kind: Database['kind'],
  tx: TransactionSql,
  migrations: readonly Migration[],
  progress: Progress
): Promise<boolean> {
  if (kind === 'postgres') await tx`set local statement_timeout = 0`
  // Released at the end of the transaction.
  const [lock] = await tx`select pg_try_advisory_xact_lock(${lockNumber}) as taken`
  if (lock?.['taken'] !== true) {
    progress.waits()
    await tx`select pg_advisory_xact_lock(${lockNumber})`
  }
  await tx`create table if not exists schema_migrations (name text primary key, checksum text not null, applied_at timestamptz not null)`
  const missing = await missingMigrations(tx, migrations)
  const isUsed = missing.length < migrations.length
  const isShared = kind === 'postgres' && isUsed
  if (isShared) await tx`select set_config('lock_timeout', ${String(LOCK_TIMEOUT)}, true)`
  const next = isShared ? missing.slice(0, 1) : missing
  for (const [at, migration] of next.entries()) {
    if (isUsed) progress.begins(migration.name, at, missing.length)
    // First, so that the migration's locks are held for no further round trip.
    await tx`insert into schema_migrations (name, checksum, applied_at) values (${migration.name}, ${checksumOf(migration)}, ${progress.now()})`
    await run(migration, tx)
  }
  progress.ran(next)
  return next.length === missing.length
}

/**
 * Those that the database lacks.
 * @throws CodedError when the database is newer than this program, or an applied one was changed
 */
export async function missingMigrations(sql: Sql, migrations: readonly Migration[]): Promise<Migration[]> {
  const applied = await sql<Applied[]>`select name, checksum from schema_migrations order by name`
  checkApplied(migrations, applied)
  const known = new Set(applied.map(row => row.name))
  return migrations.filter(migration => !known.has(migration.name))
}

class Progress {
  readonly #clock: Clock
  readonly #log: Log
  readonly #begun: number
  readonly #ran: string[] = []

  constructor({ clock, log }: MigrateOptions) {
    this.#clock = clock
    this.#log = log
    this.#begun = clock.monotonic()
  }

  now(): Date {
    return new Date(this.#clock.now())
  }

  waits(): void {
    this.#log.info('Another gateway is migrating the database; waiting for it')
  }

  begins(migration: string, at: number, missing: number): void {
    const before = this.#ran.length
    this.#log.info(
      { migration, number: before + at + 1, of: before + missing, ms: this.#elapsed() },
      'Migrating the database. Large tables take a while; do not interrupt'
    )
  }

  ran(migrations: readonly Migration[]): void {
    this.#ran.push(...migrations.map(({ name }) => name))
  }

  async blocked(attempt: number): Promise<void> {
    if (attempt % 10 === 1)
      this.#log.warn(
        { attempt, ms: this.#elapsed() },
        'A migration needs a lock that another session holds, such as a dump or a long query; trying again'
      )
    await new Promise<void>(resolve => {
      this.#clock.after(RETRY_MS, resolve)
    })
  }

  end(): string[] {
    if (this.#ran.length > 0)
      this.#log.info({ migrations: this.#ran, ms: this.#elapsed() }, 'The database was brought up to date')
    return this.#ran
  }

  #elapsed(): number {
    return Math.round(this.#clock.monotonic() - this.#begun)
  }
}

async function run(migration: Migration, tx: TransactionSql): Promise<void> {
  try {
    if ('sql' in migration) await tx.unsafe(migration.sql)
    else await migration.up(tx)
  } catch (error) {
    throw new CodedError(
      DATABASE_MIGRATION,
      `The migration ${migration.name} failed and was rolled back: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error }
    )
  }
}

function checkNames(migrations: readonly Migration[]): void {
  let last = ''
  for (const { name } of migrations) {
    if (!namePattern.test(name))
      throw new CodedError(
        DATABASE_MIGRATION,
        `The migration ${JSON.stringify(name)} must be named like 0001-merchants`
      )
    if (name <= last)
      throw new CodedError(
        DATABASE_MIGRATION,
        `The migration ${name} comes after ${last} in the list; names must rise and be unique`
      )
    last = name
  }
}

function checkApplied(migrations: readonly Migration[], applied: readonly Applied[]): void {
  const byName = new Map(migrations.map(migration => [migration.name, migration]))
  for (const { name, checksum } of applied) {
    const migration = byName.get(name)
    if (migration === undefined) {
      throw new CodedError(
        DATABASE_MIGRATION,
        `The database has the migration ${name}, which this version does not know: it was used by a newer version. Run that version or a later one, or restore a copy from before it`
      )
    }
    if (checksumOf(migration) !== checksum) {
      throw new CodedError(
        DATABASE_MIGRATION,
        `The migration ${name} is not the one that was applied to this database. Released migrations must not be changed: add another one; in development, remove the data folder`
      )
    }
  }
}

/** A text that changes whenever the migrations would make other tables. */
export function shapeOf(migrations: readonly Migration[]): string {
  return migrations.map(migration => `${migration.name} ${checksumOf(migration)}`).join('\n')
}

/** A digest of the statements alone: sources and built package differ otherwise. */
function checksumOf(migration: Migration): string {
  const text =
    'sql' in migration ? migration.sql : (migration.up.toString().match(/`(?:[^`\\]|\\.)*`/gs) ?? []).join('\n')
  return hash('sha256', text.replaceAll(/\s+/g, ' ').trim())
}
