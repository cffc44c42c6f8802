import { createHash } from 'node:crypto'
import type { Clock } from '../../system/clock.ts'
import { guardedConnector, plainConnector, type Connector } from '../../upstream/connector.ts'
import { AddressRefused, NameUnresolved, type AddressGuard } from '../../upstream/guard.ts'
import { noBudget, type CallBudget } from '../budgets.ts'
import { ProviderRefused, ProviderUnavailable } from '../errors.ts'
import { readFault } from './answers.ts'
import type { LndConnection } from './lndconnect.ts'
import { NothingSent, ProviderHttp } from '../provider-call.ts'

/** Which hosts are trusted, and how long a call may take. */
export interface LndConnectionsOptions {
  readonly guard: AddressGuard
  /** Milliseconds for one call. */
  readonly timeout: number
  readonly clock: Clock
  /** None of our own where it is left out. */
  readonly budget?: CallBudget
}

/**
 * What is refused while a connection is opened and can only be put right in the key. It is an unavailability because
 * that is what passes through the HTTP client as it is; `refusal` is what it means.
 */
class KeyUnusable extends ProviderUnavailable {
  readonly refusal: ProviderRefused

  constructor(message: string) {
    super()
    this.refusal = new ProviderRefused('key', message)
  }
}

interface Node {
  readonly http: ProviderHttp
  calls: number
}

/** Nodes whose connections are kept; only idle ones above it are let go. */
const MAX_NODES = 1000

/** lnd's own default, which tools that make keys for wallets write. */
const GRPC_PORT = '10009'

const CERTIFICATE_FAULTS = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'INVALID_CA',
  'CERT_REJECTED',
  'ERR_TLS_CERT_ALTNAME_INVALID'
])

/**
 * Connections to lnd nodes: TLS that trusts nothing but the certificate of the key, and for addresses that a merchant
 * gave only public ones, resolved and checked at each connection (decisions 71 and 92). It keeps no macaroon.
 */
export class LndConnections {
  readonly #options: LndConnectionsOptions
  readonly #budget: CallBudget
  /** By what decides whom a connection trusts; the one used longest ago first. */
  readonly #nodes = new Map<string, Node>()

  constructor(options: LndConnectionsOptions) {
    this.#options = options
    this.#budget = options.budget ?? noBudget('lnd', options.clock)
  }

  /**
   * Runs calls to a node; `trusted` when its address is the operator's own and may be private.
   * @throws ProviderRefused 'key' for an address that must not be called and for another certificate; what `run` throws
   */
  async with<T>(connection: LndConnection, trusted: boolean, run: (http: ProviderHttp) => Promise<T>): Promise<T> {
    const name = createHash('sha256')
      .update(JSON.stringify([connection.origin, connection.certificate, connection.servername, trusted]))
      .digest('base64')
    const node = this.#nodes.get(name) ?? { http: this.#open(connection, trusted), calls: 0 }
    this.#nodes.delete(name)
    this.#nodes.set(name, node)
    node.calls++
    try {
      return await run(node.http)
    } catch (error) {
      throw error instanceof KeyUnusable ? error.refusal : named(error, connection)
    } finally {
      node.calls--
      this.#trim()
    }
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    const nodes = [...this.#nodes.values()]
    this.#nodes.clear()
    await Promise.all(nodes.map(({ http }) => http.close()))
  }

  #open({ origin, certificate, servername }: LndConnection, trusted: boolean): ProviderHttp {
    const { guard, timeout, clock } = this.#options
    const budget = this.#budget
    const tls = certificate === null ? null : { ca: certificate, ...(servername === null ? {} : { servername }) }
    const isPinned = certificate !== null
    const connector = trusted ? plainConnector({ tls, timeout }) : guardedConnector(guard, { tls, timeout })
    return new ProviderHttp({
      url: origin,
      timeout,
      clock,
      budget,
      authorize: macaroon => ({ 'grpc-metadata-macaroon': macaroon }),
      messageOf: body => readFault(body)?.message ?? null,
      connect: inOurTerms(connector, isPinned)
    })
  }

  #trim(): void {
    for (const [name, node] of this.#nodes) {
      if (this.#nodes.size <= MAX_NODES) return
      if (node.calls > 0) continue
      this.#nodes.delete(name)
      // Idle: there is nothing to wait for.
      void node.http.close()
    }
  }
}

/** Whatever fails before the connection stands, nothing was sent. */
function inOurTerms(connector: Connector, isPinned: boolean): Connector {
  return (wanted, callback) => {
    connector(wanted, (...result) => {
      const [error, socket] = result
      if (error === null) callback(null, socket)
      else callback(faultOf(error, isPinned), null)
    })
  }
}

/**
 * The commonest mistake in a key, said beside what failed. It stays an unavailability, and says as before whether
 * anything was sent: REST may be served at that port.
 */
function named(error: unknown, { origin }: LndConnection): unknown {
  if (!(error instanceof ProviderUnavailable) || error.fault !== 'network' || new URL(origin).port !== GRPC_PORT)
    return error
  const text = `${error.message} The lnd key names port ${GRPC_PORT}, which is gRPC's where lnd is set up as usual; it needs the port of its REST API, 8080 as a rule.`
  return error instanceof NothingSent
    ? new NothingSent(text, error.retryAfter, error.cause, error.fault)
    : new ProviderUnavailable(text, error.retryAfter, error.cause, error.fault)
}

/** `isPinned`: the key holds a certificate, which alone is trusted. */
function faultOf(error: Error, isPinned: boolean): Error {
  if (error instanceof AddressRefused)
    return new KeyUnusable(`The host in the lnd key cannot be called: ${error.message}`)
  if (error instanceof NameUnresolved)
    return new NothingSent('The host name in the lnd key has no address.', 5, undefined, 'network')
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (CERTIFICATE_FAULTS.has(code)) {
    return new KeyUnusable(
      isPinned
        ? 'The node shows another TLS certificate than the one in the lnd key.'
        : 'The lnd key holds no cert, and no authority that is trusted here signed the TLS certificate of the node: add its tls.cert to the key, as cert=<base64url>.'
    )
  }
  if (code === 'CERT_HAS_EXPIRED')
    return new KeyUnusable('The TLS certificate of the node has expired; make a new one and save the key again.')
  // The code alone: the text holds the address.
  return new NothingSent(
    'The lnd node cannot be reached at the moment.',
    5,
    new Error(code === '' ? 'the connection failed' : code),
    'network'
  )
}
