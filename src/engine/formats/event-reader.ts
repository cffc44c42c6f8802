/** What ended: nothing, an event with data, or the event `[DONE]`. */
export type Boundary = 'none' | 'data' | 'done'

export interface EventVisitor {
  /** A part of an event's data, lines joined by LF. The bytes are valid during the call only. */
  data?(bytes: Buffer, from: number, to: number): void
  /** The first 16 bytes of an `event`, `id` or `error` field. */
  field?(name: string, value: string): void
  /** The line of a field ended; `from` to `to` is its part in the bytes fed, without the line end. */
  line?(isData: boolean, from: number, to: number): void
  /** An event or a comment ended: the stream can be cut here. `end` is an offset in the bytes fed. */
  boundary(end: number, kind: Boundary): void
}

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const COLON = 0x3a
const BOM = [0xef, 0xbb, 0xbf] as const
const DATA = Buffer.from('data:')
const DONE = Buffer.from('[DONE]')
const JOIN = Buffer.from('\n')
const FIELDS: ReadonlySet<string> = new Set(['event', 'id', 'error'])
const KEPT = 16

type Place = 'start' | 'name' | 'colon' | 'data' | 'value' | 'rest'

/**
 * Incremental parser of event streams (WHATWG HTML, 9.2.6). Buffers at most 32 bytes, whatever the length of lines. A
 * CR ends its line immediately, so its LF may start the next piece.
 */
export class EventReader {
  readonly #visitor: EventVisitor
  #place: Place = 'start'
  /** Bytes of the byte order mark so far; -1 once it is over. */
  #bom = 0
  #skipsLf = false
  #name = ''
  #value = ''
  #hasData = false
  #hasLine = false
  #isComment = false
  /** Bytes of `[DONE]` matched so far; -1 for other data. */
  #done = 0

  constructor(visitor: EventVisitor) {
    this.#visitor = visitor
  }

  get isBetween(): boolean {
    return this.#place === 'start' && !this.#hasLine
  }

  feed(bytes: Uint8Array): void {
    const piece = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const { length } = piece
    let at = this.#bom < 0 ? 0 : this.#mark(piece)
    if (this.#skipsLf && at < length) {
      this.#skipsLf = false
      if (piece[at] === LF) at++
    }
    let cr = nextOf(piece, CR, at)
    let lf = -1
    while (at < length) {
      if (lf < at) lf = piece[at] === LF ? at : nextOf(piece, LF, at)
      const end = Math.min(lf, cr)
      if (end > at) this.#part(piece, at, end)
      if (end === length) return
      const start = at
      at = end + 1
      if (end === cr) {
        if (at === length) this.#skipsLf = true
        else if (piece[at] === LF) at++
        cr = nextOf(piece, CR, at)
      }
      this.#endLine(start, end, at)
    }
  }

  /** Ends the last event where the stream ended without a blank line. Clients discard such an event. */
  end(): void {
    if (this.#place !== 'start') this.#endLine(0, 0, 0)
    if (this.#hasLine) this.#endLine(0, 0, 0)
  }

  /** Skips a byte order mark. Returns where the rest begins. */
  #mark(piece: Buffer): number {
    let at = 0
    while (at < piece.length && this.#bom >= 0) {
      if (piece[at] !== BOM[this.#bom]) {
        // A partial mark begins a meaningless field.
        if (this.#bom > 0) this.#place = 'rest'
        this.#bom = -1
      } else {
        at++
        this.#bom = this.#bom === 2 ? -1 : this.#bom + 1
      }
    }
    return at
  }

  #part(piece: Buffer, from: number, to: number): void {
    let at = from
    if (this.#place === 'start') {
      if (to - at >= DATA.length && isDataField(piece, at)) {
        at += DATA.length
        this.#name = 'data'
        this.#beginData()
        this.#place = 'colon'
        if (at === to) return
      } else if (piece[at] === COLON) {
        this.#isComment = true
        this.#place = 'rest'
      } else this.#place = 'name'
    }
    if (this.#place === 'name') {
      let colon = at
      while (colon < to && piece[colon] !== COLON && colon - at < KEPT) colon++
      this.#name += piece.toString('latin1', at, colon)
      if (this.#name.length > KEPT) this.#place = 'rest'
      if (colon === to || this.#place === 'rest') return
      this.#place = 'rest'
      if (piece[colon] !== COLON) return
      at = colon + 1
      if (this.#name === 'data') this.#beginData()
      else if (!FIELDS.has(this.#name)) return
      this.#place = 'colon'
      if (at === to) return
    }
    if (this.#place === 'colon') {
      if (piece[at] === SPACE) at++
      this.#place = this.#name === 'data' ? 'data' : 'value'
      if (at === to) return
    }
    if (this.#place === 'data') this.#data(piece, at, to)
    else if (this.#place === 'value' && this.#value.length < KEPT)
      this.#value += piece.toString('latin1', at, Math.min(to, at + KEPT - this.#value.length))
  }

  #beginData(): void {
    if (this.#hasData) this.#data(JOIN, 0, 1)
    this.#hasData = true
  }

  #data(piece: Buffer, from: number, to: number): void {
    if (this.#done >= 0) {
      let at = from
      while (at < to && this.#done < DONE.length && piece[at] === DONE[this.#done]) {
        at++
        this.#done++
      }
      if (this.#done === DONE.length) while (at < to && isSpace(piece[at])) at++
      if (at < to) this.#done = -1
    }
    this.#visitor.data?.(piece, from, to)
  }

  #endLine(from: number, to: number, end: number): void {
    const place = this.#place
    this.#place = 'start'
    if (place === 'start') {
      const kind = !this.#hasData ? 'none' : this.#done === DONE.length ? 'done' : 'data'
      this.#hasLine = false
      this.#hasData = false
      this.#done = 0
      this.#visitor.boundary(end, kind)
      return
    }
    if (this.#isComment) {
      this.#isComment = false
      if (!this.#hasLine) this.#visitor.boundary(end, 'none')
      return
    }
    this.#hasLine = true
    const isData = this.#name === 'data'
    // A field without a colon has an empty value.
    if (isData && place === 'name') this.#beginData()
    else if (place !== 'rest' && FIELDS.has(this.#name)) this.#visitor.field?.(this.#name, this.#value)
    this.#visitor.line?.(isData, from, to)
    this.#name = ''
    this.#value = ''
  }
}

function nextOf(piece: Buffer, byte: number, from: number): number {
  const at = piece.indexOf(byte, from)
  return at < 0 ? piece.length : at
}

function isDataField(piece: Buffer, at: number): boolean {
  return (
    piece[at] === DATA[0] &&
    piece[at + 1] === DATA[1] &&
    piece[at + 2] === DATA[2] &&
    piece[at + 3] === DATA[3] &&
    piece[at + 4] === DATA[4]
  )
}

function isSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === LF || byte === 0x09
}
