import { createHash } from 'node:crypto'
import { bech32 } from '@scure/base'
import { Secret } from '../../../platform/keys/secrets.ts'
import { AddressKeyError } from '../../provider-calls/address-key.ts'
import type { KeyedServer } from '../../provider-calls/keyed-calls.ts'

/** Whom a Lightning address pays. Nothing in it is secret: it says who gets the money. */
export interface LnurlKey extends KeyedServer {
  /** Path and query of the pay request. */
  readonly path: string
  /** Names the address: a digest of where its pay request is. */
  readonly account: string
  /** The pay request's own address; calls are counted by it. */
  readonly address: Secret<string>
}

/** Where something is, as LNURL servers name it. */
export interface LnurlPlace {
  /** `scheme://host:port`, always with the port. */
  readonly origin: string
  /** Path and query. */
  readonly path: string
}

const FORM = 'name@domain, or the LNURL of a pay link, such as LNURL1… or lnurlp://host/path'
/** LUD-16, with the tag behind `+` that some servers know. */
const ADDRESS = /^([a-z0-9._+-]+)@([a-z0-9.-]+(?::[0-9]{1,5})?)$/
const LINK = /^(?:lightning:)?(lnurl1[02-9ac-hj-np-z]+)$/
const SCHEMES: Readonly<Record<string, string>> = {
  'lnurlp:': 'https:',
  'lnurlp+https:': 'https:',
  'lnurlp+http:': 'http:'
}
const MAX_CHARS = 2_048

/**
 * Reads a Lightning address (LUD-16), an LNURL (LUD-01) or `lnurlp://` (LUD-17). Behind `+` stands how the server is called,
 * as in other keys; plain HTTP is for hosts of the operator's. @throws AddressKeyError
 */
export function readLnurlKey(text: string): LnurlKey {
  const place = readPlace(text)
  if (place === null) throw new AddressKeyError(`The lnurl key must have the form ${FORM}.`)
  const address = `${place.origin}${place.path}`
  return {
    ...place,
    certificate: null,
    servername: null,
    account: createHash('sha256').update(address).digest('base64url'),
    address: new Secret(address)
  }
}

function readPlace(text: string): LnurlPlace | null {
  const lower = text.toLowerCase()
  const [, name, domain] = ADDRESS.exec(lower) ?? []
  if (name !== undefined && domain !== undefined) return lnurlPlace(`https://${domain}/.well-known/lnurlp/${name}`)
  const link = LINK.exec(lower)?.[1]
  if (link !== undefined) return lnurlPlace(readLink(link))
  const scheme = /^[a-z+]+:/.exec(lower)?.[0] ?? ''
  const protocol = Object.hasOwn(SCHEMES, scheme) ? SCHEMES[scheme] : undefined
  return protocol === undefined ? null : lnurlPlace(`${protocol}${text.slice(scheme.length)}`)
}

/** The address in an LNURL (LUD-01). @throws AddressKeyError */
function readLink(link: string): string {
  const read = bech32.decodeUnsafe(link as `${string}1${string}` /* what LINK matched */, MAX_CHARS * 2)
  const bytes = read === undefined ? undefined : bech32.fromWordsUnsafe(read.words)
  if (bytes === undefined || bytes instanceof Error)
    throw new AddressKeyError('The LNURL in the lnurl key was copied wrong: its check digits do not fit.')
  return Buffer.from(bytes).toString('latin1')
}

/**
 * Where an address leads that an LNURL server, or a key, names; null where it is none that is called: no HTTP, a user
 * name in it, or something that two readers would take for two things.
 */
export function lnurlPlace(text: string): LnurlPlace | null {
  if (text.length > MAX_CHARS || !/^https?:\/\/[\x21-\x5b\x5d-\x7e]+$/i.test(text) || !URL.canParse(text)) return null
  const url = new URL(text)
  if (url.username !== '' || url.password !== '' || /^https?:\/\/[^/?#]*@/i.test(text)) return null
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port
  return { origin: `${url.protocol}//${url.hostname}:${port}`, path: `${url.pathname}${url.search}` }
}
