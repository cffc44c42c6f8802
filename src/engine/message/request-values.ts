/** What an upstream reads as one value of a request, where every upstream reads the same. */
import { unescape } from 'node:querystring'
import { folded } from '../formats/json-reader.ts'
import { trimmed, type ReadonlyHeaders } from './headers.ts'

export type ValueRead =
  | { readonly kind: 'missing' }
  | { readonly kind: 'value'; readonly value: string }
  | { readonly kind: 'fault'; readonly message: string }

/** Servers such as PHP, Django and Express commonly read this many parameters, and ignore or refuse the rest. */
const MAX_PARAMETERS = 1000

interface Key {
  readonly text: string
  readonly folded: string
  readonly spelled: string
}

interface Parameter {
  readonly key: Key
  /** Undecoded. */
  readonly value: string
  /** Keys between semicolons, if there are any. */
  readonly pieces: readonly Key[]
}

/** The last query, since a request's conditions and prices read one after the other. Null beyond the limit. */
let latest: { readonly query: string; readonly parameters: readonly Parameter[] | null } = { query: '', parameters: [] }

function parametersOf(query: string): readonly Parameter[] | null {
  if (latest.query !== query) latest = { query, parameters: split(query) }
  return latest.parameters
}

function split(query: string): readonly Parameter[] | null {
  if (query.split(/[&;]/, MAX_PARAMETERS + 1).length > MAX_PARAMETERS) return null
  return query.split('&').map(part => ({
    key: keyOf(part),
    value: part.slice(rawKey(part).length + 1),
    pieces: part.includes(';') ? part.split(';').map(keyOf) : []
  }))
}

/**
 * One parameter of a raw query. A fault if repeated, spelled as some servers treat alike, a list (`name[]`), or behind
 * a semicolon, which some servers take for an ampersand.
 */
export function queryParameter(query: string, name: string): ValueRead {
  const called = JSON.stringify(name)
  const parameters = parametersOf(query)
  if (parameters === null) return { kind: 'fault', message: `the query has more than ${MAX_PARAMETERS} parameters` }
  const wanted = spellings(name)
  let raw: string | null = null
  for (const { key, value, pieces } of parameters) {
    if (pieces.some(piece => isAlike(piece, wanted)))
      return { kind: 'fault', message: `the query has a semicolon beside ${called}; write it as %3B` }
    if (!isAlike(key, wanted)) continue
    if (key.text !== name)
      return {
        kind: 'fault',
        message: `the query has ${JSON.stringify(key.text)}; write ${called} exactly as here`
      }
    if (raw !== null) return { kind: 'fault', message: `the query has ${called} twice` }
    raw = value
  }
  if (raw === null) return { kind: 'missing' }
  const value = decoded(raw)
  return value === null
    ? { kind: 'fault', message: `${called} in the query is not percent-encoded UTF-8` }
    : { kind: 'value', value }
}

/** Whether a parameter has exactly this name, with or without a value. False beyond the limit of parameters. */
export function hasParameter(query: string, name: string): boolean {
  return parametersOf(query)?.some(({ key }) => key.text === name) === true
}

/** Decoded as lenient servers do: `size%00%zz` is `size` to PHP. */
function keyOf(part: string): Key {
  return spellings(unescape(rawKey(part).replaceAll('+', ' ')))
}

function rawKey(part: string): string {
  const equals = part.indexOf('=')
  return equals < 0 ? part : part.slice(0, equals)
}

/** Some server may read one as the other. */
function isAlike(key: Key, wanted: Key): boolean {
  return key.folded === wanted.folded || (!wanted.text.includes('[') && key.spelled === wanted.spelled)
}

/** `spelled` is PHP's: it ends at a bracket or NUL, with underscores for dots and spaces (php.net/variables.external). */
function spellings(text: string): Key {
  const spelled = text
    .trim()
    .replace(/[[\0].*$/s, '')
    .replaceAll(/[. ]/g, '_')
  return { text, folded: folded(text), spelled: folded(spelled) }
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch (error) {
    if (error instanceof URIError) return null
    throw error
  }
}

/**
 * One request header. A fault if repeated, spelled with an underscore, which some servers treat alike, or named by
 * Connection, which would drop it.
 */
export function headerValue(headers: ReadonlyHeaders, name: string): ValueRead {
  const wanted = name.toLowerCase()
  let value: string | null = null
  for (let at = 0; at < headers.pairs.length; at += 2) {
    const given = headers.pairs[at] ?? ''
    const isConnection = given.length === CONNECTION.length && given.toLowerCase() === CONNECTION
    if (isConnection && listed(headers.pairs[at + 1] ?? '', wanted))
      return { kind: 'fault', message: `Connection names the header ${name}, so that it would not be sent on` }
    if (given.length !== name.length || dashed(given) !== dashed(wanted)) continue
    if (value !== null || given.toLowerCase() !== wanted)
      return { kind: 'fault', message: `the header ${name} is there twice, or in another spelling` }
    value = headers.pairs[at + 1] ?? ''
  }
  return value === null ? { kind: 'missing' } : { kind: 'value', value: trimmed(value) }
}

const CONNECTION = 'connection'

function dashed(name: string): string {
  return name.toLowerCase().replaceAll('_', '-')
}

/** Searches before it splits: a field of commas would cost a millisecond. */
function listed(field: string, name: string): boolean {
  return field.toLowerCase().includes(name) && field.split(',').some(token => trimmed(token).toLowerCase() === name)
}
