import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { shapeOf, type Migration } from '../platform/database/migrations.ts'
import { migrations as allMigrations } from '../platform/database/migrations/list.ts'
import { imageName } from '../platform/database/pglite/image.ts'

// Beside a built package's files; in a checkout below node_modules.
const folder = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../node_modules/.cache/boltgate/' : '../../image/', import.meta.url)
)

export function imageFile(migrations: readonly Migration[]): string {
  return join(folder, imageName(shapeOf(migrations)))
}

/** Prebuilt image of this version; null without one, which slows the first start by some seconds. */
export function ownImage(): string | null {
  const file = imageFile(allMigrations)
  return existsSync(file) ? file : null
}
