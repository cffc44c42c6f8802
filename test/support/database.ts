import { hash, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import type { Test as T } from 'tap'
import { makeImage, makeTables } from '../../src/image-making.ts'
import { systemClock, type Clock } from '../../src/system/clock.ts'
import { openDatabase, type Database } from '../../src/database/database.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { migrate, shapeOf, type Migration } from '../../src/database/migrations.ts'
import { migrations as allMigrations } from '../../src/database/migrations/list.ts'
import { PgliteServer } from '../../src/database/pglite/pglite.ts'

/** How a test's databases are made. */
export interface TestDatabaseOptions {
  clock?: Clock
  /** Run before the test; all of the product's unless said, and `[]` for an empty database. */
  migrations?: readonly Migration[]
}

/** The image that an embedded database of a test begins with: empty unless all migrations are wanted. Made once for all files. */
export function testImage (migrations: readonly Migration[] = []): Promise<string> {
  return makeImage(migrations === allMigrations ? allMigrations : [])
}

/** A new folder that is removed when the test ends. */
export function temporaryFolder (t: T): string {
  const folder = mkdtempSync(join(tmpdir(), 'boltgate-'))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  return folder
}

/** A fresh embedded database in memory, closed when the test ends. */
export async function openTestDatabase (t: T, options: TestDatabaseOptions = {}): Promise<Database> {
  const image = await testImage(options.migrations ?? allMigrations)
  return prepare(t, await openDatabase({ url: 'pglite:memory', dataDir: tmpdir(), log: silentLog, clock: options.clock ?? systemClock, image }), options)
}

/** A fresh database: on PostgreSQL where `TEST_DATABASE_URL` names one, else the embedded one. For tests that are not about storage. */
export async function openAnyDatabase (t: T, options: TestDatabaseOptions = {}): Promise<Database> {
  const url = process.env['TEST_DATABASE_URL']
  return url === undefined || url === '' ? openTestDatabase(t, options) : openTestPostgres(t, url, options)
}

/** What `openTestPostgres` copies: a database of the test server with all tables, made by whoever comes first and kept there. */
async function postgresTemplate (maintenance: postgres.Sql, url: string): Promise<string> {
  const name = `boltgate_template_${hash('sha256', shapeOf(allMigrations)).slice(0, 16)}`
  const lock = await maintenance.reserve()
  try {
    await lock`select pg_advisory_lock(hashtext(${name}))`
    const [found] = await lock`select datistemplate as ready from pg_database where datname = ${name}`
    if (found?.['ready'] === true) return name
    // Somebody ended while making it.
    if (found !== undefined) await lock`drop database ${lock(name)} with (force)`
    await lock`create database ${lock(name)}`
    const own = new URL(url)
    own.pathname = `/${name}`
    const database = await openDatabase({ url: own.href, dataDir: tmpdir(), log: silentLog, clock: systemClock })
    await makeTables(database, allMigrations)
    await database.close()
    await lock`alter database ${lock(name)} with is_template true`
    return name
  } finally {
    await lock`select pg_advisory_unlock(hashtext(${name}))`
    lock.release()
  }
}

async function openTestPostgres (t: T, url: string, options: TestDatabaseOptions): Promise<Database> {
  const name = `boltgate_test_${randomBytes(6).toString('hex')}`
  const maintenance = postgres(url, { max: 1, onnotice: () => {} })
  const isWhole = (options.migrations ?? allMigrations) === allMigrations
  const template = isWhole ? await postgresTemplate(maintenance, url) : 'template1'
  await maintenance`create database ${maintenance(name)} template ${maintenance(template)}`
  const own = new URL(url)
  own.pathname = `/${name}`
  const database = await openDatabase({ url: own.href, dataDir: tmpdir(), log: silentLog, clock: options.clock ?? systemClock })
  t.teardown(async () => {
    await database.close()
    await maintenance`drop database ${maintenance(name)} with (force)`
    await maintenance.end()
  })
  return prepare(t, database, options)
}

async function prepare (t: T, database: Database, options: TestDatabaseOptions): Promise<Database> {
  // PostgreSQL's teardown closes before it drops; closing twice is harmless.
  t.teardown(() => database.close())
  const migrations = options.migrations ?? allMigrations
  if (migrations.length > 0) await migrate(database, migrations, { clock: options.clock ?? systemClock, log: silentLog })
  return database
}

/** Hands out the servers that `openDatabase` starts, so that a test can reach their processes. */
export function startedServers (t: T): PgliteServer[] {
  const servers: PgliteServer[] = []
  const start = PgliteServer.start
  PgliteServer.start = async (...args) => {
    const server = await start.apply(PgliteServer, args)
    servers.push(server)
    return server
  }
  t.teardown(() => { PgliteServer.start = start })
  return servers
}

/** A database for all tests of a file, and what its tables were like when it was made. */
interface Shared {
  readonly database: Database
  readonly shape: unknown
}

const shared = new Map<readonly Migration[], Shared>()

/** Changes with every table, column, constraint, index, trigger and function that a test makes or takes away. */
async function madeOf (database: Database): Promise<unknown> {
  return await database.sql`
    with kept as (select oid from pg_namespace where nspname in ('public', 'boltgate_jobs'))
    select (select string_agg(format('%s %s %s', oid, relname, relnatts), ',' order by oid) from pg_class where relnamespace in (table kept)) as tables,
      (select string_agg(oid::text, ',' order by oid) from pg_constraint where connamespace in (table kept)) as constraints,
      (select string_agg(format('%s %s', oid, tgenabled), ',' order by oid) from pg_trigger) as triggers,
      (select string_agg(oid::text, ',' order by oid) from pg_proc where pronamespace in (table kept)) as functions`
}

/**
 * One embedded database for all of a file's `eachDatabase` with the same migrations, emptied before each: starting one takes
 * longer than most tests. A test that sets a clock has its own.
 */
async function emptyShared (outer: T, t: T, options: TestDatabaseOptions): Promise<Database> {
  if (options.clock !== undefined) return openTestDatabase(t, options)
  const migrations = options.migrations ?? allMigrations
  const held = shared.get(migrations)
  if (held === undefined) {
    const database = await openTestDatabase(outer, { migrations })
    outer.teardown(() => { shared.delete(migrations) })
    shared.set(migrations, { database, shape: await madeOf(database) })
    return database
  }
  const { database, shape } = held
  if (same(await madeOf(database), shape)) await emptyTables(database)
  else {
    await database.sql.unsafe('drop schema public cascade; create schema public; drop schema if exists boltgate_jobs cascade')
    if (migrations.length > 0) await migrate(database, migrations, { clock: systemClock, log: silentLog })
    shared.set(migrations, { database, shape: await madeOf(database) })
  }
  return database
}

function same (a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

async function emptyTables (database: Database): Promise<void> {
  const tables = await database.sql<Array<{ name: string }>>`
    select format('%I.%I', schemaname, tablename) as name from pg_tables
    where schemaname in ('public', 'boltgate_jobs') and tablename not in ('schema_migrations', 'version')`
  if (tables.length > 0) await database.sql.unsafe(`truncate ${tables.map(table => table.name).join(', ')} restart identity cascade`)
}

/**
 * Runs a test on the embedded database, and on PostgreSQL too where `TEST_DATABASE_URL` names one (a superuser's or one that may
 * create databases). Each run begins with an empty database, migrated as `options` say; call it one after the other.
 */
export async function eachDatabase (outer: T, name: string, run: (t: T, database: Database) => Promise<void>, options: TestDatabaseOptions = {}): Promise<void> {
  await outer.test(`${name} (embedded)`, async t => { await run(t, await emptyShared(outer, t, options)) })
  const url = process.env['TEST_DATABASE_URL']
  if (url !== undefined && url !== '') {
    await outer.test(`${name} (PostgreSQL)`, async t => { await run(t, await openTestPostgres(t, url, options)) })
  }
}
