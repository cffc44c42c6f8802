/**
 * Client side of the Payment scheme: `Payment <token>` (modern) and `Payment method="lightning", preimage="…"`
 * (legacy). An unreadable token is rejected, never taken for legacy.
 */
import type { Credential } from '../codecs/credential.ts'
import { canonicalize, JcsError, type JcsValue } from './jcs.ts'
import type { PaymentIdSlots } from './payment-challenge.ts'
import type { PaymentFailureSlug } from './payment-problem.ts'
import { isHex32 } from '../codecs/hmac.ts'
import { parseTimestamp, formatTimestamp } from '../codecs/timestamp.ts'
import { isUtf8 } from 'node:buffer'
import { PAYMENT_FIELD } from '../../engine/message/payment-headers.ts'
import { jsonOrUndefined, isObject } from '../../platform/system/json.ts'

export const TOKEN = /^[A-Za-z0-9_-]+={0,2}$/
const PARAMETER =
  /[ \t]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)[ \t]*=[ \t]*(?:"([^"\\]*)"|([A-Za-z0-9!#$%&'*+.^_`|~-]+))[ \t]*(?:,|$)/y

interface ChallengeRequest {
  /** At least 1. */
  readonly amountSats: number
  /** BOLT 11, or null when absent; informational. */
  readonly invoice: string | null
  readonly network: string | null
  readonly paymentHash: string
}

/** A readable modern credential. Untrusted until its id is verified. */
export interface PaymentCredential extends PaymentIdSlots {
  readonly id: string
  /** Null when not echoed; then the stored challenge's applies. */
  readonly digest: string | null
  /** `expires` in Unix seconds. */
  readonly expiresAt: number
  readonly charge: ChallengeRequest
  readonly preimage: string
}

/** A refusal with its problem slug (decision 119). */
interface PaymentRefusal {
  readonly slug: PaymentFailureSlug
  readonly detail: string
}

export type ParsedPayment =
  | { readonly ok: true; readonly credential: PaymentCredential }
  | ({ readonly ok: false } & PaymentRefusal)

