import type { Migration } from '../migrations.ts'
import { from0001 } from './from-0001.ts'
import { from0009 } from './from-0009.ts'
import { from0017 } from './from-0017.ts'
import { from0040 } from './from-0040.ts'
import { from0057 } from './from-0057.ts'
import { from0095 } from './from-0095.ts'

/** In the order in which they run. Imported by name, so that the built package has them too. */
export const migrations: readonly Migration[] = [
  ...from0001,
  ...from0009,
  ...from0017,
  ...from0040,
  ...from0057,
  ...from0095
]
