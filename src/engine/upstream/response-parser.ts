import { trimmed } from '../message/headers.ts'
import { NameTable, nameIn } from '../message/header-names.ts'
import { ResponseFault } from './response-fault.ts'

/** Receives a response in parts. Any method may pause or stop the parser. */
export interface ResponseReader {
  /** Interim below 200, else final. `pairs` is flat and belongs to the reader. */
  responseHead(status: number, pairs: string[]): void
  /** Body bytes from `from` to `to`, valid only during the call. */
  responseBody(bytes: Buffer, from: number, to: number): void
  responseEnd(trailers: readonly string[]): void
}

export const MAX_HEAD = 64 * 1024
/** Most lines of a head, or of trailers: each costs time in every plugin. */
export const MAX_FIELDS = 1_000
/**
 * Most body bytes delivered per call. More may be buffered after a pause, and metered bodies can only be cut between
 * pieces.
 */
export const MAX_PIECE = 64 * 1024
/** Longest chunk-size line, extensions included. */
const MAX_CHUNK_LINE = 4096
/** Longest chunk size, leading zeros included. */
const MAX_SIZE_DIGITS = 16
/** Bytes decoded to text first: most heads are smaller, and what follows a head needs no text. */
const WINDOW = 512

const TAB = 0x09
const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const COLON = 0x3a
const SEMICOLON = 0x3b
const ZERO = 0x30

const TOKEN = 1
const VALUE = 2
/** Character classes: field names (RFC 9110 5.6.2), field values (RFC 9110 5.5). */
const KINDS = new Uint8Array(256)
for (let code = 0; code < 256; code++) {
  if (code === TAB || (code >= SPACE && code !== 0x7f)) KINDS[code] = VALUE
}
for (const char of "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
  KINDS[char.charCodeAt(0)] = TOKEN | VALUE

const NO_DIGIT = 255
const HEX = new Uint8Array(256).fill(NO_DIGIT)
for (const [value, digit] of [...'0123456789abcdef'].entries()) {
  HEX[digit.charCodeAt(0)] = value
  HEX[digit.toUpperCase().charCodeAt(0)] = value
}

/** Chunk extensions (RFC 9112 7.1.1), without the optional white space that senders must not generate. */
const EXTENSIONS =
  /^(?:;[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:=(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+|"(?:[\t !#-[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"))?)+$/

const IDLE = 0
const START = 1
const FIELDS = 2
const LENGTH = 3
const CHUNK_LINE = 4
const CHUNK_DATA = 5
const CHUNK_END = 6
const TRAILERS = 7
const UNTIL_CLOSE = 8

/** Lower-case names of fields that frame the response or decide on reuse. */
const FRAMINGS: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'content-length', 'transfer-encoding'])
const framings = new NameTable(name => {
  const lower = name.toLowerCase()
  return FRAMINGS.has(lower) ? lower : null
})

const PREFIX = 'HTTP/1.'
const NO_TRAILERS: readonly string[] = []
const EMPTY = Buffer.alloc(0)

/**
 * Parses the responses of one connection, HTTP/1.0 and 1.1, one at a time and strictly: refuses what two readers could
 * interpret differently (RFC 9112 5 to 7 and 11). Accepts pieces of any size and copies what it retains, so that the
 * caller may reuse the memory.
 */
export class ResponseParser {
  idle = true
  /** Another request may follow on the connection. Valid from the head on. */
  reusable = false
  /** Bytes followed the response. The next request would get them as its response. */
  surplus = false
  /** The upstream's keep-alive time in milliseconds, or -1. */
  keepAlive = -1
  readonly #reader: ResponseReader
  #state = IDLE
  #paused = false
  #ended = false
  /** Unread: a part of a line, or what came during a pause. */
  #left: Buffer | null = null
  #silent = false
  #status = 0
  #old = false
  #pairs: string[] = []
  #complete = false
  #size = 0
  #length = -1
  #codings = 0
  #chunked = false
  #close = false
  #keep = false
  /** Bytes left of the body, or of the chunk. */
  #remaining = 0

  constructor(reader: ResponseReader) {
    this.#reader = reader
  }

  get httpVersion(): '1.0' | '1.1' {
    return this.#old ? '1.0' : '1.1'
  }

  get paused(): boolean {
    return this.#paused
  }

  /** Expects a response. `silent` for HEAD: no body follows, whatever the head says. */
  begin(silent: boolean): void {
    this.idle = false
    this.reusable = false
    this.surplus = false
    this.keepAlive = -1
    this.#silent = silent
    this.#paused = false
    this.#ended = false
    this.#left = null
    this.#beginHead()
  }

