import { Type, type Static } from 'typebox'
import { isoTime } from '../gateway/iso-time.ts'
import { shownStatus } from '../merchants/account.ts'
import type { CurrentSession } from './service.ts'

/** A plain address: nothing that a mail header could be broken with. Others reach nobody. */
export const EMAIL = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$/

/** Body of `POST /api/auth/magic-link` (decision 170). */
export const LinkInput = Type.Object({
  email: Type.String({
    minLength: 3,
    maxLength: 254,
    pattern: EMAIL.source,
    'x-rule': 'Must be an email address, such as name@example.com.'
  })
})

/** Its response, always the same. */
export const LinkSent = Type.Object({ message: Type.String() })

/** Response of `GET /api/auth/session`: whose account it is. */
export const SessionView = Type.Object(
  {
    merchantId: Type.Integer(),
    name: Type.String(),
    email: Type.String(),
    planTier: Type.String({ description: 'free, individual or l402.' }),
    subscriptionStatus: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'Null on a paid plan without a subscription on file.'
    }),
    keyHint: Type.String({ description: 'The part of the API key that is no secret.' }),
    expiresAt: isoTime('When the session ends.')
  },
  { title: 'Session' }
)
export type SessionView = Static<typeof SessionView>

/** Who is signed in, as a program sees it. */
export function sessionView({ merchant, expiresAt }: CurrentSession): SessionView {
  return {
    merchantId: merchant.id,
    name: merchant.name,
    email: merchant.email,
    planTier: merchant.tier,
    subscriptionStatus: shownStatus(merchant),
    keyHint: merchant.keyId,
    expiresAt: new Date(expiresAt).toISOString()
  }
}
