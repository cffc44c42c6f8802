/**
 * JSON as text, with the places of its values: for those who must see what every other reader might, or leave what they
 * do not change byte for byte. All but `decodeJson` take text that is JSON.
 */
import { tooDeep } from './json-depth.ts'

/** Where a value stands in its text; `end` is behind its last character. */
export interface Span {
  readonly start: number
  readonly end: number
}

/** A member of an object: its decoded name, where that begins, and its value. */
export interface Member {
  readonly name: string
  readonly start: number
  readonly value: Span
}

/** Why bytes are not read: they are not UTF-8, nested too deep, or no JSON. */
export interface Unread {
  readonly fault: 'utf-8' | 'depth' | 'syntax'
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text of a body that is one JSON value (RFC 8259) in UTF-8, without a mark in front, of at most `depth` levels. */
export function decodeJson(bytes: Uint8Array, depth: number): string | Unread {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch (error) {
    if (error instanceof TypeError) return { fault: 'utf-8' }
    throw error
  }
  // Before the parser, which takes long over many levels.
  if (tooDeep(bytes, depth)) return { fault: 'depth' }
  try {
    JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return { fault: 'syntax' }
    throw error
  }
  return text
}

/** The one value of a text. */
export function rootOf(text: string): Span {
  const start = afterSpace(text, 0)
  return { start, end: endOfValue(text, start) }
}

/** The members of an object in their order; null of any other value. The text must be JSON. */
export function membersOf(text: string, { start }: Span): Member[] | null {
  if (text.charCodeAt(start) !== 0x7b) return null
  const members: Member[] = []
  let at = afterSpace(text, start + 1)
  while (text.charCodeAt(at) !== 0x7d) {
    const end = endOfString(text, at)
    const name = stringAt(text, { start: at, end })
    const from = afterSpace(text, afterSpace(text, end) + 1)
    const value = { start: from, end: endOfValue(text, from) }
    members.push({ name, start: at, value })
    at = afterComma(text, value.end)
  }
  return members
}

/** The items of a list; null of any other value. The text must be JSON. */
export function itemsOf(text: string, { start }: Span): Span[] | null {
  if (text.charCodeAt(start) !== 0x5b) return null
  const items: Span[] = []
  let at = afterSpace(text, start + 1)
  while (text.charCodeAt(at) !== 0x5d) {
    const item = { start: at, end: endOfValue(text, at) }
    items.push(item)
    at = afterComma(text, item.end)
  }
  return items
}

/** The value of one member; null where there is no object, or none of that name. */
export function memberOf(text: string, span: Span, name: string): Span | null {
  return membersOf(text, span)?.find(member => member.name === name)?.value ?? null
}

/** Whether an object stands there. */
export function isObject(text: string, { start }: Span): boolean {
  return text.charCodeAt(start) === 0x7b
}

/** The value of a string; null of any other. */
export function textOf(text: string, span: Span): string | null {
  return text.charCodeAt(span.start) === QUOTE ? stringAt(text, span) : null
}

/** The value, parsed. */
export function valueOf(text: string, { start, end }: Span): unknown {
  return JSON.parse(text.slice(start, end))
}

/** The value of a string. */
export function stringAt(text: string, { start, end }: Span): string {
  const inner = text.slice(start + 1, end - 1)
  // A text that is JSON has a string here.
  return inner.includes('\\') ? (JSON.parse(text.slice(start, end)) as string) : inner
}

/** Behind the closing quote of a string. */
export function endOfString(text: string, start: number): number {
  let at = start + 1
  while (at < text.length) {
    const code = text.charCodeAt(at++)
    if (code === BACKSLASH) at++
    else if (code === QUOTE) return at
  }
  return at
}

function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start)
  if (first === QUOTE) return endOfString(text, start)
  if (first !== 0x5b && first !== 0x7b) {
    let at = start
    while (at < text.length && !/[\s,\]}]/.test(text[at] ?? '')) at++
    return at
  }
  let depth = 0
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at) - 1
    else if (code === 0x5b || code === 0x7b) depth++
    else if ((code === 0x5d || code === 0x7d) && --depth === 0) return at + 1
  }
  return text.length
}

/** The first place from here on that is no space. */
export function afterSpace(text: string, from: number): number {
  let at = from
  for (;;) {
    const code = text.charCodeAt(at)
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return at
    at++
  }
}

function afterComma(text: string, from: number): number {
  const at = afterSpace(text, from)
  return text.charCodeAt(at) === 0x2c ? afterSpace(text, at + 1) : at
}
