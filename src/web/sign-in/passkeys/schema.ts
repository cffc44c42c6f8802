import { Type, type Static, type TProperties } from 'typebox'
import { isoTime, isoTimeOrNull } from '../../../engine/formats/iso-time.ts'

/** Base64url bytes of an authenticator. */
const Bytes = (most: number) => Type.String({ maxLength: most, pattern: '^[A-Za-z0-9_-]*$' })
const Short = Type.String({ maxLength: 32 })
export const Name = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: '^[^\\u0000-\\u001f\\u007f]*$',
  'x-rule': 'Must be 1 to 100 characters.'
})
const more = { additionalProperties: true } as const

/** Used members of `toJSON()` of a credential. */
const credentialOf = <P extends TProperties>(response: P) =>
  Type.Object(
    {
      id: Bytes(1400),
      rawId: Bytes(1400),
      type: Type.Literal('public-key'),
      authenticatorAttachment: Type.Optional(Short),
      response: Type.Object(response, more)
    },
    more
  )

export const Creation = credentialOf({
  clientDataJSON: Bytes(8192),
  attestationObject: Bytes(32_768),
  transports: Type.Optional(Type.Array(Short, { maxItems: 8 }))
})

export const PasskeyUse = credentialOf({
  clientDataJSON: Bytes(8192),
  authenticatorData: Bytes(8192),
  signature: Bytes(8192),
  userHandle: Type.Optional(Bytes(128))
})

/** Options of a ceremony, whose members WebAuthn defines. */
export const CeremonyOptions = Type.Object({ challenge: Type.String(), timeout: Type.Integer() }, more)

export const PasskeyView = Type.Object(
  {
    passkeyId: Type.String(),
    name: Type.String(),
    isSynced: Type.Boolean({ description: 'A password manager keeps it on several devices.' }),
    createdAt: isoTime(),
    usedAt: isoTimeOrNull('Last sign-in with it; null for never.'),
    isCurrent: Type.Boolean({ description: 'The session that asks was opened with it, and ends with it.' })
  },
  { title: 'Passkey' }
)

export const PasskeyList = Type.Object({
  canAdd: Type.Boolean({
    description: 'A person is signed in, and browsers make passkeys for the address of this gateway.'
  }),
  passkeys: Type.Array(PasskeyView)
})
export type PasskeyList = Static<typeof PasskeyList>
