/**
 * Which header fields of a request carry a payment credential, and by what one is known: the only definition. The
 * listener counts credentials by it, the verifier reads by it, the forwarder keeps back what it names; so nothing can
 * be admitted that is passed on.
 *
 * It knows no other file, and the listener and the forwarder, which know no domain, may import this one.
 */

/** Names of fields that may hold a macaroon in hex with its preimage as a caveat. */
export const MACAROON_FIELDS = ['macaroon', 'grpc-metadata-macaroon'] as const

/** A scheme of Authorization that is a payment: L402, its former name LSAT, or Payment. */
export type PaymentScheme = 'l402' | 'lsat' | 'payment'

/**
 * What a field's name says of it: whether a credential may stand in it, and how. Null for all others, without a
 * lower-case copy of them.
 */
export function credentialField(name: string): 'authorization' | 'macaroon' | null {
  switch (name.length) {
    case 13:
      return name.toLowerCase() === 'authorization' ? 'authorization' : null
    case 8:
      return name.toLowerCase() === MACAROON_FIELDS[0] ? 'macaroon' : null
    case 22:
      return name.toLowerCase() === MACAROON_FIELDS[1] ? 'macaroon' : null
    default:
      return null
  }
}

/**
 * The scheme of an Authorization value that is a payment credential, however its rest reads; null for any other. White
 * space may stand before it, and the name ends with the value or any character that no name can have, the ones that end
 * nothing for some readers included: what is taken for a credential here and for none there would be passed on.
 */
export function paymentScheme(value: string): PaymentScheme | null {
  const start = afterBlanks(value)
  // By index: an iterator would be made for each request.
  for (let index = 0; index < SCHEMES.length; index++) {
    const scheme = SCHEMES[index] as PaymentScheme // The index is within the list.
    const end = start + scheme.length
    if ((end === value.length || isBlank(value.charCodeAt(end))) && standsAt(value, start, scheme)) return scheme
  }
  return null
}

/** Whether a request has a payment credential, valid or not. */
export function hasPaymentCredential(headers: {
  has(name: string): boolean
  all(name: string): readonly string[]
}): boolean {
  return (
    MACAROON_FIELDS.some(name => headers.has(name)) ||
    headers.all('authorization').some(value => paymentScheme(value) !== null)
  )
}

/** What stands after the scheme's name, without the white space around it. */
export function schemeValue(value: string, scheme: PaymentScheme): string {
  return value.slice(afterBlanks(value) + scheme.length).trim()
}

const SCHEMES = ['l402', 'payment', 'lsat'] as const

/**
 * Whether the value has the lower-case name at this place in any case, told without a copy of it: every request with a
 * credential asks.
 */
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

/** Control characters, and all that `trim` takes away of what a header can hold. */
function isBlank(code: number): boolean {
  return code <= 0x20 || code === 0x7f || code === 0xa0 || code === 0xfeff
}

const PREIMAGE_CAVEAT = Buffer.from('preimage=').toString('hex')

/**
 * Whether the value of a macaroon field may be a payment credential: it holds the beginning of the caveat that carries
 * the preimage. Other services take macaroons of their own in the same fields.
 */
export function mayCarryPreimage(hex: string): boolean {
  return hex.toLowerCase().includes(PREIMAGE_CAVEAT)
}
