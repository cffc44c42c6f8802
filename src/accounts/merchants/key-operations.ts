import { Type, type Static } from 'typebox'
import { isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { MAX_KEYS, MAX_OVERLAP, type ApiKeyFacts, type ApiKeys, type IssuedKey } from './api-keys.ts'
import { merchantOf } from './principal.ts'

const KeyView = Type.Object(
  {
    keyId: Type.String({ description: 'The part of the key that is no secret: bg_<keyId>_…' }),
    name: Type.String(),
    isFirst: Type.Boolean({ description: 'The key that every account has; it can be replaced and not removed.' }),
    isReadOnly: Type.Boolean({ description: 'Only GET: all else is 403.' }),
    createdAt: isoTime(),
    lastUsedAt: isoTimeOrNull('To a minute; null for never.'),
    endsAt: isoTimeOrNull('Of one that was replaced and goes on for a while; null for all others.')
  },
  { title: 'ApiKey' }
)
export type ApiKeyView = Static<typeof KeyView>
const NewKey = Type.Object(
  { ...KeyView.properties, apiKey: Type.String({ description: 'Shown this once.' }) },
  { title: 'NewApiKey' }
)
const missing = 'The account has no such key.'
const full = `The account has ${MAX_KEYS} further keys already.`
const byKey = Type.Object({ keyId: Type.String() })
const iso = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())

function view({ createdAt, usedAt, endsAt, ...key }: ApiKeyFacts) {
  return { ...key, createdAt: new Date(createdAt).toISOString(), lastUsedAt: iso(usedAt), endsAt: iso(endsAt) }
}

const issued = ({ key, apiKey }: IssuedKey) => ({ ...view(key), apiKey: apiKey.reveal() })

/** API keys of an account: the contract's first, and further ones. Read-only keys may list them. */
export function apiKeyOperations(keys: ApiKeys): AnyOperation[] {
  const common = { tag: 'Merchant', access: 'merchant' } as const
  const write = { ...common, role: 'owner', mount: { use: 'merchant-api', chain: 'settings-write' } } as const
  return [
    defineOperation({
      ...common,
      id: 'listApiKeys',
      method: 'GET',
      path: '/api/merchant/keys',
      mount: { use: 'merchant-api', chain: 'settings-read' },
      summary: 'The API keys of the account, with when each was last used; never the keys themselves',
      description: 'To tell which key is used by which program, and which is unused.',
      responses: { 200: { description: 'A bare array, the first key first.', schema: Type.Array(KeyView) } },
      handle: async ({ ctx }) => ({ status: 200, body: (await keys.list(merchantOf(ctx).id)).map(view) })
    }),
    defineOperation({
      ...write,
      id: 'createApiKey',
      method: 'POST',
      path: '/api/merchant/keys',
      summary: 'Make a further API key',
      description:
        'Give each program a key of its own, so that one can be removed alone; and a read-only one to programs that only read.',
      body: Type.Object({
        name: Type.String({ minLength: 1, maxLength: 100, pattern: '\\S', 'x-rule': 'Must have a visible character.' }),
        isReadOnly: Type.Optional(Type.Boolean({ description: 'false unless said.' }))
      }),
      responses: { 201: { description: 'Shown this once.', schema: NewKey }, 409: full },
      handle: async ({ ctx, body: { name, isReadOnly = false } }) => ({
        status: 201,
        body: issued(await keys.create(merchantOf(ctx).id, { name, isReadOnly }))
      })
    }),
    defineOperation({
      ...write,
      id: 'rotateApiKey',
      method: 'POST',
      path: '/api/merchant/keys/:keyId/rotate',
      summary: 'Replace an API key, the old one going on for as long as you say',
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
            description: 'How long the old key goes on; 0 unless said.'
          })
        )
      }),
      bodyOptional: true,
      responses: { 200: { description: 'The new key, shown this once.', schema: NewKey }, 404: missing, 409: full },
      handle: async ({ ctx, params, body: { overlapSeconds = 0 } }) => ({
        status: 200,
        body: issued(await keys.rotate(merchantOf(ctx).id, params.keyId, overlapSeconds * 1000))
      })
    }),
    defineOperation({
      ...write,
      id: 'removeApiKey',
      method: 'DELETE',
      path: '/api/merchant/keys/:keyId',
      summary: 'Remove a further API key; it is invalid immediately',
      description: 'Also one that was replaced and goes on for a while.',
      params: byKey,
      responses: {
        204: { description: 'Removed.' },
        404: missing,
        409: 'It is the first key.'
      },
      handle: async ({ ctx, params }) => {
        await keys.remove(merchantOf(ctx).id, params.keyId)
        return { status: 204, body: null }
      }
    })
  ]
}
