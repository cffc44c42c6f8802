import { X509Certificate } from 'node:crypto'
import type { Secret } from '../../platform/keys/secrets.ts'
import { ProviderRefused } from './errors.ts'

/**
 * Keys that are an address and a secret in one text, for kinds that are reached at a host of their owner's: merchants
 * have nothing else to give (decision 71). All are read here, strictly.
 */

/** The form of the keys of one kind. */
export interface AddressKeyForm<Name extends string> {
  /** The kind's name, for messages. */
  readonly kind: string
  /** How a key looks, as people are told it; the first scheme. */
  readonly example: string
  /** Each scheme with the protocol that it stands for. */
  readonly schemes: Readonly<Record<string, 'http:' | 'https:'>>
  /** A path may follow the host. */
  readonly hasPath: boolean
  /** The port must be named; else it may be left out for the protocol's own. */
  readonly needsPort: boolean
  /** Which parameters a key must have, and which it may. */
  readonly required: readonly Name[]
  readonly optional: readonly Name[]
}

/** Which parameters stand behind the `?` of a key. */
export interface KeyParameterForm<Name extends string> {
  readonly kind: string
  readonly required: readonly Name[]
  readonly optional: readonly Name[]
  /** Which of them may stand there several times; none where it is left out. */
  readonly repeated?: readonly Name[]
  /** Others are passed over: for keys that somebody else's standard lets grow. */
  readonly passesOver?: true
}

/** A key, read. */
export interface AddressKey<Name extends string> {
  /** `scheme://host:port`, always with the port; the host in lower case, an IPv6 address in brackets. */
  readonly origin: string
  /** The host alone, as URL has it. */
  readonly hostname: string
  /** `origin` with the path of the key, without a slash at its end. */
  readonly base: string
  /** Percent-decoded; secrets among them. */
  readonly parameters: Readonly<Partial<Record<Name, string>>>
}

/** A text that is no key of its kind. The message names the part and the rule, never what stood there. */
export class AddressKeyError extends Error {
  override name = 'AddressKeyError'
}

const MAX_CHARS = 16_384
const PARTS = /^([a-z][a-z0-9+.-]*):\/\/([^/?#]*)(\/[^?#]*)?\?([^?#]*)$/i
const AUTHORITY = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]{1,5}))?$/i
/** What a path may hold; nothing that two readers would take for two things. */
const PATH = /^(?:\/[A-Za-z0-9._~-]+)*$/
const PEM_START = '-----BEGIN CERTIFICATE-----'

/** Reads a key. @throws AddressKeyError */
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
 * The host and port of a key, as every other reader sees them: one that URL would turn into another, such as 0x7f.1,
 * becomes that one here. `scheme` is what stands before it. @throws AddressKeyError
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

/** The parameters of a key, percent-decoded; secrets among them. @throws AddressKeyError */
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

/** A secret of a key that travels in a header. @throws AddressKeyError */
export function requireVisible(text: string, name: string, kind: string): string {
  if (/^[\x21-\x7e]+$/.test(text)) return text
  throw new AddressKeyError(`${name} in the ${kind} key must be visible ASCII characters without spaces.`)
}

/** The bytes of a parameter that is base64url, or plain base64 as `base64` writes it; padded or not. @throws AddressKeyError */
export function readKeyBytes(text: string, name: string, kind: string): Buffer {
  const bare = text
    .replace(/={1,2}$/, '')
    .replaceAll('+', '-')
    .replaceAll('/', '_')
  const bytes = Buffer.from(bare, 'base64url')
  // Node skips what it does not know; only what comes out the same was understood whole.
  if (bare === '' || bytes.toString('base64url') !== bare)
    throw new AddressKeyError(`${name} in the ${kind} key is not base64url.`)
  return bytes
}

/** The one certificate that a parameter holds, as DER or PEM; `file` is what it is made from. @throws AddressKeyError */
export function readKeyCertificate(text: string, name: string, kind: string, file: string): X509Certificate {
  const bytes = readKeyBytes(text, name, kind)
  try {
    const certificate = new X509Certificate(bytes)
    // PEM may go on after the first certificate; only one can be pinned.
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

/** What is wrong with the form of a key, for `ProviderKind.keyFault`; undefined where nothing is. */
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

/** What keys were read as, for as long as somebody has the key itself: a certificate in it takes longer than a call. */
const keysRead = new WeakMap<Secret<string>, { readonly by: unknown; readonly server: object }>()

/** A key, read for a call. @throws ProviderRefused 'key' for none and for one of another form */
export function readKeyForCall<K extends object>(
  key: Secret<string> | null,
  kind: string,
  read: (text: string) => K
): K {
  if (key === null) throw new ProviderRefused('key', `The provider ${kind} needs a key.`)
  const before = keysRead.get(key)
  // The same function has returned it.
  if (before?.by === read) return before.server as K
  try {
    const server = read(key.reveal().trim())
    keysRead.set(key, { by: read, server })
    return server
  } catch (error) {
    throw error instanceof AddressKeyError ? new ProviderRefused('key', error.message) : error
  }
}

/** The host of a key, by which breakers tell servers apart, for `KindCalls.hostOf`; empty for a text that is no key. */
export function addressKeyHost(
  kind: string,
  read: (text: string) => { readonly origin: string }
): (key: Secret<string> | null) => string {
  return key => {
    try {
      return readKeyForCall(key, kind, read).origin
    } catch (error) {
      if (error instanceof ProviderRefused) return ''
      throw error
    }
  }
}

/**
 * For a kind that says of its keys only that they are text, which travels in a header: what is wrong with one;
 * undefined where nothing is.
 */
export function headerKeyFault(key: string): string | undefined {
  return /^[\x21-\x7e]+$/.test(key.trim())
    ? undefined
    : 'found a key with spaces or characters outside ASCII in it; allowed: the key as the provider shows it'
}
