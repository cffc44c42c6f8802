import type { UsageForm } from './forms.ts'
import { memberAt, TAIL, type Usage, type UsageReader } from './usage.ts'

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const DATA = Buffer.from('data:')

/** The last event of OpenAI's first kind of stream; a model may be made to say the same inside its text. */
const DONE = Buffer.from('[DONE]')
/** The type of the last event of OpenAI's other kind, and of Anthropic's. */
const LAST_TYPES = ['response.completed', 'message_stop']
const LAST_WORDS = LAST_TYPES.map(type => Buffer.from(`"${type}"`))
/** Events of a stream that bring no unit: roles, beginnings and ends. */
const EVENTS_BESIDE = 8

/** The lines of an event stream whose pieces end anywhere; a line longer than 16 KiB is dropped. */
class Lines {
  readonly #take: (line: Buffer) => void
  #rest: Buffer[] = []
  #kept = 0
  #isDropped = false

  constructor(take: (line: Buffer) => void) {
    this.#take = take
  }

  chunk(bytes: Uint8Array): void {
    const piece = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    let from = 0
    for (let end = piece.indexOf(LF); end >= 0; end = piece.indexOf(LF, from)) {
      this.#end(piece.subarray(from, end))
      from = end + 1
    }
    if (from < piece.byteLength) this.#keep(piece.subarray(from))
  }

  /** The last line where the stream ended without a line's end. */
  end(): void {
    if (this.#kept > 0) this.#end(Buffer.alloc(0))
  }

  #keep(part: Buffer): void {
    this.#kept += part.byteLength
    if (this.#kept > TAIL) this.#isDropped = true
    if (this.#isDropped) this.#rest = []
    // A copy: the connection uses its memory again.
    else this.#rest.push(Buffer.from(part))
  }

  #end(last: Buffer): void {
    const isWhole = !this.#isDropped && this.#kept + last.byteLength <= TAIL
    const line = this.#rest.length === 0 ? last : Buffer.concat([...this.#rest, last])
    this.#rest = []
    this.#kept = 0
    this.#isDropped = false
    if (isWhole) this.#take(line.at(-1) === CR ? line.subarray(0, -1) : line)
  }
}

function isData(line: Buffer): boolean {
  return line.byteLength >= DATA.byteLength && DATA.compare(line, 0, DATA.byteLength) === 0
}

/** Whether a line of data says that its stream is over, and nothing else. */
export function isDone(line: Uint8Array): boolean {
  return /^data: ?\[DONE\]\s*$/.test(Buffer.from(line.buffer, line.byteOffset, line.byteLength).toString('latin1'))
}

/** Reads the usage that the events of a stream say; of running totals the last. */
export class EventUsage implements UsageReader {
  readonly #form: UsageForm
  readonly #key: Buffer
  readonly #lines: Lines
  #said: Partial<Usage> = {}
  /** The event came that is the last of its kind of stream: many clients leave on it. */
  #isOver = false
  /** Since the last total. */
  #events = 0

  constructor(form: UsageForm) {
    this.#form = form
    this.#key = Buffer.from(JSON.stringify(form.member))
    this.#lines = new Lines(line => {
      this.#line(line)
    })
  }

  get seen(): number {
    const since = this.#form.isUnitByEvent ? Math.max(0, this.#events - EVENTS_BESIDE) : 0
    return (this.#said.output ?? 0) + since
  }

  chunk(bytes: Uint8Array): void {
    this.#lines.chunk(bytes)
  }

  read(isWhole: boolean): Usage | null {
    if (!isWhole && !this.#isOver) return null
    this.#lines.end()
    const { input, output } = this.#said
    return input === undefined || output === undefined ? null : { input, output }
  }

  #line(line: Buffer): void {
    if (!isData(line)) return
    const data = line.subarray(line[DATA.length] === SPACE ? DATA.length + 1 : DATA.length)
    if (data.equals(DONE)) {
      this.#isOver = true
      return
    }
    this.#events++
    // Most events say nothing of it, and need not be parsed.
    if (!line.includes(this.#key) && !LAST_WORDS.some(word => line.includes(word))) return
    try {
      const value: unknown = JSON.parse(data.toString('utf8'))
      const type = memberAt(value, ['type'])
      if (typeof type === 'string' && LAST_TYPES.includes(type)) this.#isOver = true
      const said = this.#form.take(value, this.#said)
      if (said.output !== this.#said.output) this.#events = 0
      this.#said = said
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
    }
  }
}

/** Counts the events of a stream: what an empty line ends that has data; without `[DONE]` where that is said. */
export class EventCount implements UsageReader {
  readonly seen = 0
  readonly #lines: Lines
  #count = 0
  #hasData = false

  constructor(isDoneFree = false) {
    this.#lines = new Lines(line => {
      if (line.byteLength === 0) this.#event()
      else if (isData(line) && !(isDoneFree && isDone(line))) this.#hasData = true
    })
  }

  chunk(bytes: Uint8Array): void {
    this.#lines.chunk(bytes)
  }

  read(): Usage {
    return { input: 0, output: this.#count }
  }

  #event(): void {
    if (this.#hasData) this.#count++
    this.#hasData = false
  }
}
