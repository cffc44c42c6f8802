import { Type, type Static } from 'typebox'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import { shownStatus } from '../../accounts/merchants/account.ts'
import { ROLES } from '../../engine/operations/operation.ts'
import { emailAddress } from '../mail/mail.ts'
import type { Membership } from './store.ts'
import type { CurrentSession } from './sessions.ts'

/** Body of `POST /api/auth/magic-link` (decision 170). */
export const LinkInput = Type.Object({ email: emailAddress() })

/** Its response, always the same. */
export const LinkSent = Type.Object({ message: Type.String() })

const orNull = (type: 'string' | 'integer', description: string) =>
  Type.Unsafe<never>({ type: [type, 'null'], description })
const Account = Type.Object({ merchantId: Type.Integer(), name: Type.String(), role: Type.Enum([...ROLES]) })

export const SessionView = Type.Object(
  {
    merchantId: orNull('integer', 'The account; null for an operator who is in none, as are those that follow.'),
    name: orNull('string', "The account's."),
    email: orNull('string', "The account's."),
    planTier: orNull('string', 'free, individual or l402.'),
    subscriptionStatus: orNull('string', 'Null on a paid plan without a subscription on file, too.'),
    keyHint: orNull('string', 'The part of the API key that is no secret.'),
    role: orNull('string', 'What may be done in the account: viewer, editor or owner.'),
    signedInAs: orNull('string', 'Address of the person; null for who signed in with a key.'),
    isOperator: Type.Boolean({ description: 'The session may do what the admin key may.' }),
    accounts: Type.Array(Account, {
      description: 'The accounts that the person may go to with PUT /api/auth/account.'
    }),
    expiresAt: isoTime('When the session ends.')
  },
  { title: 'Session' }
)
export type SessionView = Static<typeof SessionView>

export function sessionView(
  { account, person, operator, expiresAt }: CurrentSession,
  accounts: readonly Membership[]
): Record<string, unknown> {
  const merchant = account?.merchant ?? null
  return {
    merchantId: merchant?.id ?? null,
    name: merchant?.name ?? null,
    email: merchant?.email ?? null,
    planTier: merchant?.tier ?? null,
    subscriptionStatus: merchant === null ? null : shownStatus(merchant),
    keyHint: merchant?.keyId ?? null,
    role: account?.role ?? null,
    signedInAs: person?.email ?? null,
    isOperator: operator !== null,
    accounts,
    expiresAt: iso(expiresAt)
  }
}
