import { depositService, isOfDeposit } from '../../lightning/l402/caveats.ts'
import { matchPaymentId } from '../../lightning/payment-scheme/payment-challenge.ts'
import type { SessionCredential } from '../../lightning/payment-scheme/session-credential.ts'
import type { Challenges } from '../challenges/service.ts'
import type { Challenge } from '../challenges/store.ts'

/** What `like` finds the services of deposits by. */
export const DEPOSIT_SERVICES = depositService('%')

/**
 * The challenge that a session's credential echoes, exactly as it was made here for a deposit; null where it is none, or
 * was revoked. Whether it was used or has expired is not asked.
 * @throws Unavailable
 */
export async function depositOf(
  challenges: Pick<Challenges, 'keys' | 'find' | 'verifier'>,
  { echo, request }: SessionCredential
): Promise<Challenge | null> {
  const slots = { ...echo, expires: echo.expires ?? '' }
  if (matchPaymentId(echo.id, slots, challenges.keys.paymentIdKeys) === null) return null
  const challenge = await challenges.find(request.paymentHash)
  if (challenge === null || challenge.payment?.id !== echo.id || !isOfDeposit(challenge.service)) return null
  return challenges.verifier.fit.isRevoked(challenge) ? null : challenge
}
