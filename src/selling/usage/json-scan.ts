/** Finds members in streamed JSON texts of any size, in bounded memory and with correct nesting. */

import { jsonOrUndefined } from '../../platform/system/json.ts'
import { find, itemOf, type Node, type WantedMembers } from './wanted-members.ts'

/** A scalar, or whether an object or list is empty. Undefined if missing. */
export type Found = string | number | boolean | null | undefined | typeof FILLED

/** An object or a list that is not empty. */
export const FILLED = Symbol('filled')

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
/** Bytes kept of a name or scalar; longer ones are ignored. */
const KEPT = 400
/** Bytes without a string after which native code skips numbers. */
const RUN = 256
const MARKS = [CLOSE_LIST, QUOTE, CLOSE_OBJECT, OPEN_OBJECT, OPEN_LIST]
/** Length from which native code finds a string's end. */
const LONG = 48

/**
 * Reads consecutive JSON texts. Lenient if that cannot move a member: texts with unbalanced brackets report nothing.
 */
export class JsonScan {
  /** Values of the current text, by slot. */
  readonly values: Found[]
  hasContent = false
  /** The nodes that set the values, by slot. */
  readonly #sources: Node[] = []
  readonly #root: Node
  readonly #onText: () => void
  /** Open containers on the way to a wanted member, with list indexes. */
  readonly #nodes: Node[] = []
  readonly #items: number[] = []
  #open = 0
  /** The innermost is empty so far. */
  #isEmpty = false
  /** Depth of open containers without wanted members. */
  #skipped = 0
  #isBroken = false
  #inString = false
  #isEscaped = false
  #inScalar = false
  #isName = false
  /** The string or scalar is kept, one character per byte. */
  #isKept = false
  #kept = ''
  #node: Node | null

  /** `onText`: called at the end of each text, with its `values` and `hasContent`. */
  constructor(wanted: WantedMembers, onText: () => void) {
    this.#root = wanted.root
    this.#node = wanted.root
    this.#onText = onText
    this.values = Array.from({ length: wanted.size }, () => undefined)
  }

  get isComplete(): boolean {
    return !this.#isBroken && this.#open === 0 && !this.#inString && !this.#inScalar
  }

  /** Drops the open text, as for the next event. */
  reset(): void {
    if (this.#open > 0 || this.#isBroken) this.#clear()
  }

  #clear(): void {
    this.#open = 0
    this.#skipped = 0
    this.#isBroken = this.#inString = this.#isEscaped = this.#inScalar = this.#isName = this.#isKept = false
    this.#kept = ''
    this.#newText()
  }

