/** Finds members of JSON texts of any size as their bytes pass, in bounded memory and with correct nesting. */

import { find, itemOf, type Node, type WantedMembers } from './wanted-members.ts'

/** The value of a member: a scalar, or whether an object or a list has anything in it. Undefined where it is missing. */
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
/** Bytes of a name or a scalar that are kept. A longer scalar is none that is read. */
const KEPT = 400
/** Bytes without a string after which numbers are skipped by native code. */
const RUN = 256
const MARKS = [CLOSE_LIST, QUOTE, CLOSE_OBJECT, OPEN_OBJECT, OPEN_LIST]
/** From here on a string is searched for its end by native code. */
const LONG = 48

/**
 * Reads JSON texts one after the other. Lenient where leniency cannot move a member: of a text with unbalanced brackets
 * nothing is reported.
 */
export class JsonScan {
  /** Values of the text that is being read, by slot. */
  readonly values: Found[]
  /** Where those values begin in the piece that was fed last. */
  readonly starts: number[]
  /** The text that is being read has content. */
  hasContent = false
  readonly #root: Node
  readonly #onText: () => void
  /** Open objects and lists on the way to something that is wanted: where they are, and how many items a list has. */
  readonly #nodes: Node[] = []
  readonly #items: number[] = []
  #open = 0
  /** Nothing has come in the innermost of them. */
  #isEmpty = false
  /** Open objects and lists with nothing in them that is wanted. */
  #skipped = 0
  #isBroken = false
  #inString = false
  #isEscaped = false
  #inScalar = false
  /** The next string is a name. */
  #isName = false
  /** The string or scalar is kept, as one character for each byte. */
  #isKept = false
  #kept = ''
  /** Where the next value goes. */
  #node: Node | null

  /** `onText` is called at the end of each text, while `values` and `hasContent` are those of the text. */
  constructor(wanted: WantedMembers, onText: () => void) {
    this.#root = wanted.root
    this.#node = wanted.root
    this.#onText = onText
    this.values = Array.from({ length: wanted.size }, () => undefined)
    this.starts = Array.from({ length: wanted.size }, () => -1)
  }

  /** Whether no text is open, and nothing was no JSON. */
  get isComplete(): boolean {
    return !this.#isBroken && this.#open === 0 && !this.#inString && !this.#inScalar
  }

  /** Begins anew, as for the next event: what is open is dropped. */
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
      // Some servers begin with a byte order mark.
      if (byte === 0xef || byte === 0xbb || byte === 0xbf) return at + 1
      this.#isBroken = true
      return at
    }
    this.#isEmpty = false
    if (!this.#isName && this.#node !== null && this.#node.slot >= 0) this.starts[this.#node.slot] = at
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

  /** A value ended, which goes to the node. */
  #take(value: Found): void {
    const node = this.#node
    if (node === null) return
    if (node.slot >= 0) this.values[node.slot] = value
    if (node.isContent && isFilled(value)) this.hasContent = true
    this.#node = null
  }

  #beginString(bytes: Buffer, start: number, to: number): number {
    if (this.#isName) {
      // Most names end in the same piece and have no escapes.
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

  /** Takes a text that is the same as the last one at its place. Returns its end; `start` where it is another one. */
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
    if (node !== null) for (const slot of node.below) this.values[slot] = undefined
  }

  /** Within a string. Returns where it ended, or the end of the piece. */
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
      // A name that long is none that is looked for.
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

  /** Within something that is not wanted. */
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

/** The next quote or bracket, by native code. */
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

/** A text of one character for each byte, as a string of JSON; null for what is none. */
function unescaped(bytes: string): string | null {
  const text = Buffer.from(bytes, 'latin1').toString('utf8')
  if (!text.includes('\\')) return text
  try {
    // A string of JSON is a string.
    return JSON.parse(`"${text}"`) as string
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

/** Undefined would be a missing member; what is no scalar is something that counts nothing. */
function scalarOf(text: string): Found {
  if (text === 'null') return null
  if (text === 'true' || text === 'false') return text === 'true'
  return /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/.test(text) ? Number(text) : FILLED
}

/** Whether a value says something: no null, `false`, 0, empty text, object or list. */
export function isFilled(value: Found): boolean {
  return value !== undefined && value !== null && value !== false && value !== 0 && value !== ''
}
