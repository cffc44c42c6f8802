import type { Clock, Timer } from '../../platform/system/clock.ts'
import { unusableResponse } from './errors.ts'
import { parseJson } from './responses.ts'

/** Characters of a line of a stream. */
const MAX_LINE = 1024 * 1024

/** How long a stream that stays open is read. */
export interface LinesRead {
  /** Milliseconds within which something must have come. */
  readonly first: number
  /** Milliseconds without a byte after which a stream has said all. */
  readonly quiet: number
  /** Bytes that are read. */
  readonly most: number
}

/** What was read of a stream of JSON lines. */
export interface ReadLines {
  readonly lines: readonly unknown[]
  /** Whether it had more to say. */
  readonly isCut: boolean
}

/** The lines of a stream; leaving the loop ends the connection. @throws ProviderUnavailable for one that is too long */
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

/** The first line of a stream, which may stay open: its connection is ended. */
export async function firstLine(body: AsyncIterable<Buffer>): Promise<string> {
  for await (const line of linesOf(body)) return line
  return ''
}

/** Reads a stream until it is quiet, and ends its connection. `began` is called when something comes. */
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
    // Our own end of it reads as a broken one.
    if (!isQuiet) throw error
  } finally {
    timer?.cancel()
  }
  // The last piece is a part of a line, or nothing.
  const lines = Buffer.concat(pieces).toString('utf8').split('\n').slice(0, -1)
  return { lines: lines.filter(line => line.trim() !== '').map(parseJson), isCut: bytes >= most }
}
