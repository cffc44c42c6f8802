import { EventReader } from '../../engine/formats/event-reader.ts'
import { encodeEvent } from '../../engine/formats/event-stream.ts'

/** An event, or a comment between events. */
export interface StreamPiece {
  /** Unchanged bytes. */
  readonly raw: Uint8Array
  readonly data: string | null
  /** Part of an event too long to read. */
  readonly isLong: boolean
}

const NOTHING = new Uint8Array()
const LINE_END = Buffer.from('\n')

/** Splits an event stream byte for byte: returns each event with the bytes that end it. */
export class EventLines {
  /** An event had an id: a client can resume elsewhere. */
  isResumable = false
  readonly #limit: number
  readonly #reader: EventReader
  /** The event so far, and its size. */
  #kept: Uint8Array[] = []
  #size = 0
  #data: Buffer[] = []
  #isLong = false
  /** The bytes being read, and the offset of those in no piece yet. */
  #bytes: Uint8Array = NOTHING
  #from = 0
  #pieces: StreamPiece[] = []

  /** `limit` in bytes: longer events are not kept. */
  constructor(limit: number) {
    this.#limit = limit
    this.#reader = new EventReader({
      data: (bytes, from, to) => {
        if (!this.#isLong) this.#data.push(bytes.subarray(from, to))
      },
      field: (name, value) => {
        if (name === 'id' && value !== '') this.isResumable = true
      },
      boundary: (end, kind) => {
        this.#event(end, kind !== 'none')
      }
    })
  }

  feed(bytes: Uint8Array): StreamPiece[] {
    this.#bytes = bytes
    this.#from = 0
    this.#reader.feed(bytes)
    this.#keep(bytes.byteLength)
    if (this.#size > this.#limit || (this.#isLong && this.#size > 0)) this.#flushLong()
    return this.#taken()
  }

  end(): StreamPiece[] {
    this.#bytes = NOTHING
    this.#from = 0
    this.#reader.end()
    if (this.#size > 0) this.#event(0, false)
    return this.#taken()
  }

  #taken(): StreamPiece[] {
    const pieces = this.#pieces
    this.#pieces = []
    return pieces
  }

  #keep(end: number): void {
    if (end > this.#from) this.#kept.push(this.#bytes.subarray(this.#from, end))
    this.#size += end - this.#from
    this.#from = end
  }

  #event(end: number, hasData: boolean): void {
    this.#keep(end)
    const data = hasData && !this.#isLong ? Buffer.concat(this.#data).toString('utf8') : null
    const [first = NOTHING] = this.#kept
    const raw = this.#kept.length === 1 ? first : Buffer.concat(this.#kept)
    if (raw.byteLength > 0) this.#pieces.push({ raw, data, isLong: this.#isLong })
    this.#clear()
    this.#isLong = false
  }

  #flushLong(): void {
    this.#isLong = true
    this.#pieces.push({ raw: Buffer.concat(this.#kept), data: null, isLong: true })
    this.#clear()
  }

  #clear(): void {
    this.#kept = []
    this.#size = 0
    this.#data = []
  }
}

/** Replaces the event's data, which may have several lines. */
export function withData(raw: Uint8Array, data: string): Uint8Array {
  // The last line of a stream may lack its end.
  const bytes = Buffer.concat([raw, LINE_END])
  let others = ''
  const reader = new EventReader({
    line(isData, from, to) {
      if (!isData) others += `${bytes.toString('utf8', from, to)}\n`
    },
    boundary() {}
  })
  reader.feed(bytes)
  return Buffer.from(others + encodeEvent({ data }))
}
