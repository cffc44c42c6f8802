import { nameIn, tableOf } from '../message/header-names.ts'

/** The head of a request the fast lane serves. node:http reads all other forms. */
export interface PlainHead {
  readonly method: string
  readonly url: string
  readonly httpVersion: '1.1'
  /** `[name, value, …]` in wire order, values trimmed. */
  readonly rawHeaders: string[]
  readonly end: number
  readonly last: boolean
}

const TOKEN = 1
const VALUE = 2
const TARGET = 4

/** What each byte may be part of (RFC 9110, sections 5.5 and 5.6.2), as strictly as llhttp. */
const CLASSES = new Uint8Array(256)
for (let byte = 0; byte < 256; byte++) {
  let classes = 0
  if (/[!#$%&'*+.^_`|~0-9A-Za-z-]/.test(String.fromCharCode(byte))) classes |= TOKEN
  if (byte === 0x09 || (byte >= 0x20 && byte !== 0x7f)) classes |= VALUE
  if (byte > 0x20 && byte < 0x7f) classes |= TARGET
  CLASSES[byte] = classes
}

const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'] as const
const METHOD_STARTS = METHODS.map(method => ({ method, bytes: Buffer.from(`${method} /`, 'latin1') }))
const VERSION = Buffer.from(' HTTP/1.1\r\n', 'latin1')

/** Header lines of a plain request; node:http counts and refuses more. */
const MOST_LINES = 100

/** Name and value positions in the current head. Parsing is synchronous, so one array is enough. */
const marks = new Uint32Array(MOST_LINES * 4)

const PLAIN = 0
const CONNECTION = 1
const NOT_PLAIN = 2
const UPGRADE = 3
/** Lines that change framing or must be answered first. node:http reads `Proxy-Connection` as `Connection`. */
const lineKinds = tableOf(
  new Map<string, number>([
    ['connection', CONNECTION],
    ['upgrade', UPGRADE],
    ['expect', NOT_PLAIN],
    ['transfer-encoding', NOT_PLAIN],
    ['proxy-connection', NOT_PLAIN]
  ]),
  PLAIN
)

/** HTTP/2 offer of curl and Java in a first request; ignored. */
const OFFERS_H2C = 'upgrade, http2-settings'

/**
 * Reads a request head from the start of `bytes`. Returns null for one that is incomplete within `limit` bytes or not
 * plain. Only accepts what node:http reads identically, so null costs time and never changes a response.
 */
export function readPlainHead(bytes: Buffer, limit: number): PlainHead | null {
  const end = Math.min(bytes.length, limit)
  const start = methodAt(bytes)
  if (start === null) return null
  const urlAt = start.bytes.length - 1
  let at = urlAt + 1
  while (at < end && ((CLASSES[bytes[at] ?? 0] ?? 0) & TARGET) !== 0) at++
  const urlEnd = at
  if (end - at < VERSION.length || !startsWith(bytes, VERSION, at)) return null
  at += VERSION.length

  let lines = 0
  for (;;) {
    const nameAt = at
    while (at < end && ((CLASSES[bytes[at] ?? 0] ?? 0) & TOKEN) !== 0) at++
    if (at + 1 >= end) return null
    if (at === nameAt) {
      if (bytes[at] === 0x0d && bytes[at + 1] === 0x0a) break
      return null
    }
    if (bytes[at] !== 0x3a || lines === MOST_LINES) return null
    const nameEnd = at++
    while (at < end && (bytes[at] === 0x20 || bytes[at] === 0x09)) at++
    const valueAt = at
    while (at < end && ((CLASSES[bytes[at] ?? 0] ?? 0) & VALUE) !== 0) at++
    if (at + 1 >= end || bytes[at] !== 0x0d || bytes[at + 1] !== 0x0a) return null
    let valueEnd = at
    while (valueEnd > valueAt && (bytes[valueEnd - 1] === 0x20 || bytes[valueEnd - 1] === 0x09)) valueEnd--
    at += 2
    const mark = lines++ * 4
    marks[mark] = nameAt
    marks[mark + 1] = nameEnd
    marks[mark + 2] = valueAt
    marks[mark + 3] = valueEnd
  }
  return makeHead(bytes, start.method, urlAt, urlEnd, lines, at + 2)
}

function makeHead(
  bytes: Buffer,
  method: string,
  urlAt: number,
  urlEnd: number,
  lines: number,
  end: number
): PlainHead | null {
  // Slices of one string cost a tenth of as many calls into the buffer.
  const text = bytes.toString('latin1', 0, end)
  const rawHeaders: string[] = []
  let last = false
  let connections = 0
  let offers = 0
  for (let line = 0; line < lines; line++) {
    const mark = line * 4
    const name = nameIn(bytes, marks[mark] as number, marks[mark + 1] as number)
    const value = text.slice(marks[mark + 2], marks[mark + 3])
    const kind = lineKinds.of(name)
    if (kind !== PLAIN) {
      if (kind === NOT_PLAIN) return null
      const option = value.toLowerCase()
      if (kind === UPGRADE) {
        if (option !== 'h2c') return null
        offers++
      } else {
        if (connections++ > 0) return null
        if (option === OFFERS_H2C) offers++
        else if (option !== 'keep-alive' && option !== 'close') return null
        last = option === 'close'
      }
    }
    rawHeaders.push(name, value)
  }
  // Upgrade is valid only where Connection names it.
  if (offers !== 0 && offers !== 2) return null
  return { method, url: text.slice(urlAt, urlEnd), httpVersion: '1.1', rawHeaders, end, last }
}

function methodAt(bytes: Buffer): { readonly method: string; readonly bytes: Buffer } | null {
  for (const start of METHOD_STARTS) {
    if (bytes[0] === start.bytes[0] && bytes.length >= start.bytes.length && startsWith(bytes, start.bytes, 0))
      return start
  }
  return null
}

function startsWith(bytes: Buffer, expected: Buffer, from: number): boolean {
  for (let at = 0; at < expected.length; at++) if (bytes[from + at] !== expected[at]) return false
  return true
}
