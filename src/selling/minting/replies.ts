import { prefersProblem } from '../../engine/message/accept.ts'
import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import type { Reply } from '../../engine/message/reply.ts'
import {
  challengeSchemes,
  inOrder,
  paymentFirst,
  type Scheme,
  type SchemeOrder,
  type SessionPlace,
  sessionPlace
} from '../offers/accept-payment.ts'
import { isOfBalance } from '../../lightning/l402/caveats.ts'
import { l402Challenge, lsatChallenge } from '../../lightning/l402/l402-header.ts'
import { paymentProblem } from '../../lightning/payment-scheme/payment-problem.ts'
import type { SessionTerms } from '../../lightning/payment-scheme/session-challenge.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import type { SentChallenge } from '../holding/challenge.ts'
import type { ClassicRefused, SaleRefusal } from '../verifying/verdict.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
const PROBLEM_TYPE = 'application/problem+json; charset=utf-8'

/**
 * The body of a first 402, and of one after a legacy credential failed (contract, Pay-per-request gating; decision
 * 120), which says why in `detail`. Where a classic token is renewed, its other members are those of the contract's
 * refusal (decision 177).
 */
export interface PaymentRequiredBody {
  readonly error: 'Payment Required'
  readonly message: string
  readonly detail?: string
  readonly l402: {
    readonly macaroon: string
    readonly invoice: string
    readonly amount_sats: number
    readonly payment_hash: string
    /** ISO 8601: when the invoice can no longer be paid (decision 126). */
    readonly expires_at: string
  }
}

/**
 * The value of the Payment line, from its parameters: exactly the line that was sent when the challenge was
 * made. Null where the challenge has no Payment part.
 */
export function paymentLine(challenge: SentChallenge): string | null {
  const { payment, digest, invoice, amountSats } = challenge
  if (payment === null) return null
  const bound = digest === null ? '' : `, digest="${digest}"`
  return `Payment id="${payment.id}", realm="${payment.realm}", method="lightning", intent="charge", request="${payment.request}", expires="${payment.expires}"${bound}, invoice="${invoice}", amount="${amountSats}", currency="sat"`
}

/**
 * Which schemes the response offers, in their order: the offer's own or else the configuration's, as far as
 * Accept-Payment does not ask for another. A client that has just presented a Payment credential (`paysByPayment`)
 * speaks that scheme, and some read the first line only.
 */
export function offeredSchemes(
  settings: ChallengeSettings,
  headers: ReadonlyHeaders,
  {
    order = null,
    paysByPayment = false
  }: { readonly order?: SchemeOrder | null; readonly paysByPayment?: boolean } = {}
): readonly Scheme[] {
  const usual = order === null ? settings.schemes : inOrder(settings.schemes, order)
  if (!headers.has('accept-payment')) return paysByPayment && settings.orderByClient ? paymentFirst(usual) : usual
  const schemes = challengeSchemes(usual, headers.all('accept-payment').join(', '))
  // With a fixed order the client can still leave the Payment line out, but not move it.
  return settings.orderByClient || schemes.length < usual.length ? schemes : usual
}

/** What a 402 says of sessions: the challenge for a deposit, and what its units cost. */
export interface DepositChallenge {
  readonly challenge: SentChallenge
  readonly terms: SessionTerms
}

/** The value of the session's line, as it was made; null where the challenge has no Payment part. */
function sessionLine({ payment }: SentChallenge): string | null {
  return payment === null
    ? null
    : `Payment id="${payment.id}", realm="${payment.realm}", method="lightning", intent="session", request="${payment.request}", expires="${payment.expires}"`
}

/** Where the session's line stands, by what the client accepts; `nowhere` where none need be made. */
export function placeOfSession(headers: ReadonlyHeaders): SessionPlace {
  return sessionPlace(headers.has('accept-payment') ? headers.all('accept-payment').join(', ') : null)
}

/** The session's line among the others: behind the charge's, or before all of them. */
function withSession(lines: string[], deposit: DepositChallenge | null, headers: ReadonlyHeaders): string[] {
  const line = deposit === null ? null : sessionLine(deposit.challenge)
  if (line === null) return lines
  const own = ['WWW-Authenticate', line]
  if (placeOfSession(headers) === 'first') return [...own, ...lines]
  const charge = lines.findIndex(value => value.startsWith('Payment '))
  return charge < 0 ? [...lines, ...own] : lines.toSpliced(charge + 1, 0, ...own)
}

/** The same for readers of the body; nothing where there is no line, whose id a session is opened with. */
function sessionMember(deposit: DepositChallenge | null): object {
  if (deposit === null || sessionLine(deposit.challenge) === null) return {}
  const { challenge, terms } = deposit
  return {
    session: {
      deposit_sats: challenge.amountSats,
      deposit_invoice: challenge.invoice,
      payment_hash: challenge.paymentHash,
      unit: terms.unitType,
      unit_sats: terms.unitSats,
      idle_timeout_seconds: terms.idleSeconds,
      expires_at: new Date(challenge.expiresAt).toISOString()
    }
  }
}