export function readPaymentValue(value: string): Credential {
  if (TOKEN.test(value)) return { kind: 'modern', token: value }
  const parameters = readParameters(value)
  // A token with an inner `=` looks like a parameter; only a list with method or preimage is legacy.
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

// RFC 9110, 11.2 parameters; null unless the whole text is a list without duplicates.
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
 * Decodes a modern token: base64url (padding allowed) of `{challenge: {…}, payload: {preimage}}`, in any order, unknown
 * keys ignored. Returns faults instead of throwing, in Payment-Authorization (`inOwnField`) with the slugs of
 * draft-httpauth-payment-01.
 */
export function parsePaymentToken(token: string, inOwnField = false): ParsedPayment {
  const parsed = readToken(token, inOwnField)
  return inOwnField && !parsed.ok && parsed.slug === 'invalid-challenge'
    ? { ...parsed, slug: 'malformed-credential' }
    : parsed
}

function readToken(token: string, inOwnField: boolean): ParsedPayment {
  if (!TOKEN.test(token)) return undecodable('The token is not base64url')
  const credential = decodeJsonObject(token)
  if (credential === null) return undecodable('The token does not hold a JSON object')
  return readPayment(credential, challenge => textIn(challenge, 'request'), inOwnField)
}

/**
 * Reads a modern credential from a JSON-RPC message, where `request` is an object. The id covers its canonical text, as
 * in the challenge line.
 */
export function parsePaymentObject(value: unknown): ParsedPayment {
  const credential = asObject(value)
  if (credential === null) return undecodable('The credential is not a JSON object')
  return readPayment(credential, challenge => {
    const request = member(challenge, 'request')
    return request === null ? textIn(challenge, 'request') : wireForm(request)
  })
}

function wireForm(request: JsonFields): string | null {
  try {
    // Members come from parsed JSON.
    return Buffer.from(canonicalize(request as JcsValue), 'utf8').toString('base64url')
  } catch (error) {
    if (error instanceof JcsError) return null
    throw error
  }
}

function readPayment(
  credential: JsonFields,
  requestOf: (challenge: JsonFields) => string | null,
  inOwnField = false
): ParsedPayment {
  const challenge = member(credential, 'challenge')
  if (challenge === null) return undecodable('The credential has no challenge object')

  const echo = readEcho(challenge, requestOf(challenge), inOwnField)
  if (typeof echo === 'string') return undecodable(echo)
  const { method, intent, request, expires } = echo
  if (expires === null) return undecodable('The challenge has no expires')
  const expiresAt = parseTimestamp(expires)
  if (expiresAt === null) return undecodable(BAD_EXPIRES)

  if (method !== 'lightning' || intent !== 'charge') {
    return failed('The credential is for another payment method or intent; this resource takes lightning/charge')
  }
  const charge = readChargeRequest(request)
  if (typeof charge === 'string') return undecodable(charge)
  const edited = editedEcho(challenge, charge)
  if (edited !== null) return undecodable(`The challenge's ${edited} is not the one that was sent`)
  const preimage = textIn(member(credential, 'payload') ?? {}, 'preimage')
  if (preimage === null || !isHex32(preimage)) {
    const detail = 'The preimage must be exactly 64 lower-case hex characters'
    return inOwnField ? { ok: false, slug: 'invalid-payload', detail } : failed(detail)
  }
  return {
    ok: true,
    credential: { ...echo, expires, expiresAt, charge, preimage }
  }
}

/** Untrusted. */
export interface ChallengeEcho extends Omit<PaymentIdSlots, 'expires'> {
  readonly id: string
  /** Null when not echoed. */
  readonly expires: string | null
}

export const BAD_EXPIRES = "The challenge's expires is not an RFC 3339 time in UTC"

/**
 * Reads the echo; a string is the fault.
 * @param request in its wire form, or null
 * @param inOwnField sent in Payment-Authorization, which the challenge must have selected
 */
export function readEcho(challenge: JsonFields, request: string | null, inOwnField: boolean): ChallengeEcho | string {
  const id = textIn(challenge, 'id')
  const realm = textIn(challenge, 'realm')
  const method = textIn(challenge, 'method')
  const intent = textIn(challenge, 'intent')
  if (id === null) return 'The challenge has no id'
  if (realm === null) return 'The challenge has no realm'
  if (method === null || intent === null) return 'The challenge has no method or no intent'
  if (request === null) return 'The challenge has no request'
  const digest = optionalTextIn(challenge, 'digest')
  const opaque = optionalTextIn(challenge, 'opaque')
  if (digest === undefined || opaque === undefined) return "The challenge's digest or opaque is not a string"
  const header = optionalTextIn(challenge, 'header')
  if (header !== (inOwnField ? PAYMENT_FIELD : null))
    return `The credential was sent in ${inOwnField ? PAYMENT_FIELD : 'Authorization'}, which its challenge does not select`
  return { id, realm, method, intent, request, expires: textIn(challenge, 'expires'), digest, opaque, header }
}

/**
 * A parameter that repeats part of the request but was edited; null for none. The id does not cover these three, yet
 * any edit invalidates a credential (contract, Payment scheme). Omitted or null ones are fine (decision 180).
 */
function editedEcho(challenge: JsonFields, charge: ChallengeRequest): 'invoice' | 'amount' | 'currency' | null {
  if (differs(challenge, 'invoice', charge.invoice)) return 'invoice'
  if (differs(challenge, 'amount', String(charge.amountSats))) return 'amount'
  return differs(challenge, 'currency', 'sat') ? 'currency' : null
}

function differs(challenge: JsonFields, name: string, sent: string | null): boolean {
  const echoed = Object.hasOwn(challenge, name) ? challenge[name] : null
  return echoed !== null && echoed !== undefined && echoed !== sent
}

function readChargeRequest(request: string): ChallengeRequest | string {
  if (!TOKEN.test(request)) return "The challenge's request is not base64url"
  const object = decodeJsonObject(request)
  if (object === null) return "The challenge's request does not hold a JSON object"
  if (textIn(object, 'currency') !== 'sat') return 'The currency must be sat'
  const amount = textIn(object, 'amount')
  if (amount === null || !/^[1-9][0-9]{0,14}$/.test(amount))
    return 'The amount must be a positive whole number of satoshis, as a string'
  const details = member(object, 'methodDetails') ?? {}
  const paymentHash = textIn(details, 'paymentHash')
  if (paymentHash === null || !isHex32(paymentHash))
    return 'The payment hash is missing or is not 64 lower-case hex characters'
  return {
    amountSats: Number(amount),
    invoice: textIn(details, 'invoice'),
    network: textIn(details, 'network'),
    paymentHash
  }
}

function undecodable(detail: string): ParsedPayment {
  return { ok: false, slug: 'invalid-challenge', detail }
}

function failed(detail: string): ParsedPayment {
  return { ok: false, slug: 'verification-failed', detail }
}

/** Writes a modern token as clients do, for the command line and tests. */
export function encodePaymentToken(challenge: Readonly<Record<string, string>>, preimage: string): string {
  return Buffer.from(JSON.stringify({ challenge, payload: { preimage } })).toString('base64url')
}

export type JsonFields = Readonly<Record<string, unknown>>

const utf8 = new TextDecoder()

export function decodeJsonObject(base64url: string): JsonFields | null {
  const bytes = Buffer.from(base64url, 'base64url')
  return isUtf8(bytes) ? asObject(jsonOrUndefined(utf8.decode(bytes))) : null
}

/** Null for arrays and other non-objects. */
export function asObject(value: unknown): JsonFields | null {
  return isObject(value) ? value : null
}

export function member(object: JsonFields, name: string): JsonFields | null {
  return Object.hasOwn(object, name) ? asObject(object[name]) : null
}

export function textIn(object: JsonFields, name: string): string | null {
  const value = Object.hasOwn(object, name) ? object[name] : undefined
  return typeof value === 'string' && value !== '' ? value : null
}

/** Like `textIn`, but undefined for a wrong type; null and '' are absent. */
export function optionalTextIn(object: JsonFields, name: string): string | null | undefined {
  const value = Object.hasOwn(object, name) ? object[name] : null
  if (value === null || value === '') return null
  return typeof value === 'string' ? value : undefined
}

/** The Payment-Receipt header of a 2xx response to a modern credential. */
/** `reference`: the payment hash (64 lower-case hex), never the preimage. `timestamp`: RFC 3339. */
export interface Receipt {
  readonly challengeId: string
  /** The fallback that served (`X-Fallback`). */
  readonly fallback?: string
  readonly method: string
  readonly reference: string
  readonly status: string
  readonly timestamp: string
}

/**
 * base64url without padding of `{challengeId, method, reference, status, timestamp}`, already canonical. `settledAt` in
 * Unix seconds.
 * @throws TypeError for an invalid `paymentHash`
 */
export function encodeReceipt(challengeId: string, paymentHash: string, settledAt: number, fallback?: string): string {
  if (!isHex32(paymentHash))
    throw new TypeError('The reference of a receipt must be a payment hash of 64 lower-case hex characters')
  const receipt: Receipt = {
    challengeId,
    ...(fallback === undefined ? {} : { fallback }),
    method: 'lightning',
    reference: paymentHash,
    status: 'success',
    timestamp: formatTimestamp(settledAt)
  }
  return Buffer.from(JSON.stringify(receipt)).toString('base64url')
}

export function decodeReceipt(text: string): Receipt | null {
  if (!/^[A-Za-z0-9_-]+={0,2}$/.test(text)) return null
  const value = jsonOrUndefined(Buffer.from(text, 'base64url'))
  if (typeof value !== 'object' || value === null) return null
  // Members are checked below.
  const { challengeId, method, reference, status, timestamp } = value as Record<string, unknown>
  if (typeof challengeId !== 'string' || typeof method !== 'string' || typeof reference !== 'string') return null
  if (typeof status !== 'string' || typeof timestamp !== 'string') return null
  return { challengeId, method, reference, status, timestamp }
}
