/**
 * The client's side of the Payment scheme: `Payment <token>` (modern) and `Payment method="lightning", preimage="…"`
 * (legacy). A token that cannot be read is refused, never taken for legacy.
 */
import type { Credential } from './credential.ts'
import type { PaymentIdSlots } from './payment-challenge.ts'
import type { PaymentFailureSlug } from './payment-problem.ts'
import { isHex32 } from './preimage.ts'
import { parseTimestamp } from './timestamp.ts'

const TOKEN = /^[A-Za-z0-9_-]+={0,2}$/
const PARAMETER =
  /[ \t]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)[ \t]*=[ \t]*(?:"([^"\\]*)"|([A-Za-z0-9!#$%&'*+.^_`|~-]+))[ \t]*(?:,|$)/y

/** What the challenge's `request` says. */
export interface ChallengeRequest {
  /** Whole satoshis, at least 1. */
  readonly amountSats: number
  /** The BOLT11 text, or null when the object has none (nothing is decided by it). */
  readonly invoice: string | null
  readonly network: string | null
  /** 64 lower-case hex characters. */
  readonly paymentHash: string
}

/** A modern credential that could be read. Nothing in it is trusted before its id was verified. */
export interface PaymentCredential extends PaymentIdSlots {
  readonly id: string
  /** Null when the client did not echo it; then the stored challenge's is used. */
  readonly digest: string | null
  /** Unix seconds of `expires`. */
  readonly expiresAt: number
  readonly charge: ChallengeRequest
  /** 64 lower-case hex characters. */
  readonly preimage: string
}

/** A refusal with the slug of its problem (decision 119). */
export interface PaymentRefusal {
  readonly slug: PaymentFailureSlug
  readonly detail: string
}

/** The outcome of `parsePaymentToken`. */
export type ParsedPayment =
  | { readonly ok: true; readonly credential: PaymentCredential }
  | ({ readonly ok: false } & PaymentRefusal)

/** Reads what follows `Payment` in an Authorization header. */
export function readPaymentValue(value: string): Credential {
  if (TOKEN.test(value)) return { kind: 'modern', token: value }
  const parameters = readParameters(value)
  // A token with `=` in its middle looks like a parameter; only a list that names method or preimage is meant as
  // legacy.
  if (parameters === null || !(parameters.has('method') || parameters.has('preimage'))) {
    return { kind: 'malformed', profile: 'modern', status: 402, message: 'The Payment token is not base64url' }
  }
  if (parameters.get('method') !== 'lightning') {
    return { kind: 'malformed', profile: 'legacy', status: 402, message: 'The Payment method must be lightning' }
  }
  const preimage = parameters.get('preimage') ?? ''
  if (!isHex32(preimage)) {
    return {
      kind: 'malformed',
      profile: 'legacy',
      status: 402,
      message: 'The preimage must be exactly 64 lower-case hex characters'
    }
  }
  return { kind: 'legacy', preimage }
}

// Name=value pairs of RFC 9110, 11.2; null unless the whole text is such a list without repetitions.
function readParameters(value: string): Map<string, string> | null {
  const parameters = new Map<string, string>()
  let offset = 0
  while (offset < value.length) {
    PARAMETER.lastIndex = offset
    const match = PARAMETER.exec(value)
    if (match === null) return null
    const name = (match[1] ?? '').toLowerCase()
    if (parameters.has(name)) return null
    parameters.set(name, match[2] ?? match[3] ?? '')
    offset = PARAMETER.lastIndex
  }
  return parameters.size === 0 ? null : parameters
}

/**
 * Decodes a modern token: base64url (padding allowed) of `{challenge: {…}, payload: {preimage}}`, keys in any order,
 * unknown ones ignored. Says what is wrong instead of throwing.
 */
