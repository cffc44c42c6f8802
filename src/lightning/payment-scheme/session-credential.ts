/**
 * The client's side of the Payment scheme's `session` intent (draft-lightning-session-00): a token whose payload opens,
 * uses, tops up or closes a session. Only its form is read here; nothing in it is trusted.
 */
import { decodeInvoice, InvoiceError, type InvoiceNetwork } from '../codecs/bolt11.ts'
import { decodeJsonObject, type JsonFields, member, optionalTextIn, textIn } from '../codecs/json-object.ts'
import { BAD_EXPIRES, type ChallengeEcho, readEcho, TOKEN } from './payment-credential.ts'
import type { SessionFailureSlug } from './payment-problem.ts'
import { isHex32 } from '../codecs/preimage.ts'
import { parseTimestamp } from '../codecs/timestamp.ts'

/** What a session's challenge says, as it is echoed. */
export interface SessionRequest {
  /** Whole satoshis of one unit, at least 1. */
  readonly unitSats: number
  /** Of the deposit invoice; 64 lower-case hex characters. */
  readonly paymentHash: string
  /** The BOLT11 text. Null where the client left it out, as bearer and close may. */
  readonly depositInvoice: string | null
  /** Whole satoshis; null where it is not said. */
  readonly depositSats: number | null
}

/** What a client wants of a session. Preimages and ids are 64 lower-case hex characters. */
export type SessionPayload =
  | { readonly action: 'open'; readonly preimage: string; readonly returnInvoice: string }
  | { readonly action: 'bearer'; readonly sessionId: string; readonly preimage: string }
  | {
      readonly action: 'close'
      readonly sessionId: string
      readonly preimage: string
      /** Another invoice for a refund that could not be sent, which the draft does not know; null where it names none. */
      readonly returnInvoice: string | null
    }
  | { readonly action: 'topUp'; readonly sessionId: string; readonly topUpPreimage: string }

/** A credential that could be read. Its id is verified for open and topUp; the others prove themselves by the preimage. */
export interface SessionCredential {
  readonly echo: ChallengeEcho
  /** Unix seconds; null when `expires` was not echoed, as the draft's examples of bearer and close do not. */
  readonly expiresAt: number | null
  readonly request: SessionRequest
  readonly payload: SessionPayload
}

/** A refusal with its problem. */
export interface SessionRefusal {
  readonly slug: SessionFailureSlug
  readonly detail: string
}

/** The outcome of `parseSessionToken`. */
export type ParsedSession =
  | { readonly ok: true; readonly credential: SessionCredential }
  | ({ readonly ok: false } & SessionRefusal)

/**
 * Decodes a token of the session intent. Null for what is not one, a token that cannot be decoded included: that is for
 * `parsePaymentToken` to judge, and what is read here is never a charge.
 */
export function parseSessionToken(token: string): ParsedSession | null {
  const credential = TOKEN.test(token) ? decodeJsonObject(token) : null
  const challenge = credential === null ? null : member(credential, 'challenge')
  if (credential === null || challenge === null) return null
  if (textIn(challenge, 'method') !== 'lightning' || textIn(challenge, 'intent') !== 'session') return null

  const echo = readEcho(challenge, textIn(challenge, 'request'))
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

/** Decodes the `request` of a session's challenge; a string says what is wrong with it. */
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
 * Why an invoice cannot take a session's refund, or null when it can: BOLT 11 of the deposit's network that leaves the
 * amount to the payer, or says zero. `now` in unix seconds.
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
