import { Type, type Static } from 'typebox'
import { iso, isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import { type AnyOperation } from '../../engine/operations/operation.ts'
import { MAX_KEYS, MAX_OVERLAP, type ApiKeyFacts, type ApiKeys, type IssuedKey } from './api-keys.ts'
import { merchantOperation, settingsRead, settingsWrite } from './principal.ts'

const KeyView = Type.Object(
  {
    keyId: Type.String({ description: 'The public part of the key: bg_<keyId>_…' }),
    name: Type.String(),
    isFirst: Type.Boolean({ description: 'The first key of the account. It can be replaced, not removed.' }),
    isReadOnly: Type.Boolean({ description: 'Allows only GET; other methods are 403.' }),
    createdAt: isoTime(),
    lastUsedAt: isoTimeOrNull('To a minute; null for never.'),
    endsAt: isoTimeOrNull('Of one that was replaced and goes on for a while; null for all others.')
  },
  { title: 'ApiKey' }
)
export type ApiKeyView = Static<typeof KeyView>
const NewKey = Type.Object(
  { ...KeyView.properties, apiKey: Type.String({ description: 'Shown only once.' }) },
  { title: 'NewApiKey' }
)
const missing = 'The account has no such key.'
const full = `The account has ${MAX_KEYS} further keys already.`
const byKey = Type.Object({ keyId: Type.String() })
function view({ createdAt, usedAt, endsAt, ...key }: ApiKeyFacts) {
  return { ...key, createdAt: iso(createdAt), lastUsedAt: iso(usedAt), endsAt: iso(endsAt) }
}

const issued = ({ key, apiKey }: IssuedKey) => ({ ...view(key), apiKey: apiKey.reveal() })

/** API keys of an account: the contract's first, and further ones. Read-only keys may list them. */
export function apiKeyOperations(keys: ApiKeys): AnyOperation[] {
  const write = { ...settingsWrite, role: 'owner' } as const
  return [
    merchantOperation({
      ...settingsRead,
      id: 'listApiKeys',
      path: '/api/merchant/keys',
      summary: 'List the API keys of the account with their last use, without the keys themselves',
      description: 'Their last use shows which keys are still needed.',
      responses: { 200: { description: 'A bare array, the first key first.', schema: Type.Array(KeyView) } },
      handle: async ({ merchant }) => (await keys.list(merchant.id)).map(view)
    }),
    merchantOperation({
      ...write,
      id: 'createApiKey',
      method: 'POST',
      path: '/api/merchant/keys',
      summary: 'Create an API key',
      description:
        'Give each program a key of its own, so that one can be removed alone; and a read-only one to programs that only read.',
      body: Type.Object({
        name: Type.String({ minLength: 1, maxLength: 100, pattern: '\\S', 'x-rule': 'Must have a visible character.' }),
        isReadOnly: Type.Optional(Type.Boolean({ description: 'false unless said.' }))
      }),
      responses: { 201: { description: 'Shown only once.', schema: NewKey }, 409: full },
      handle: async ({ merchant, body: { name, isReadOnly = false } }) =>
        issued(await keys.create(merchant.id, { name, isReadOnly }))
    }),
    merchantOperation({
      ...write,
      id: 'rotateApiKey',
      method: 'POST',
      path: '/api/merchant/keys/:keyId/rotate',
      summary: 'Rotate an API key, with an overlap for the old one',
      description:
        'Works for the first key too. Move your programs to the new key during the overlap; lastUsedAt shows whether the ' +
        'old one is still in use. For a leaked key use no overlap: replacing the first key without one, or ' +
        'POST /api/merchant/regenerate-key, also ends every earlier overlap immediately.',
      params: byKey,
      body: Type.Object({
        overlapSeconds: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: MAX_OVERLAP,
            description: 'Overlap in which the old key stays valid. Defaults to 0.'
          })
        )
      }),
      bodyOptional: true,
      responses: { 200: { description: 'The new key, shown only once.', schema: NewKey }, 404: missing, 409: full },
      handle: async ({ merchant, params, body: { overlapSeconds = 0 } }) =>
        issued(await keys.rotate(merchant.id, params.keyId, overlapSeconds * 1000))
    }),
    merchantOperation({
      ...write,
      id: 'removeApiKey',
      method: 'DELETE',
      path: '/api/merchant/keys/:keyId',
      summary: 'Delete an API key; it becomes invalid immediately',
      description: 'Also a rotated key in its overlap.',
      params: byKey,
      responses: {
        204: { description: 'Removed.' },
        404: missing,
        409: 'It is the first key.'
      },
      handle: ({ merchant, params }) => keys.remove(merchant.id, params.keyId)
    })
  ]
}
