import { errors } from 'undici'
import { AddressRefused, NameUnresolved } from '../../engine/upstream/guard.ts'
import type { OutboundResponse } from '../../engine/upstream/outbound.ts'

export interface Sent {
  /** Null on delivery; else the reason for the merchant. */
  readonly error: string | null
  /** Null without a response. */
  readonly responseStatus: number | null
  readonly responseBody: string | null
}

/** Stored bytes of a response (decision 161). */
export const KEPT_RESPONSE_BYTES = 1024

/** Codes of a connection that closed before a response. */
const CLOSED = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** 2xx is delivered, everything else has failed (decision 160). */
export function answered({ status, body }: OutboundResponse): Sent {
  return { error: refusalOf(status), responseStatus: status, responseBody: responseText(body) }
}

function refusalOf(status: number): string | null {
  if (status >= 200 && status <= 299) return null
  return status >= 300 && status <= 399
    ? `The endpoint answered ${status}. Redirects are not followed.`
    : `The endpoint answered ${status}.`
}

/** Result of an attempt without a response. Never names a resolved address. */
export function unanswered(error: unknown): Sent {
  return { error: reasonOf(error), responseStatus: null, responseBody: null }
}

function reasonOf(error: unknown): string {
  if (error instanceof AddressRefused) return `The address was refused: ${error.message}`
  if (error instanceof NameUnresolved) return 'The name in the address could not be resolved.'
  if (error instanceof errors.HTTPParserError) return 'What the endpoint answered is not HTTP.'
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || (error instanceof Error && error.name === 'TimeoutError'))
    return 'No answer came within 10 seconds.'
  if (CLOSED.has(code)) return 'The endpoint closed the connection without an answer.'
  return `The endpoint could not be reached (${code === '' ? 'no answer' : code}).`
}

/** Response bytes as storable text: invalid UTF-8 and NUL become U+FFFD. */
export function responseText(bytes: Uint8Array): string {
  // Streaming drops a character that was cut at the end.
  return new TextDecoder().decode(bytes.subarray(0, KEPT_RESPONSE_BYTES), { stream: true }).replaceAll('\0', '\ufffd')
}
