import type { Clock, Timer } from '../../platform/system/clock.ts'
import { unusableResponse } from './errors.ts'
import { jsonOrUndefined } from '../../engine/formats/json-reader.ts'

const MAX_LINE = 1024 * 1024

export interface LinesRead {
  /** Milliseconds until the first byte. */
  readonly first: number
  /** Milliseconds of silence that end the read. */
  readonly quiet: number
  /** Byte limit. */
  readonly most: number
}

interface ReadLines {
  readonly lines: readonly unknown[]
  /** More was left. */
  readonly isCut: boolean
}

/**
 * Leaving the loop closes the connection.
 * @throws ProviderUnavailable for an overlong line
 */
export async function* linesOf(body: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const piece of body) {
    const lines = `${rest}${decoder.decode(piece, { stream: true })}`.split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > MAX_LINE) throw unusableResponse('a line without an end')
    yield* lines
  }
  yield rest
}

/** The first line of a possibly open stream; closes the connection. */
export async function firstLine(body: AsyncIterable<Buffer>): Promise<string> {
  for await (const line of linesOf(body)) return line
  return ''
}

/** Reads until quiet and closes the connection. `began` is called with the first data. */
export async function readLines(
  body: AsyncIterable<Buffer> & { destroy(): unknown },
  { quiet, most }: LinesRead,
  clock: Clock,
  began: () => void
): Promise<ReadLines> {
  const pieces: Buffer[] = []
  let bytes = 0
  let isQuiet = false
  let timer: Timer | null = null
  try {
    for await (const piece of body) {
      began()
      timer?.cancel()
      pieces.push(piece)
      bytes += piece.length
      if (bytes >= most) break
      timer = clock.after(quiet, () => {
        isQuiet = true
        body.destroy()
      })
    }
  } catch (error) {
    // Our own close reads as a broken stream.
    if (!isQuiet) throw error
  } finally {
    timer?.cancel()
  }
  // The last piece is incomplete or empty.
  const lines = Buffer.concat(pieces).toString('utf8').split('\n').slice(0, -1)
  return { lines: lines.filter(line => line.trim() !== '').map(jsonOrUndefined), isCut: bytes >= most }
}
