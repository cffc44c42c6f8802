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

/** How to reach and use an lnd node. */
export interface LndConnection {
  /** `https://host:port` of its REST API; the host in lower case, an IPv6 address in brackets. */
  readonly origin: string
  /** The only certificate that is trusted there, as PEM; null when the public authorities are. */
  readonly certificate: string | null
  /**
   * A name that the certificate holds, where it does not hold the host: the certificate says who answers, not the name.
   */
  readonly servername: string | null
  /** Lower-case hex, as the header takes it. */
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
/** The first byte of a macaroon in the binary format 2, the one that lnd writes. */
const MACAROON_V2 = 2

/**
 * Reads `lndconnect://host:port?cert=…&macaroon=…` (decision 71), strictly: the port is that of REST, `cert` is
 * base64url of the node's tls.cert as DER or PEM and may be left out where a public authority signed it, `macaroon` is
 * base64url of the macaroon file. @throws AddressKeyError
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

/**
 * A DNS name of the certificate to ask for and to check, where the host is not in it: lnd's own always hold localhost.
 */
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