  #newText(): void {
    this.#node = this.#root
    this.values.fill(undefined)
    this.hasContent = false
  }

  feed(bytes: Buffer, from: number, to: number): void {
    let at = from
    while (at < to && !this.#isBroken)
      if (this.#inString) at = this.#string(bytes, at, to)
      else if (this.#skipped > 0) at = this.#skip(bytes, at, to)
      else if (this.#inScalar) at = this.#scalar(bytes, at, to)
      else at = this.#token(bytes, at, to)
  }

  #token(bytes: Buffer, at: number, to: number): number {
    const byte = bytes[at]
    switch (byte) {
      case 0x20:
      case 0x0a:
      case 0x0d:
      case 0x09:
        return at + 1
      case COLON:
        return at + 1
      case COMMA:
        this.#comma()
        return at + 1
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        this.#close(byte === CLOSE_LIST)
        return at + 1
    }
    if (this.#open === 0 && byte !== OPEN_OBJECT && byte !== OPEN_LIST) {
      // Some servers send a byte order mark.
      if (byte === 0xef || byte === 0xbb || byte === 0xbf) return at + 1
      this.#isBroken = true
      return at
    }
    this.#isEmpty = false
    if (byte === QUOTE) return this.#beginString(bytes, at + 1, to)
    if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      this.#begin(byte === OPEN_LIST)
      return at + 1
    }
    this.#inScalar = true
    this.#isKept = this.#isWanted()
    return at
  }

  #isWanted(): boolean {
    return this.#node !== null && (this.#node.slot >= 0 || this.#node.isContent)
  }

  #begin(isList: boolean): void {
    const node = this.#node
    if (node === null) {
      this.#skipped = 1
      return
    }
    this.#nodes[this.#open] = node
    this.#items[this.#open] = isList ? 0 : -1
    this.#open++
    this.#isEmpty = true
    this.#isName = !isList
    this.#node = isList ? itemOf(node, 0) : null
  }

  #comma(): void {
    const at = this.#open - 1
    const node = this.#nodes[at]
    const items = this.#items[at] ?? -1
    if (at < 0 || node === undefined) this.#isBroken = true
    else if (items < 0) this.#isName = true
    else {
      this.#items[at] = items + 1
      this.#node = itemOf(node, items + 1)
    }
  }

  #close(isList: boolean): void {
    const at = this.#open - 1
    if (at < 0 || (this.#items[at] ?? -1) >= 0 !== isList) {
      this.#isBroken = true
      return
    }
    this.#open = at
    this.#isName = false
    this.#node = this.#nodes[at] ?? null
    this.#take(this.#isEmpty ? null : FILLED)
    this.#isEmpty = false
    if (at > 0) return
    this.#onText()
    this.#newText()
  }

  #take(value: Found): void {
    const node = this.#node
    if (node === null) return
    // A member that shares its slot never hides a value at another path.
    if (node.slot >= 0 && (isFilled(value) || !isFilled(this.values[node.slot]))) {
      this.values[node.slot] = value
      this.#sources[node.slot] = node
    }
    if (node.isContent && isFilled(value)) this.hasContent = true
    this.#node = null
  }

  #beginString(bytes: Buffer, start: number, to: number): number {
    if (this.#isName) {
      // Fast path: most names end in the same piece, without escapes.
      let at = start
      const most = Math.min(to, start + LONG)
      while (at < most && bytes[at] !== QUOTE && bytes[at] !== BACKSLASH) at++
      if (at < most && bytes[at] === QUOTE) {
        this.#named(bytes, start, at)
        return at + 1
      }
      this.#isKept = true
    } else {
      const node = this.#node
      if (node?.isContent === true && start < to && bytes[start] !== QUOTE) this.hasContent = true
      else if (node !== null && (node.slot >= 0 || node.isContent)) {
        const end = this.#repeated(node, bytes, start, to)
        if (end > start) return end
        this.#isKept = true
      }
    }
    this.#inString = true
    return this.#string(bytes, start, to)
  }

  /** Skips a text equal to the last one at its place. Returns its end, or `start` if it differs. */
  #repeated(node: Node, bytes: Buffer, start: number, to: number): number {
    const { lastBytes, lastText } = node
    const end = start + lastBytes.length
    if (end === start || end >= to || bytes[end] !== QUOTE) return start
    for (let at = 0; at < lastBytes.length; at++) if (bytes[start + at] !== lastBytes[at]) return start
    this.#take(lastText)
    return end + 1
  }

  #named(bytes: Buffer, from: number, to: number): void {
    this.#isName = false
    const parent = this.#nodes[this.#open - 1]
    if (parent === undefined) return
    const node = find(parent, bytes, from, to) ?? parent.other
    this.#node = node
    if (node === null) return
    for (const each of node.below) if (this.#sources[each.slot] === each) this.values[each.slot] = undefined
  }

  /** Continues a string; returns its end or the piece's. */
  #string(bytes: Buffer, from: number, to: number): number {
    const end = this.#endOfString(bytes, from, to)
    if (this.#isKept) {
      const last = this.#inString ? end : end - 1
      if (this.#kept.length <= KEPT) this.#kept += bytes.toString('latin1', from, Math.min(last, from + KEPT + 1))
    }
    if (!this.#inString && this.#skipped === 0) this.#endString()
    return end
  }

  #endOfString(bytes: Buffer, from: number, to: number): number {
    let at = from
    if (this.#isEscaped) {
      this.#isEscaped = false
      at++
    }
    while (at < to) {
      const most = Math.min(to, at + LONG)
      while (at < most) {
        const byte = bytes[at++]
        if (byte === QUOTE) {
          this.#inString = false
          return at
        }
        if (byte === BACKSLASH) at++
      }
      if (at >= to) break
      const rest = bytes.subarray(at, to)
      const quote = rest.indexOf(QUOTE)
      const end = quote < 0 ? rest.length : quote
      let slashes = 0
      while (slashes < end && rest[end - 1 - slashes] === BACKSLASH) slashes++
      if (quote < 0) {
        this.#isEscaped = slashes % 2 === 1
        return to
      }
      at += quote + 1
      if (slashes % 2 === 0) {
        this.#inString = false
        return at
      }
    }
    this.#isEscaped = at > to
    return to
  }

  #endString(): void {
    if (!this.#isKept) {
      this.#node = null
      return
    }
    const kept = this.#kept
    this.#kept = ''
    this.#isKept = false
    const text = kept.length > KEPT ? null : unescaped(kept)
    const node = this.#node
    if (this.#isName) {
      const name = Buffer.from(text ?? '')
      // Too long for any wanted name.
      if (text === null) this.#named(LONG_NAME, 0, LONG_NAME.length)
      else this.#named(name, 0, name.length)
      return
    }
    if (text === kept && node !== null) {
      node.lastBytes = Buffer.from(text)
      node.lastText = text
    }
    this.#take(text ?? FILLED)
  }

  #scalar(bytes: Buffer, from: number, to: number): number {
    let at = from
    while (at < to && !endsScalar(bytes[at])) at++
    if (this.#isKept && this.#kept.length <= KEPT)
      this.#kept += bytes.toString('latin1', from, Math.min(at, from + KEPT + 1))
    if (at === to) return at
    this.#inScalar = false
    if (this.#isKept) this.#take(scalarOf(this.#kept))
    else this.#node = null
    this.#kept = ''
    this.#isKept = false
    return at
  }

  #skip(bytes: Buffer, from: number, to: number): number {
    let at = from
    let depth = this.#skipped
    let far = at + RUN
    while (at < to) {
      if (at === far) {
        at = nextMark(bytes, at, to)
        far = at + RUN
        continue
      }
      const byte = bytes[at++]
      if (byte === QUOTE) {
        this.#inString = true
        at = this.#endOfString(bytes, at, to)
        if (this.#inString) break
        far = at + RUN
      } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth++
      else if ((byte === CLOSE_OBJECT || byte === CLOSE_LIST) && --depth === 0) break
    }
    this.#skipped = depth
    return at
  }
}

