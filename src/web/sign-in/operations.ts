import { t } from '../../engine/formats/language.ts'
import { Type } from 'typebox'
import { keysPath } from '../../platform/keys/keyfile.ts'
import type { Database } from '../../platform/database/database.ts'
import { isLocalCaller } from '../../engine/message/caller.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Context } from '../../engine/message/context.ts'
import { notFound, ShortError } from '../../engine/operations/errors.ts'
import type { AuthThrottle } from '../../accounts/merchants/auth-throttle.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import { asHtml } from '../kit/document.ts'
import { FORM_TYPE, sentForm } from '../kit/form.ts'
import { emailAddress, isMailAddress } from '../mail/mail.ts'
import { asciiEmail } from '../../engine/formats/text-patterns.ts'
import { accountPageOperations, belowSignIn } from './account-page.ts'
import { isFromHere } from './cookie.ts'
import { landing, wantedCookie, wantedPage, type FirstKeys } from './landing.ts'
import {
  ASKING_HEADERS,
  LINK_SENT,
  SIGN_IN_HEADERS,
  type Asking,
  askPage,
  forgedPage,
  linkSentPage,
  mailedLinkPage,
  signUpPage,
  stalePage
} from './pages.ts'
import { LinkSent, LinkInput } from './schema.ts'
import type { Passkeys } from './passkeys/service.ts'
import type { SignInRecord } from './record.ts'
import type { SignIns } from './service.ts'
import type { Sessions, SignedIn } from './sessions.ts'

const Token = Type.Object({ token: Type.String() })
const common = { tag: 'Sign-in', access: 'public' } as const
const ofLinks = { ...common, mount: { use: 'pages', chain: 'magic-link' } } as const

