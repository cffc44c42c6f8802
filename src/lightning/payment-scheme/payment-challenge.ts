/**
 * Server side of the Payment scheme (`lightning`/`charge`): the challenge line and its id, an HMAC over all modern
 * parameters that detects edits.
 */
import type { Invoice, InvoiceNetwork } from '../codecs/bolt11.ts'
import { equalDigests, hmacSha256, sha256 } from '../codecs/hmac.ts'
import { canonicalize } from './jcs.ts'
import type { DerivedKey } from '../l402/root-key.ts'
import { PAYMENT_FIELD } from '../../engine/message/payment-headers.ts'
import { formatTimestamp } from '../codecs/timestamp.ts'
import { createHash } from 'node:crypto'

/** The id's slots in order. A null digest or opaque becomes the empty string. */
export interface PaymentIdSlots {
  readonly realm: string
  readonly method: string
  readonly intent: string
  /** In base64url. */
  readonly request: string
  readonly expires: string
  readonly digest: string | null
  readonly opaque: string | null
  /** An eighth slot if the challenge selects Payment-Authorization (draft-httpauth-payment-01). */
  readonly header?: string | null
}

export interface PaymentChallenge {
  readonly id: string
  readonly request: string
  /** RFC 3339, whole seconds. */
  readonly expires: string
  /** The `WWW-Authenticate` value. */
  readonly header: string
}

export interface PaymentChallengeTerms {
  /** Validated by `checkRealm`. */
  readonly realm: string
  readonly invoice: Pick<Invoice, 'text' | 'network' | 'amountMsat' | 'paymentHash' | 'expiresAt'>
  readonly amountSats: number
  /** Unix seconds, capped at the invoice's expiry. */
  readonly expiresAt: number
  /** `sha-256=:…:` of the body, or null. */
  readonly digest: string | null
  /** Selects Payment-Authorization. */
  readonly inOwnField?: boolean | undefined
}

/** An unsendable challenge: another amount than the invoice's, or a network or realm the scheme cannot express. */
export class PaymentChallengeError extends Error {
  override readonly name = 'PaymentChallengeError'
}

/** The scheme's network name; null for testnet, which has none, so the scheme is off there (decision 118). */
export function paymentNetwork(network: InvoiceNetwork): 'mainnet' | 'regtest' | 'signet' | null {
  return network === 'testnet' ? null : network
}

/**
 * Why a realm is unusable, or null. `|` separates id slots; quotes and backslashes need escapes, and some clients split
 * at quoted commas.
 */
