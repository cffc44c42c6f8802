/**
 * The server's side of the Payment scheme's `session` intent (draft-lightning-session-00): its challenge line. Its id is
 * made as a charge's is (`paymentId`).
 */
import type { Invoice } from '../codecs/bolt11.ts'
import { canonicalize } from './jcs.ts'
import {
  checkRealm,
  type PaymentChallenge,
  PaymentChallengeError,
  paymentId,
  paymentNetwork
} from './payment-challenge.ts'
import { formatTimestamp } from '../codecs/timestamp.ts'

/** How many units the first deposit pays for where nothing else is configured, as the draft recommends. */
const UNITS_OF_A_DEPOSIT = 20

/** What a session costs and how long it rests, as its challenge says it. */
export interface SessionTerms {
  /** Satoshis of one unit. */
  readonly unitSats: number
  /** A label such as `token` or `chunk`, for people. */
  readonly unitType: string
  /** Seconds without bearer or topUp until the session is closed. */
  readonly idleSeconds: number
  readonly description: string | null
}

/** What a session's challenge is made from. */
export interface SessionChallengeTerms extends SessionTerms {
  /** Accepted by `checkRealm`. */
  readonly realm: string
  /** Of the deposit, which is its amount. */
  readonly invoice: Pick<Invoice, 'text' | 'network' | 'amountMsat' | 'paymentHash' | 'expiresAt'>
  /** Unix seconds; cut down to the invoice's own expiry when later. */
  readonly expiresAt: number
}

/** Satoshis of a deposit: what is configured, else 20 units; never less than one unit. */
export function depositSats(unitSats: number, configured: number | null): number {
  return Math.max(configured ?? unitSats * UNITS_OF_A_DEPOSIT, unitSats)
}

/**
 * Makes the challenge: `Payment id="…", realm="…", method="lightning", intent="session", request="…", expires="…"`. It
 * is bound to no body: a session pays for more than one request.
 * @param key the current one of `KeyRing.paymentIdKeys`
 * @throws PaymentChallengeError when the terms do not fit the invoice or the scheme
 */
export function sessionChallenge(terms: SessionChallengeTerms, key: Uint8Array): PaymentChallenge {
  const { realm, invoice, unitSats, idleSeconds } = terms
  const realmError = checkRealm(realm)
  if (realmError !== null) throw new PaymentChallengeError(realmError)
  if (paymentNetwork(invoice.network) === null)
    throw new PaymentChallengeError('The Payment scheme has no value for testnet invoices')
  positive(unitSats, 'price of a unit in satoshis')
  positive(idleSeconds, 'idle timeout in seconds')
  const deposit = wholeSats(invoice.amountMsat)
  if (deposit < unitSats)
    throw new PaymentChallengeError(`A deposit of ${deposit} satoshis does not pay for a unit of ${unitSats}`)
  const request = encodeSessionRequest(terms, {
    invoice: invoice.text,
    sats: deposit,
    paymentHash: invoice.paymentHash
  })
  const expires = formatTimestamp(Math.floor(Math.min(terms.expiresAt, invoice.expiresAt)))
  const id = paymentId(
    { realm, method: 'lightning', intent: 'session', request, expires, digest: null, opaque: null },
    key
  )
  const header =
    `Payment id="${id}", realm="${realm}", method="lightning", intent="session", request="${request}", ` +
    `expires="${expires}"`
  return { id, request, expires, header }
}

/** What a deposit is: its BOLT11 text, its satoshis, and its payment hash, which becomes the session's id. */
export interface Deposit {
  readonly invoice: string
  readonly sats: number
  readonly paymentHash: string
}

/** The `request` parameter: base64url without padding of the canonical JSON (RFC 8785). */
export function encodeSessionRequest(terms: SessionTerms, deposit: Deposit): string {
  const { unitSats, unitType, idleSeconds, description } = terms
  const json = canonicalize({
    amount: String(unitSats),
    currency: 'sat',
    depositAmount: String(deposit.sats),
    depositInvoice: deposit.invoice,
    ...(description === null ? {} : { description }),
    idleTimeout: String(idleSeconds),
    paymentHash: deposit.paymentHash,
    unitType
  })
  return Buffer.from(json, 'utf8').toString('base64url')
}

function positive(value: number, what: string): void {
  if (!Number.isSafeInteger(value) || value < 1)
    throw new PaymentChallengeError(`The ${what} must be a positive whole number, not ${value}`)
}

function wholeSats(amountMsat: bigint | null): number {
  if (amountMsat === null || amountMsat % 1000n !== 0n)
    throw new PaymentChallengeError(
      `The deposit's invoice must ask for whole satoshis, not for ${amountMsat ?? 'no'} millisatoshis`
    )
  return Number(amountMsat / 1000n)
}
