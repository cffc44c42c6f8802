import { hash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type postgres from 'postgres'
import type { Test as T } from 'tap'
import { makeImage } from '../../src/app/image-making.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { openDatabase, type Database, type DatabaseOptions, type Sql } from '../../src/platform/database/database.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { migrate, shapeOf, type Migration } from '../../src/platform/database/migrations.ts'
import { migrations as allMigrations } from '../../src/platform/database/migrations/list.ts'
import { PgliteServer } from '../../src/platform/database/pglite/pglite.ts'
import { embeddedDatabase, maintain, serverDatabase } from './database-places.ts'

/** How a test's databases are made. */
export interface TestDatabaseOptions {
  clock?: Clock
  /** Run before the test; all of the product's unless said, and `[]` for an empty database. */
  migrations?: readonly Migration[]
}

/**
 * The image that an embedded database of a test begins with: empty unless all migrations are wanted. Made once for all
 * files.
 */
export function testImage(migrations: readonly Migration[] = []): Promise<string> {
  return makeImage(migrations === allMigrations ? allMigrations : [])
}

/** Whatever has an end at which what was begun for it is undone: a test, or a benchmark. */
export type Lifetime = Pick<T, 'teardown'>

/** A new folder that is removed when the test ends. */
export function temporaryFolder(t: Lifetime): string {
  const folder = mkdtempSync(join(tmpdir(), 'boltgate-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true })
  })
  return folder
}

/** A fresh embedded database in memory, closed when the test ends. */
export async function openTestDatabase(t: T, options: TestDatabaseOptions = {}): Promise<Database> {
  const image = await testImage(options.migrations ?? allMigrations)
  const clock = options.clock ?? systemClock
  // A test that needs the process means one that was started for it.
  const isReached = PgliteServer.start !== startServer
  return prepare(
    t,
    await (isReached
      ? openDatabase({ url: 'pglite:memory', dataDir: tmpdir(), log: silentLog, clock, image })
      : embeddedDatabase(image, clock)),
    options
  )
}

/**
 * A fresh database: on PostgreSQL where `TEST_DATABASE_URL` names one, else the embedded one. For tests that are not
 * about storage.
 */
export async function openAnyDatabase(t: T, options: TestDatabaseOptions = {}): Promise<Database> {
  const url = process.env['TEST_DATABASE_URL']
  return url === undefined || url === '' ? openTestDatabase(t, options) : openTestPostgres(t, url, options)
}

/** The database at an address, closed when the test ends. */
export async function openAt(t: Lifetime, url: string, options: Partial<DatabaseOptions> = {}): Promise<Database> {
  const database = await openDatabase({ url, dataDir: tmpdir(), log: silentLog, clock: systemClock, ...options })
  t.teardown(() => database.close())
  return database
}

const templates = new Map<string, Promise<string>>()

/**
 * What `openTestPostgres` copies: a database of the test server with all tables, made by the first caller and kept
 * there.
 */
function postgresTemplate(url: string): Promise<string> {
  const held = templates.get(url) ?? maintain(url, maintenance => makeTemplate(maintenance, url))
  templates.set(url, held)
  return held
}

async function makeTemplate(maintenance: postgres.Sql, url: string): Promise<string> {
  const name = `boltgate_template_${hash('sha256', shapeOf(allMigrations)).slice(0, 16)}`
  const lock = await maintenance.reserve()
  try {
    await lock`select pg_advisory_lock(hashtext(${name}))`
    const [found] = await lock`select datistemplate as ready from pg_database where datname = ${name}`
    if (found?.['ready'] === true) return name
    // The process that was making it has ended.
    if (found !== undefined) await lock`drop database ${lock(name)} with (force)`
    await lock`create database ${lock(name)}`
    const own = new URL(url)
    own.pathname = `/${name}`
    const database = await openDatabase({ url: own.href, dataDir: tmpdir(), log: silentLog, clock: systemClock })
    await migrate(database, allMigrations, { clock: systemClock, log: silentLog })
    await database.close()
    await lock`alter database ${lock(name)} with is_template true`
    return name
  } finally {
    await lock`select pg_advisory_unlock(hashtext(${name}))`
    lock.release()
  }
}

async function openTestPostgres(t: T, url: string, options: TestDatabaseOptions): Promise<Database> {
  const isWhole = (options.migrations ?? allMigrations) === allMigrations
  const template = isWhole ? await postgresTemplate(url) : 'template1'
  return prepare(t, await serverDatabase(url, template, options.clock ?? systemClock), options)
}

async function prepare(t: T, database: Database, options: TestDatabaseOptions): Promise<Database> {
  t.teardown(() => database.close())
  const migrations = options.migrations ?? allMigrations
  // The image and the template have all of them.
  if (migrations !== allMigrations && migrations.length > 0)
    await migrate(database, migrations, { clock: options.clock ?? systemClock, log: silentLog })
  return database
}

/** The same database with another outer handle, such as one that notes what is sent. */
export function withSql(database: Database, sql: Sql): Database {
  return {
    kind: database.kind,
    sql,
    transaction: (run, options) => database.transaction(run, options),
    listen: (channel, heard) => database.listen(channel, heard),
    notify: (channel, payload, tx) => database.notify(channel, payload, tx),
    health: () => database.health(),
    load: () => database.load(),
    verify: () => database.verify(),
    close: () => database.close()
  }
}

const startServer = PgliteServer.start

/** Hands out the servers that `openDatabase` starts, so that a test can reach their processes. */
export function startedServers(t: T): PgliteServer[] {
  const servers: PgliteServer[] = []
  const start = PgliteServer.start
  PgliteServer.start = async (...args) => {
    const server = await start.apply(PgliteServer, args)
    servers.push(server)
    return server
  }
  t.teardown(() => {
    PgliteServer.start = start
  })
  return servers
}

/**
 * Whether what is tested on embedded parts and on servers is wanted on servers alone: in a run that follows another
 * without them.
 */
export function serversOnly(): boolean {
  return (process.env['TEST_SERVERS_ONLY'] ?? '') !== ''
}

/** Runs a test that needs no server, unless in a run on servers that follows another without them. */
export function onEmbedded(outer: T, name: string, run: (t: T) => Promise<void>): Promise<unknown> {
  return outer.test(name, { skip: serversOnly() && 'it has run without servers' }, run)
}

/**
 * Runs a test on the embedded database, and on PostgreSQL too where `TEST_DATABASE_URL` names one (a superuser's or one
 * that may create databases). Each run begins with an empty database, migrated as `options` say; call it one after the
 * other. With `TEST_SERVERS_ONLY`, where the embedded one has had its run, on PostgreSQL alone.
 */
export async function eachDatabase(
  outer: T,
  name: string,
  run: (t: T, database: Database) => Promise<void>,
  options: TestDatabaseOptions = {}
): Promise<void> {
  const url = process.env['TEST_DATABASE_URL']
  const hasServer = url !== undefined && url !== ''
  if (!hasServer || !serversOnly()) {
    await outer.test(`${name} (embedded)`, async t => {
      await run(t, await openTestDatabase(t, options))
    })
  }
  if (hasServer) {
    await outer.test(`${name} (PostgreSQL)`, async t => {
      await run(t, await openTestPostgres(t, url, options))
    })
  }
}
