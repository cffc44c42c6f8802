import { createHash } from 'node:crypto'
import { bech32 } from '@scure/base'
import { Secret } from '../../../platform/keys/secrets.ts'
import { AddressKeyError } from '../../provider-calls/address-key.ts'
import type { KeyedServer } from '../../provider-calls/keyed-calls.ts'

/** A Lightning address, which is public. */
export interface LnurlKey extends KeyedServer {
  readonly path: string
  /** Digest of the pay request's location. */
  readonly account: string
  /** Full address of the pay request; calls are counted by it. */
  readonly address: Secret<string>
}

export interface LnurlPlace {
  /** `scheme://host:port`, always with a port. */
  readonly origin: string
  readonly path: string
}

const FORM = 'name@domain, or the LNURL of a pay link, such as LNURL1… or lnurlp://host/path'
/** LUD-16, with the `+` tag that some servers support. */
const ADDRESS = /^([a-z0-9._+-]+)@([a-z0-9.-]+(?::[0-9]{1,5})?)$/
const LINK = /^(?:lightning:)?(lnurl1[02-9ac-hj-np-z]+)$/
const SCHEMES: Readonly<Record<string, string>> = {
  'lnurlp:': 'https:',
  'lnurlp+https:': 'https:',
  'lnurlp+http:': 'http:'
}
const MAX_CHARS = 2_048

/**
 * Reads a Lightning address (LUD-16), an LNURL (LUD-01) or `lnurlp://` (LUD-17). The scheme's `+` suffix names the
 * protocol, as in other keys; plain HTTP is for the operator's hosts.
 * @throws AddressKeyError
 */
export function readLnurlKey(text: string): LnurlKey {
  const place = readPlace(text)
  if (place === null) throw new AddressKeyError(`The lnurl key must have the form ${FORM}.`)
  const address = `${place.origin}${place.path}`
  return {
    ...place,
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

/** @throws AddressKeyError for an invalid LNURL (LUD-01) */
function readLink(link: string): string {
  const read = bech32.decodeUnsafe(link as `${string}1${string}` /* what LINK matched */, MAX_CHARS * 2)
  const bytes = read === undefined ? undefined : bech32.fromWordsUnsafe(read.words)
  if (bytes === undefined || bytes instanceof Error)
    throw new AddressKeyError('The LNURL in the lnurl key was copied wrong: its check digits do not fit.')
  return Buffer.from(bytes).toString('latin1')
}

/** Location that a server or a key names; null unless HTTP, with a user name, or where parsers could disagree. */
export function lnurlPlace(text: string): LnurlPlace | null {
  if (text.length > MAX_CHARS || !/^https?:\/\/[\x21-\x5b\x5d-\x7e]+$/i.test(text) || !URL.canParse(text)) return null
  const url = new URL(text)
  if (url.username !== '' || url.password !== '' || /^https?:\/\/[^/?#]*@/i.test(text)) return null
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port
  return { origin: `${url.protocol}//${url.hostname}:${port}`, path: `${url.pathname}${url.search}` }
}