/** One WWW-Authenticate line for each scheme, as a flat list of headers. */
export function challengeLines(
  challenge: SentChallenge,
  schemes: readonly Scheme[],
  settings: ChallengeSettings
): string[] {
  const lines: string[] = []
  for (const scheme of schemes) {
    if (scheme === 'payment') {
      const line = paymentLine(challenge)
      if (line !== null) lines.push('WWW-Authenticate', line)
      continue
    }
    lines.push('WWW-Authenticate', l402Challenge(challenge.macaroon, challenge.invoice))
    if (settings.lsat) lines.push('WWW-Authenticate', lsatChallenge(challenge.macaroon, challenge.invoice))
  }
  return lines
}

/**
 * The 402: with the contract's body, or as a problem when a Payment credential was refused, when the client prefers
 * problems, or when L402 is not offered (decision 126). What speaks against the credential that was sent stands in
 * either.
 */
export function paymentRequired(
  challenge: SentChallenge,
  refused: SaleRefusal,
  headers: ReadonlyHeaders,
  settings: ChallengeSettings,
  order: SchemeOrder | null,
  deposit: DepositChallenge | null = null
): Reply {
  const paysByPayment =
    refused.kind === 'payment' ||
    refused.kind === 'session' ||
    (refused.kind === 'used-up' && refused.scheme === 'payment')
  const schemes = offeredSchemes(settings, headers, { order, paysByPayment })
  const lines = withSession(challengeLines(challenge, schemes, settings), deposit, headers)
  if (refused.kind === 'session' && refused.shortage !== undefined)
    lines.push('X-Balance-Msat', String(refused.shortage.balanceMsat))
  if (refused.kind === 'classic') lines.push('X-L402-Error', refused.detail)
  if (refused.kind === 'used-up')
    lines.push('X-L402-Error', detailOf(refused) ?? '', 'X-Balance-Msat', String(refused.balanceMsat))
  const named = challenge.price === null ? '' : ` (${challenge.price})`
  const sats = `${challenge.amountSats} ${challenge.amountSats === 1 ? 'satoshi' : 'satoshis'}${named}`
  const costs = isOfBalance(challenge.service)
    ? `This resource is paid from a balance, and ${sats} buy one`
    : `This resource costs ${sats}`
  const message = `${costs}. Pay the Lightning invoice and send the request again with the credential.`
  if (paysByPayment || !schemes.includes('l402') || prefersProblem(headers.all('accept').join(','))) {
    const charge = schemes.includes('payment') ? (challenge.payment?.id ?? null) : null
    const id = refused.kind === 'session' ? (deposit?.challenge.payment?.id ?? charge) : charge
    const slug =
      refused.kind === 'payment' || refused.kind === 'session'
        ? refused.slug
        : refused.kind === 'used-up'
          ? 'payment-insufficient'
          : 'payment-required'
    const why = detailOf(refused)
    const detail =
      why === null ? message : slug === 'payment-required' || refused.kind === 'used-up' ? `${why}. ${message}` : why
    const problem = paymentProblem(slug, detail, id, settings.problemBase)
    return reply(PROBLEM_TYPE, lines, { ...problem, ...sessionMember(deposit) })
  }
  const body: PaymentRequiredBody = {
    error: 'Payment Required',
    message,
    ...whyOf(refused),
    l402: {
      macaroon: challenge.macaroon,
      invoice: challenge.invoice,
      amount_sats: challenge.amountSats,
      payment_hash: challenge.paymentHash,
      expires_at: new Date(challenge.expiresAt).toISOString()
    },
    ...sessionMember(deposit)
  }
  return reply(JSON_TYPE, lines, body)
}

/** What speaks against a credential, in words; null where none was sent. */
function detailOf(refused: SaleRefusal): string | null {
  if (refused.kind === 'none') return null
  if (refused.kind !== 'used-up') return refused.detail
  const { balanceMsat, requiredMsat } = refused
  return `The balance of this credential is used up: ${balanceMsat} millisatoshis are left and this request needs ${requiredMsat}`
}

/**
 * What a 402's body says of the credential that was refused: all that the contract's own refusal says, less its name.
 */
function whyOf(refused: Exclude<SaleRefusal, { kind: 'payment' | 'session' }>): Readonly<Record<string, unknown>> {
  if (refused.kind === 'none') return {}
  if (refused.kind === 'used-up')
    return {
      detail: detailOf(refused),
      balance: { balance_msat: refused.balanceMsat, required_msat: refused.requiredMsat }
    }
  if (refused.kind === 'legacy') return { detail: refused.detail }
  const { error: _name, ...why } = refused.body
  return why
}

/**
 * The contract's response to a classic credential that is refused, without a challenge: 400, 401 or 403 (decision 111).
 */
export function classicRefused(refused: ClassicRefused): Reply {
  return {
    status: refused.status,
    headers: ['Content-Type', JSON_TYPE, 'X-L402-Error', refused.detail, 'Cache-Control', 'no-store'],
    body: JSON.stringify(refused.body)
  }
}

function reply(type: string, lines: readonly string[], body: object): Reply {
  return {
    status: 402,
    headers: ['Content-Type', type, ...lines, 'Cache-Control', 'no-store'],
    body: JSON.stringify(body)
  }
}
