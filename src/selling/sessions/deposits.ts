import type { Claims } from '../holding/claims.ts'
import type { Settlements } from '../holding/settlements.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { Revocations } from '../verifying/revocations.ts'
import type { Challenge } from '../holding/challenge.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import type { InvoiceNetwork } from '../../lightning/codecs/bolt11.ts'
import { isOfDeposit } from '../../lightning/l402/caveats.ts'
import { matchPaymentId } from '../../lightning/payment-scheme/payment-challenge.ts'
import { preimageMatches } from '../../lightning/codecs/hmac.ts'
import type { SessionCredential } from '../../lightning/payment-scheme/session-credential.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { SessionFailureSlug } from '../../lightning/payment-scheme/payment-problem.ts'

export interface DepositDependencies {
  readonly claims: Claims
  readonly revocations: Revocations
  readonly settlements: Pick<Settlements, 'settled'>
  readonly payees: Pick<Payees, 'maker'>
  readonly clock: Clock
  readonly log: Log
  keys(): TokenKeyRing
}

/**
 * The challenge that a session's credential echoes, exactly as made here for a deposit, even used or expired. Null if
 * there is none or it is revoked.
 * @throws Unavailable
 */
async function depositOf(
  { claims, keys, revocations }: DepositDependencies,
  { echo, request }: SessionCredential
): Promise<Challenge | null> {
  const slots = { ...echo, expires: echo.expires ?? '' }
  if (matchPaymentId(echo.id, slots, keys().paymentIdKeys) === null) return null
  const challenge = await claims.find(request.paymentHash)
  if (challenge === null || challenge.payment?.id !== echo.id || !isOfDeposit(challenge.service)) return null
  return revocations.covers(challenge) ? null : challenge
}

/**
 * The paid challenge of a deposit: known, unedited, with its preimage. After its expiry the provider must confirm the
 * payment.
 * @throws Unavailable if that cannot be known
 */
export async function paidDeposit(
  dependencies: DepositDependencies,
  credential: SessionCredential,
  preimage: string
): Promise<Challenge> {
  const { clock } = dependencies
  const { echo, expiresAt, request } = credential
  const challenge = await depositOf(dependencies, credential)
  if (challenge === null)
    throw new SessionActionRefused(
      'lightning/unknown-challenge',
      'The challenge is not one of this server for a deposit, or it was changed'
    )
  const isPreimage = preimageMatches(preimage, request.paymentHash)
  const isLate = challenge.scheme === null && (expiresAt === null || clock.now() / 1000 > expiresAt)
  // Query the provider only for real preimages.
  if (isLate && !(isPreimage && (await hasMoney(dependencies, challenge))))
    throw new SessionActionRefused(
      'lightning/challenge-expired',
      `The challenge was good until ${echo.expires ?? 'some time'}`
    )
  if (!isPreimage)
    throw new SessionActionRefused(
      'lightning/invalid-preimage',
      'The preimage does not hash to the payment hash of the deposit'
    )
  return challenge
}

/**
 * The provider reports the deposit's invoice as paid.
 * @throws Unavailable
 */
async function hasMoney({ payees, settlements, log }: DepositDependencies, challenge: Challenge): Promise<boolean> {
  const { paymentHash, settledAt, providerSlot, providerKind, chargeId } = challenge
  if (settledAt !== null) return true
  const maker = payees.maker(null, providerSlot as ProviderSlot, providerKind)
  const state = await maker?.lookUp(chargeId).catch((error: unknown) => {
    throw unseen(error)
  })
  if (state?.status === 'processing') throw unseen()
  if (state?.status === 'paid') {
    await settlements.settled(paymentHash)
    return true
  }
  log.warn(
    { paymentHash, chargeId, provider: providerKind, status: state?.status ?? null },
    'The deposit of a session was shown after its end, and its provider does not say that it was paid'
  )
  return false
}

/** A 402 would make clients pay again. */
function unseen(cause?: unknown): Unavailable {
  return new Unavailable(
    'Deposit unknown',
    'The provider cannot say whether this deposit was paid before its challenge ended; nothing was used. Send the same request again.',
    5,
    {},
    cause
  )
}

export function networkOf({ network }: { readonly network: string }): InvoiceNetwork {
  return network as InvoiceNetwork // Nothing else is written.
}

export class SessionActionRefused extends Error {
  override name = 'SessionActionRefused'
  readonly slug: SessionFailureSlug
  readonly shortage: { readonly balanceMsat: number; readonly requiredMsat: number } | null

  constructor(
    slug: SessionFailureSlug,
    detail: string,
    shortage: { readonly balanceMsat: number; readonly requiredMsat: number } | null = null
  ) {
    super(detail)
    this.slug = slug
    this.shortage = shortage
  }
}

export function unknownRefusal(): SessionActionRefused {
  return new SessionActionRefused('lightning/session-not-found', 'There is no such session here')
}

export function closedRefusal(): SessionActionRefused {
  return new SessionActionRefused('lightning/session-closed', 'The session is closed')
}

export function usedRefusal(): SessionActionRefused {
  return new SessionActionRefused('lightning/unknown-challenge', 'The challenge was used before')
}
