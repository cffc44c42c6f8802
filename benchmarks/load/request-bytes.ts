import { readFileSync } from 'node:fs'
import type { LoadRequest } from './request.ts'

/** Gives the bytes of one request after another. */
export interface RequestBytes {
  /** How many differ from one another; Infinity where all are alike. */
  readonly supply: number
  /** The next request. Throws when there is no further one. */
  next(): Buffer
}

/** Writes a scenario's requests for one address, from the variation `from` on, so that none is used twice in a run. */
export function requestBytes(request: LoadRequest, host: string, from = 0): RequestBytes {
  const fixed = Object.entries({ Host: host, ...request.headers })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
  const length =
    request.body === null ? '' : `Content-Length: ${Buffer.byteLength(filled(request.body, 0), 'latin1')}\r\n`
  const before = `${request.method} ${request.path} HTTP/1.1\r\n${fixed}${length}`
  const after = `\r\n${request.body ?? ''}`
  const { varied } = request
  let at = from
  if (varied === null) {
    const bytes = Buffer.from(before + after, 'latin1')
    return { supply: Infinity, next: () => bytes }
  }
  if (varied === 'number') return { supply: Infinity, next: () => Buffer.from(filled(before + after, at++), 'latin1') }
  const lines = linesOf(varied.file)
  return {
    supply: varied.again === true ? Infinity : lines.length - from,
    next() {
      const line = lines[varied.again === true ? at++ % lines.length : at++]
      if (line === undefined) throw new Error(`${varied.file} has no more lines`)
      return Buffer.from(`${before}${varied.header}: ${line}\r\n${after}`, 'latin1')
    }
  }
}

const read = new Map<string, readonly string[]>()

/**
 * The lines of a file of values, which does not change once written: kept, as every window of a target asks for the
 * same.
 */
function linesOf(file: string): readonly string[] {
  const known = read.get(file)
  if (known !== undefined) return known
  const lines = readFileSync(file, 'latin1')
    .split('\n')
    .filter(line => line !== '')
  read.set(file, lines)
  return lines
}

/** Always as long, so that Content-Length is the same for all. */
function filled(text: string, number: number): string {
  return text.replaceAll('{n}', String(number).padStart(10, '0'))
}
