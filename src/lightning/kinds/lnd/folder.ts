import { X509Certificate } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import {
  AddressKeyError,
  readAddressKey,
  readKeyBytes,
  readKeyCertificate,
  type AddressKeyForm
} from '../../provider-calls/address-key.ts'
import { type NodeFolder, type NodeKey, NODE_FOLDER } from '../kind.ts'
import { CodedError } from '../../../platform/system/errors.ts'
import { isIP } from 'node:net'
import { Secret } from '../../../platform/keys/secrets.ts'

const REST_PORT = '8080'
/** Ours first, then lnd's own; the first found is used. */
const OWN_MACAROON = 'boltgate.macaroon'
const LND_MACAROONS = ['invoice.macaroon', 'admin.macaroon']
/** Permissions that receiving needs, spelled as `lncli bakemacaroon` does. */
export const RECEIVING = ['invoices:read', 'invoices:write', 'offchain:read']

const BAKE = `lncli bakemacaroon --save_to=${OWN_MACAROON} ${RECEIVING.join(' ')}`

/**
 * Makes an lnd key from lnd's folder: `tls.cert`, a macaroon, and the REST port in `lnd.conf`.
 * @throws NodeFolderError
 */
export function keyOfFolder({ dir, credential, network, address, isPublic }: NodeFolder): NodeKey {
  if ((credential === null || !isPublic) && !isFolder(dir))
    throw new CodedError(NODE_FOLDER, `There is no folder ${dir}. Name lnd's own with --dir, where its tls.cert is.`)
  const file = credential ?? findMacaroon(dir, network)
  const bytes = read(file, 'A macaroon')
  const remarks = [`The macaroon is ${file}.`]
  if (basename(file) === 'admin.macaroon')
    remarks.push(`It may do everything that the node can. One that is enough to receive: ${BAKE}`)
  const host = hostOf(address, portOf(dir))
  if (host.isLocal)
    remarks.push(
      `The key names ${host.text}, which is right where the gateway runs beside lnd; else say --address host:port.`
    )
  const certificate = isPublic ? '' : `cert=${certificateOf(dir).toString('base64url')}&`
  const key = `lndconnect://${host.text}?${certificate}macaroon=${bytes.toString('base64url')}`
  try {
    readLndConnect(key)
  } catch (error) {
    if (error instanceof AddressKeyError) throw new CodedError(NODE_FOLDER, error.message)
    throw error
  }
  return { key, remarks }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}

/** @throws NodeFolderError */
function read(file: string, what: string): Buffer {
  try {
    return readFileSync(file)
  } catch (error) {
    throw new CodedError(
      NODE_FOLDER,
      `${what} cannot be read at ${file}: ${error instanceof Error && 'code' in error ? String(error.code) : 'unknown'}.`
    )
  }
}

/** @throws NodeFolderError */
function certificateOf(dir: string): Buffer {
  const file = join(dir, 'tls.cert')
  if (!existsSync(file))
    throw new CodedError(
      NODE_FOLDER,
      `There is no tls.cert in ${dir}. Name lnd's own folder with --dir. If a public authority signed the host's certificate, use --public: the key then contains no certificate.`
    )
  try {
    return new X509Certificate(read(file, 'The certificate')).raw
  } catch (error) {
    if (error instanceof CodedError) throw error
    // OpenSSL's message does not help.
    throw new CodedError(NODE_FOLDER, `${file} is not an X.509 certificate.`)
  }
}

/** @throws NodeFolderError for none, or for several networks */
function findMacaroon(dir: string, network: string | null): string {
  const own = join(dir, OWN_MACAROON)
  if (existsSync(own)) return own
  const chains = join(dir, 'data', 'chain', 'bitcoin')
  const networks = (existsSync(chains) ? readdirSync(chains) : []).filter(name => network === null || name === network)
  const found = networks.flatMap(name => {
    const file = [OWN_MACAROON, ...LND_MACAROONS].map(each => join(chains, name, each)).find(each => existsSync(each))
    return file === undefined ? [] : [{ name, file }]
  })
  const [first, ...others] = found
  if (first === undefined)
    throw new CodedError(
      NODE_FOLDER,
      `No macaroon was found in ${dir}${network === null ? '' : ` for ${network}`}. Name its file with --macaroon; this makes one that is enough to receive: ${BAKE}`
    )
  if (others.length > 0)
    throw new CodedError(
      NODE_FOLDER,
      `There are macaroons of several networks in ${dir}: say --network ${found.map(({ name }) => name).join(', or --network ')}.`
    )
  return first.file
}

/** Port of `restlisten` in `lnd.conf`, or lnd's default. */
function portOf(dir: string): string {
  const file = join(dir, 'lnd.conf')
  const lines = existsSync(file) ? read(file, 'The settings').toString('utf8') : ''
  return /^[ \t]*restlisten[ \t]*=[ \t]*(?:\S*:)?(\d{1,5})\s*$/m.exec(lines)?.[1] ?? REST_PORT
}

function hostOf(address: string | null, port: string): { readonly text: string; readonly isLocal: boolean } {
  if (address === null) return { text: `127.0.0.1:${port}`, isLocal: true }
  return { text: /:\d+$/.test(address) ? address : `${address}:${port}`, isLocal: false }
}

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
