/**
 * Client side of the `session` intent (draft-lightning-session-00): tokens that open, use, top up or close a session.
 * Checks form only.
 */
import { decodeInvoice, InvoiceError, type InvoiceNetwork } from '../codecs/bolt11.ts'
import {
  decodeJsonObject,
  type JsonFields,
  member,
  optionalTextIn,
  textIn,
  BAD_EXPIRES,
  type ChallengeEcho,
  readEcho,
  TOKEN
} from './payment-credential.ts'
import type { SessionFailureSlug } from './payment-problem.ts'
import { isHex32 } from '../codecs/hmac.ts'
import { parseTimestamp } from '../codecs/timestamp.ts'

interface SessionRequest {
  /** Whole satoshis per unit, at least 1. */
  readonly unitSats: number
  /** The deposit invoice's; 64 lower-case hex characters. */
  readonly paymentHash: string
  /** BOLT 11; null when omitted, as bearer and close may. */
  readonly depositInvoice: string | null
  /** Whole satoshis; null when omitted. */
  readonly depositSats: number | null
}

/** A session request. Preimages and ids are 64 lower-case hex characters. */
export type SessionPayload =
  | { readonly action: 'open'; readonly preimage: string; readonly returnInvoice: string }
  | { readonly action: 'bearer'; readonly sessionId: string; readonly preimage: string }
  | {
      readonly action: 'close'
      readonly sessionId: string
      readonly preimage: string
      /** A new invoice for a failed refund, an extension of the draft; null for none. */
      readonly returnInvoice: string | null
    }
  | { readonly action: 'topUp'; readonly sessionId: string; readonly topUpPreimage: string }

/** A readable credential. Ids are verified for open and topUp; the preimage proves the others. */
export interface SessionCredential {
  readonly echo: ChallengeEcho
  /** Unix seconds; null when not echoed, as in the draft's bearer and close examples. */
  readonly expiresAt: number | null
  readonly request: SessionRequest
  readonly payload: SessionPayload
}

interface SessionRefusal {
  readonly slug: SessionFailureSlug
  readonly detail: string
}

type ParsedSession =
  | { readonly ok: true; readonly credential: SessionCredential }
  | ({ readonly ok: false } & SessionRefusal)

/**
 * Decodes a session token. Null for others and undecodable ones, which `parsePaymentToken` judges; what is read here is
 * never a charge.
 */
export function parseSessionToken(token: string, inOwnField = false): ParsedSession | null {
  const credential = TOKEN.test(token) ? decodeJsonObject(token) : null
  const challenge = credential === null ? null : member(credential, 'challenge')
  if (credential === null || challenge === null) return null
  if (textIn(challenge, 'method') !== 'lightning' || textIn(challenge, 'intent') !== 'session') return null

  const echo = readEcho(challenge, textIn(challenge, 'request'), inOwnField)
  if (typeof echo === 'string') return malformed(echo)
  const expiresAt = echo.expires === null ? null : parseTimestamp(echo.expires)
  if (echo.expires !== null && expiresAt === null) return malformed(BAD_EXPIRES)
  const request = readSessionRequest(echo.request)
  if (typeof request === 'string') return malformed(request)
  const payload = readPayload(member(credential, 'payload') ?? {})
  if (typeof payload === 'string') return malformed(payload)
  if ((payload.action === 'open' || payload.action === 'topUp') && request.depositInvoice === null)
    return malformed(`The challenge of an ${payload.action} must have its depositInvoice`)
  return { ok: true, credential: { echo, expiresAt, request, payload } }
}

function readSessionRequest(request: string): SessionRequest | string {
  const object = TOKEN.test(request) ? decodeJsonObject(request) : null
  if (object === null) return "The challenge's request is not base64url of a JSON object"
  if (textIn(object, 'currency') !== 'sat') return 'The currency must be sat'
  const unitSats = sats(textIn(object, 'amount'))
  if (unitSats === null) return 'The amount must be a positive whole number of satoshis, as a string'
  const paymentHash = hex32(object, 'paymentHash')
  if (paymentHash === null) return 'The payment hash is missing or is not 64 lower-case hex characters'
  const depositInvoice = optionalTextIn(object, 'depositInvoice')
  if (depositInvoice === undefined) return 'The depositInvoice must be a string'
  const deposit = optionalTextIn(object, 'depositAmount')
  if (deposit === undefined) return 'The depositAmount must be a string'
  const depositSats = sats(deposit)
  if (deposit !== null && depositSats === null)
    return 'The depositAmount must be a positive whole number of satoshis, as a string'
  return { unitSats, paymentHash, depositInvoice, depositSats }
}

function readPayload(payload: JsonFields): SessionPayload | string {
  const action = textIn(payload, 'action')
  switch (action) {
    case 'open': {
      const preimage = hex32(payload, 'preimage')
      if (preimage === null) return badHex('preimage')
      const returnInvoice = textIn(payload, 'returnInvoice')
      return returnInvoice === null ? 'The payload has no returnInvoice' : { action, preimage, returnInvoice }
    }
    case 'bearer':
    case 'close': {
      const sessionId = hex32(payload, 'sessionId')
      if (sessionId === null) return badHex('sessionId')
      const preimage = hex32(payload, 'preimage')
      if (preimage === null) return badHex('preimage')
      if (action === 'bearer') return { action, sessionId, preimage }
      const returnInvoice = optionalTextIn(payload, 'returnInvoice')
      return returnInvoice === undefined
        ? "The payload's returnInvoice must be a string"
        : { action, sessionId, preimage, returnInvoice }
    }
    case 'topUp': {
      const sessionId = hex32(payload, 'sessionId')
      if (sessionId === null) return badHex('sessionId')
      const topUpPreimage = hex32(payload, 'topUpPreimage')
      return topUpPreimage === null ? badHex('topUpPreimage') : { action, sessionId, topUpPreimage }
    }
    default:
      return "The payload's action must be open, bearer, topUp or close"
  }
}

/**
 * Why an invoice cannot take a refund, or null. It must be BOLT 11 on the deposit's network without an amount, or zero.
 * `now` in Unix seconds.
 */
export function checkReturnInvoice(invoice: string, network: InvoiceNetwork, now: number): string | null {
  try {
    const decoded = decodeInvoice(invoice, { zeroAmount: true })
    if (decoded.network !== network) return `The return invoice is of ${decoded.network}, and the deposit of ${network}`
    if (decoded.amountMsat !== null)
      return 'The return invoice must have no amount: it is known only when the session closes'
    return decoded.expiresAt <= now ? 'The return invoice has expired' : null
  } catch (error) {
    if (error instanceof InvoiceError) return `The return invoice is not BOLT 11: ${error.message}`
    throw error
  }
}

function sats(digits: string | null): number | null {
  return digits !== null && /^[1-9][0-9]{0,14}$/.test(digits) ? Number(digits) : null
}

function hex32(object: JsonFields, name: string): string | null {
  const value = textIn(object, name)
  return value !== null && isHex32(value) ? value : null
}

function badHex(name: string): string {
  return `The payload's ${name} must be exactly 64 lower-case hex characters`
}

function malformed(detail: string): ParsedSession {
  return { ok: false, slug: 'lightning/malformed-credential', detail }
}
