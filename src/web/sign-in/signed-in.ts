import type { Context } from '../../engine/message/context.ts'
import { FORBIDDEN, NOT_SIGNED_IN } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { mayActByCookie } from './same-site.ts'
import type { CurrentSession, Sessions } from './sessions.ts'

export interface OpenSession {
  readonly token: string
  readonly session: CurrentSession
}

/**
 * The session, for operations without an account.
 * @throws LongError 401 without one, 403 for a cross-site request; Unavailable
 */
export async function signedIn(ctx: Context, sessions: Sessions, publicUrl: string): Promise<OpenSession> {
  const token = sessions.tokenOf(ctx)
  const session = await sessions.current(token)
  if (session === null || token === null)
    throw new LongError(
      NOT_SIGNED_IN,
      'Not signed in',
      'Nobody is signed in. Ask for a link with POST /api/auth/magic-link.'
    )
  if (!mayActByCookie(ctx, publicUrl))
    throw new LongError(FORBIDDEN, 'Forbidden', 'Only a page of this gateway may ask for this.')
  return { token, session }
}
