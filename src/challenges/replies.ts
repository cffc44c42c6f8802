import type { ReadonlyHeaders } from '../gateway/headers.ts'
import type { Reply } from '../gateway/reply.ts'
import { challengeSchemes, paymentFirst, type Scheme } from '../lightning/accept-payment.ts'
import { l402Challenge, lsatChallenge } from '../lightning/l402-header.ts'
import { paymentProblem, type PaymentFailureSlug } from '../lightning/payment-problem.ts'
import type { ChallengeSettings } from './settings.ts'
import type { Challenge } from './store.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
const PROBLEM_TYPE = 'application/problem+json; charset=utf-8'

/** Why a Payment credential was refused, for the problem that travels with a fresh challenge. */
export interface PaymentRefused {
  readonly slug: PaymentFailureSlug
  readonly detail: string
}

/** The body of a first 402, and of one after a legacy credential failed (contract, Pay-per-request gating; decision 120). */
export interface PaymentRequiredBody {
  readonly error: 'Payment Required'
  readonly message: string
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
 * The value of the Payment line, from the stored parameters: exactly the line that was sent when the challenge was made.
 * Null where the challenge has no Payment part.
 */
export function paymentLine (challenge: Challenge): string | null {
  const { payment, digest, invoice, amountSats } = challenge
  if (payment === null) return null
  const bound = digest === null ? '' : `, digest="${digest}"`
  return `Payment id="${payment.id}", realm="${payment.realm}", method="lightning", intent="charge", request="${payment.request}", expires="${payment.expires}"${bound}, invoice="${invoice}", amount="${amountSats}", currency="sat"`
}

/**
 * Which schemes the answer offers, in their order: the configuration's, as far as Accept-Payment does not ask for another. A
 * client that has just presented a Payment credential (`paysByPayment`) speaks that scheme, and some read the first line only.
 */
export function offeredSchemes (settings: ChallengeSettings, headers: ReadonlyHeaders, paysByPayment = false): readonly Scheme[] {
  if (!headers.has('accept-payment')) return paysByPayment && settings.orderByClient ? paymentFirst(settings.schemes) : settings.schemes
  const schemes = challengeSchemes(settings.schemes, headers.all('accept-payment').join(', '))
  // With a fixed order the client can still leave the Payment line out, but not move it.
  return settings.orderByClient || schemes.length < settings.schemes.length ? schemes : settings.schemes
}

/** One WWW-Authenticate line for each scheme, as a flat list of headers. */
export function challengeLines (challenge: Challenge, schemes: readonly Scheme[], settings: ChallengeSettings): string[] {
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
 * The 402: with the contract's body, or as a problem when a Payment credential was refused, when the client prefers problems,
 * or when L402 is not offered (decision 126).
 */
export function paymentRequired (challenge: Challenge, refused: PaymentRefused | null, headers: ReadonlyHeaders, settings: ChallengeSettings): Reply {
  const schemes = offeredSchemes(settings, headers, refused !== null)
  const lines = challengeLines(challenge, schemes, settings)
  const message = `This resource costs ${challenge.amountSats} ${challenge.amountSats === 1 ? 'satoshi' : 'satoshis'}. Pay the Lightning invoice and send the request again with the credential.`
  if (refused !== null || !schemes.includes('l402') || prefersProblem(headers.get('accept'))) {
    const id = schemes.includes('payment') ? challenge.payment?.id ?? null : null
    const problem = refused === null
      ? paymentProblem('payment-required', message, id, settings.problemBase)
      : paymentProblem(refused.slug, refused.detail, id, settings.problemBase)
    return reply(PROBLEM_TYPE, lines, problem)
  }
  const body: PaymentRequiredBody = {
    error: 'Payment Required',
    message,
    l402: {
      macaroon: challenge.macaroon,
      invoice: challenge.invoice,
      amount_sats: challenge.amountSats,
      payment_hash: challenge.paymentHash,
      expires_at: new Date(challenge.expiresAt).toISOString()
    }
  }
  return reply(JSON_TYPE, lines, body)
}

function reply (type: string, lines: readonly string[], body: object): Reply {
  return { status: 402, headers: ['Content-Type', type, ...lines, 'Cache-Control', 'no-store'], body: JSON.stringify(body) }
}

/** Whether Accept names `application/problem+json` with a greater weight than plain JSON (RFC 9110, 12.5.1). */
export function prefersProblem (accept: string | undefined): boolean {
  if (accept === undefined || !accept.includes('problem')) return false
  let problem = 0
  let json = 0
  let jsonRank = 0
  for (const range of accept.split(',')) {
    const [type, ...parameters] = range.split(';')
    const name = type?.trim().toLowerCase() ?? ''
    const weight = weightOf(parameters)
    if (name === 'application/problem+json') problem = Math.max(problem, weight)
    // The most specific range speaks for plain JSON.
    const rank = name === 'application/json' ? 2 : name === 'application/*' ? 1 : 0
    if (rank > jsonRank) {
      jsonRank = rank
      json = weight
    }
  }
  return problem > json
}

function weightOf (parameters: readonly string[]): number {
  for (const parameter of parameters) {
    const match = /^\s*q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)\s*$/i.exec(parameter)
    if (match !== null) return Number(match[1])
  }
  return 1
}
