/**
 * The only definition of which request header fields carry a payment credential. The listener, the verifier and the
 * forwarder share it, so that nothing is admitted that is also passed on.
 *
 * Has no imports: the listener and the forwarder, which know no domain, may use it.
 */

/** May hold a macaroon in hex with its preimage as a caveat. */
export const MACAROON_FIELDS = ['macaroon', 'grpc-metadata-macaroon'] as const

/** API keys of ordinary clients, which may be a paid key. */
export const KEY_FIELDS = ['x-api-key', 'api-key'] as const

/** The client's own `Authorization` stays free where a challenge selects this field (draft-httpauth-payment-01). */
export const PAYMENT_FIELD = 'Payment-Authorization'

/** A credential where x402 is offered; otherwise another service's. */
export const X402_FIELD = 'payment-signature'

/** LSAT is the former name of L402. */
type PaymentScheme = 'l402' | 'lsat' | 'payment'

/** Whether a field may carry a credential, and how. Makes no lower-case copy of other names. */
export function credentialField(name: string): 'authorization' | 'payment' | 'macaroon' | 'key' | 'x402' | null {
  switch (name.length) {
    case 13:
      return name.toLowerCase() === 'authorization' ? 'authorization' : null
    case 21:
      return name.toLowerCase() === 'payment-authorization' ? 'payment' : null
    case 8:
      return name.toLowerCase() === MACAROON_FIELDS[0] ? 'macaroon' : null
    case 22:
      return name.toLowerCase() === MACAROON_FIELDS[1] ? 'macaroon' : null
    case 9:
      return name.toLowerCase() === KEY_FIELDS[0] ? 'key' : null
    case 17:
      return name.toLowerCase() === X402_FIELD ? 'x402' : null
    case 7:
      return name.toLowerCase() === KEY_FIELDS[1] ? 'key' : null
    default:
      return null
  }
}

/**
 * The payment scheme of an Authorization value, however the rest reads; null for any other. Allows leading white space
 * and any delimiter that cannot be part of a name, as lenient readers do: a credential missed here would be passed on.
 */
export function paymentScheme(value: string): PaymentScheme | null {
  const start = afterBlanks(value)
  // By index: an iterator would be allocated per request.
  for (let index = 0; index < SCHEMES.length; index++) {
    const scheme = SCHEMES[index] as PaymentScheme // The index is within the list.
    const end = start + scheme.length
    if ((end === value.length || isBlank(value.charCodeAt(end))) && standsAt(value, start, scheme)) return scheme
  }
  return null
}

/** Characters; API keys of merchants, which begin alike, have 57. */
const SHORTEST_PAID_KEY = 150

/**
 * The paid key in an Authorization value (`Bearer bg_…`) or a key field; null for anything else. It is a credential
 * on every route, so that it is never passed on.
 */
export function paidKey(value: string): string | null {
  if (value.length < SHORTEST_PAID_KEY) return null
  let start = afterBlanks(value)
  if (standsAt(value, start, 'bearer') && isBlank(value.charCodeAt(start + 6)))
    for (start += 6; isBlank(value.charCodeAt(start)); start++);
  return value.startsWith('bg_', start) ? value.slice(start).trim() : null
}

export function hasPaymentCredential(headers: {
  has(name: string): boolean
  all(name: string): readonly string[]
}): boolean {
  return (
    MACAROON_FIELDS.some(name => headers.has(name)) ||
    headers.has('payment-authorization') ||
    headers.has(X402_FIELD) ||
    headers.all('authorization').some(value => paymentScheme(value) !== null) ||
    hasPaidKey(headers)
  )
}

export function hasOwnAuthorization(headers: { all(name: string): readonly string[] }): boolean {
  return headers.all('authorization').some(value => paymentScheme(value) === null && paidKey(value) === null)
}

export function hasPaidKey(headers: { all(name: string): readonly string[] }): boolean {
  return PAID_KEY_FIELDS.some(name => headers.all(name).some(value => paidKey(value) !== null))
}

const PAID_KEY_FIELDS = ['authorization', ...KEY_FIELDS]

export function schemeValue(value: string, scheme: PaymentScheme): string {
  return value.slice(afterBlanks(value) + scheme.length).trim()
}

const SCHEMES = ['l402', 'payment', 'lsat'] as const

/** Compares case-insensitively without a copy: runs for every request with a credential. */
function standsAt(value: string, start: number, name: string): boolean {
  for (let index = 0; index < name.length; index++) {
    const code = value.charCodeAt(start + index)
    const lower = code >= 0x41 && code <= 0x5a ? code + 0x20 : code
    if (lower !== name.charCodeAt(index)) return false
  }
  return true
}

function afterBlanks(value: string): number {
  let start = 0
  while (isBlank(value.charCodeAt(start))) start++
  return start
}

/** Control characters, and everything `trim` removes from a header. */
function isBlank(code: number): boolean {
  return code <= 0x20 || code === 0x7f || code === 0xa0 || code === 0xfeff
}

const PREIMAGE_CAVEAT = Buffer.from('preimage=').toString('hex')

/**
 * Whether a macaroon field may be a payment credential: it contains the start of the preimage caveat. Other services
 * use the same fields.
 */
export function mayCarryPreimage(hex: string): boolean {
  return hex.toLowerCase().includes(PREIMAGE_CAVEAT)
}
