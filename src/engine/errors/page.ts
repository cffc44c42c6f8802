import { configurationErrors } from './configuration.ts'
import type { ErrorEntry, ResponseEntry } from './entry.ts'
import { operationErrors } from './operation.ts'
import { responseErrors } from './response.ts'
import { startErrors } from './start.ts'

/** The page of all errors as Markdown, one table for each sort. */
export function errorsPage(): string {
  return `${[
    '# Errors',
    'This page is generated from `src/engine/errors`; do not edit it. A code never changes its meaning.',
    "`boltgate` prints the code at the end of a mistake's first line, in brackets; a line of log has it as `code`, or as `code` of `err`. Bodies of responses have none: the contract lets clients decide by the status and by `error`.",
    '## Configuration',
    'Told by `boltgate check`, at the start and at a reload, with file, line and column. A reload with a mistake changes nothing.',
    table(configurationErrors),
    '## Start and commands',
    table(startErrors),
    '## While it runs',
    'In the log alone: what goes wrong between the gateway and others.',
    table(operationErrors),
    '## Responses',
    'What a client is answered with. A 402 that asks for payment, and the refusal of a payment credential (`X-L402-Error`, or the `type` of the problem), are no errors of the gateway and have no code: docs/contract.md says what they mean.',
    responseTable()
  ].join('\n\n')}\n`
}

function table(entries: Readonly<Record<string, ErrorEntry>>): string {
  const rows = Object.entries(entries).map(([code, { cause, cure }]) => row(`\`${code}\``, cause, cure))
  return ['| Code | Cause | Cure |', '|---|---|---|', ...rows].join('\n')
}

function responseTable(): string {
  const rows = Object.entries<ResponseEntry>(responseErrors).map(([code, { status, error, cause, cure }]) =>
    row(`\`${code}\``, String(status ?? ''), error ?? '', cause, cure)
  )
  return ['| Code | Status | `error` | Cause | Cure |', '|---|---|---|---|---|', ...rows].join('\n')
}

function row(...cells: readonly string[]): string {
  return `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`
}