  /** Drops the response without further callbacks. */
  stop(): void {
    this.#state = IDLE
    this.idle = true
    this.reusable = false
    this.#left = null
  }

  pause(): void {
    this.#paused = true
  }

  /**
   * Continues with buffered bytes.
   * @throws ResponseFault
   */
  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    const left = this.#left ?? EMPTY
    this.#left = null
    this.#read(left, 0, left.length)
    if (this.#ended) this.finish()
  }

  /** @throws ResponseFault for an invalid response */
  push(bytes: Buffer, from: number, to: number): void {
    const left = this.#left
    if (left === null) {
      if (this.#paused) this.#left = copy(bytes, from, to)
      else this.#read(bytes, from, to)
      return
    }
    const joined = Buffer.allocUnsafe(left.length + to - from)
    joined.set(left)
    bytes.copy(joined, left.length, from, to)
    if (this.#paused || this.#sameLine(joined.length, bytes, from, to)) {
      this.#left = joined
      return
    }
    this.#left = null
    this.#read(joined, 0, joined.length)
  }

  /**
   * The upstream has closed its side.
   * @throws ResponseFault when the response is incomplete
   */
  finish(): void {
    if (this.idle) return
    if (this.#paused) {
      this.#ended = true
      return
    }
    switch (this.#state) {
      case UNTIL_CLOSE:
        this.#end(NO_TRAILERS)
        return
      case START:
      case FIELDS:
        throw closed()
      case LENGTH:
        throw this.reusable
          ? closed()
          : new ResponseFault('UPSTREAM_LENGTH_MISMATCH', 'the body ended before its length')
      default:
        throw this.reusable ? closed() : malformed('the body ended before its last chunk')
    }
  }

  /** Skips a second scan of an incomplete line: an upstream could send it byte by byte. */
  #sameLine(length: number, bytes: Buffer, from: number, to: number): boolean {
    if (this.#state === START || this.#state === CHUNK_END) return false
    const room = this.#state === CHUNK_LINE ? MAX_CHUNK_LINE : MAX_HEAD - this.#size
    if (length > room) return false
    const end = bytes.indexOf(LF, from)
    return end < 0 || end >= to
  }

  #read(bytes: Buffer, from: number, to: number): void {
    let at = from
    for (;;) {
      if (this.#paused) break
      if (this.#state === LENGTH && this.#remaining === 0) this.#end(NO_TRAILERS)
      if (this.#state === IDLE) {
        if (at < to) this.surplus = true
        return
      }
      if (at === to) return
      const next = this.#step(bytes, at, to)
      if (next === at) break
      at = next
    }
    if (at < to) this.#left = copy(bytes, at, to)
  }

  #step(bytes: Buffer, at: number, to: number): number {
    switch (this.#state) {
      case LENGTH:
      case CHUNK_DATA:
        return this.#counted(bytes, at, to)
      case UNTIL_CLOSE: {
        const end = Math.min(to, at + MAX_PIECE)
        this.#reader.responseBody(bytes, at, end)
        return end
      }
      case CHUNK_LINE:
        return this.#chunkLine(bytes, at, to)
      case CHUNK_END:
        if (bytes[at] !== CR) throw malformed('a chunk is longer than its size')
        if (at + 1 === to) return at
        if (bytes[at + 1] !== LF) throw malformed('a chunk does not end with a line')
        this.#state = CHUNK_LINE
        return at + 2
      default:
        return this.#lines(bytes, at, to)
    }
  }

  #counted(bytes: Buffer, at: number, to: number): number {
    const end = Math.min(to, at + this.#remaining, at + MAX_PIECE)
    this.#remaining -= end - at
    if (this.#state === CHUNK_DATA && this.#remaining === 0) this.#state = CHUNK_END
    this.#reader.responseBody(bytes, at, end)
    return end
  }

  #chunkLine(bytes: Buffer, at: number, to: number): number {
    if (to - at > MAX_CHUNK_LINE) to = at + MAX_CHUNK_LINE + 1
    let size = 0
    let end = at
    for (; end < to; end++) {
      // The table covers every byte.
      const digit = HEX[bytes[end] as number] as number
      if (digit === NO_DIGIT) break
      size = size * 16 + digit
      if (end - at >= MAX_SIZE_DIGITS || size > Number.MAX_SAFE_INTEGER)
        throw malformed('the size of a chunk is too large')
    }
    if (end === to) return at
    if (end === at) throw malformed('a chunk has no size')
    if (bytes[end] === SEMICOLON) {
      const line = bytes.indexOf(LF, end)
      if (line < 0 || line >= to) {
        if (to - at > MAX_CHUNK_LINE) throw malformed('the line of a chunk is too long')
        return at
      }
      if (!EXTENSIONS.test(bytes.toString('latin1', end, line - 1))) throw malformed('a chunk extension is not valid')
      end = line - 1
    }
    if (bytes[end] !== CR) throw malformed('the size of a chunk is not valid')
    if (end + 1 === to) return at
    if (bytes[end + 1] !== LF) throw malformed('the size of a chunk does not end its line')
    if (size > 0) {
      this.#remaining = size
      this.#state = CHUNK_DATA
    } else {
      this.#size = 0
      this.#pairs = []
      this.#state = TRAILERS
    }
    return end + 2
  }

  #beginHead(): void {
    this.#state = START
    this.#size = 0
    this.#length = -1
    this.#codings = 0
    this.#chunked = false
    this.#close = false
    this.#keep = false
    this.#pairs = []
  }

