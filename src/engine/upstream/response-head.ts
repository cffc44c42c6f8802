import { nameIn, NameTable } from '../message/header-names.ts'
import { trimmed } from '../message/headers.ts'

export const MAX_HEAD = 64 * 1024
/** Most lines of a head, or of trailers: each costs time in every plugin. */
export const MAX_FIELDS = 1_000
/** Bytes decoded to text first: most heads are smaller, and what follows a head needs no text. */
const WINDOW = 512

const TAB = 0x09
const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const COLON = 0x3a
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

const PREFIX = 'HTTP/1.'

/** Reads the status line and field lines of a head, or the field lines of trailers, from pieces of any size. */
export class HeadReader {
  readonly framing = new Framing()
  status = 0
  /** HTTP/1.0. */
  old = false
  /** Flat; new for each head and for trailers. */
  pairs: string[] = []
  /** The empty line was read. */
  complete = false
  /** Before the end of the status line. */
  starting = false
  #inTrailers = false
  #size = 0

  /** Expects a head. */
  begin(): void {
    this.starting = true
    this.#inTrailers = false
    this.#size = 0
    this.complete = false
    this.pairs = []
    this.framing.reset()
  }

  beginTrailers(): void {
    this.#inTrailers = true
    this.#size = 0
    this.complete = false
    this.pairs = []
  }

  /** Bytes that the head may still have. */
  get room(): number {
    return MAX_HEAD - this.#size
  }

  /**
   * Reads complete lines. Returns the start of the first incomplete one, or the end of the head.
   * @throws ResponseFault
   */
  read(bytes: Buffer, from: number, to: number): number {
    let at = from
    for (let window = WINDOW; ; window = MAX_HEAD + 1) {
      const end = Math.min(to, at + window)
      const text = bytes.toString('latin1', at, end)
      let read = 0
      if (this.starting) read = this.#statusLine(bytes, at, text)
      if (!this.starting) read = this.#fields(bytes, at, text, read)
      at += read
      this.#size += read
      if (this.#size + (this.complete ? 0 : end - at) > MAX_HEAD)
        throw new ResponseFault('UPSTREAM_HEAD_TOO_LARGE', `a head of more than ${MAX_HEAD} bytes`)
      if (this.complete || end === to) return at
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
    this.status = hundreds * 100 + tens * 10 + ones
    this.old = version === 0
    this.starting = false
    return end + 1
  }

  /**
   * Reads field lines from `at` of `text`, the decoded bytes from `base`. Checking bytes costs a third of checking
   * characters. Returns where it stopped: after the empty line, or at the first incomplete line.
   */
  #fields(bytes: Buffer, base: number, text: string, at: number): number {
    const pairs = this.pairs
    const { length } = text
    while (at < length) {
      // Every byte below `length` exists, and the table covers it.
      if (bytes[base + at] === CR) {
        if (at + 1 === length) return at
        if (bytes[base + at + 1] !== LF) throw malformed('a line begins with a bare CR')
        this.complete = true
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
      if (framing !== null)
        this.framing.read(framing, value, last < end && text.slice(last, end).includes('\t'), this.#inTrailers)
      at = end + 2
    }
    return at
  }
}

function blank(code: number): boolean {
  return code === SPACE || code === TAB
}

function digit(bytes: Buffer, at: number): number {
  return (bytes[at] ?? 0) - ZERO
}

/** Lower-case names of fields that frame the response or decide on reuse. */
const FRAMINGS: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'content-length', 'transfer-encoding'])
const framings = new NameTable(name => {
  const lower = name.toLowerCase()
  return FRAMINGS.has(lower) ? lower : null
})

/** What the fields of one head say about the end of the response and about reuse of its connection (RFC 9112 6 and 9.3). */
class Framing {
  /** -1 without Content-Length. */
  length = -1
  codings = 0
  chunked = false
  /** The upstream's keep-alive time, or -1. */
  keepAlive = -1
  #close = false
  #keep = false

  /** `keepAlive` stays: an interim head may name it. */
  reset(): void {
    this.length = -1
    this.codings = 0
    this.chunked = false
    this.#close = false
    this.#keep = false
  }

  /** Whether the head lets another request follow; HTTP/1.0 has to say so. */
  reusable(old: boolean): boolean {
    return !this.#close && (this.#keep || !old)
  }

  /**
   * Reads a field that `framings` knows. `tab`: a tab follows the value.
   * @throws ResponseFault
   */
  read(name: string, value: string, tab: boolean, inTrailers: boolean): void {
    if (name === 'content-length' || name === 'transfer-encoding') {
      // llhttp does not read `chunked` with a trailing tab as chunked.
      if (tab) throw malformed('a tab follows the value of a framing header')
      if (inTrailers) throw malformed('a trailer frames the message')
      if (name === 'content-length') {
        if (this.length >= 0) throw malformed('there is more than one Content-Length')
        this.length = lengthOf(value)
      } else {
        this.codings++
        this.chunked = value.toLowerCase() === 'chunked'
      }
    } else if (inTrailers) return
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
}

function lengthOf(value: string): number {
  if (!/^\d+$/.test(value)) throw malformed('Content-Length is not a number')
  const length = Number(value)
  if (length > Number.MAX_SAFE_INTEGER) throw malformed('Content-Length is too large')
  return length
}

type ResponseFaultCode =
  /** The upstream closed before the response was complete, or sent an unsolicited 100 or 101. */
  'UPSTREAM_CLOSED' | 'UPSTREAM_HEAD_TOO_LARGE' | 'UPSTREAM_LENGTH_MISMATCH' | 'UPSTREAM_MALFORMED'

/** A response that cannot be passed on. The message is for the log; clients get the text of `failure.ts`. */
export class ResponseFault extends Error {
  readonly code: ResponseFaultCode

  constructor(code: ResponseFaultCode, message: string) {
    super(message)
    this.name = 'ResponseFault'
    this.code = code
  }
}

export function malformed(why: string): ResponseFault {
  return new ResponseFault('UPSTREAM_MALFORMED', why)
}
