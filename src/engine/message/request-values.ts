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

/**
 * One parameter of a raw query. A fault if repeated, spelled as some servers treat alike, a list (`name[]`), or behind
 * a semicolon, which some servers take for an ampersand.
 */
export function queryParameter(query: string, name: string): ValueRead {
  const called = JSON.stringify(name)
  if (query.split(/[&;]/, MAX_PARAMETERS + 1).length > MAX_PARAMETERS)
    return { kind: 'fault', message: `the query has more than ${MAX_PARAMETERS} parameters` }
  let raw: string | null = null
  for (const part of query.split('&')) {
    if (part.includes(';') && part.split(';').some(piece => names(piece, name)))
      return { kind: 'fault', message: `the query has a semicolon beside ${called}; write it as %3B` }
    if (!names(part, name)) continue
    const key = keyOf(part)
    if (key !== name)
      return {
        kind: 'fault',
        message: `the query has ${JSON.stringify(key)}; write ${called} exactly as here`
      }
    if (raw !== null) return { kind: 'fault', message: `the query has ${called} twice` }
    raw = part.slice(rawKey(part).length + 1)
  }
  if (raw === null) return { kind: 'missing' }
  const value = decoded(raw)
  return value === null
    ? { kind: 'fault', message: `${called} in the query is not percent-encoded UTF-8` }
    : { kind: 'value', value }
}

/** Decoded as lenient servers do: `size%00%zz` is `size` to PHP. */
function keyOf(part: string): string {
  return unescape(rawKey(part).replaceAll('+', ' '))
}

function rawKey(part: string): string {
  const equals = part.indexOf('=')
  return equals < 0 ? part : part.slice(0, equals)
}

/** Some server may read this part as the parameter. */
function names(part: string, name: string): boolean {
  const key = keyOf(part)
  return folded(key) === folded(name) || (!name.includes('[') && spelling(key) === spelling(name))
}

/**
 * PHP's canonical name: it ends at a bracket or NUL, with underscores for dots and spaces (php.net/variables.external).
 */
function spelling(name: string): string {
  return folded(
    name
      .trim()
      .replace(/[[\0].*$/s, '')
      .replaceAll(/[. ]/g, '_')
  )
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
    const given = (headers.pairs[at] ?? '').toLowerCase()
    if (given === 'connection' && listed(headers.pairs[at + 1] ?? '', wanted))
      return { kind: 'fault', message: `Connection names the header ${name}, so that it would not be sent on` }
    if (given.replaceAll('_', '-') !== wanted.replaceAll('_', '-')) continue
    if (value !== null || given !== wanted)
      return { kind: 'fault', message: `the header ${name} is there twice, or in another spelling` }
    value = headers.pairs[at + 1] ?? ''
  }
  return value === null ? { kind: 'missing' } : { kind: 'value', value: trimmed(value) }
}

function listed(field: string, name: string): boolean {
  return field.split(',').some(token => trimmed(token).toLowerCase() === name)
}
