import { METHODS } from 'node:http'
import ipaddr from 'ipaddr.js'
import { isPostgresUrl } from '../../platform/system/postgres-url.ts'
import { nearest } from './diagnose.ts'
import { parseListen } from './listen-address.ts'

interface TextFormat {
  check(text: string): boolean
  readonly allowed: string
  suggest?(text: string): string | undefined
}

export const METHOD_NAMES: readonly string[] = METHODS.filter(
  method => method !== 'TRACE' && method !== 'CONNECT' && /^[A-Z]+$/.test(method)
)
export const COMMON_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

const ADDRESS = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$/

/** `no-reply@example.com` or `Example <no-reply@example.com>`. Undefined for other text. */
export function parseSender(text: string): { name: string; address: string } | undefined {
  const match = /^(?:([^\p{Cc}<>"@]{1,100}) <([^<>]+)>|([^<> ]+))$/u.exec(text)
  const address = match?.[2] ?? match?.[3] ?? ''
  if (address.length > 254 || !ADDRESS.test(address)) return undefined
  return { name: match?.[1]?.trim() ?? '', address }
}

function isDecodable({ username, password }: URL): boolean {
  try {
    decodeURIComponent(username + password)
    return true
  } catch (error) {
    if (error instanceof URIError) return false
    throw error
  }
}

function parseUrl(text: string, protocols: readonly string[]): URL | undefined {
  const url = URL.parse(text)
  return url !== null && protocols.includes(url.protocol) && url.hostname !== '' && !/[\s\\]/.test(text)
    ? url
    : undefined
}

/** An address without its scheme: `localhost:9000`, `api.example.com/v1`. */
function withScheme(text: string): string | undefined {
  const host = /^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?(?:\/\S*)?$/.exec(text)?.[1]
  if (host === undefined) return undefined
  const isLocal = host === 'localhost' || host.startsWith('[') || /^[0-9.]+$/.test(host) || !host.includes('.')
  return `${isLocal ? 'http' : 'https'}://${text}`
}

const formats: Readonly<Record<string, TextFormat>> = {
  email: {
    check: text => text.length <= 254 && ADDRESS.test(text),
    allowed: 'an email address, such as name@example.com'
  },
  listen: {
    check: text => parseListen(text) !== undefined,
    allowed:
      'an address and a port from 0 to 65535, such as 127.0.0.1:8080 or [::1]:8080; http:// before it, or unix: and a path'
  },
  origin: {
    check(text) {
      if (text === '') return true
      const url = parseUrl(text, ['http:', 'https:'])
      return (
        url !== undefined &&
        url.username === '' &&
        url.password === '' &&
        url.pathname === '/' &&
        url.search === '' &&
        url.hash === ''
      )
    },
    allowed: 'an http or https address without a path, such as https://api.example.com',
    suggest: withScheme
  },
  'http-url': {
    check(text) {
      const url = parseUrl(text, ['http:', 'https:'])
      return url !== undefined && url.username === '' && url.password === '' && url.hash === ''
    },
    allowed: 'an http or https address, such as https://api.example.com/v1',
    suggest: withScheme
  },
  'upstream-url': {
    check(text) {
      const url = parseUrl(text, ['http:', 'https:'])
      return url !== undefined && url.username === '' && url.password === '' && url.hash === '' && url.search === ''
    },
    allowed: 'an http or https address without user, query or fragment, such as https://internal.example:8443',
    suggest: withScheme
  },
  'database-url': {
    check: text => text.startsWith('pglite:') || isPostgresUrl(text),
    allowed: 'pglite: or an address such as postgres://user:password@host:5432/name'
  },
  'listen-url': {
    check: text => text === '' || isPostgresUrl(text),
    allowed: 'an address such as postgres://user:password@host:5432/name'
  },
  'state-url': {
    check: text =>
      text === 'memory:' ||
      text.split(/,(?=rediss?:\/\/)/).every(address => parseUrl(address, ['redis:', 'rediss:']) !== undefined),
    allowed: 'memory: or an address such as redis://host:6379; redis://a:6379,redis://b:6379 for nodes of a cluster'
  },
  'smtp-url': {
    check(text) {
      if (text === '') return true
      const url = parseUrl(text, ['smtp:', 'smtps:'])
      return (
        url !== undefined &&
        ['', '/'].includes(url.pathname) &&
        url.search === '' &&
        url.hash === '' &&
        (url.username === '') === (url.password === '') &&
        isDecodable(url)
      )
    },
    allowed: 'an address such as smtps://user:password@mail.example.com or smtp://mail.example.com:587'
  },
  sender: {
    check: text => text === '' || parseSender(text) !== undefined,
    allowed: 'an address, or a name and an address, such as Example <no-reply@example.com>'
  },
  method: {
    check: text => METHOD_NAMES.includes(text),
    allowed: `a method in capitals: ${COMMON_METHODS.join(', ')}`,
    suggest: text => (METHOD_NAMES.includes(text.toUpperCase()) ? text.toUpperCase() : nearest(text, COMMON_METHODS))
  },
  host: {
    check: text => /^[A-Za-z0-9.-]+$/.test(text),
    allowed: 'a host name without port, path or star, such as api.example.com; left out, the route takes every host',
    suggest: text => /^(?:https?:\/\/)?([A-Za-z0-9.-]+)(?::[0-9]+)?\/?$/i.exec(text)?.[1]
  },
  path: {
    check: isRoutePath,
    allowed:
      'a path that begins with "/", with ":name" for a segment, each name once, and "/*" at its end alone, such as /v1/items/:id or /files/*',
    suggest(text) {
      const meant = text.replace(/\{([A-Za-z_][A-Za-z0-9_]*)\}/g, ':$1')
      return [meant, `/${meant}`].find(path => path !== text && isRoutePath(path))
    }
  },
  file: { check: text => text !== '' && !text.includes('\0'), allowed: 'the path of a file, seen from this file' },
  'address-range': {
    check: text => (ipaddr.isValid(text) ? /[.:]/.test(text) : ipaddr.isValidCIDR(text)),
    allowed: 'an address or a range, such as 10.0.0.7, 10.0.0.0/8 or fd00::/8'
  }
}

/** No query, fragment, backslash, control character, empty or dot segment; a star only at the end. */
function isRoutePath(text: string): boolean {
  if (!/^\/[\x21-\x7e]*$/.test(text) || /[?#\\"<>^`{|}]/.test(text) || text.includes('//')) return false
  const star = text.indexOf('*')
  if (star !== -1 && (star !== text.length - 1 || text[star - 1] !== '/')) return false
  const names = text.match(/:[A-Za-z_][A-Za-z0-9_]*/g) ?? []
  // The last of two equal names would win, for prices too.
  if (new Set(names).size < names.length) return false
  return text
    .split('/')
    .every(
      segment =>
        segment !== '.' &&
        segment !== '..' &&
        (!segment.includes(':') || /^:[A-Za-z_][A-Za-z0-9_]*$|^[^:]+$/.test(segment))
    )
}

/** Throws TypeError for an unknown format, a mistake in a schema. */
export function textFormat(name: string): TextFormat {
  const format = Object.hasOwn(formats, name) ? formats[name] : undefined
  if (format === undefined) throw new TypeError(`no text format ${JSON.stringify(name)}`)
  return format
}
