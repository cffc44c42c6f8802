import { Type, type TProperties } from 'typebox'
import type { Context } from '../../engine/message/context.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import { asHtml } from '../kit/document.ts'
import { FORM_TYPE, sentForm, type SentForm } from '../kit/form.ts'
import { formToken, isFormOf, keepCookie, sessionCookie } from './cookie.ts'
import { accountPage, forgedPage, notMemberPage, signedOutPage } from './pages.ts'
import type { SignInRecord } from './record.ts'
import type { Sessions } from './sessions.ts'

const forged = "The form is not one of this session's pages."
/** Operations of pages and forms below `/sign-in/`. */
export const belowSignIn = {
  tag: 'Sign-in',
  access: 'public',
  mount: { use: 'pages', chain: 'page-forms', below: '/sign-in/*' }
} as const

/** The account page and the forms of signed-in readers, each bound to its session. */
export function accountPageOperations({
  go,
  record,
  sessions,
  shown
}: {
  readonly record: SignInRecord
  readonly sessions: Sessions
  go(where: string, ...headers: string[]): Result
  shown(status: number, body: string): Result
}): AnyOperation[] {
  const form = (members: TProperties) => ({
    mediaType: FORM_TYPE,
    schema: Type.Object({
      form: Type.String({ description: 'What the page holds, bound to its session.' }),
      ...members
    })
  })
  const submitted = async (ctx: Context, act: (token: string, form: SentForm) => Promise<Result>): Promise<Result> => {
    const token = sessions.tokenOf(ctx)
    // Nothing to change: a forged link does no harm.
    if (token === null) return go('account')
    const sent = await sentForm(ctx)
    return isFormOf(token, sent.get('form')) ? await act(token, sent) : shown(403, forgedPage())
  }
  return [
    defineOperation({
      ...belowSignIn,
      id: 'getAccountPage',
      method: 'GET',
      path: '/sign-in/account',
      summary: 'The account of the signed-in member',
      description:
        'What GET /api/auth/session says, as a page, with a button to sign out and one for each other account of the person.',
      responses: { 200: asHtml('The account.'), 401: asHtml('Not signed in.') },
      async handle({ ctx }) {
        const token = sessions.tokenOf(ctx)
        const session = await sessions.current(token)
        return session === null || token === null
          ? shown(401, signedOutPage())
          : shown(200, accountPage(session, await sessions.accounts(token), formToken(token)))
      }
    }),
    defineOperation({
      ...belowSignIn,
      id: 'submitAccountPage',
      method: 'POST',
      path: '/sign-in/go-to',
      summary: 'Switch accounts, from the form on the account page',
      description: 'As PUT /api/auth/account does it for programs. The session of before ends.',
      form: form({ merchantId: Type.String({ description: 'The account to go to.' }) }),
      responses: {
        303: {
          description:
            'Redirects to the console of that account with a new cookie, or to the account page if not signed in.'
        },
        403: asHtml(forged),
        404: asHtml('Not a member of it.')
      },
      handle: ({ ctx }) =>
        submitted(ctx, async (token, sent) => {
          const named = sent.text('merchantId')
          const opened = /^[1-9]\d{0,8}$/.test(named) ? await sessions.goTo(token, Number(named)) : null
          if (opened === null) return shown(404, notMemberPage())
          const next = opened.token.reveal()
          await record.session(ctx, 'submitAccountPage', await sessions.current(next), 303)
          return go('../console', 'Set-Cookie', sessionCookie(next, sessions.isSecure))
        })
    }),
    defineOperation({
      ...belowSignIn,
      id: 'setTestMode',
      method: 'POST',
      path: '/sign-in/test-mode',
      summary: "Turn the console's test mode on or off",
      description:
        'The console then shows the test account, which an owner makes by the first use; see POST /api/merchant/test-account.',
      form: form({ test: Type.Enum(['on', 'off']) }),
      responses: {
        303: { description: 'Done; the console is at `Location`.' },
        403: asHtml(`${forged} Or only an owner may do this.`)
      },
      handle: ({ ctx }) =>
        submitted(ctx, async (token, sent) => {
          await sessions.setTest(token, sent.get('test') === 'on')
          await record.session(ctx, 'setTestMode', await sessions.current(token), 303)
          return go('../console')
        })
    }),
    defineOperation({
      ...belowSignIn,
      id: 'signOut',
      method: 'POST',
      path: '/sign-in/sign-out',
      summary: "Sign out, by the form of the account's page",
      description: 'Ends the session here and deletes its cookies. Other sessions of the account stay.',
      form: form({}),
      responses: {
        303: { description: 'Signed out, also without a session.' },
        403: asHtml(forged)
      },
      handle: ({ ctx }) =>
        submitted(ctx, async token => {
          const session = await sessions.current(token)
          await sessions.end(token)
          await record.session(ctx, 'signOut', session, 303)
          const standIn = keepCookie('operator', '', 0, sessions.isSecure)
          return go('account', 'Set-Cookie', sessions.goneCookie, 'Set-Cookie', standIn)
        })
    })
  ]
}