/** Sign-in by mail, and the account page (decisions 155 and 170). */
export function signInOperations(dependencies: {
  readonly signIns: SignIns
  readonly sessions: Sessions
  readonly passkeys: Pick<Passkeys, 'areAvailable'>
  readonly authThrottle: AuthThrottle
  readonly record: SignInRecord
  readonly database: Database
  readonly firstKeys: Pick<FirstKeys, 'wait'>
  readonly merchants: Merchants
  config(): Pick<GatewayConfig, 'data' | 'mode' | 'pages'>
  publicUrl(): string
}): AnyOperation[] {
  const { authThrottle, passkeys, record, sessions, signIns } = dependencies
  const shown = (status: number, body: string, ...headers: string[]): Result => ({
    status,
    body,
    headers: [...SIGN_IN_HEADERS, ...headers]
  })
  const asking = (ctx: Context, status: number, ...[wrong, typed, root]: Asking): Result => {
    const hasPasskeys = passkeys.areAvailable
    const headers = hasPasskeys ? ASKING_HEADERS : SIGN_IN_HEADERS
    const { data, mode, pages } = dependencies.config()
    const keysFile = mode === 'development' && isLocalCaller(ctx) ? keysPath(data) : null
    return {
      status,
      body: askPage({ hasPasskeys, canSignUp: pages.signUp, keysFile }, wrong, typed, root),
      headers
    }
  }
  const go = (where: string, ...headers: string[]): Result => ({
    status: 303,
    body: null,
    headers: ['Location', where, ...SIGN_IN_HEADERS, ...headers]
  })

  const land = async (ctx: Context, operation: string, signedIn: SignedIn): Promise<Result> => {
    const { cookies, page: where, session } = await landing(ctx, sessions, signedIn)
    await record.session(ctx, operation, session, 303)
    return go(`../${where}`, ...cookies)
  }

  return [
    defineOperation({
      ...ofLinks,
      id: 'requestMagicLink',
      method: 'POST',
      path: '/api/auth/magic-link',
      summary: 'Mail a link to sign in, if an account has the address',
      description:
        'The link works once, for 15 minutes. The response is the same for every address, so that it does not reveal who has an account.',
      body: LinkInput,
      responses: {
        202: { description: 'The same whether or not an account has the address.', schema: LinkSent }
      },
      async handle({ body }) {
        await signIns.request(body.email)
        return { status: 202, body: { message: LINK_SENT } }
      }
    }),
    defineOperation({
      ...common,
      id: 'getSignInPage',
      method: 'GET',
      path: '/sign-in',
      mount: { use: 'pages', chain: 'page-forms' },
      summary: 'The page on which a link to sign in is asked for',
      description: 'The same for every caller. Its form asks for the address of an account.',
      query: Type.Object({
        next: Type.Optional(
          Type.String({
            description: 'The page of a console to go on to, such as `console/payments`; others are not gone to.'
          })
        )
      }),
      responses: { 200: asHtml('The page.') },
      handle({ ctx, query }) {
        const wanted = wantedPage(query.next)
        const result = asking(ctx, 200)
        return wanted === null
          ? result
          : { ...result, headers: [...(result.headers ?? []), 'Set-Cookie', wantedCookie(wanted, sessions.isSecure)] }
      }
    }),
    defineOperation({
      ...ofLinks,
      id: 'submitSignInPage',
      method: 'POST',
      path: '/sign-in',
      summary: 'What the form of that page is sent to; counted with the links that programs ask for',
      description: 'Does what POST /api/auth/magic-link does, for a page without a program.',
      form: {
        mediaType: FORM_TYPE,
        schema: LinkInput
      },
      responses: {
        200: asHtml('The same whether or not an account has the address.'),
        400: asHtml('The page again: the address is none.')
      },
      async handle({ ctx }) {
        const email = asciiEmail((await sentForm(ctx)).text('email'))
        if (!isMailAddress(email))
          return asking(ctx, 400, { email: t('Enter an email address like name@example.com.') }, email.slice(0, 254))
        await signIns.request(email)
        return shown(200, linkSentPage())
      }
    }),
    defineOperation({
      ...common,
      id: 'getSignUpPage',
      method: 'GET',
      path: '/sign-up',
      mount: { use: 'pages', chain: 'page-forms' },
      summary: 'The page on which a free account is opened, where `pages.signUp` allows it',
      description: 'Its form asks for a name and an email address.',
      responses: { 200: asHtml('The page.'), 404: 'Accounts are not open to everyone.' },
      handle() {
        if (!dependencies.config().pages.signUp) throw notFound()
        return shown(200, signUpPage())
      }
    }),
    defineOperation({
      ...ofLinks,
      id: 'submitSignUpPage',
      method: 'POST',
      path: '/sign-up',
      summary: 'Open a free account by the form of that page',
      description:
        'Mails a link that signs in to the account, which shows its first API key once. The answer is the same where an account has the address already.',
      form: {
        mediaType: FORM_TYPE,
        schema: Type.Object({
          name: Type.String({ minLength: 1, maxLength: 200 }),
          email: emailAddress()
        })
      },
      responses: {
        200: asHtml('A link is on its way.'),
        400: asHtml('The page again, with what is wrong.'),
        403: asHtml('The form came from another site.'),
        404: 'Accounts are not open to everyone.'
      },
      async handle({ ctx }) {
        if (!dependencies.config().pages.signUp) throw notFound()
        if (!isFromHere(ctx, dependencies.publicUrl())) return shown(403, forgedPage())
        const form = await sentForm(ctx)
        const typed = { name: form.text('name'), email: form.text('email') }
        const email = asciiEmail(typed.email)
        const wrong = {
          ...(typed.name === '' || typed.name.length > 200 ? { name: t('A name has 1 to 200 characters.') } : {}),
          ...(isMailAddress(email) ? {} : { email: t('Enter an email address like name@example.com.') })
        }
        if (Object.keys(wrong).length > 0)
          return shown(400, signUpPage(wrong, { name: typed.name.slice(0, 200), email: typed.email.slice(0, 254) }))
        await openAccount(dependencies, typed.name, email)
        await signIns.request(email)
        return shown(200, linkSentPage())
      }
    }),
    defineOperation({
      ...belowSignIn,
      id: 'signInWithKey',
      method: 'POST',
      path: '/sign-in/key',
      summary: 'Sign in with the API key of an account, or the admin key',
      description:
        'For those who have the API key of an account, or the admin key. Wrong keys count like those of other requests. The session ends when the key is replaced.',
      form: { mediaType: FORM_TYPE, schema: Type.Object({ key: Type.String({ maxLength: 512 }) }) },
      responses: {
        303: { description: 'Signed in: a cookie keeps the session for 12 hours. The console is at `Location`.' },
        401: asHtml('The page again: the key is none.'),
        403: asHtml('The form came from another site.')
      },
      async handle({ ctx }) {
        if (!isFromHere(ctx, dependencies.publicUrl())) return shown(403, forgedPage())
        await authThrottle.admit(ctx)
        const signedIn = await sessions.openWithKey((await sentForm(ctx)).text('key'), sessions.browserOf(ctx))
        if (signedIn?.isImpersonated === true) {
          // Not awaited: the database is down.
          void record.principal(ctx, 'signInWithKey', { kind: 'admin', id: 'admin' }, 303)
          return go('../operator', ...sessions.impersonationCookies(signedIn).flatMap(cookie => ['Set-Cookie', cookie]))
        }
        if (signedIn !== null) return await land(ctx, 'signInWithKey', signedIn)
        await record.failed(ctx, 'signInWithKey', 401)
        await authThrottle.failed(ctx)
        return asking(ctx, 401, { key: t('This key is not valid.') }, '', '../')
      }
    }),
    defineOperation({
      ...belowSignIn,
      id: 'getSignInLink',
      method: 'GET',
      path: '/sign-in/:token',
      summary: 'The page of a mailed link, with the button that uses it up',
      description: 'A program that opens links in mails does not use it up: that takes the button.',
      params: Token,
      responses: {
        200: asHtml('The link can be used; opening the page changes nothing.'),
        404: asHtml('It cannot.')
      },
      handle: async ({ params }) =>
        (await signIns.isGood(params.token)) ? shown(200, mailedLinkPage()) : shown(404, stalePage())
    }),
    defineOperation({
      ...belowSignIn,
      id: 'useSignInLink',
      method: 'POST',
      path: '/sign-in/:token',
      summary: 'Use a mailed link up and sign in',
      description: 'The link is valid once. Other sites cannot send the form: its origin must be this gateway.',
      params: Token,
      responses: {
        303: {
          description: 'Signed in: a cookie keeps the session for 12 hours. The console is at `Location`.'
        },
        403: asHtml('The form came from another site.'),
        404: asHtml('The link was used already, is over, or is none.')
      },
      async handle({ ctx, params }) {
        if (!isFromHere(ctx, dependencies.publicUrl())) return shown(403, forgedPage())
        const signedIn = await signIns.signIn(params.token, sessions.browserOf(ctx))
        if (signedIn !== null) return await land(ctx, 'useSignInLink', signedIn)
        await record.failed(ctx, 'useSignInLink', 404)
        return shown(404, stalePage())
      }
    }),
    ...accountPageOperations({ go, record, sessions, shown })
  ]
}

/** A free account, whose first key waits for its owner; nothing where the address has one. */
async function openAccount(
  {
    database,
    firstKeys,
    merchants
  }: { readonly database: Database; readonly firstKeys: Pick<FirstKeys, 'wait'>; readonly merchants: Merchants },
  name: string,
  email: string
): Promise<void> {
  try {
    await database.transaction(async sql => {
      const { merchant } = await merchants.within(sql).create({ name, email })
      await firstKeys.wait(sql, merchant)
    })
  } catch (error) {
    if (!(error instanceof ShortError) || error.status !== 409) throw error
  }
}