function nextMark(bytes: Buffer, from: number, to: number): number {
  let rest = bytes.subarray(from, to)
  for (const mark of MARKS) {
    const at = rest.indexOf(mark)
    if (at >= 0) rest = rest.subarray(0, at)
  }
  return from + rest.length
}

const LONG_NAME = Buffer.alloc(KEPT + 1, 0x78)

function endsScalar(byte: number | undefined): boolean {
  return (
    byte === COMMA ||
    byte === CLOSE_OBJECT ||
    byte === CLOSE_LIST ||
    byte === 0x20 ||
    byte === 0x0a ||
    byte === 0x0d ||
    byte === 0x09
  )
}

/** Parses a JSON string given as a character per byte; null if invalid. */
function unescaped(bytes: string): string | null {
  const text = Buffer.from(bytes, 'latin1').toString('utf8')
  if (!text.includes('\\')) return text
  const value = jsonOrUndefined(`"${text}"`)
  return typeof value === 'string' ? value : null
}

/** Undefined would mean missing; an invalid scalar counts as filled. */
function scalarOf(text: string): Found {
  if (text === 'null') return null
  if (text === 'true' || text === 'false') return text === 'true'
  return /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/.test(text) ? Number(text) : FILLED
}

/** False for null, `false`, 0, and empty text, object or list. */
export function isFilled(value: Found): boolean {
  return value !== undefined && value !== null && value !== false && value !== 0 && value !== ''
}
