import { X509Certificate } from 'node:crypto'
import type { Secret } from '../../platform/keys/secrets.ts'
import { ProviderRefused } from './errors.ts'

/**
 * Keys that hold an address and a secret, for kinds reached at the owner's host: merchants give nothing else (decision
 * 71). Read strictly.
 */

export interface AddressKeyForm<Name extends string> {
  readonly kind: string
  /** Shown to people; uses the first scheme. */
  readonly example: string
  readonly schemes: Readonly<Record<string, 'http:' | 'https:'>>
  readonly hasPath: boolean
  /** Otherwise defaults to the protocol's port. */
  readonly needsPort: boolean
  readonly required: readonly Name[]
  readonly optional: readonly Name[]
}

export interface KeyParameterForm<Name extends string> {
  readonly kind: string
  readonly required: readonly Name[]
  readonly optional: readonly Name[]
  readonly repeated?: readonly Name[]
  /** Ignores others, where another standard owns the key. */
  readonly passesOver?: true
}

interface AddressKey<Name extends string> {
  /** `scheme://host:port`, always with the port; lower case, IPv6 in brackets. */
  readonly origin: string
  /** As in URL. */
  readonly hostname: string
  /** `origin` and path, without a trailing slash. */
  readonly base: string
  /** Percent-decoded; includes secrets. */
  readonly parameters: Readonly<Partial<Record<Name, string>>>
}

/** An invalid key. The message names the part and rule, never the value. */
export class AddressKeyError extends Error {
  override name = 'AddressKeyError'
}

const MAX_CHARS = 16_384
const PARTS = /^([a-z][a-z0-9+.-]*):\/\/([^/?#]*)(\/[^?#]*)?\?([^?#]*)$/i
const AUTHORITY = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]{1,5}))?$/i
/** Only what all URL parsers read the same way. */
const PATH = /^(?:\/[A-Za-z0-9._~-]+)*$/
const PEM_START = '-----BEGIN CERTIFICATE-----'

/** @throws AddressKeyError */
export function readAddressKey<Name extends string>(text: string, form: AddressKeyForm<Name>): AddressKey<Name> {
  const { kind, example } = form
  if (text.length > MAX_CHARS)
    throw new AddressKeyError(`The ${kind} key is longer than ${MAX_CHARS} characters; it has the form ${example}.`)
  const [, scheme = '', authority, path = '', query] = PARTS.exec(text) ?? []
  const protocol = Object.hasOwn(form.schemes, scheme.toLowerCase()) ? form.schemes[scheme.toLowerCase()] : undefined
  const place = path.replace(/(?<!\/)\/+$/, '')
  const isPlaced = place === '' || (form.hasPath && PATH.test(place) && !/\/\.{1,2}(?:\/|$)/.test(place))
  if (protocol === undefined || authority === undefined || query === undefined || !isPlaced)
    throw new AddressKeyError(`The ${kind} key must have the form ${example}.`)
  const { origin, hostname } = readKeyOrigin(authority, protocol, scheme, form)
  const lists = readKeyParameters(query, form)
  const parameters: Partial<Record<Name, string>> = {}
  for (const name of [...form.optional, ...form.required]) {
    const value = lists[name]?.[0]
    if (value !== undefined) parameters[name] = value
  }
  for (const name of form.required) {
    if (parameters[name] === undefined)
      throw new AddressKeyError(`The ${kind} key has no ${name}; it has the form ${example}.`)
  }
  return { origin, hostname, base: `${origin}${place}`, parameters }
}

/**
 * Host and port after `scheme`. Rejects hosts that URL would rewrite, such as 0x7f.1.
 * @throws AddressKeyError
 */
export function readKeyOrigin(
  authority: string,
  protocol: 'http:' | 'https:',
  scheme: string,
  { kind, needsPort }: { readonly kind: string; readonly needsPort: boolean }
): Pick<AddressKey<never>, 'origin' | 'hostname'> {
  if (authority.includes('@'))
    throw new AddressKeyError(`The ${kind} key must not hold a user name or password before its host.`)
  const [matched, , port] = AUTHORITY.exec(authority) ?? []
  if (matched === undefined || (needsPort && port === undefined) || !URL.canParse(`${protocol}//${authority}`)) {
    throw new AddressKeyError(
      `The ${kind} key must name ${needsPort ? 'host and port' : 'the host'} after ${scheme}://, such as node.example.com${needsPort ? ':8080' : ''}.`
    )
  }
  if (port !== undefined && Number(port) < 1)
    throw new AddressKeyError(`The port in the ${kind} key must be from 1 to 65535.`)
  const { hostname, port: named } = new URL(`${protocol}//${authority}`)
  return {
    origin: `${protocol}//${hostname}:${named === '' ? (protocol === 'https:' ? '443' : '80') : named}`,
    hostname
  }
}

