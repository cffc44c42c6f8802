import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { shapeOf, type Migration } from '../platform/database/migrations.ts'
import { migrations as allMigrations } from '../platform/database/migrations/list.ts'
import { imageName } from '../platform/database/pglite/image.ts'

// A built package has it beside its files; a checkout among the things that an installation may make anew.
const folder = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../node_modules/.cache/boltgate/' : '../../image/', import.meta.url)
)

/** Where the image of a database with these migrations is, or would be. */
export function imageFile(migrations: readonly Migration[]): string {
  return join(folder, imageName(shapeOf(migrations)))
}

/**
 * The image of this version where an installation or a build has made it; else null, and a first start takes some
 * seconds more.
 */
export function ownImage(): string | null {
  const file = imageFile(allMigrations)
  return existsSync(file) ? file : null
}
