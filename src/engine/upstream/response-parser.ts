import { malformed, ResponseFault, HeadReader } from './response-head.ts'

/** Receives a response in parts. Any method may pause or stop the parser. */
export interface ResponseReader {
  /** Interim below 200, else final. `pairs` is flat and belongs to the reader. */
  responseHead(status: number, pairs: string[]): void
  /** Body bytes from `from` to `to`, valid only during the call. */
  responseBody(bytes: Buffer, from: number, to: number): void
  responseEnd(trailers: readonly string[]): void
}

/**
 * Most body bytes delivered per call. More may be buffered after a pause, and metered bodies can only be cut between
 * pieces.
 */
export const MAX_PIECE = 64 * 1024
const MAX_CHUNK_LINE = 4096
/** Longest chunk size, leading zeros included. */
const MAX_SIZE_DIGITS = 16
const LF = 0x0a
const CR = 0x0d
const SEMICOLON = 0x3b

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
const HEAD = 1
const LENGTH = 2
const CHUNK_LINE = 3
const CHUNK_DATA = 4
const CHUNK_END = 5
const TRAILERS = 6
const UNTIL_CLOSE = 7

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
  readonly #reader: ResponseReader
  #state = IDLE
  #paused = false
  #ended = false
  /** Unread: a part of a line, or what came during a pause. */
  #left: Buffer | null = null
  #silent = false
  readonly #head = new HeadReader()
  /** Bytes left of the body, or of the chunk. */
  #remaining = 0

  constructor(reader: ResponseReader) {
    this.#reader = reader
  }

  get httpVersion(): '1.0' | '1.1' {
    return this.#head.old ? '1.0' : '1.1'
  }

  get keepAlive(): number {
    return this.#head.framing.keepAlive
  }

  get paused(): boolean {
    return this.#paused
  }

  /** Expects a response. `silent` for HEAD: no body follows, whatever the head says. */
  begin(silent: boolean): void {
    this.idle = false
    this.reusable = false
    this.surplus = false
    this.#head.framing.keepAlive = -1
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
      case HEAD:
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
    if ((this.#state === HEAD && this.#head.starting) || this.#state === CHUNK_END) return false
    const room = this.#state === CHUNK_LINE ? MAX_CHUNK_LINE : this.#head.room
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
      this.#head.beginTrailers()
      this.#state = TRAILERS
    }
    return end + 2
  }

  #beginHead(): void {
    this.#state = HEAD
    this.#head.begin()
  }

  #lines(bytes: Buffer, from: number, to: number): number {
    const at = this.#head.read(bytes, from, to)
    if (this.#head.complete) this.#headRead()
    return at
  }

  /** The empty line was read: determines the body's length (RFC 9112 6.3). */
  #headRead(): void {
    const { pairs, status, old, framing } = this.#head
    if (this.#state === TRAILERS) {
      this.#end(pairs)
      return
    }
    const { length, codings, chunked } = framing
    if (length >= 0 && codings > 0) throw malformed('there are both Content-Length and Transfer-Encoding')
    if (status < 200) {
      // Upgrades do not use this path, so no 101 was requested. An unsolicited 100 is harmless (RFC 9110 15.2).
      if (status === 101) throw new ResponseFault('UPSTREAM_CLOSED', 'a 101 that was not asked for')
      this.#beginHead()
      this.#reader.responseHead(status, pairs)
      return
    }
    this.reusable = framing.reusable(old)
    if (this.#silent) this.#bodyOf(0)
    else if (status === 204 || status === 304) {
      // With such a head the upstream may send a body anyway.
      if (length > 0 || codings > 0) this.reusable = false
      this.#bodyOf(0)
    } else if (codings === 1 && chunked) {
      // RFC 9112 6.1: no 1.0 sender knows chunks.
      if (old) this.reusable = false
      this.#state = CHUNK_LINE
    } else if (length >= 0) this.#bodyOf(length)
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

function copy(bytes: Buffer, from: number, to: number): Buffer {
  const out = Buffer.allocUnsafe(to - from)
  bytes.copy(out, 0, from, to)
  return out
}

function closed(): ResponseFault {
  return new ResponseFault('UPSTREAM_CLOSED', 'the upstream closed before its answer was whole')
}
