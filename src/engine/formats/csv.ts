import type { StreamBody } from '../message/reply.ts'

/** What a cell holds: a text is made harmless for spreadsheets, a number stays one; null is empty. */
export type CsvValue = string | number | bigint | boolean | null

/** Columns of a CSV by the name in its first line, in order. */
export type CsvColumns<T> = Readonly<Record<string, (row: T) => CsvValue>>

/** Media type of a CSV that a list is also given as. */
export const CSV = 'text/csv; charset=utf-8; header=present'

/** Further headers of a response that is a CSV. */
export function csvHeaders(fileName: string): readonly string[] {
  return ['Content-Disposition', `attachment; filename="${fileName}"`, 'Vary', 'Accept']
}

/**
 * A cell by RFC 4180. A text that a spreadsheet would take for a formula gets an apostrophe before it (OWASP, CSV
 * Injection): the first character that is no space counts, in its full-width form too. A minus before digits alone is a
 * number.
 */
export function csvCell(value: CsvValue): string {
  if (value === null) return ''
  if (typeof value !== 'string') return String(value)
  const harmless =
    /^[\s\uFEFF]*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|^[\t\r\n]/.test(value) && !/^-?\d+(?:\.\d+)?$/.test(value)
  const text = harmless ? `'${value}` : value
  return /[",;\r\n\t']|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** One line of a CSV, with its end. */
function csvLine(cells: readonly CsvValue[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

/**
 * A CSV that is written while it is read: a page is asked for once the client has taken the one before. What the first
 * page throws is answered as an error; what a later one throws breaks the response off, so that nobody takes a part for
 * the whole.
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
