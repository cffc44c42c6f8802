import type { StreamBody } from '../message/reply.ts'

type CsvValue = string | number | bigint | boolean | null

export type CsvColumns<T> = Readonly<Record<string, (row: T) => CsvValue>>

type CsvMember<T> = { [K in keyof T]: T[K] extends CsvValue ? K : never }[keyof T] & string

/** Columns that are members of the row. */
export function memberColumns<T>(...names: ReadonlyArray<CsvMember<T>>): CsvColumns<T> {
  // As the constraint says.
  return Object.fromEntries(names.map(name => [name, (row: T) => row[name] as CsvValue]))
}

export const CSV = 'text/csv; charset=utf-8; header=present'

export function csvHeaders(fileName: string): readonly string[] {
  return ['Content-Disposition', `attachment; filename="${fileName}"`, 'Vary', 'Accept']
}

/**
 * A cell by RFC 4180. A text that a spreadsheet would run as a formula gets a leading apostrophe (OWASP, CSV
 * Injection), by its first non-space character, full-width forms too. A minus before digits alone is a number.
 */
export function csvCell(value: CsvValue): string {
  if (value === null) return ''
  if (typeof value !== 'string') return String(value)
  const harmless =
    /^[\s\uFEFF]*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|^[\t\r\n]/.test(value) && !/^-?\d+(?:\.\d+)?$/.test(value)
  const text = harmless ? `'${value}` : value
  return /[",;\r\n\t']|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

function csvLine(cells: readonly CsvValue[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

/**
 * Streams a CSV: reads a page once the client has taken the one before. An error on the first page is answered; a later
 * one aborts the response, so that a part cannot pass for the whole.
 */
export function csvStream<T>(columns: CsvColumns<T>, pages: () => AsyncIterable<readonly T[]>): StreamBody {
  const cells = Object.values(columns)
  return {
    open(sink) {
      let isOver = false
      let wake: (() => void) | null = null
      sink.onDrain = () => wake?.()
      sink.onStopping = () => {
        sink.fail(new Error('the process stops before the list was whole'))
      }
      const drained = (): Promise<void> =>
        new Promise(resolve => {
          wake = resolve
        })
      const pump = async (): Promise<void> => {
        let head = csvLine(Object.keys(columns))
        for await (const page of pages()) {
          if (isOver) return
          const isTaken = sink.write(head + page.map(row => csvLine(cells.map(cell => cell(row)))).join(''))
          head = ''
          if (!isTaken && !isOver) await drained()
          if (isOver) return
        }
        if (head !== '') sink.write(head)
        sink.end()
      }
      pump().catch((error: unknown) => {
        sink.fail(error instanceof Error ? error : new Error(String(error)))
      })
      return () => {
        isOver = true
        wake?.()
      }
    }
  }
}
