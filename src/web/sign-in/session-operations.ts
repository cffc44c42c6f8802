import { Type, type Static } from 'typebox'
import type { Context } from '../../engine/message/context.ts'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { sessionCookie } from './cookie.ts'
import type { SignInRecord } from './record.ts'
import { SessionView, sessionView } from './schema.ts'
import type { Sessions } from './sessions.ts'
import { signedIn, type OpenSession } from './signed-in.ts'

const ListedSessionView = Type.Object(
  {
    sessionId: Type.String(),
    browser: Type.String({ description: 'What the browser called itself when it signed in.' }),
    createdAt: isoTime(),
    seenAt: isoTime('When it was last used, within five minutes.'),
    expiresAt: isoTime(),
    isCurrent: Type.Boolean({ description: 'It is the one that asks.' })
  },
  { title: 'ListedSession' }
)
export type ListedSessionView = Static<typeof ListedSessionView>

export const signedOut = 'Not signed in, or the session has ended.'
const refused = { 401: signedOut, 403: 'Another site asked.' } as const
const common = { tag: 'Sign-in', access: 'public', headers: { Cookie: 'The session, as signing in set it.' } } as const
export const reading = { use: 'pages', chain: 'session' } as const
export const changing = { use: 'pages', chain: 'session-write' } as const

export function sessionOperations({
  publicUrl,
  record,
  sessions
}: {
  readonly sessions: Sessions
  readonly record: SignInRecord
  publicUrl(): string
}): AnyOperation[] {
  const signedInAs = async (ctx: Context): Promise<OpenSession> => await signedIn(ctx, sessions, publicUrl())

  return [
    defineOperation({
      ...common,
      id: 'getSession',
      method: 'GET',
      path: '/api/auth/session',
      mount: reading,
      summary: "Who is signed in, by the session's cookie",
      description: 'For our own pages. Programs use the API key.',
      responses: { 200: { description: 'Who it is.', schema: SessionView }, ...refused },
      async handle({ ctx }) {
        const { token, session } = await signedInAs(ctx)
        return { status: 200, body: sessionView(session, await sessions.accounts(token)) }
      }
    }),
    defineOperation({
      ...common,
      id: 'listSessions',
      method: 'GET',
      path: '/api/auth/sessions',
      mount: reading,
      summary: 'Sessions of the signed-in member',
      description: 'Those of the same person; for who signed in with a key, those of the same key.',
      responses: {
        200: { description: 'Newest first.', schema: Type.Array(ListedSessionView) },
        ...refused
      },
      async handle({ ctx }) {
        const { token } = await signedInAs(ctx)
        const list = (await sessions.list(token)).map(({ id, browser, createdAt, seenAt, expiresAt, isCurrent }) => ({
          sessionId: id,
          browser,
          createdAt: iso(createdAt),
          seenAt: iso(seenAt),
          expiresAt: iso(expiresAt),
          isCurrent
        }))
        return { status: 200, body: list }
      }
    }),
    defineOperation({
      ...common,
      id: 'endSession',
      method: 'DELETE',
      path: '/api/auth/sessions/:sessionId',
      mount: changing,
      summary: 'Sign out somewhere else',
      description: 'The session ends immediately, in any browser.',
      params: Type.Object({ sessionId: Type.String() }),
      responses: {
        204: { description: 'Ended.' },
        ...refused,
        404: 'There is no such session.'
      },
      async handle({ ctx, params }) {
        const { token, session } = await signedInAs(ctx)
        if (!(await sessions.revoke(token, params.sessionId)))
          throw new ShortError(RESOURCE_NOT_FOUND, 'No such session')
        await record.session(ctx, 'endSession', session, 204)
        return { status: 204, body: null }
      }
    }),
    defineOperation({
      ...common,
      id: 'goToAccount',
      method: 'PUT',
      path: '/api/auth/account',
      mount: changing,
      summary: 'Switch to another account of the signed-in member',
      description: 'The session that asks ends, and a new one takes its place.',
      body: Type.Object({ merchantId: Type.Integer({ minimum: 1, maximum: 0x7fff_ffff }) }),
      responses: {
        204: { description: 'Gone there: the cookie is a new one.' },
        ...refused,
        404: 'Not a member of it.'
      },
      async handle({ ctx, body }) {
        const { token } = await signedInAs(ctx)
        const opened = await sessions.goTo(token, body.merchantId)
        if (opened === null) throw new ShortError(RESOURCE_NOT_FOUND, 'Account not found')
        const next = opened.token.reveal()
        await record.session(ctx, 'goToAccount', await sessions.current(next), 204)
        const cookie = sessionCookie(next, sessions.isSecure)
        return { status: 204, body: null, headers: ['Set-Cookie', cookie] }
      }
    })
  ]
}
