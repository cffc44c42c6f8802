/**
 * Size of a 402's head. nginx and ingress-nginx answer 502 above 4 KB by default, so a usual head (description, path,
 * invoice with three routing hints) stays below. None exceeds 8 KB, which most clients and proxies take. The L402 line
 * holds the macaroon twice (4/3 each) and the invoice once; the Payment line holds the invoice 7/3 times. A path byte
 * costs 2.67 bytes, an invoice character 3.33.
 */

export const MAX_CHALLENGE_BYTES = 8192

// Both lines without variable parts: parameter names, other caveats, signature, longest realm and names.
const FIXED_BYTES = 1925
// Characters of an invoice with two routing hints, without description.
const BARE_INVOICE_CHARS = 450
/** Costs 384 bytes of head, which keeps the usual one below 4 KB. */
const MAX_DESCRIPTION_BYTES = 72
/** The rest of a 402's head: status line, Date, type, length, and added headers. */
const OTHER_HEAD_BYTES = 450
/** Warning threshold, below nginx's default buffer. */
const LARGE_HEAD_BYTES = 3584

/**
 * Bytes of UTF-8, 0 to 72, left for the description of a challenge's invoice. Each costs 1.6 invoice characters. With
 * up to 1,600 path bytes both lines fit 8 KB in the worst case; the longest resource (500 four-byte characters,
 * decision 105) fits with a usual realm and no hints.
 * @param pathBytes of the path caveat, in UTF-8
 */
export function descriptionRoom(pathBytes: number): number {
  const left = MAX_CHALLENGE_BYTES - FIXED_BYTES - (pathBytes * 8) / 3 - (BARE_INVOICE_CHARS * 10) / 3
  return Math.min(MAX_DESCRIPTION_BYTES, Math.max(0, Math.floor(left / ((1.6 * 10) / 3))))
}

const CHALLENGES: ReadonlySet<string> = new Set(['WWW-Authenticate', 'PAYMENT-REQUIRED'])
const LINE_OVERHEAD = 'WWW-Authenticate: \r\n'.length

/** Wire size of header lines with these ASCII values. */
export function challengeBytes(values: readonly string[]): number {
  let bytes = 0
  for (const value of values) bytes += LINE_OVERHEAD + value.length
  return bytes
}

/** Estimated size of a 402's head; null while small proxy buffers suffice. */
export function largeHead(headers: readonly string[]): number | null {
  const values = headers.filter((_, index) => CHALLENGES.has(headers[index - 1] ?? ''))
  const bytes = OTHER_HEAD_BYTES + challengeBytes(values)
  return bytes > LARGE_HEAD_BYTES ? bytes : null
}
