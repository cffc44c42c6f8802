import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import type { Test as T } from 'tap'
import { systemClock, type Clock } from '../../src/platform/clock.ts'
import { openDatabase, type Database } from '../../src/platform/database.ts'
import { silentLog } from '../../src/platform/log.ts'
import { PgliteServer } from '../../src/platform/pglite.ts'
import { migrate, type Migration } from '../../src/platform/migrations.ts'
import { migrations as allMigrations } from '../../src/platform/migrations/list.ts'

/** How a test's databases are made. */
export interface TestDatabaseOptions {
  clock?: Clock
  /** Run before the test; all of the product's unless said, and `[]` for an empty database. */
  migrations?: readonly Migration[]
}

/** Keeps the image of an empty embedded database between runs: making one takes seconds, reading one a fraction. */
export const templateFolder = fileURLToPath(new URL('../../node_modules/.cache/boltgate', import.meta.url))

/** A new folder that is removed when the test ends. */
export function temporaryFolder (t: T): string {
  const folder = mkdtempSync(join(tmpdir(), 'boltgate-'))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  return folder
}

/** A fresh embedded database in memory, closed when the test ends. */
export async function openTestDatabase (t: T, options: TestDatabaseOptions = {}): Promise<Database> {
  return prepare(t, await openDatabase({ url: 'pglite:memory', dataDir: tmpdir(), log: silentLog, clock: options.clock ?? systemClock, template: templateFolder }), options)
}

/** A fresh database: on PostgreSQL where `TEST_DATABASE_URL` names one, else the embedded one. For tests that are not about storage. */
export async function openAnyDatabase (t: T, options: TestDatabaseOptions = {}): Promise<Database> {
  const url = process.env['TEST_DATABASE_URL']
  return url === undefined || url === '' ? openTestDatabase(t, options) : openTestPostgres(t, url, options)
}

async function openTestPostgres (t: T, url: string, options: TestDatabaseOptions): Promise<Database> {
  const name = `boltgate_test_${randomBytes(6).toString('hex')}`
  const maintenance = postgres(url, { max: 1, onnotice: () => {} })
  await maintenance`create database ${maintenance(name)}`
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

let shared: Database | null = null

/**
 * One embedded database for all of a file's `eachDatabase`, emptied before each: starting one takes longer than most tests.
 * A test that sets a clock has its own.
 */
async function emptyShared (outer: T, t: T, options: TestDatabaseOptions): Promise<Database> {
  if (options.clock !== undefined) return openTestDatabase(t, options)
  const database = shared ??= await openForFile(outer)
  await database.sql.unsafe('drop schema public cascade; create schema public; drop schema if exists boltgate_jobs cascade')
  const migrations = options.migrations ?? allMigrations
  if (migrations.length > 0) await migrate(database, migrations, { clock: systemClock, log: silentLog })
  return database
}

async function openForFile (t: T): Promise<Database> {
  const database = await openTestDatabase(t, { migrations: [] })
  t.teardown(() => { shared = null })
  return database
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