export function parsePaymentToken(token: string): ParsedPayment {
  if (!TOKEN.test(token)) return undecodable('The token is not base64url')
  const credential = readJson(token)
  if (credential === null) return undecodable('The token does not hold a JSON object')
  const challenge = member(credential, 'challenge')
  if (challenge === null) return undecodable('The token has no challenge object')

  const id = text(challenge, 'id')
  const realm = text(challenge, 'realm')
  const method = text(challenge, 'method')
  const intent = text(challenge, 'intent')
  const request = text(challenge, 'request')
  const expires = text(challenge, 'expires')
  if (id === null) return undecodable('The challenge has no id')
  if (realm === null) return undecodable('The challenge has no realm')
  if (method === null || intent === null) return undecodable('The challenge has no method or no intent')
  if (request === null) return undecodable('The challenge has no request')
  if (expires === null) return undecodable('The challenge has no expires')
  const expiresAt = parseTimestamp(expires)
  if (expiresAt === null) return undecodable("The challenge's expires is not an RFC 3339 time in UTC")
  const digest = optionalText(challenge, 'digest')
  const opaque = optionalText(challenge, 'opaque')
  if (digest === undefined || opaque === undefined)
    return undecodable("The challenge's digest or opaque is not a string")

  if (method !== 'lightning' || intent !== 'charge') {
    return failed('The credential is for another payment method or intent; this resource takes lightning/charge')
  }
  const charge = readChargeRequest(request)
  if (typeof charge === 'string') return undecodable(charge)
  const edited = editedEcho(challenge, charge)
  if (edited !== null) return undecodable(`The challenge's ${edited} is not the one that was sent`)
  const preimage = text(member(credential, 'payload') ?? {}, 'preimage')
  if (preimage === null || !isHex32(preimage))
    return failed('The preimage must be exactly 64 lower-case hex characters')
  return {
    ok: true,
    credential: { id, realm, method, intent, request, expires, digest, opaque, expiresAt, charge, preimage }
  }
}

/**
 * The parameter of a challenge that repeats what stands in its request and is echoed otherwise than it was sent; null
 * when there is none. The id does not cover these three, and any edit invalidates a credential (contract, Payment
 * scheme). Clients need not echo them: what is not there, or null, is not missed (decision 180).
 */
function editedEcho(challenge: JsonObject, charge: ChallengeRequest): 'invoice' | 'amount' | 'currency' | null {
  if (differs(challenge, 'invoice', charge.invoice)) return 'invoice'
  if (differs(challenge, 'amount', String(charge.amountSats))) return 'amount'
  return differs(challenge, 'currency', 'sat') ? 'currency' : null
}

function differs(challenge: JsonObject, name: string, sent: string | null): boolean {
  const echoed = Object.hasOwn(challenge, name) ? challenge[name] : null
  return echoed !== null && echoed !== undefined && echoed !== sent
}

/** Decodes the `request` of a challenge; a string says what is wrong with it. */
function readChargeRequest(request: string): ChallengeRequest | string {
  if (!TOKEN.test(request)) return "The challenge's request is not base64url"
  const object = readJson(request)
  if (object === null) return "The challenge's request does not hold a JSON object"
  if (text(object, 'currency') !== 'sat') return 'The currency must be sat'
  const amount = text(object, 'amount')
  if (amount === null || !/^[1-9][0-9]{0,14}$/.test(amount))
    return 'The amount must be a positive whole number of satoshis, as a string'
  const details = member(object, 'methodDetails') ?? {}
  const paymentHash = text(details, 'paymentHash')
  if (paymentHash === null || !isHex32(paymentHash))
    return 'The payment hash is missing or is not 64 lower-case hex characters'
  return {
    amountSats: Number(amount),
    invoice: text(details, 'invoice'),
    network: text(details, 'network'),
    paymentHash
  }
}

type JsonObject = Readonly<Record<string, unknown>>

const utf8 = new TextDecoder('utf-8', { fatal: true })

function readJson(base64url: string): JsonObject | null {
  try {
    return asObject(JSON.parse(utf8.decode(Buffer.from(base64url, 'base64url'))))
  } catch (error) {
    // Bad UTF-8 is a TypeError, bad JSON a SyntaxError; both mean that there is no object.
    if (error instanceof TypeError || error instanceof SyntaxError) return null
    throw error
  }
}

function asObject(value: unknown): JsonObject | null {
  // A JSON object has string keys and unknown values; each member is checked where it is read.
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : null
}

function member(object: JsonObject, name: string): JsonObject | null {
  return Object.hasOwn(object, name) ? asObject(object[name]) : null
}

function text(object: JsonObject, name: string): string | null {
  const value = Object.hasOwn(object, name) ? object[name] : undefined
  return typeof value === 'string' && value !== '' ? value : null
}

// Undefined for a member that is there with a wrong type; null and '' read as absent.
function optionalText(object: JsonObject, name: string): string | null | undefined {
  const value = Object.hasOwn(object, name) ? object[name] : null
  if (value === null || value === '') return null
  return typeof value === 'string' ? value : undefined
}

function undecodable(detail: string): ParsedPayment {
  return { ok: false, slug: 'invalid-challenge', detail }
}

function failed(detail: string): ParsedPayment {
  return { ok: false, slug: 'verification-failed', detail }
}

/**
 * Writes a modern token, as a client does: for the command line and tests. `challenge` is echoed as it came.
 */
export function encodePaymentToken(challenge: Readonly<Record<string, string>>, preimage: string): string {
  return Buffer.from(JSON.stringify({ challenge, payload: { preimage } })).toString('base64url')
}
