import { iso } from '../../../engine/formats/iso-time.ts'
import { Type, type Static } from 'typebox'
import type { Context } from '../../../engine/message/context.ts'
import { FORBIDDEN, NOT_SIGNED_IN, RESOURCE_NOT_FOUND } from '../../../engine/operations/error-kinds.ts'
import { LongError, ShortError } from '../../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation } from '../../../engine/operations/operation.ts'
import type { Trail } from '../../../engine/operations/trail.ts'
import { Secret } from '../../../platform/keys/secrets.ts'
import type { AuthThrottle } from '../../../accounts/merchants/auth-throttle.ts'
import { isFromHere, keepCookie, keptValue, CEREMONY_LIFE } from '../cookie.ts'
import { landing } from '../landing.ts'
import type { SignInRecord } from '../record.ts'
import { principalOf, type Sessions } from '../sessions.ts'
import { changing, signedOut, reading } from '../session-operations.ts'
import { otherSite, signedIn, type OpenSession } from '../signed-in.ts'
import type { Person } from '../store.ts'
import type { Passkeys } from './service.ts'
import type { StoredPasskey } from './store.ts'
import { Name, Creation, PasskeyUse, CeremonyOptions, PasskeyView, PasskeyList } from './schema.ts'

const notHere = 'Another site asked, or no person is signed in.'
const refused = { 401: signedOut, 403: notHere } as const
const none = 'The person has no such passkey.'
const impossible = 'Browsers make no passkeys for the address of this gateway.'
const common = { tag: 'Sign-in', access: 'public' } as const
const bySession = { ...common, headers: { Cookie: 'The session, as signing in set it.' } } as const
const anonymous = { use: 'pages', chain: 'passkey' } as const
const PasskeyId = Type.Object({ passkeyId: Type.String() })