export function checkRealm(realm: string): string | null {
  if (realm === '') return 'The realm must not be empty'
  if (realm.length > MAX_REALM_CHARS)
    return `The realm may have at most ${MAX_REALM_CHARS} characters, it has ${realm.length}`
  const bad = /[^\x20-\x7e]|[|"\\,]/.exec(realm)
  if (bad === null) return null
  return `The realm must not hold ${JSON.stringify(bad[0])} (character ${bad.index + 1}): | " \\ , control and non-ASCII characters are refused`
}

/** Maximum length of a host name. */
export const MAX_REALM_CHARS = 255

/** The parameter `header` as it is sent; empty for Authorization. */
export function headerParameter(inOwnField: boolean): string {
  return inOwnField ? `, header="${PAYMENT_FIELD}"` : ''
}

/** base64url of HMAC-SHA256 over the slots joined by `|`. */
export function paymentId(slots: PaymentIdSlots, key: Uint8Array): string {
  return hmacOf(slots, key).toString('base64url')
}

/**
 * The generation whose key made this id, or null. Constant time per key.
 * @param keys `KeyRing.paymentIdKeys`
 */
export function matchPaymentId(id: string, slots: PaymentIdSlots, keys: readonly DerivedKey[]): string | null {
  const presented = Buffer.from(id, 'base64url')
  // Buffer reads base64 loosely; only the issued spelling matches.
  if (presented.toString('base64url') !== id) return null
  for (const { generation, key } of keys) {
    if (equalDigests(presented, hmacOf(slots, key))) return generation
  }
  return null
}

function hmacOf(slots: PaymentIdSlots, key: Uint8Array): Buffer {
  const { realm, method, intent, request, expires, digest, opaque, header = null } = slots
  return hmacSha256(
    key,
    Buffer.from(
      `${realm}|${method}|${intent}|${request}|${expires}|${digest ?? ''}|${opaque ?? ''}${header === null ? '' : `|${header}`}`,
      'utf8'
    )
  )
}

/** What challenges of both intents are made of. */
export type LineTerms = Pick<PaymentChallengeTerms, 'realm' | 'invoice' | 'expiresAt' | 'inOwnField'>

/**
 * Makes `Payment id="…", realm="…", method="lightning", intent="…", request="…", expires="…"[, digest="…"]`, with
 * `after` at its end. It expires with its invoice.
 * @param key the current one of `KeyRing.paymentIdKeys`
 * @throws PaymentChallengeError for a realm or a network that the scheme cannot express
 */
export function challengeLine(
  { realm, invoice, expiresAt, inOwnField }: LineTerms,
  intent: 'charge' | 'session',
  request: string,
  digest: string | null,
  after: string,
  key: Uint8Array
): PaymentChallenge {
  const realmError = checkRealm(realm)
  if (realmError !== null) throw new PaymentChallengeError(realmError)
  if (paymentNetwork(invoice.network) === null)
    throw new PaymentChallengeError('The Payment scheme has no value for testnet invoices')
  const expires = formatTimestamp(Math.floor(Math.min(expiresAt, invoice.expiresAt)))
  const header = inOwnField === true ? PAYMENT_FIELD : null
  const id = paymentId({ realm, method: 'lightning', intent, request, expires, digest, opaque: null, header }, key)
  const line =
    `Payment id="${id}", realm="${realm}", method="lightning", intent="${intent}", request="${request}", expires="${expires}"` +
    `${digest === null ? '' : `, digest="${digest}"`}${headerParameter(header !== null)}${after}`
  return { id, request, expires, header: line }
}

/**
 * Makes a charge's line, which ends in `invoice="…", amount="…", currency="sat"`.
 * @throws PaymentChallengeError when the terms do not fit the invoice or the scheme
 */
export function paymentChallenge(terms: PaymentChallengeTerms, key: Uint8Array): PaymentChallenge {
  const { invoice, amountSats, digest } = terms
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
  return challengeLine(
    terms,
    'charge',
    encodeRequest(amount, invoice.text, paymentNetwork(invoice.network) ?? '', invoice.paymentHash),
    digest,
    `, invoice="${invoice.text}", amount="${amount}", currency="sat"`,
    key
  )
}

/** base64url without padding of canonical JSON (RFC 8785). */
export function encodeRequest(amount: string, invoice: string, network: string, paymentHash: string): string {
  // Members are constant, so already in canonical order.
  const details = `{"invoice":${canonicalize(invoice)},"network":${canonicalize(network)},"paymentHash":${canonicalize(paymentHash)}}`
  const json = `{"amount":${canonicalize(amount)},"currency":"sat","methodDetails":${details}}`
  return Buffer.from(json, 'utf8').toString('base64url')
}

/** The `sha-256` Content-Digest (RFC 9530), which binds a Payment challenge to a body. */
/** `sha-256=:<standard base64>:`, as in `digest` and `Content-Digest`. */
export function contentDigest(body: Uint8Array): string {
  return `sha-256=:${sha256(body).toString('base64')}:`
}

/** Incremental digest; null for an empty body. */
export class DigestOfPieces {
  readonly #hash = createHash('sha256')
  #empty = true

  add(piece: Uint8Array): void {
    if (piece.byteLength > 0) this.#empty = false
    this.#hash.update(piece)
  }

  end(): string | null {
    return this.#empty ? null : `sha-256=:${this.#hash.digest('base64')}:`
  }
}
