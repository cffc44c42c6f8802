import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { jsonSchema } from '../../engine/config/json-schema.ts'
import { referencePage } from '../../engine/config/reference.ts'
import { builtInPlugins } from '../plugins.ts'
import { providerKinds } from '../../lightning/kinds/kinds.ts'
import type { Output } from '../cli/output.ts'
import { errorsPage } from './errors-page.ts'

export const docsUsage = `boltgate docs [--write FOLDER]

Prints the reference of the configuration, made from its schemas; --write puts configuration.md,
gateway.schema.json (for editors) and errors.md into FOLDER.`

/** Prints or writes the generated pages. */
export async function docs(args: readonly string[], out: Output): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { write: { type: 'string' } } })
  const page = referencePage(builtInPlugins.values(), providerKinds)
  if (values.write === undefined) {
    out.print(page)
    return 0
  }
  // Every module that defines errors.
  await import('../compose.ts')
  await import('../composition/suite.ts')
  mkdirSync(values.write, { recursive: true })
  writeFileSync(join(values.write, 'configuration.md'), page)
  writeFileSync(join(values.write, 'errors.md'), errorsPage())
  writeFileSync(
    join(values.write, 'gateway.schema.json'),
    `${JSON.stringify(jsonSchema(builtInPlugins.values(), providerKinds), null, 2)}\n`
  )
  out.print(`Wrote ${join(values.write, 'configuration.md')}, gateway.schema.json and errors.md`)
  return 0
}