export function passkeyOperations(dependencies: {
  readonly passkeys: Passkeys
  readonly sessions: Sessions
  readonly authThrottle: AuthThrottle
  readonly trail: Trail
  readonly record: SignInRecord
  publicUrl(): string
}): AnyOperation[] {
  const { authThrottle, passkeys, publicUrl, record, sessions, trail } = dependencies
  const begun = (token: Secret<string>): readonly string[] => [
    'Set-Cookie',
    keepCookie('passkey', token.reveal(), CEREMONY_LIFE / 1000, sessions.isSecure)
  ]
  const ended = (): readonly string[] => ['Set-Cookie', keepCookie('passkey', '', 0, sessions.isSecure)]
  const ceremony = (ctx: Context): string | null => keptValue(ctx, 'passkey', sessions.isSecure)
  const asPerson = async (ctx: Context): Promise<OpenSession & { readonly person: Person }> => {
    const open = await signedIn(ctx, sessions, publicUrl())
    const { person } = open.session
    if (person === null)
      throw new LongError(
        FORBIDDEN,
        'Forbidden',
        'A passkey is a person’s, and you are signed in with a key. Sign in by mail.'
      )
    return { ...open, person }
  }
  const fromHere = (ctx: Context): void => {
    if (!isFromHere(ctx, publicUrl())) throw otherSite()
  }
  const onRecord = async <T>(
    { session }: OpenSession,
    operation: string,
    target: Readonly<Record<string, string>>,
    change: () => Promise<{ readonly result: T; readonly status: number; readonly made?: string }>
  ): Promise<T> => {
    const principal = principalOf(session, 'merchant') ?? principalOf(session, 'admin')
    if (principal === null) throw new TypeError('a session is of an account or of an operator')
    const end = await trail.begin({ principal, operation, target, input: {} })
    try {
      const { result, status, made } = await change()
      await end(status, made === undefined ? {} : { passkeyId: made })
      return result
    } catch (error) {
      await end(error instanceof LongError || error instanceof ShortError ? error.status : 503, {})
      throw error
    }
  }

  return [
    defineOperation({
      ...common,
      id: 'beginPasskeySignIn',
      method: 'POST',
      path: '/api/auth/passkeys/sign-in/options',
      mount: anonymous,
      summary: 'What a browser asks for a passkey with, to sign in',
      description:
        'No member is named: the browser offers its passkeys for this host. The body is what `PublicKeyCredential.parseRequestOptionsFromJSON` takes.',
      responses: {
        200: {
          description: 'Good once, for five minutes, in the browser that asked: a cookie says which.',
          schema: CeremonyOptions
        },
        403: notHere,
        409: impossible
      },
      async handle({ ctx }) {
        fromHere(ctx)
        const { token, publicKey } = await passkeys.beginSignIn()
        return { status: 200, body: publicKey, headers: begun(token) }
      }
    }),
    defineOperation({
      ...common,
      id: 'signInWithPasskey',
      method: 'POST',
      path: '/api/auth/passkeys/sign-in',
      mount: anonymous,
      summary: 'Sign in with a passkey',
      description:
        'The body is what `toJSON()` of the credential gives. It must be made for this host and origin, with the reader verified by a PIN, a fingerprint or the like. The session ends when the passkey is removed. What fails counts like wrong keys.',
      body: PasskeyUse,
      responses: {
        200: {
          description: 'Signed in: a cookie keeps the session for 12 hours.',
          schema: Type.Object({
            page: Type.String({ description: "Where to go on, below the gateway's own address, such as `console`." })
          })
        },
        401: 'It proves nothing here, or it was removed.',
        403: notHere
      },
      async handle({ ctx, body }) {
        fromHere(ctx)
        await authThrottle.admit(ctx)
        const { response } = body
        const opened = await passkeys.signIn(
          ceremony(ctx),
          { ...jsonOf(body), response: assertionOf(response) },
          sessions.browserOf(ctx)
        )
        if (opened === null) {
          await record.failed(ctx, 'signInWithPasskey', 401)
          await authThrottle.failed(ctx)
          throw new LongError(
            NOT_SIGNED_IN,
            'Not signed in',
            'This passkey does not work here: it was removed, or asked for too long ago. Try again, or sign in by mail.',
            {},
            ended()
          )
        }
        const { cookies, page, session } = await landing(ctx, sessions, opened)
        await record.session(ctx, 'signInWithPasskey', session, 200)
        return { status: 200, body: { page }, headers: [...cookies, ...ended()] }
      }
    }),
    defineOperation({
      ...bySession,
      id: 'listPasskeys',
      method: 'GET',
      path: '/api/auth/passkeys',
      mount: reading,
      summary: 'The passkeys of the signed-in member',
      description: 'Those of the person, whatever account they work in. Empty for who signed in with a key.',
      responses: {
        200: {
          description: 'Oldest first.',
          schema: PasskeyList
        },
        ...refused
      },
      async handle({ ctx }) {
        const { session } = await signedIn(ctx, sessions, publicUrl())
        const { person } = session
        const list = person === null ? [] : await passkeys.store.list(person.id)
        return {
          status: 200,
          body: {
            canAdd: person !== null && passkeys.areAvailable,
            passkeys: list.map(passkey => passkeyView(passkey, person?.passkeyId ?? null))
          }
        }
      }
    }),
    defineOperation({
      ...bySession,
      id: 'beginPasskey',
      method: 'POST',
      path: '/api/auth/passkeys/options',
      mount: changing,
      summary: 'Creation options for a new passkey of the signed-in member',
      description: 'The body is what `PublicKeyCredential.parseCreationOptionsFromJSON` takes.',
      responses: {
        200: {
          description: 'Good once, for five minutes, in the browser that asked: a cookie says which.',
          schema: CeremonyOptions
        },
        ...refused,
        409: impossible
      },
      async handle({ ctx }) {
        const { person } = await asPerson(ctx)
        const { token, publicKey } = await passkeys.beginAdding(person)
        return { status: 200, body: publicKey, headers: begun(token) }
      }
    }),
    defineOperation({
      ...bySession,
      id: 'addPasskey',
      method: 'POST',
      path: '/api/auth/passkeys',
      mount: changing,
      summary: 'Add the passkey that the browser made',
      description:
        '`credential` is what `toJSON()` of the new credential gives. Up to 20 for a person. Certificates of the authenticator are refused: none was asked for.',
      body: Type.Object({ name: Name, credential: Creation }),
      responses: {
        201: { description: 'Added. The person is notified by email.', schema: PasskeyView },
        400: 'It is no new passkey of this browser’s.',
        ...refused,
        409: 'It was added already, or there are too many.'
      },
      async handle({ ctx, body }) {
        const open = await asPerson(ctx)
        const { credential: made, name } = body
        const { attestationObject, clientDataJSON, transports } = made.response
        const response = { attestationObject, clientDataJSON, transports: transports ?? [] }
        const passkey = await onRecord(open, 'addPasskey', {}, async () => {
          const result = await passkeys.add(open.person, ceremony(ctx), name, { ...jsonOf(made), response })
          return { result, status: 201, made: result.id }
        })
        return { status: 201, body: passkeyView(passkey, null), headers: ended() }
      }
    }),
    defineOperation({
      ...bySession,
      id: 'removePasskey',
      method: 'DELETE',
      path: '/api/auth/passkeys/:passkeyId',
      mount: changing,
      summary: 'Remove a passkey, and end the sessions that it opened',
      description: 'The passkey no longer signs in. The browser may still offer it until it is deleted there too.',
      params: PasskeyId,
      responses: { 204: { description: 'Removed.' }, ...refused, 404: none },
      async handle({ ctx, params }) {
        const open = await asPerson(ctx)
        const { passkeyId } = params
        const isRemoved = await onRecord(open, 'removePasskey', { passkeyId }, async () => {
          const result = await passkeys.store.remove(open.person.id, passkeyId)
          return { result, status: result ? 204 : 404 }
        })
        if (!isRemoved) throw new ShortError(RESOURCE_NOT_FOUND, 'No such passkey')
        return { status: 204, body: null }
      }
    })
  ]
}

/** Common part of creation and use. No extensions are requested or read. */
function jsonOf({ id, rawId }: Pick<Static<typeof PasskeyUse>, 'id' | 'rawId'>) {
  return { id, rawId, type: 'public-key', clientExtensionResults: {} } as const
}

function assertionOf({
  authenticatorData,
  clientDataJSON,
  signature,
  userHandle
}: Static<typeof PasskeyUse>['response']) {
  const response = { authenticatorData, clientDataJSON, signature }
  return userHandle === undefined ? response : { ...response, userHandle }
}

function passkeyView(
  { id, name, isSynced, createdAt, usedAt }: StoredPasskey,
  current: string | null
): Static<typeof PasskeyView> {
  return {
    passkeyId: id,
    name,
    isSynced,
    createdAt: iso(createdAt),
    usedAt: iso(usedAt),
    isCurrent: id === current
  }
}
