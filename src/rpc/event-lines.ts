/** A piece of an event stream that goes on as one: an event, or what stands between events. */
export interface StreamPiece {
  /** As it came. */
  readonly raw: Uint8Array
  /** The event's data; null where there is none. */
  readonly data: string | null
  /** It belongs to an event that is too long to be read. */
  readonly isLong: boolean
}

const LF = 0x0a
const CR = 0x0d
const COLON = 0x3a
const NOTHING = Buffer.alloc(0)

/**
 * Cuts an event stream (WHATWG HTML, 9.2) into its events, byte for byte: each is given with the piece in which it ends.
 * Comments between events go on at once, for they keep connections open.
 */
export class EventLines {
  /** An event had an id: a client that loses the stream can have its rest elsewhere. */
  isResumable = false
  readonly #limit: number
  /** The lines of the event so far, and their bytes together. */
  #lines: Uint8Array[] = []
  #size = 0
  /** The beginning of a line, of which so many bytes were looked at. */
  #rest: Buffer = NOTHING
  #seen = 0
  #isLong = false
  /** The beginning of this line has gone on already, so that what comes of it is never an empty one. */
  #isWithin = false
  #isFirst = true

  /** `limit` in bytes: of a longer event nothing is kept. */
  constructor(limit: number) {
    this.#limit = limit
  }

  feed(bytes: Uint8Array): StreamPiece[] {
    const pieces: StreamPiece[] = []
    const all = this.#rest.byteLength === 0 ? asBuffer(bytes) : Buffer.concat([this.#rest, bytes])
    let start = 0
    let at = this.#seen
    for (; at < all.byteLength; at++) {
      const byte = all[at]
      if (byte !== LF && byte !== CR) continue
      // Whether LF belongs to it is known with the next byte.
      if (byte === CR && at + 1 === all.byteLength) break
      if (byte === CR && all[at + 1] === LF) at++
      this.#line(all.subarray(start, at + 1), pieces)
      start = at + 1
    }
    this.#rest = all.subarray(start)
    this.#seen = at - start
    if (this.#size + this.#rest.byteLength > this.#limit || this.#isLong) this.#flushLong(pieces)
    return pieces
  }

  /** What is left when the stream ends. */
  end(): StreamPiece[] {
    const pieces: StreamPiece[] = []
    if (this.#rest.byteLength > 0) this.#line(this.#rest, pieces)
    this.#rest = NOTHING
    if (this.#size > 0) this.#event(pieces)
    return pieces
  }

  #line(line: Uint8Array, pieces: StreamPiece[]): void {
    this.#size += line.byteLength
    this.#lines.push(line)
    const [first] = line
    const isWithin = this.#isWithin
    this.#isWithin = false
    if (isWithin) return
    if (first === LF || first === CR || (first === COLON && this.#lines.length === 1)) this.#event(pieces)
  }

  #event(pieces: StreamPiece[]): void {
    const raw = this.#lines.length === 1 ? (this.#lines[0] ?? NOTHING) : Buffer.concat(this.#lines)
    const isComment = raw[0] === COLON && this.#lines.length === 1
    pieces.push({ raw, data: this.#isLong ? null : this.#dataOf(raw), isLong: this.#isLong })
    // A comment may stand within a long event, too.
    if (!isComment) this.#isLong = false
    this.#lines = []
    this.#size = 0
  }

  #flushLong(pieces: StreamPiece[]): void {
    this.#isLong = true
    const raw = Buffer.concat([...this.#lines, this.#rest])
    if (raw.byteLength > 0) pieces.push({ raw, data: null, isLong: true })
    if (this.#rest.byteLength > 0) this.#isWithin = true
    this.#lines = []
    this.#size = 0
    this.#rest = NOTHING
    this.#seen = 0
  }

  #dataOf(raw: Uint8Array): string | null {
    let data: string | null = null
    for (const { name, value } of fieldsOf(raw, this.#isFirst)) {
      if (name === 'data') data = data === null ? value : `${data}\n${value}`
      else if (name === 'id' && value !== '') this.isResumable = true
    }
    this.#isFirst = false
    return data
  }
}

/** The event with other data, which may have several lines. */
export function withData(raw: Uint8Array, data: string): Uint8Array {
  const kept = fieldsOf(raw, true).filter(({ name }) => name !== 'data' && name !== '')
  const lines = kept.map(({ line }) => `${line}\n`)
  const written = data.split(/\r\n|\r|\n/).map(line => `data: ${line}\n`)
  return Buffer.from(`${lines.join('')}${written.join('')}\n`)
}

/** A message as an event of its own. */
export function eventOf(data: string): Uint8Array {
  return withData(NOTHING, data)
}

function fieldsOf(raw: Uint8Array, isFirst: boolean): { name: string; value: string; line: string }[] {
  let text = asBuffer(raw).toString('utf8')
  if (isFirst && text.startsWith('\ufeff')) text = text.slice(1)
  return text.split(/\r\n|\r|\n/).map(line => {
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1)
    return { name, value: value.startsWith(' ') ? value.slice(1) : value, line }
  })
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
