/**
 * The server's side of the Payment scheme (`lightning`/`charge`): the challenge line and its id. The id is an HMAC over
 * everything that the modern parameters say, so an echoed challenge can be recognised as ours and unedited.
 */
import type { Invoice, InvoiceNetwork } from '../codecs/bolt11.ts'
import { equalDigests, hmacSha256 } from '../codecs/hmac.ts'
import { canonicalize } from './jcs.ts'
import type { DerivedKey } from '../l402/root-key.ts'
import { formatTimestamp } from '../codecs/timestamp.ts'

/** The slots of the id, in its order. An absent digest or opaque is null and becomes the empty string. */
export interface PaymentIdSlots {
  readonly realm: string
  readonly method: string
  readonly intent: string
  /** The wire form, base64url. */
  readonly request: string
  readonly expires: string
  readonly digest: string | null
  readonly opaque: string | null
}

/** A challenge ready to be stored and sent. */
export interface PaymentChallenge {
  readonly id: string
  readonly request: string
  /** RFC 3339, whole seconds. */
  readonly expires: string
  /** The value of the `WWW-Authenticate` line. */
  readonly header: string
}

/** What a challenge is made from. */
export interface PaymentChallengeTerms {
  /** Accepted by `checkRealm`. */
  readonly realm: string
  readonly invoice: Pick<Invoice, 'text' | 'network' | 'amountMsat' | 'paymentHash' | 'expiresAt'>
  readonly amountSats: number
  /** Unix seconds; cut down to the invoice's own expiry when later. */
  readonly expiresAt: number
  /** `sha-256=:…:` of the challenged body, or null. */
  readonly digest: string | null
}

/** A challenge that must not be sent: amount unlike the invoice's, a network or realm that the scheme cannot say. */
export class PaymentChallengeError extends Error {
  override readonly name = 'PaymentChallengeError'
}

/**
 * What the scheme calls a Bitcoin network; null for testnet, which it has no value for, so that the Payment scheme is
 * off there (decision 118).
 */
export function paymentNetwork(network: InvoiceNetwork): 'mainnet' | 'regtest' | 'signet' | null {
  return network === 'testnet' ? null : network
}

/**
 * Why a configured realm cannot be used, or null when it can. `|` separates the slots of the id; quotes and backslashes
 * would need escapes, and some clients split at commas even inside quotes.
 */
export function checkRealm(realm: string): string | null {
  if (realm === '') return 'The realm must not be empty'
  if (realm.length > MAX_REALM_CHARS)
    return `The realm may have at most ${MAX_REALM_CHARS} characters, it has ${realm.length}`
  const bad = /[^\x20-\x7e]|[|"\\,]/.exec(realm)
  if (bad === null) return null
  return `The realm must not hold ${JSON.stringify(bad[0])} (character ${bad.index + 1}): | " \\ , control and non-ASCII characters are refused`
}

/** The longest realm: a host name has at most 253 characters. */
export const MAX_REALM_CHARS = 255

/** The id of a challenge: base64url of HMAC-SHA256 over the seven slots joined by `|`. */
export function paymentId(slots: PaymentIdSlots, key: Uint8Array): string {
  return hmacOf(slots, key).toString('base64url')
}

/**
 * The generation whose key made this id (in constant time for each key), or null when none of the live ones did.
 * @param keys `KeyRing.paymentIdKeys`
 */
export function matchPaymentId(id: string, slots: PaymentIdSlots, keys: readonly DerivedKey[]): string | null {
  const presented = Buffer.from(id, 'base64url')
  // Buffer reads base64 loosely; only the one spelling that was issued is the id.
  if (presented.toString('base64url') !== id) return null
  for (const { generation, key } of keys) {
    if (equalDigests(presented, hmacOf(slots, key))) return generation
  }
  return null
}

function hmacOf(slots: PaymentIdSlots, key: Uint8Array): Buffer {
  const { realm, method, intent, request, expires, digest, opaque } = slots
  return hmacSha256(
    key,
    Buffer.from(`${realm}|${method}|${intent}|${request}|${expires}|${digest ?? ''}|${opaque ?? ''}`, 'utf8')
  )
}

/**
 * Makes the challenge: `Payment id="…", realm="…", method="lightning", intent="charge", request="…", expires="…"[,
 * digest="…"], invoice="…", amount="…", currency="sat"`.
 * @param key the current one of `KeyRing.paymentIdKeys`
 * @throws PaymentChallengeError when the terms do not fit the invoice or the scheme
 */
export function paymentChallenge(terms: PaymentChallengeTerms, key: Uint8Array): PaymentChallenge {
  const { realm, invoice, amountSats, digest } = terms
  const realmError = checkRealm(realm)
  if (realmError !== null) throw new PaymentChallengeError(realmError)
  const network = paymentNetwork(invoice.network)
  if (network === null) throw new PaymentChallengeError('The Payment scheme has no value for testnet invoices')
  if (!Number.isSafeInteger(amountSats) || amountSats < 1) {
    throw new PaymentChallengeError(`The amount must be a positive whole number of satoshis, not ${amountSats}`)
  }
  if (invoice.amountMsat !== BigInt(amountSats) * 1000n) {
    throw new PaymentChallengeError(
      `The invoice asks for ${invoice.amountMsat ?? 'no'} millisatoshis, the challenge for ${amountSats} satoshis`
    )
  }
  if (digest !== null && !/^sha-256=:[A-Za-z0-9+/]{43}=:$/.test(digest)) {
    throw new PaymentChallengeError('The digest of a challenge must be sha-256=:<base64>:')
  }
  const amount = String(amountSats)
  const request = encodeRequest(amount, invoice.text, network, invoice.paymentHash)
  const expires = formatTimestamp(Math.floor(Math.min(terms.expiresAt, invoice.expiresAt)))
  const id = paymentId({ realm, method: 'lightning', intent: 'charge', request, expires, digest, opaque: null }, key)
  const digestParameter = digest === null ? '' : `, digest="${digest}"`
  const header =
    `Payment id="${id}", realm="${realm}", method="lightning", intent="charge", request="${request}", expires="${expires}"` +
    `${digestParameter}, invoice="${invoice.text}", amount="${amount}", currency="sat"`
  return { id, request, expires, header }
}

/** The `request` parameter: base64url without padding of the canonical JSON (RFC 8785). */
export function encodeRequest(amount: string, invoice: string, network: string, paymentHash: string): string {
  // Its members in their order, since they are the same each time.
  const details = `{"invoice":${canonicalize(invoice)},"network":${canonicalize(network)},"paymentHash":${canonicalize(paymentHash)}}`
  const json = `{"amount":${canonicalize(amount)},"currency":"sat","methodDetails":${details}}`
  return Buffer.from(json, 'utf8').toString('base64url')
}
