import { Type, type Static } from 'typebox'
import { isoTime, isoTimeOrNull } from '../../../engine/formats/iso-time.ts'

/** Base64url bytes of an authenticator. */
const Bytes = (most: number) => Type.String({ maxLength: most, pattern: '^[A-Za-z0-9_-]*$' })
const Transport = Type.String({ maxLength: 32 })
export const Name = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: '^[^\\u0000-\\u001f\\u007f]*$',
  'x-rule': 'Must be 1 to 100 characters.'
})
const Attachment = Type.Optional(Type.String({ maxLength: 32 }))
const credential = { id: Bytes(1400), rawId: Bytes(1400), type: Type.Literal('public-key') } as const
const more = { additionalProperties: true } as const

/** Used members of `toJSON()` of a new credential. */
export const Creation = Type.Object(
  {
    ...credential,
    authenticatorAttachment: Attachment,
    response: Type.Object(
      {
        clientDataJSON: Bytes(8192),
        attestationObject: Bytes(32_768),
        transports: Type.Optional(Type.Array(Transport, { maxItems: 8 }))
      },
      more
    )
  },
  more
)

/** The same of an assertion. */
export const PasskeyUse = Type.Object(
  {
    ...credential,
    authenticatorAttachment: Attachment,
    response: Type.Object(
      {
        clientDataJSON: Bytes(8192),
        authenticatorData: Bytes(8192),
        signature: Bytes(8192),
        userHandle: Type.Optional(Bytes(128))
      },
      more
    )
  },
  more
)

const PublicKeyType = Type.Literal('public-key')
export const CreationOptionsView = Type.Object({
  challenge: Type.String(),
  rp: Type.Object({ id: Type.String(), name: Type.String() }),
  user: Type.Object({ id: Type.String(), name: Type.String(), displayName: Type.String() }),
  pubKeyCredParams: Type.Array(Type.Object({ type: PublicKeyType, alg: Type.Integer() })),
  timeout: Type.Integer(),
  excludeCredentials: Type.Array(
    Type.Object({ type: PublicKeyType, id: Type.String(), transports: Type.Array(Type.String()) })
  ),
  authenticatorSelection: Type.Object({
    residentKey: Type.String(),
    requireResidentKey: Type.Boolean(),
    userVerification: Type.String()
  }),
  attestation: Type.String()
})
export const RequestOptionsView = Type.Object({
  challenge: Type.String(),
  rpId: Type.String(),
  timeout: Type.Integer(),
  userVerification: Type.String(),
  allowCredentials: Type.Array(Type.String())
})

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
export type PasskeyView = Static<typeof PasskeyView>

export const PasskeyList = Type.Object({
  canAdd: Type.Boolean({
    description: 'A person is signed in, and browsers make passkeys for the address of this gateway.'
  }),
  passkeys: Type.Array(PasskeyView)
})
export type PasskeyList = Static<typeof PasskeyList>
