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
