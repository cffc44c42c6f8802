import type { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { Secret } from '../../../platform/keys/secrets.ts'
import {
  AddressKeyError,
  readAddressKey,
  readKeyBytes,
  readKeyCertificate,
  type AddressKeyForm
} from '../../provider-calls/address-key.ts'
import { decodeMacaroon, MacaroonError } from '../../l402/macaroon.ts'

export interface LndConnection {
  /** `https://host:port` of its REST API; lower case, IPv6 in brackets. */
  readonly origin: string
  /** The pinned certificate as PEM; null to trust public authorities. */
  readonly certificate: string | null
  /** A name in the certificate when it lacks the host: the pin identifies the node. */
  readonly servername: string | null
  /** Lower-case hex, as in the header. */
  readonly macaroon: Secret<string>
}

const form: AddressKeyForm<'cert' | 'macaroon'> = {
  kind: 'lnd',
  example: 'lndconnect://host:port?cert=<base64url>&macaroon=<base64url>',
  schemes: { lndconnect: 'https:' },
  hasPath: false,
  needsPort: true,
  required: ['macaroon'],
  optional: ['cert']
}
const MAX_MACAROON_BYTES = 4096
/** First byte of a binary macaroon, version 2, as lnd writes it. */
const MACAROON_V2 = 2

/**
 * Reads `lndconnect://host:port?cert=…&macaroon=…` (decision 71). The port is REST's, `cert` base64url of tls.cert as
 * DER or PEM, omitted for a public authority's, `macaroon` base64url of the file.
 * @throws AddressKeyError
 */
export function readLndConnect(text: string): LndConnection {
  const { origin, hostname, parameters } = readAddressKey(text, form)
  const { cert, macaroon = '' } = parameters
  const macaroonBytes = readKeyBytes(macaroon, 'macaroon', 'lnd')
  if (macaroonBytes[0] !== MACAROON_V2 || macaroonBytes.length > MAX_MACAROON_BYTES) {
    throw new AddressKeyError(
      'The macaroon in the lnd key is none that lnd makes; it must be base64url of the macaroon file, not hex.'
    )
  }
  const certificate = cert === undefined ? null : readKeyCertificate(cert, 'cert', 'lnd', 'tls.cert')
  return {
    origin,
    certificate: certificate?.toString() ?? null,
    servername: certificate === null ? null : nameOf(certificate, hostname),
    macaroon: new Secret(macaroonBytes.toString('hex'))
  }
}

/** A DNS name to check when the certificate lacks the host: lnd's own hold localhost. */
function nameOf(certificate: X509Certificate, hostname: string): string | null {
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  const isNamed = isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host)
  if (isNamed !== undefined) return null
  const names = (certificate.subjectAltName ?? '')
    .split(', ')
    .filter(name => name.startsWith('DNS:'))
    .map(name => name.slice('DNS:'.length))
  return names.find(name => certificate.checkHost(name) !== undefined && isIP(name) === 0) ?? null
}

/** Version byte that lnd's bakery writes first. */
const BAKERY_VERSION = 3
const BYTES = 2
const OPERATIONS = 3
const ENTITY = 1
const ACTION = 2

/**
 * Permissions of an lnd macaroon, spelled as `lncli bakemacaroon` does, such as `invoices:read`; null for another
 * issuer's. The identifier is `MacaroonId` of gopkg.in/macaroon-bakery.v2: nonce, root key id, and operations.
 */
export function permissionsOf(macaroon: Uint8Array): string[] | null {
  let identifier: Uint8Array
  try {
    ;({ identifier } = decodeMacaroon(macaroon))
  } catch (error) {
    if (error instanceof MacaroonError) return null
    throw error
  }
  if (identifier[0] !== BAKERY_VERSION) return null
  const operations = fields(identifier.subarray(1))?.filter(({ number }) => number === OPERATIONS)
  const found: string[] = []
  for (const { bytes } of operations ?? []) {
    const parts = fields(bytes)
    const entity = parts?.find(({ number }) => number === ENTITY)
    if (parts === null || entity === undefined) return null
    for (const { number, bytes: action } of parts)
      if (number === ACTION) found.push(`${text(entity.bytes)}:${text(action)}`)
  }
  return found.length === 0 ? null : found
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8')
}

/** Fields of a protobuf message with bytes fields only; null for others. */
function fields(message: Uint8Array): Array<{ readonly number: number; readonly bytes: Uint8Array }> | null {
  const found = []
  for (let at = 0; at < message.length;) {
    const tag = message[at++] ?? 0
    let length = 0
    let shift = 0
    let byte: number
    do {
      byte = message[at++] ?? 0
      length += (byte & 0x7f) * 2 ** shift
      shift += 7
    } while (byte >= 0x80 && shift < 28)
    if ((tag & 7) !== BYTES || tag >= 0x80 || at + length > message.length) return null
    found.push({ number: tag >> 3, bytes: message.subarray(at, at + length) })
    at += length
  }
  return found
}
