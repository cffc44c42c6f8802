import { clientNetwork } from '../../engine/message/addresses.ts'
import type { Context } from '../../engine/message/context.ts'
import { paymentHashOf } from '../../lightning/codecs/preimage.ts'
import { tracesOf, type Traces } from '../../lightning/codecs/traces.ts'
import { isPayable, isSoldAlike, sentAgain } from '../minting/wording.ts'
import type { Offer } from '../offers/offer.ts'
import type { Challenge, SentChallenge } from '../holding/challenge.ts'
import { badCredential, type SaleRefusal } from '../verifying/verdict.ts'
import type { Verifier, VerifierOptions } from '../verifying/verify.ts'

/** Refusals that leave open whether the client has paid. */
const UNREAD: ReadonlySet<string> = new Set(['malformed', 'macaroon'])
const PAID = 'The invoice of this challenge is paid: do not pay again.'
const HOW = 'Send Authorization: L402 <macaroon>:<preimage>, with the preimage as 64 lower-case hex characters.'

export interface PresentedOptions extends Pick<VerifierOptions, 'claims' | 'clock' | 'keys' | 'revocations'> {
  readonly verifier: Verifier
}

export interface Presented {
  readonly challenge: SentChallenge
  readonly refusal: SaleRefusal
}

/**
 * Finds the challenge that a client has paid or was sent for this offer, if its credential is unreadable. Another
 * invoice would make it pay again on each attempt. Null if the request shows none.
 * @throws Unavailable
 */
export function presentedAgain(
  ctx: Context,
  offer: Offer,
  refused: SaleRefusal,
  options: PresentedOptions
): Promise<Presented | null> | null {
  if (refused.kind !== 'none' && !('reason' in refused && UNREAD.has(refused.reason))) return null
  const traces = tracesOf(ctx.headers.pairs)
  return traces === null ? null : find(ctx, offer, refused, traces, options)
}

async function find(
  ctx: Context,
  offer: Offer,
  refused: SaleRefusal,
  { macaroons, preimages }: Traces,
  options: PresentedOptions
): Promise<Presented | null> {
  const proven = new Set(preimages.map(paymentHashOf))
  const signed = new Set(
    macaroons.map(macaroon => options.verifier.tokens.issuedFor(macaroon)).filter(hash => hash !== null)
  )
  for (const paymentHash of new Set([...signed, ...proven])) {
    const challenge = await options.claims.find(paymentHash)
    if (challenge === null || !isSoldAlike(challenge, offer) || challenge.resource !== offer.tokenPath) continue
    // Routing nodes know the preimage; they get no macaroon for it.
    if (!signed.has(paymentHash) && challenge.clientKey !== clientNetwork(ctx.clientAddress)) continue
    const isPaid = proven.has(paymentHash) || challenge.settledAt !== null || challenge.paidAt !== null
    if (!isGood(challenge, offer, isPaid, options)) continue
    const sent = sentAgain(challenge, options.keys())
    if (sent !== null) return { challenge: sent, refusal: unread(refused, isPaid) }
  }
  return null
}

function isGood(
  challenge: Challenge,
  offer: Offer,
  isPaid: boolean,
  { clock, revocations }: PresentedOptions
): boolean {
  if (revocations.covers(challenge) || (challenge.scheme === 'payment' && challenge.state === 'spent')) return false
  return isPaid ? challenge.tokenExpiresAt > clock.now() : isPayable(challenge, offer, clock.now())
}

function unread(refused: SaleRefusal, isPaid: boolean): SaleRefusal {
  const paid = isPaid ? [PAID] : []
  if (refused.kind === 'none') return badCredential(['The credential could not be read.', ...paid, HOW].join(' '))
  if (!('detail' in refused)) return refused
  const detail = [`${refused.detail}.`, ...paid].join(' ')
  return refused.kind === 'classic' ? { ...refused, detail, body: { ...refused.body, detail } } : { ...refused, detail }
}
