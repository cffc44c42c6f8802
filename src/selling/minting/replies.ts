import { iso } from '../../engine/formats/iso-time.ts'
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
import { headerParameter } from '../../lightning/payment-scheme/payment-challenge.ts'
import type { SessionTerms } from '../../lightning/payment-scheme/session-challenge.ts'
import { exactRequired, refusedSettlement, x402Header } from '../../lightning/codecs/x402.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import { OWN_FIELD_MARK, type SentChallenge } from '../holding/challenge.ts'
import type { ClassicRefused, SaleRefusal } from '../verifying/verdict.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
const PROBLEM_TYPE = 'application/problem+json; charset=utf-8'

/**
 * Body of a 402 without a credential, or after a legacy one failed, with the reason in `detail` (contract,
 * Pay-per-request gating; decision 120). A renewed classic token adds the members of the contract's refusal (decision
 * 177).
 */
interface PaymentRequiredBody {
  readonly error: 'Payment Required'
  readonly message: string
  readonly detail?: string
  readonly l402: {
    readonly macaroon: string
    readonly invoice: string
    readonly amount_sats: number
    readonly payment_hash: string
    /** ISO 8601 expiry of the invoice (decision 126). */
    readonly expires_at: string
  }
}

/** The Payment line, byte for byte as first sent; null without a Payment part. */
export function paymentLine(challenge: SentChallenge): string | null {
  const { payment, digest, invoice, amountSats, binding } = challenge
  if (payment === null) return null
  const bound = digest === null ? '' : `, digest="${digest}"`
  return `Payment id="${payment.id}", realm="${payment.realm}", method="lightning", intent="charge", request="${payment.request}", expires="${payment.expires}"${bound}${fieldOf(binding)}, invoice="${invoice}", amount="${amountSats}", currency="sat"`
}

function fieldOf(binding: string): string {
  return headerParameter(binding.startsWith(OWN_FIELD_MARK))
}

/**
 * Schemes of a response in order: the offer's or the configuration's, filtered by Accept-Payment. `paysByPayment`: the
 * client just used Payment, which goes first, since some clients read the first line only.
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
  // With a fixed order the client can only drop the Payment line.
  return settings.orderByClient || schemes.length < usual.length ? schemes : usual
}

/** Session part of a 402: the deposit's challenge and the unit costs. */
export interface DepositChallenge {
  readonly challenge: SentChallenge
  readonly terms: SessionTerms
}

function sessionLine({ payment, binding }: SentChallenge): string | null {
  return payment === null
    ? null
    : `Payment id="${payment.id}", realm="${payment.realm}", method="lightning", intent="session", request="${payment.request}", expires="${payment.expires}"${fieldOf(binding)}`
}

/** Position of the session's line by what the client accepts; `nowhere` if none is needed. */
export function placeOfSession(headers: ReadonlyHeaders): SessionPlace {
  return sessionPlace(headers.has('accept-payment') ? headers.all('accept-payment').join(', ') : null)
}

function withSession(lines: string[], deposit: DepositChallenge | null, headers: ReadonlyHeaders): string[] {
  const line = deposit === null ? null : sessionLine(deposit.challenge)
  if (line === null) return lines
  const own = ['WWW-Authenticate', line]
  if (placeOfSession(headers) === 'first') return [...own, ...lines]
  const charge = lines.findIndex(value => value.startsWith('Payment '))
  return charge < 0 ? [...lines, ...own] : lines.toSpliced(charge + 1, 0, ...own)
}

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
      expires_at: iso(challenge.expiresAt)
    }
  }
}

/** A WWW-Authenticate line per scheme, as a flat header list. */
export function challengeLines(
  challenge: SentChallenge,
  schemes: readonly Scheme[],
  settings: ChallengeSettings,
  error: string | null = null
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
  const { x402 = null, invoice } = challenge
  // A tool's call is paid for inside its message.
  if (x402 !== null && x402.profile === 'http:1')
    lines.push('PAYMENT-REQUIRED', x402Header(exactRequired(invoice, x402, error)))
  return lines
}

/**
 * The 402: the contract's body, or a problem if a Payment credential was refused, the client prefers problems, or L402
 * is not offered (decision 126). Either names what is wrong with the credential.
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
  const lines = withSession(
    challengeLines(challenge, schemes, settings, refused.kind === 'x402' ? refused.reason : null),
    deposit,
    headers
  )
  if (refused.kind === 'session' && refused.shortage !== undefined)
    lines.push('X-Balance-Msat', String(refused.shortage.balanceMsat))
  if (refused.kind === 'x402')
    lines.push('PAYMENT-RESPONSE', x402Header(refusedSettlement(refused.reason, challenge.invoice)))
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
    const problem = paymentProblem(slug, detail, id)
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
      expires_at: iso(challenge.expiresAt)
    },
    ...sessionMember(deposit)
  }
  return reply(JSON_TYPE, lines, body)
}

export function detailOf(refused: SaleRefusal): string | null {
  if (refused.kind === 'none') return null
  if (refused.kind !== 'used-up') return refused.detail
  const { balanceMsat, requiredMsat } = refused
  return `The balance of this credential is used up: ${balanceMsat} millisatoshis are left and this request needs ${requiredMsat}`
}

function whyOf(refused: Exclude<SaleRefusal, { kind: 'payment' | 'session' }>): Readonly<Record<string, unknown>> {
  if (refused.kind === 'none') return {}
  if (refused.kind === 'used-up')
    return {
      detail: detailOf(refused),
      balance: { balance_msat: refused.balanceMsat, required_msat: refused.requiredMsat }
    }
  if (refused.kind === 'legacy' || refused.kind === 'x402') return { detail: refused.detail }
  const { error: _name, ...why } = refused.body
  return why
}

/** Refuses a classic credential without a challenge: 400, 401 or 403 (decision 111). */
export function classicRefused(refused: ClassicRefused): Reply {
  return {
    status: refused.status,
    headers: ['Content-Type', JSON_TYPE, 'X-L402-Error', refused.detail, 'Cache-Control', 'no-store'],
    body: JSON.stringify(refused.body)
  }
}

export const UNSOLD = 'Send a token of this service. It is not sold here: buy it on another path.'

/** Response of a route that makes no invoices, with what is wrong with the credential. */
export function unsold(refused: SaleRefusal): Reply {
  const why = detailOf(refused)
  const lines = why === null ? [] : ['X-L402-Error', why]
  if (refused.kind === 'used-up') lines.push('X-Balance-Msat', String(refused.balanceMsat))
  const body = { error: 'Unauthorized', message: UNSOLD, ...(why === null ? {} : { detail: why }) }
  return { ...reply(JSON_TYPE, lines, body), status: 401 }
}

function reply(type: string, lines: readonly string[], body: object): Reply {
  return {
    status: 402,
    headers: ['Content-Type', type, ...lines, 'Cache-Control', 'no-store'],
    body: JSON.stringify(body)
  }
}
