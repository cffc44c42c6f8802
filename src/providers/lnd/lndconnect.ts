import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { Secret } from '../../keys/secrets.ts'

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

/** A text that is not a usable lndconnect address. The message names the part and the rule, never what stood there. */
export class LndConnectError extends Error {
  override name = 'LndConnectError'
}

const FORM = 'lndconnect://host:port?cert=<base64url>&macaroon=<base64url>'
const MAX_CHARS = 16_384
const MAX_MACAROON_BYTES = 4096
const PARTS = /^lndconnect:\/\/([^/?#]*)\/?\?([^?#]*)$/i
const AUTHORITY = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+):([0-9]{1,5})$/i
const PEM_START = '-----BEGIN CERTIFICATE-----'
/** The first byte of a macaroon in the binary format 2, the one that lnd writes. */
const MACAROON_V2 = 2

/**
 * Reads `lndconnect://host:port?cert=…&macaroon=…` (decision 71), strictly: the port is that of REST, `cert` is
 * base64url of the node's tls.cert as DER or PEM and may be left out where a public authority signed it, `macaroon` is
 * base64url of the macaroon file. @throws LndConnectError
 */
export function readLndConnect(text: string): LndConnection {
  if (text.length > MAX_CHARS)
    throw new LndConnectError(`The lnd key is longer than ${MAX_CHARS} characters; it has the form ${FORM}.`)
  const [, authority, query] = PARTS.exec(text) ?? []
  if (authority === undefined || query === undefined)
    throw new LndConnectError(`The lnd key must have the form ${FORM}.`)
  const url = readAuthority(authority)
  const { cert, macaroon } = readParameters(query)
  if (macaroon === undefined) throw new LndConnectError(`The lnd key has no macaroon; it has the form ${FORM}.`)
  const macaroonBytes = readBase64url('macaroon', macaroon)
  if (macaroonBytes[0] !== MACAROON_V2 || macaroonBytes.length > MAX_MACAROON_BYTES) {
    throw new LndConnectError(
      'The macaroon in the lnd key is none that lnd makes; it must be base64url of the macaroon file, not hex.'
    )
  }
  const certificate = cert === undefined ? null : readCertificate(readBase64url('cert', cert))
  return {
    origin: `https://${url.hostname}:${url.port === '' ? '443' : url.port}`,
    certificate: certificate?.toString() ?? null,
    servername: certificate === null ? null : nameOf(certificate, url.hostname),
    macaroon: new Secret(macaroonBytes.toString('hex'))
  }
}

/**
 * The host as every other reader sees it: one that URL would turn into another, such as 0x7f.1, becomes that one here.
 */
function readAuthority(authority: string): URL {
  if (authority.includes('@'))
    throw new LndConnectError('The lnd key must not hold a user name or password before its host.')
  const [, , port] = AUTHORITY.exec(authority) ?? []
  if (port === undefined || !URL.canParse(`https://${authority}`)) {
    throw new LndConnectError('The lnd key must name host and port after lndconnect://, such as node.example.com:8080.')
  }
  if (Number(port) < 1) throw new LndConnectError('The port in the lnd key must be from 1 to 65535.')
  return new URL(`https://${authority}`)
}

function readParameters(query: string): { readonly cert?: string; readonly macaroon?: string } {
  const found = new Map<string, string>()
  for (const part of query.split('&')) {
    const at = part.indexOf('=')
    const name = part.slice(0, Math.max(at, 0))
    if (name !== 'cert' && name !== 'macaroon')
      throw new LndConnectError('The lnd key may have the parameters cert and macaroon, and no others.')
    if (found.has(name)) throw new LndConnectError(`The lnd key has ${name} twice.`)
    found.set(name, part.slice(at + 1))
  }
  const cert = found.get('cert')
  const macaroon = found.get('macaroon')
  return { ...(cert === undefined ? {} : { cert }), ...(macaroon === undefined ? {} : { macaroon }) }
}

function readBase64url(name: 'cert' | 'macaroon', text: string): Buffer {
  const bare = text.replace(/={1,2}$/, '')
  const bytes = Buffer.from(bare, 'base64url')
  // Node skips what it does not know; only what comes out the same was understood whole.
  if (bare === '' || bytes.toString('base64url') !== bare)
    throw new LndConnectError(`${name} in the lnd key is not base64url.`)
  return bytes
}

function readCertificate(bytes: Buffer): X509Certificate {
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
  throw new LndConnectError(
    "cert in the lnd key is not one X.509 certificate; it must be base64url of the node's tls.cert."
  )
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