/**
 * Percent-decoded parameters, including secrets.
 * @throws AddressKeyError
 */
export function readKeyParameters<Name extends string>(
  query: string,
  { kind, required, optional, repeated = [], passesOver }: KeyParameterForm<Name>
): Partial<Record<Name, readonly string[]>> {
  const names = [...optional, ...required]
  const found: Partial<Record<Name, string[]>> = {}
  for (const part of query.split('&')) {
    const at = part.indexOf('=')
    const name = names.find(known => known === part.slice(0, Math.max(at, 0)))
    if (name === undefined && passesOver === true) continue
    if (name === undefined)
      throw new AddressKeyError(
        `The ${kind} key may have the parameter${names.length === 1 ? '' : 's'} ${names.join(' and ')}, and no others.`
      )
    const values = found[name] ?? []
    if (values.length > 0 && !repeated.includes(name)) throw new AddressKeyError(`The ${kind} key has ${name} twice.`)
    found[name] = [...values, decoded(part.slice(at + 1), name, kind)]
  }
  return found
}

function decoded(text: string, name: string, kind: string): string {
  try {
    return decodeURIComponent(text)
  } catch (error) {
    if (!(error instanceof URIError)) throw error
    throw new AddressKeyError(`${name} in the ${kind} key holds a % that begins no character; write %25 for %.`)
  }
}

/**
 * Checks a secret sent in a header.
 * @throws AddressKeyError
 */
export function requireVisible(text: string, name: string, kind: string): string {
  if (/^[\x21-\x7e]+$/.test(text)) return text
  throw new AddressKeyError(`${name} in the ${kind} key must be visible ASCII characters without spaces.`)
}

/**
 * Decodes base64url or plain base64, padded or not.
 * @throws AddressKeyError
 */
export function readKeyBytes(text: string, name: string, kind: string): Buffer {
  const bare = text
    .replace(/={1,2}$/, '')
    .replaceAll('+', '-')
    .replaceAll('/', '_')
  const bytes = Buffer.from(bare, 'base64url')
  // Node skips invalid characters; only a round trip proves that all was read.
  if (bare === '' || bytes.toString('base64url') !== bare)
    throw new AddressKeyError(`${name} in the ${kind} key is not base64url.`)
  return bytes
}

/**
 * A parameter's single certificate, DER or PEM; `file` is its source.
 * @throws AddressKeyError
 */
export function readKeyCertificate(text: string, name: string, kind: string, file: string): X509Certificate {
  const bytes = readKeyBytes(text, name, kind)
  try {
    const certificate = new X509Certificate(bytes)
    // PEM may hold several; only one can be pinned.
    const isOne = bytes.includes(PEM_START)
      ? bytes.indexOf(PEM_START) === bytes.lastIndexOf(PEM_START)
      : certificate.raw.equals(bytes)
    if (isOne) return certificate
  } catch {
    // OpenSSL's own text says nothing that helps.
  }
  throw new AddressKeyError(
    `${name} in the ${kind} key is not one X.509 certificate; it must be base64url of the node's ${file}.`
  )
}

export function addressKeyFault(read: (text: string) => unknown): (key: string) => string | undefined {
  return key => {
    try {
      read(key.trim())
      return undefined
    } catch (error) {
      if (error instanceof AddressKeyError) return error.message
      throw error
    }
  }
}

/** Cached while the key object lives: parsing a certificate costs more than a call. */
const keysRead = new WeakMap<Secret<string>, { readonly by: unknown; readonly server: object }>()

/** @throws ProviderRefused 'key' for a missing or malformed key */
export function readKeyForCall<K extends object>(
  key: Secret<string> | null,
  kind: string,
  read: (text: string) => K
): K {
  if (key === null) throw new ProviderRefused('key', `The provider ${kind} needs a key.`)
  const before = keysRead.get(key)
  // Written by the same function.
  if (before?.by === read) return before.server as K
  try {
    const server = read(key.reveal().trim())
    keysRead.set(key, { by: read, server })
    return server
  } catch (error) {
    throw error instanceof AddressKeyError ? new ProviderRefused('key', error.message) : error
  }
}

export function keyOrNull<K extends object>(
  key: Secret<string> | null,
  kind: string,
  read: (text: string) => K
): K | null {
  try {
    return readKeyForCall(key, kind, read)
  } catch (error) {
    if (error instanceof ProviderRefused) return null
    throw error
  }
}

export function headerKeyFault(key: string): string | undefined {
  return /^[\x21-\x7e]+$/.test(key.trim())
    ? undefined
    : 'found a key with spaces or characters outside ASCII in it; allowed: the key as the provider shows it'
}