  /** Reads the complete lines of a head or of trailers. Returns the start of the first incomplete one. */
  #lines(bytes: Buffer, from: number, to: number): number {
    let at = from
    for (let window = WINDOW; ; window = MAX_HEAD + 1) {
      const end = Math.min(to, at + window)
      const text = bytes.toString('latin1', at, end)
      let read = 0
      if (this.#state === START) read = this.#statusLine(bytes, at, text)
      if (this.#state !== START) read = this.#fields(bytes, at, text, read)
      at += read
      this.#size += read
      if (this.#size + (this.#complete ? 0 : end - at) > MAX_HEAD)
        throw new ResponseFault('UPSTREAM_HEAD_TOO_LARGE', `a head of more than ${MAX_HEAD} bytes`)
      if (this.#complete) {
        this.#complete = false
        this.#headRead()
        return at
      }
      if (end === to) return at
    }
  }

  /**
   * Reads the status line, and empty lines before it (RFC 9112 2.2), of `text`, the decoded bytes from `base`. Returns
   * where it stopped.
   */
  #statusLine(bytes: Buffer, base: number, text: string): number {
    let at = 0
    while (at < text.length && bytes[base + at] === CR) {
      if (at + 1 === text.length) return at
      if (bytes[base + at + 1] !== LF) throw malformed('the answer begins with a bare CR')
      at += 2
    }
    // Refuses on the first bytes, so that non-HTTP is not waited for.
    if (!text.startsWith(PREFIX, at)) {
      if (!PREFIX.startsWith(text.slice(at, at + PREFIX.length)))
        throw malformed('the answer does not begin as HTTP/1 does')
      return at
    }
    const end = text.indexOf('\n', at)
    if (end < 0) return at
    const line = base + at
    const version = digit(bytes, line + 7)
    const hundreds = digit(bytes, line + 9)
    const tens = digit(bytes, line + 10)
    const ones = digit(bytes, line + 11)
    const sound =
      (version === 0 || version === 1) &&
      bytes[line + 8] === SPACE &&
      hundreds > 0 &&
      hundreds < 10 &&
      tens >= 0 &&
      tens < 10 &&
      ones >= 0 &&
      ones < 10 &&
      (at + 13 === end || bytes[line + 12] === SPACE) &&
      bytes[base + end - 1] === CR
    if (!sound) throw malformed('the status line is not valid')
    for (let char = at + 13; char < end - 1; char++) {
      if (KINDS[bytes[base + char] as number] === 0) throw malformed('the reason phrase holds a control character')
    }
    this.#status = hundreds * 100 + tens * 10 + ones
    this.#old = version === 0
    this.#state = FIELDS
    return end + 1
  }

  /**
   * Reads field lines from `at` of `text`, the decoded bytes from `base`. Checking bytes costs a third of checking
   * characters. Returns where it stopped: after the empty line, or at the first incomplete line.
   */
  #fields(bytes: Buffer, base: number, text: string, at: number): number {
    const pairs = this.#pairs
    const { length } = text
    while (at < length) {
      // Every byte below `length` exists, and the table covers it.
      if (bytes[base + at] === CR) {
        if (at + 1 === length) return at
        if (bytes[base + at + 1] !== LF) throw malformed('a line begins with a bare CR')
        this.#complete = true
        return at + 2
      }
      let colon = at
      while (colon < length && ((KINDS[bytes[base + colon] as number] as number) & TOKEN) !== 0) colon++
      if (colon === length) return at
      if (colon === at || bytes[base + colon] !== COLON) throw malformed('the name of a field is not valid')
      let begin = colon + 1
      while (begin < length && blank(bytes[base + begin] as number)) begin++
      let end = begin
      while (end < length && KINDS[bytes[base + end] as number] !== 0) end++
      if (end === length) return at
      if (bytes[base + end] !== CR) throw malformed('the value of a field holds a control character')
      if (end + 1 === length) return at
      if (bytes[base + end + 1] !== LF) throw malformed('the value of a field holds a bare CR')
      let last = end
      while (last > begin && blank(bytes[base + last - 1] as number)) last--
      const name = nameIn(bytes, base + at, base + colon)
      const value = text.slice(begin, last)
      pairs.push(name, value)
      if (pairs.length > MAX_FIELDS * 2)
        throw new ResponseFault('UPSTREAM_HEAD_TOO_LARGE', `a head of more than ${MAX_FIELDS} lines`)
      const framing = framings.of(name)
      if (framing !== null) this.#framing(framing, value, last < end && text.slice(last, end).includes('\t'))
      at = end + 2
    }
    return at
  }

