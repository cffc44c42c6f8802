import { errors } from 'undici'
import { AddressRefused, NameUnresolved } from '../../engine/upstream/guard.ts'
import type { OutboundResponse } from '../../engine/upstream/outbound.ts'

/** What came of sending an event once. */
export interface Sent {
  /** Null when it was delivered; else why not, in words for the merchant. */
  readonly error: string | null
  /** Null when nobody answered. */
  readonly responseStatus: number | null
  readonly responseBody: string | null
}

/** Bytes of a response that are kept (decision 161). */
export const KEPT_RESPONSE_BYTES = 1024

/** Codes of a connection that stood and ended before an answer. */
const CLOSED = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** What a response means: 2xx is delivered, everything else has failed (decision 160). */
export function answered({ status, body }: OutboundResponse): Sent {
  return { error: refusalOf(status), responseStatus: status, responseBody: responseText(body) }
}

function refusalOf(status: number): string | null {
  if (status >= 200 && status <= 299) return null
  return status >= 300 && status <= 399
    ? `The endpoint answered ${status}. Redirects are not followed.`
    : `The endpoint answered ${status}.`
}

/** What it means that there was no response. Never names an address that a name resolved to. */
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

/** Bytes of a response as text that every database and every page takes: what is not UTF-8, and NUL, becomes U+FFFD. */
export function responseText(bytes: Uint8Array): string {
  // As a stream, so that a character that was cut at the end is left out.
  return new TextDecoder().decode(bytes.subarray(0, KEPT_RESPONSE_BYTES), { stream: true }).replaceAll('\0', '\ufffd')
}
