/**
 * Databases that the tests of a file use one after the other: starting an embedded one takes a second of computing,
 * making one on a server a quarter, emptying either some milliseconds. What a test gets is as if it had just been made,
 * or it was.
 */
import { randomBytes } from 'node:crypto'
import { tmpdir } from 'node:os'
import postgres from 'postgres'
import type { Test as T } from 'tap'
import { databaseOn, openDatabase, type Database, type DatabaseOptions } from '../../src/platform/database/database.ts'
import { PgliteServer } from '../../src/platform/database/pglite/pglite.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'

/** Milliseconds: on a loaded machine a statement waits longer for its turn than a gateway lets it. */
const SILENCE = 120_000

/** A database that only one test has at a time. */
interface Place {
  /** What it was like when it was new; null until a test has had it. */
  fresh: Content | null
  /** Opens it; closing what this gives ends that use, and calls `left` unless it can never be used again. */
  open(clock: Clock, left: () => void): Promise<Database>
  drop(): Promise<void>
}

/** The content of a new database: the digest of its catalogs and of its tables' sizes, and the few rows that it has. */
interface Content {
  readonly catalogs: string
  readonly rows: ReadonlyMap<string, string>
}

const idle = new Map<string, Place[]>()

/** A database as the image `file` has it, in a process of its own. */
export function embeddedDatabase(file: string, clock: Clock): Promise<Database> {
  return taken(`embedded ${file}`, () => embeddedPlace(file), clock)
}

/** A copy of the database `template` on the server at `url`. */
export function serverDatabase(url: string, template: string, clock: Clock): Promise<Database> {
  return taken(`${url} ${template}`, () => serverPlace(url, template), clock)
}

async function taken(kind: string, make: () => Promise<Place>, clock: Clock): Promise<Database> {
  const free = idle.get(kind) ?? []
  idle.set(kind, free)
  for (;;) {
    const place = free.pop() ?? (await make())
    let isAsNew = true
    const database = await place.open(clock, () => {
      if (isAsNew) free.push(place)
    })
    try {
      place.fresh = place.fresh === null ? await contentOf(database) : await emptied(database, place.fresh)
      isAsNew = place.fresh !== null
    } catch (error) {
      isAsNew = false
      throw error
    } finally {
      if (!isAsNew) {
        await database.close()
        await place.drop()
      }
    }
    if (isAsNew) return database
  }
}

async function embeddedPlace(image: string): Promise<Place> {
  const server = await PgliteServer.start({ folder: null, image }, silentLog, systemClock)
  return {
    fresh: null,
    open: async (clock, left) => {
      server.keepsAlive(true)
      const close = async (): Promise<void> => {
        if (server.stopped) return
        // An idle one ends with this process.
        server.keepsAlive(false)
        left()
      }
      return databaseOn(
        {
          connect: () => server.connect(),
          get stopped() {
            return server.stopped
          },
          close
        },
        { clock, silence: SILENCE },
        null
      )
    },
    drop: async () => {
      server.keepsAlive(true)
      await server.close()
    }
  }
}

const made = new Set<Place>()

/** The address of a new, empty database of the server at `url`, dropped when the test ends. */
export async function testServerDatabase(t: T, url: string): Promise<string> {
  const name = `boltgate_test_${randomBytes(6).toString('hex')}`
  await maintain(url, sql => sql`create database ${sql(name)}`)
  t.teardown(() => maintain(url, sql => sql`drop database ${sql(name)} with (force)`))
  return within(url, name)
}

function within(url: string, database: string): string {
  const own = new URL(url)
  own.pathname = `/${database}`
  return own.href
}

/**
 * How a database of the server is reached: with `TEST_POOLER_URL`, the address of a pooler in the mode `transaction`
 * before the same server, over that.
 */
export function wayTo(url: string, name: string): Pick<DatabaseOptions, 'url' | 'listenUrl'> {
  const pooler = process.env['TEST_POOLER_URL'] ?? ''
  const direct = within(url, name)
  if (pooler === '') return { url: direct }
  return { url: within(pooler, name), listenUrl: direct }
}

