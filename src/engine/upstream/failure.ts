import { REQUEST_MALFORMED, REQUEST_TIMEOUT, UPSTREAM_FAILED, UPSTREAM_TIMEOUT } from '../operations/error-kinds.ts'
import { asGatewayError, GatewayError, LongError } from '../operations/errors.ts'
import type { UpstreamTarget } from '../message/context.ts'
import { AddressRefused, NameUnresolved } from './guard.ts'
import { RequestRefused } from './request-head.ts'

/**
 * 502: the upstream or its response was unusable (contract, Errors: Proxy). `details` gives the reason in plain words.
 */
export function badGateway(target: UpstreamTarget, message: string, details: string, cause?: unknown): LongError {
  return new LongError(UPSTREAM_FAILED, 'Bad gateway', message, { ...target.errorMembers, details }, [], cause)
}

/** 504: the upstream did not answer in time (decision 97). */
export function gatewayTimeout(target: UpstreamTarget, details: string, cause?: unknown): LongError {
  return new LongError(
    UPSTREAM_TIMEOUT,
    'Gateway timeout',
    'The upstream did not answer in time.',
    { ...target.errorMembers, details },
    [],
    cause
  )
}

const UNREACHABLE = 'The upstream could not be reached.'
const UNUSABLE = 'The upstream did not give a usable answer.'

export function unusable(target: UpstreamTarget, details: string): LongError {
  return badGateway(target, UNUSABLE, details)
}

/** The client's own fault: 408. */
export function tooSlow({ errorMembers }: UpstreamTarget): LongError {
  const message = 'The request body arrived too slowly while others waited for the upstream.'
  return new LongError(REQUEST_TIMEOUT, 'Request Timeout', message, errorMembers)
}

/** Texts for clients: never an address or a library's message. */
const DETAILS: Readonly<Record<string, readonly [message: string, details: string]>> = {
  ECONNREFUSED: [UNREACHABLE, 'connection refused'],
  EHOSTUNREACH: [UNREACHABLE, 'no route to the host'],
  ENETUNREACH: [UNREACHABLE, 'no route to the network'],
  EADDRNOTAVAIL: [UNREACHABLE, 'no route to the host'],
  ENOTFOUND: [UNREACHABLE, 'the host name could not be resolved'],
  EAI_AGAIN: [UNREACHABLE, 'the host name could not be resolved'],
  ECONNRESET: [UNUSABLE, 'the upstream closed the connection'],
  EPIPE: [UNUSABLE, 'the upstream closed the connection'],
  UPSTREAM_CLOSED: [UNUSABLE, 'the upstream closed the connection'],
  UPSTREAM_HEAD_TOO_LARGE: [UNUSABLE, 'the head of its answer is too large'],
  UPSTREAM_LENGTH_MISMATCH: [UNUSABLE, 'its answer is shorter or longer than it announced'],
  UPSTREAM_MALFORMED: [UNUSABLE, 'its answer is not valid HTTP'],
  ERR_TLS_CERT_ALTNAME_INVALID: [UNREACHABLE, 'its certificate is for another name'],
  CERT_HAS_EXPIRED: [UNREACHABLE, 'its certificate has expired'],
  DEPTH_ZERO_SELF_SIGNED_CERT: [UNREACHABLE, 'its certificate is not trusted'],
  SELF_SIGNED_CERT_IN_CHAIN: [UNREACHABLE, 'its certificate is not trusted'],
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: [UNREACHABLE, 'its certificate is not trusted'],
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: [UNREACHABLE, 'its certificate is not trusted']
}

/** The fault's code, also of an aggregate of several attempts. */
export function faultCode(error: Error): string {
  const code = (error as { code?: unknown }).code
  return typeof code === 'string' ? code : ''
}

export function isOfUpstream(error: Error): boolean {
  return error instanceof GatewayError ? error.status === 504 : isUnreachable(error) || faultCode(error) in DETAILS
}

/** There was no connection, whatever the request was. */
export function isUnreachable(error: Error): boolean {
  if (error instanceof AddressRefused || error instanceof NameUnresolved) return true
  const code = faultCode(error)
  return code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT' || DETAILS[code]?.[0] === UNREACHABLE
}

const STILL_GOOD = 'The payment is still good: send the request again with the same credential.'

/** Maps a fault to the contract's error. For a paid request it states that the payment is released. */
export function upstreamFailure(error: Error, target: UpstreamTarget, isPaid = false): GatewayError {
  const failure = failureOf(error, target)
  if (!isPaid || !(failure instanceof LongError) || failure.status < 500) return failure
  const { kind, error: title, message, more, headers, cause } = failure
  return new LongError(kind, title, `${message} ${STILL_GOOD}`, more, headers, cause)
}

function failureOf(error: Error, target: UpstreamTarget): GatewayError {
  if (error instanceof GatewayError) return error
  if (error instanceof RequestRefused)
    return error.pathFault === null
      ? asGatewayError(error)
      : new LongError(
          REQUEST_MALFORMED,
          'Bad request',
          `The request cannot be forwarded: ${error.pathFault}.`,
          target.errorMembers
        )
  if (error instanceof AddressRefused)
    return badGateway(target, 'The upstream address is not allowed.', error.message, error)
  if (error instanceof NameUnresolved)
    return badGateway(target, UNREACHABLE, 'the host name could not be resolved', error)
  const code = faultCode(error)
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT')
    return gatewayTimeout(target, 'no connection was made in time', error)
  const known = DETAILS[code]
  if (known !== undefined) return badGateway(target, known[0], known[1], error)
  // From a tunnel, whose response Node's parser reads.
  if (code.startsWith('HPE_')) return badGateway(target, UNUSABLE, 'its answer is not valid HTTP', error)
  if (
    code.startsWith('ERR_SSL') ||
    code.startsWith('ERR_OSSL') ||
    code.startsWith('ERR_TLS') ||
    code.startsWith('CERT_')
  )
    return badGateway(target, UNREACHABLE, 'no secure connection could be made', error)
  return badGateway(target, UNUSABLE, 'the exchange with the upstream failed', error)
}