  /** Handles fields that decide the end of the response and reuse. `tab`: a tab follows the value. */
  #framing(name: string, value: string, tab: boolean): void {
    if (name === 'content-length' || name === 'transfer-encoding') {
      // llhttp does not read `chunked` with a trailing tab as chunked.
      if (tab) throw malformed('a tab stands behind what frames the message')
      if (this.#state === TRAILERS) throw malformed('a trailer frames the message')
      if (name === 'content-length') {
        if (this.#length >= 0) throw malformed('there is more than one Content-Length')
        this.#length = lengthOf(value)
      } else {
        this.#codings++
        this.#chunked = value.toLowerCase() === 'chunked'
      }
    } else if (this.#state === TRAILERS) return
    else if (name === 'connection') {
      if (value === 'keep-alive') {
        this.#keep = true
        return
      }
      for (const option of value.toLowerCase().split(',')) {
        const token = trimmed(option)
        if (token === 'close') this.#close = true
        else if (token === 'keep-alive') this.#keep = true
      }
    } else if (name === 'keep-alive') {
      const seconds = /timeout=(\d{1,9})/.exec(value)?.[1]
      if (seconds !== undefined) this.keepAlive = Number(seconds) * 1000
    }
  }

  /** The empty line was read: determines the body's length (RFC 9112 6.3). */
  #headRead(): void {
    const pairs = this.#pairs
    if (this.#state === TRAILERS) {
      this.#end(pairs)
      return
    }
    const status = this.#status
    if (this.#length >= 0 && this.#codings > 0) throw malformed('there are both Content-Length and Transfer-Encoding')
    if (status < 200) {
      // Upgrades do not use this path, so no 101 was requested. An unsolicited 100 is harmless (RFC 9110 15.2).
      if (status === 101) throw new ResponseFault('UPSTREAM_CLOSED', 'a 101 that was not asked for')
      this.#beginHead()
      this.#reader.responseHead(status, pairs)
      return
    }
    this.reusable = this.#old ? this.#keep && !this.#close : !this.#close
    if (this.#silent) this.#bodyOf(0)
    else if (status === 204 || status === 304) {
      // With such a head the upstream may send a body anyway.
      if (this.#length > 0 || this.#codings > 0) this.reusable = false
      this.#bodyOf(0)
    } else if (this.#codings === 1 && this.#chunked) {
      // RFC 9112 6.1: no 1.0 sender knows chunks.
      if (this.#old) this.reusable = false
      this.#state = CHUNK_LINE
    } else if (this.#length >= 0) this.#bodyOf(this.#length)
    else {
      this.reusable = false
      this.#state = UNTIL_CLOSE
    }
    this.#reader.responseHead(status, pairs)
  }

  #bodyOf(length: number): void {
    this.#remaining = length
    this.#state = LENGTH
  }

  #end(trailers: readonly string[]): void {
    this.#state = IDLE
    this.idle = true
    this.#reader.responseEnd(trailers)
  }
}

function blank(code: number): boolean {
  return code === SPACE || code === TAB
}

function copy(bytes: Buffer, from: number, to: number): Buffer {
  const out = Buffer.allocUnsafe(to - from)
  bytes.copy(out, 0, from, to)
  return out
}

function lengthOf(value: string): number {
  if (!/^\d+$/.test(value)) throw malformed('Content-Length is not a number')
  const length = Number(value)
  if (length > Number.MAX_SAFE_INTEGER) throw malformed('Content-Length is too large')
  return length
}

function malformed(why: string): ResponseFault {
  return new ResponseFault('UPSTREAM_MALFORMED', why)
}

function closed(): ResponseFault {
  return new ResponseFault('UPSTREAM_CLOSED', 'the upstream closed before its answer was whole')
}

function digit(bytes: Buffer, at: number): number {
  return (bytes[at] ?? 0) - ZERO
}
