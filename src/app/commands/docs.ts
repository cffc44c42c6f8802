import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { jsonSchema } from '../../engine/config/json-schema.ts'
import { referencePage } from '../../engine/config/reference.ts'
import { builtInPlugins } from '../plugins.ts'
import { providerKinds } from '../../lightning/kinds/kinds.ts'
import { defineCommand } from '../cli/command.ts'
import { configurationErrors } from '../../engine/config/diagnose.ts'
import { definedErrors, type ErrorText } from '../../platform/system/errors.ts'

export const docs = defineCommand(
  {
    about: 'Prints the reference of all settings',
    flags: {
      '--write <folder>':
        'Write configuration.md, errors.md and gateway.schema.json (for editors) to this folder instead'
    },
    examples: ['boltgate docs | less', 'boltgate docs --write docs/reference']
  },
  async (values, _words, out) => {
    const page = referencePage(builtInPlugins.values(), providerKinds)
    if (values.write === undefined) {
      out.print(page)
      return 0
    }
    // Loads every module that defines errors.
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
)

/** docs/reference/errors.md: errors of all loaded modules by code. */
export function errorsPage(): string {
  const all = [...definedErrors].sort(([one], [other]) => (one < other ? -1 : 1))
  const configuration = all.filter(([code]) => Object.hasOwn(configurationErrors, code))
  const responses = all.filter(([, { status }]) => status !== undefined)
  const others = all.filter(entry => !configuration.includes(entry) && !responses.includes(entry))
  return `${[
    '# Errors',
    'This page is generated from the calls of `defineError`; do not edit it. A code never changes its meaning.',
    '`boltgate` prints the code in brackets at the end of the first line of an error. Log lines have it as `code`, or as `code` of `err`. Response bodies have no code: clients decide by the status and `error` ([contract](contract.md)). A code may cover several errors that call for the same action; the message says which one it is.',
    '## Configuration',
    'Reported by `boltgate check`, at the start and on reload, with file, line and column. A reload with an error changes nothing.',
    table(configuration),
    '## Start, commands and log',
    table(others),
    '## Responses',
    'A 402 that asks for payment, and the rejection of a payment credential (`X-L402-Error`, or the `type` of the problem), have no code: see the contract.',
    responseTable(responses)
  ].join('\n\n')}\n`
}

type Entry = readonly [code: string, text: ErrorText]

function table(entries: readonly Entry[]): string {
  const rows = entries.map(([code, { cause, fix }]) => row(`\`${code}\``, cause, fix))
  return ['| Code | Cause | Fix |', '|---|---|---|', ...rows].join('\n')
}

function responseTable(entries: readonly Entry[]): string {
  const rows = entries.map(([code, { status, title = '', cause, fix }]) =>
    row(`\`${code}\``, String(status ?? ''), title, cause, fix)
  )
  return ['| Code | Status | `error` | Cause | Fix |', '|---|---|---|---|---|', ...rows].join('\n')
}

function row(...cells: readonly string[]): string {
  return `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`
}
