import { createHmac, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { createSecureContext, createServer, type SecureContext, type Server, type TLSSocket } from 'node:tls'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { ClientCertificate } from '../message/context.ts'
import { CodedError, defineError } from '../../platform/system/errors.ts'

/** Absolute paths of PEM files: the certificate with its chain, and its private key. */
export interface CertificateFiles {
  readonly cert: string
  readonly key: string
}

export interface TlsOptions {
  /** The first is for clients without SNI, or with a name that no certificate has. */
  readonly certificates: readonly [CertificateFiles, ...CertificateFiles[]]
  /** PEM file of the authorities of client certificates. Clients are asked for one, and need not have it. */
  readonly clientCa?: string | undefined
  /** Session ticket keys are derived from it, so that workers and gateways resume each other's sessions. */
  readonly ticketSecret: Uint8Array
  readonly clock: Clock
  readonly http2: boolean
  /** Called when changed files cannot be used, with the reason; the former certificates stay. */
  readonly failed: (error: Error) => void
  readonly renewed: (notAfter: Date) => void
}

interface Certificate {
  /** Contents of the files, by the options of `createSecureContext`. */
  readonly pem: { readonly cert: Buffer; readonly key: Buffer; readonly ca?: Buffer }
  readonly context: SecureContext
  readonly x509: X509Certificate
}

const CERTIFICATE = defineError('BG_TLS_CERTIFICATE', {
  cause:
    'A file of `server.tls` cannot be read, is not PEM, or the key does not belong to the certificate; or that of `server.clientCa`.',
  fix: 'Give the certificate with its chain in `cert` (fullchain.pem) and its private key in `key`, both readable by the user of the gateway; in `clientCa` certificates of authorities.'
})

/** Forward secret and authenticated: what TLS 1.3 has, for TLS 1.2 too. */
const CIPHERS = 'ECDHE+AESGCM:ECDHE+CHACHA20'
const HANDSHAKE_MS = 10_000
const HOUR_MS = 3_600_000
/** Renewed certificates are in use within this time. Watching the files would miss the symlinks of certbot. */
const RELOAD_MS = 30_000

const presented = new WeakMap<Socket, ClientCertificate>()

/** The certificate that the client presented; null for none, and without `clientCa`. */
export function clientCertificateOf(socket: Socket): ClientCertificate | null {
  return presented.get(socket) ?? null
}

/** Ends TLS 1.2 and 1.3 in front of the HTTP listener. Certificates are chosen by SNI and replaced when files change. */
export class Tls {
  readonly #options: TlsOptions
  readonly #server: Server
  /** With the client's address, by both ends of the connection: Node hands on another socket than it was given. */
  readonly #handshaking = new Map<string, { readonly socket: Socket; readonly address: string }>()
  #certificates: readonly [Certificate, ...Certificate[]]
  #hour = Number.NaN
  #timer: Timer | null = null

  /**
   * `accept` receives each connection after its handshake.
   * @throws CodedError BG_TLS_CERTIFICATE
   */
  constructor(options: TlsOptions, accept: (secure: Socket, clientAddress: string) => void) {
    this.#options = options
    this.#certificates = readCertificates(options)
    this.#server = createServer({
      ...this.#certificates[0].pem,
      requestCert: options.clientCa !== undefined,
      rejectUnauthorized: false,
      ALPNProtocols: options.http2 ? ['h2', 'http/1.1'] : ['http/1.1'],
      ciphers: CIPHERS,
      minVersion: 'TLSv1.2',
      honorCipherOrder: false,
      handshakeTimeout: HANDSHAKE_MS,
      SNICallback: (name, done) => {
        done(null, this.#certificateFor(name).context)
      }
    })
    this.#server.on('secureConnection', socket => {
      const address = this.#handshaking.get(endsOf(socket))?.address ?? ''
      this.#handshaking.delete(endsOf(socket))
      if (options.clientCa !== undefined) keepCertificate(socket)
      accept(socket, address)
    })
    // The client's handshake failed; Node closes the socket only for some causes.
    this.#server.on('tlsClientError', (_error, socket) => socket.destroy())
    this.#rotateTicketKeys()
  }

  get notAfter(): Date {
    return new Date(Math.min(...this.#certificates.map(({ x509 }) => x509.validToDate.getTime())))
  }

  /** `address` is the client's, which a proxy may have told. */
  handshake(socket: Socket, address: string): void {
    this.#rotateTicketKeys()
    const ends = endsOf(socket)
    this.#handshaking.set(ends, { socket, address })
    socket.on('close', () => {
      if (this.#handshaking.get(ends)?.socket === socket) this.#handshaking.delete(ends)
    })
    this.#server.emit('connection', socket)
  }

  open(): void {
    this.#timer = this.#options.clock.every(RELOAD_MS, () => {
      this.reload()
    })
  }

  /** Reads the files again and uses them if they changed. Connections keep the certificate they began with. */
  reload(): void {
    try {
      const { certificates, clientCa } = this.#options
      if (this.#certificates.every(({ pem }, index) => isSame(pem, certificates[index], clientCa))) return
      const read = readCertificates(this.#options)
      this.#certificates = read
      this.#server.setSecureContext({ ...read[0].pem, ciphers: CIPHERS, minVersion: 'TLSv1.2' })
      // A new context has random ticket keys.
      this.#hour = Number.NaN
      this.#rotateTicketKeys()
      this.#options.renewed(this.notAfter)
    } catch (error) {
      if (!(error instanceof Error)) throw error
      this.#options.failed(error)
    }
  }

  /** Cuts handshakes in progress. */
  close(): void {
    this.#timer?.cancel()
    for (const { socket } of this.#handshaking.values()) socket.destroy()
  }

  #certificateFor(name: string): Certificate {
    return this.#certificates.find(({ x509 }) => x509.checkHost(name) !== undefined) ?? this.#certificates[0]
  }

  /**
   * A stolen ticket key opens the sessions of one hour. A resumed session keeps the client's certificate and verdict, so
   * sessions of other authorities, or of none, are not resumed.
   */
  #rotateTicketKeys(): void {
    const hour = Math.floor(this.#options.clock.now() / HOUR_MS)
    if (hour === this.#hour) return
    this.#hour = hour
    const { ca = '' } = this.#certificates[0].pem
    this.#server.setTicketKeys(createHmac('sha384', this.#options.ticketSecret).update(`${hour}`).update(ca).digest())
  }
}

function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress ?? ''} ${remotePort ?? ''} ${localAddress ?? ''} ${localPort ?? ''}`
}

/** A resumed session has the certificate of its first handshake, or none, and its verdict. */
function keepCertificate(socket: TLSSocket): void {
  const x509 = socket.getPeerX509Certificate()
  if (x509 === undefined) return
  const { subject }: { readonly subject?: { readonly CN?: unknown } } = socket.getPeerCertificate()
  const name = subject?.CN
  // Several names are a list. Control characters, and what looks like a fingerprint, would be ambiguous.
  const isName = typeof name === 'string' && /^(?!sha256:)\P{Cc}{1,200}$/u.test(name)
  presented.set(socket, {
    name: isName ? name : `sha256:${x509.fingerprint256.replaceAll(':', '').toLowerCase()}`,
    fault: socket.authorized ? null : String(socket.authorizationError).toLowerCase().replaceAll('_', ' '),
    until: x509.validToDate.getTime()
  })
}

type Files = Pick<TlsOptions, 'certificates' | 'clientCa'>

/** @throws CodedError BG_TLS_CERTIFICATE */
function readCertificates({
  certificates: [first, ...rest],
  clientCa
}: Files): readonly [Certificate, ...Certificate[]] {
  const ca = clientCa === undefined ? {} : { ca: readAuthorities(clientCa) }
  return [readCertificate(first, ca), ...rest.map(files => readCertificate(files, ca))]
}

/** @throws an error of the file system */
function isSame(
  { cert, key, ca }: Certificate['pem'],
  files: CertificateFiles | undefined,
  clientCa?: string
): boolean {
  return (
    files !== undefined &&
    readFileSync(files.cert).equals(cert) &&
    readFileSync(files.key).equals(key) &&
    (clientCa === undefined || ca?.equals(readFileSync(clientCa)) === true)
  )
}

function readCertificate({ cert, key }: CertificateFiles, ca: { readonly ca?: Buffer }): Certificate {
  try {
    const pem = { cert: readFileSync(cert), key: readFileSync(key), ...ca }
    const context = createSecureContext({ ...pem, ciphers: CIPHERS, minVersion: 'TLSv1.2' })
    return { pem, context, x509: new X509Certificate(pem.cert) }
  } catch (cause) {
    throw unusable(`server.tls: ${cert} with ${key}`, cause)
  }
}

function readAuthorities(file: string): Buffer {
  try {
    const ca = readFileSync(file)
    // Node would skip text that is no certificate, and then trust no client.
    const certificates = ca.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]+-----END/g) ?? ['']
    certificates.forEach(pem => new X509Certificate(`${pem} CERTIFICATE-----`))
    return ca
  } catch (cause) {
    throw unusable(`server.clientCa: ${file}`, cause)
  }
}

function unusable(files: string, cause: unknown): CodedError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new CodedError(CERTIFICATE, `${files} cannot be used: ${reason}`, { cause })
}
