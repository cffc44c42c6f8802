/** What a message says of payment, and what x402 binds of it. */
import { MAX_MEMBERS, outlineAt, textAt, type Outline } from '../../engine/formats/json-reader.ts'
import { JsonError, type Span } from '../../engine/formats/json-scan.ts'
import { canonicalize, JcsError, type JcsValue } from '../../lightning/payment-scheme/jcs.ts'
import type { Offer } from '../offers/offer.ts'
import { canonicalText, memberPlace, type Budget } from './json-text.ts'
import { CREDENTIAL, META, X402_EXTENSION, X402_PAYMENT } from './wire.ts'

/** Maximum characters of arguments that x402 binds: some nodes must see them. */
const MAX_BOUND_CHARS = 65_536
const MAX_BOUND_VALUES = 4_096

export interface Parts {
  readonly message: Outline
  /** Null if `params` is missing or no object. */
  readonly params: Outline | null
}

export function partsOf(message: Outline): Parts {
  const params = message.member('params')
  const isObject = params !== null && message.text[params.start] === '{'
  return { message, params: isObject ? outlineAt(message.text, params, MAX_MEMBERS) : null }
}

export function stringIn(object: Outline | null, name: string): string | null {
  const span = object?.member(name) ?? null
  return object === null || span === null ? null : textAt(object.text, span)
}

/** Members of `_meta` that pay. */
export const CREDENTIALS = [CREDENTIAL, X402_PAYMENT] as const
export type CredentialName = (typeof CREDENTIALS)[number]

interface Credential {
  readonly name: CredentialName
  readonly value: Span
  readonly place: Span
}

/** In `params._meta` (MCP) or at the root (plain JSON-RPC). If both, they are equal. */
export function credentialsOf({ message, params }: Parts, names: readonly CredentialName[]): Credential[] {
  const found: Credential[] = []
  for (const holder of [params, message]) {
    const span = holder?.member(META) ?? null
    if (span === null) continue
    const meta = outlineAt(message.text, span, MAX_MEMBERS)
    for (const name of names) {
      const [value, place] = [meta.member(name), memberPlace(meta, name)]
      if (value !== null && place !== null) found.push({ name, value, place })
    }
  }
  return found
}

export function isSame(text: string, one: Credential, other: Credential, budget: Budget): boolean {
  if (one.name !== other.name) return false
  try {
    return canonicalText(text, one.value, budget) === canonicalText(text, other.value, budget)
  } catch (error) {
    if (error instanceof JsonError) return false
    throw error
  }
}

/** The message without them. They may be neighbors, so the rest is outlined after each. */
export function withoutCredentials(parts: Parts, names: readonly CredentialName[]): string {
  const { text, start, end } = parts.message
  const [first, second] = credentialsOf(parts, names)
  if (first === undefined) return text.slice(start, end)
  const kept = text.slice(start, first.place.start) + text.slice(first.place.end, end)
  if (second === undefined) return kept
  return withoutCredentials(partsOf(outlineAt(kept, { start: 0, end: kept.length }, MAX_MEMBERS)), names)
}

export function valueAt(text: string, { start, end }: Span): unknown {
  return JSON.parse(text.slice(start, end))
}

const EXTENSION_PATH = [META, 'io.modelcontextprotocol/clientCapabilities', 'extensions', X402_EXTENSION]

export function hasExtension({ message, params }: Parts): boolean {
  let object = params
  for (const name of EXTENSION_PATH) {
    const span = object?.member(name) ?? null
    if (span === null) return false
    object = outlineAt(message.text, span, MAX_MEMBERS)
  }
  return true
}

/** Null for a call that x402 cannot bind: its parts of other types, a number that no double holds, or long arguments. */
export function toolOf({ message: { text }, params }: Parts): Offer['tool'] | null {
  const name = stringIn(params, 'name')
  const [given, meta] = [params?.member('arguments') ?? null, params?.member(META) ?? null]
  if (name === null || name === '' || [given, meta].some(span => span !== null && text[span.start] !== '{')) return null
  if (given === null) return { name, argumentsText: '{}' }
  if (given.end - given.start > MAX_BOUND_CHARS) return null
  try {
    const argumentsText = canonicalText(text, given, { left: MAX_BOUND_VALUES })
    // As canonicalized by clients, which read doubles.
    return canonicalize(valueAt(text, given) as JcsValue) === argumentsText ? { name, argumentsText } : null
  } catch (error) {
    if (error instanceof JsonError || error instanceof JcsError) return null
    throw error
  }
}
