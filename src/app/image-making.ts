import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { imageFile } from './image.ts'
import { systemClock } from '../platform/system/clock.ts'
import { openDatabase, type Database } from '../platform/database/database.ts'
import { silentLog } from '../platform/telemetry/log.ts'
import { migrate, type Migration } from '../platform/database/migrations.ts'
import { migrations as allMigrations } from '../platform/database/migrations/list.ts'
import { writeImage } from '../platform/database/pglite/image.ts'

/**
 * Makes the image of an embedded database with all tables and no rows; tests pass fewer `migrations`, or none. A no-op
 * if it exists. Safe concurrently.
 * @returns its file
 */
export async function makeImage(migrations: readonly Migration[] = allMigrations): Promise<string> {
  const file = imageFile(migrations)
  if (existsSync(file)) return file
  const dataDir = mkdtempSync(join(tmpdir(), 'boltgate-image-'))
  try {
    const database = await openDatabase({ url: 'pglite:database', dataDir, clock: systemClock, log: silentLog })
    try {
      if (migrations.length > 0) await migrate(database, migrations, { clock: systemClock, log: silentLog })
      await dropTemplates(database)
      await dropLog(database)
    } finally {
      await database.close()
    }
    writeImage(file, join(dataDir, 'database'))
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
  return file
}

/** PostgreSQL copies new databases from these. None are made here, and they are half of the unpacked files. */
async function dropTemplates({ sql }: Database): Promise<void> {
  await sql`update pg_database set datistemplate = false`
  await sql`drop database template0`
  await sql`drop database template1`
}

/**
 * Leaves one segment of write-ahead log, almost empty. A start reads nothing before the last checkpoint, and segments that
 * were recycled for later hold old bytes: together they were half of the image.
 */
async function dropLog({ sql }: Database): Promise<void> {
  await sql`set wal_recycle = off`
  const segments = await sql`select name from pg_ls_waldir()`
  for (const _ of segments) {
    await sql`checkpoint`
    await sql`select pg_switch_wal()`
  }
  await sql`checkpoint`
}
