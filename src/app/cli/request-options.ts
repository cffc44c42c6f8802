import type { Dispatcher } from 'undici'
import { isToken } from '../../engine/message/header-names.ts'
import { UsageError } from './output.ts'

/** Tabs and Latin-1: all that a header can carry. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
/** Hop-by-hop headers, which the caller cannot set. */
const OF_THE_CONNECTION = new Set(['connection', 'expect', 'keep-alive', 'transfer-encoding', 'upgrade'])

/**
 * An HTTP address. `option`: its name in errors.
 * @throws UsageError
 */
export function addressOption(option: string, text: string, base?: string): URL {
  const url = URL.canParse(text, base) ? new URL(text, base) : null
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new UsageError(`${option} must begin with http:// or https://, not "${text}".`)
  return url
}

/**
 * Method of -X.
 * @throws UsageError
 */
export function readMethod(text: string): Dispatcher.HttpMethod {
  if (!isToken(text)) throw new UsageError(`-X must be a method such as POST, not "${text}".`)
  if (text === 'CONNECT') throw new UsageError('-X cannot be CONNECT: it asks for a tunnel, which has no price.')
  // undici accepts any token; its type lists the common ones.
  return text as Dispatcher.HttpMethod
}

/**
 * Headers of -H by lower-case name.
 * @throws UsageError
 */
export function readHeaders(lines: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    if (colon < 1) throw new UsageError(`-H takes 'Name: value', not "${line}".`)
    const name = line.slice(0, colon).trim().toLowerCase()
    const value = line.slice(colon + 1).trim()
    if (!isToken(name)) throw new UsageError(`-H takes 'Name: value', and no header can have the name "${name}".`)
    if (OF_THE_CONNECTION.has(name))
      throw new UsageError(`-H cannot be ${name}, which is of the connection and not of the request.`)
    if (!HEADER_VALUE.test(value))
      throw new UsageError(`-H takes values in Latin-1 without control characters; that of ${name} has others.`)
    if (name === 'content-length')
      throw new UsageError('-H cannot be content-length, which follows from the body that -d gives.')
    headers[name] = value
  }
  return headers
}