async function serverPlace(url: string, template: string): Promise<Place> {
  const name = `boltgate_test_${randomBytes(6).toString('hex')}`
  await maintain(url, sql => sql`create database ${sql(name)} template ${sql(template)}`)
  const way = wayTo(url, name)
  const place: Place = {
    fresh: null,
    open: async (clock, left) => {
      const database = await openDatabase({ ...way, dataDir: tmpdir(), log: silentLog, clock, silence: SILENCE })
      const close = database.close.bind(database)
      let closed: Promise<void> | null = null
      database.close = () => (closed ??= close().then(left))
      return database
    },
    drop: async () => {
      made.delete(place)
      await maintain(url, sql => sql`drop database ${sql(name)} with (force)`)
    }
  }
  // Their file is over when nothing is left to do, tap's last lines included.
  if (made.size === 0)
    process.once('beforeExit', () => {
      for (const each of made) void each.drop()
    })
  made.add(place)
  return place
}

/** One statement on the server itself. */
export async function maintain<R>(url: string, run: (sql: postgres.Sql) => Promise<R>): Promise<R> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  try {
    return await run(sql)
  } finally {
    await sql.end()
  }
}

/** Every change of a table, type, function, trigger, setting and so on is a new row of one of these. */
const catalogs = [
  'class',
  'attribute',
  'attrdef',
  'constraint',
  'index',
  'trigger',
  'proc',
  'namespace',
  'type',
  'enum',
  'rewrite',
  'policy',
  'sequence',
  'extension',
  'db_role_setting',
  'default_acl',
  'event_trigger'
]

/**
 * How large the planner takes each table to be. Where it has looked at one while a test had rows in it, it makes other
 * plans than for a new one.
 */
const sizes = `(
  select string_agg(concat(relname, ' ', relpages, ' ', reltuples), ';' order by relname) from pg_class
  where relkind = 'r' and relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace))`

async function catalogsOf(database: Database): Promise<string> {
  const changes = catalogs.map(name => `(select concat(count(*), ' ', max(xmin::text::bigint)) from pg_${name})`)
  const [row] = await database.sql.unsafe<Array<{ digest: string }>>(
    `select concat_ws(',', ${[...changes, sizes].join(', ')}) as digest`
  )
  return row?.digest ?? ''
}

async function tablesOf(database: Database): Promise<string[]> {
  const rows = await database.sql<Array<{ name: string }>>`
    select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`
  return rows.map(row => row.name)
}

async function contentOf(database: Database): Promise<Content> {
  const each = (await tablesOf(database)).map(
    table => `select '${table}' as name, json_agg(r)::text as all from ${table} r`
  )
  const found =
    each.length === 0
      ? []
      : await database.sql.unsafe<Array<{ name: string; all: string | null }>>(each.join(' union all '))
  return {
    catalogs: await catalogsOf(database),
    rows: new Map(found.flatMap(({ name, all }) => (all === null ? [] : [[name, all]])))
  }
}

/**
 * Brings a database that a test had back to what it was when it was new, and answers that; null where it cannot be
 * brought back.
 */
async function emptied(database: Database, fresh: Content): Promise<Content | null> {
  if (database.kind === 'pglite') await database.sql.unsafe('discard all')
  else {
    // No other session may do without triggers and foreign keys, which would look at each row.
    const [may] = await database.sql`select current_setting('is_superuser') = 'on' as may`
    if (may?.['may'] !== true) return null
  }
  if ((await catalogsOf(database)) !== fresh.catalogs)
    return fresh.rows.size === 0 ? await withoutTables(database, fresh) : null
  const tables = await tablesOf(database)
  await database.transaction(async tx => {
    await tx`set local session_replication_role = replica`
    if (tables.length > 0) await tx.unsafe(tables.map(table => `delete from ${table}`).join(';'))
    for (const [table, all] of fresh.rows)
      await tx.unsafe(`insert into ${table} select * from json_populate_recordset(null::${table}, $1::text::json)`, [
        all
      ])
    await tx`select setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false) from pg_sequences where last_value is not null`
  })
  return fresh
}

/** The same for a database that was empty: what the test made goes. */
async function withoutTables(database: Database, fresh: Content): Promise<Content | null> {
  const schemas = await database.sql<Array<{ name: string }>>`
    select format('%I', nspname) as name from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'`
  await database.sql.unsafe(
    [...schemas.map(({ name }) => `drop schema ${name} cascade`), 'create schema public'].join(';')
  )
  const now = await contentOf(database)
  const counts = (catalogs: string): string => catalogs.replaceAll(/ \d+/g, '')
  return counts(now.catalogs) === counts(fresh.catalogs) ? now : null
}
