import { Type } from 'typebox'
import { isoTime } from '../gateway/iso-time.ts'
import { keysetPage, keysetQuery, nextPage, onePage } from '../gateway/keyset.ts'
import { defineOperation, documented, type AnyOperation, type Result } from '../gateway/operation.ts'
import { merchantOf } from '../merchants/principal.ts'
import { auditTexts } from './documented.ts'
import type { AuditEntry, SqlAuditStore } from './store.ts'

const Entry = Type.Object(
  {
    id: Type.String(),
    at: isoTime('When it was asked for.'),
    merchantId: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description: 'Null for what is of no account.'
    }),
    by: Type.Object({
      kind: Type.Enum(['key', 'member', 'admin', 'operator']),
      name: Type.String({ description: 'The hint of the key, or the address.' })
    }),
    operation: Type.String({ description: 'Its operationId in this document.' }),
    target: Type.Unsafe<object>({
      type: 'object',
      additionalProperties: true,
      description: 'Ids of what was changed.'
    }),
    change: Type.Unsafe<object>({
      type: 'object',
      additionalProperties: true,
      description: 'What was asked for; texts that may be secret are "…".'
    }),
    status: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description: 'What it was answered; below 400 it was done. Null where the gateway stopped in between.'
    })
  },
  { title: 'AuditEntry' }
)
const Page = Type.Object({ entries: Type.Array(Entry), next: nextPage })
const query = Type.Object({ after: keysetQuery.after, limit: keysetQuery.limit })
const responses = { 200: { description: 'A page, newest first.', schema: Page } }

/** `GET /api/merchant/audit` and `GET /api/admin/audit` (decision 323). */
export function auditOperations(store: SqlAuditStore): AnyOperation[] {
  const page = async (merchantId: number | null, asked: Parameters<typeof keysetPage>[0]): Promise<Result> => {
    const { rows, next } = await onePage(
      keysetPage(asked),
      wanted => store.list(merchantId, wanted),
      entry => entry
    )
    return { status: 200, body: { entries: rows.map(view), next }, headers: ['Cache-Control', 'no-store'] }
  }
  return documented(auditTexts, [
    defineOperation({
      id: 'listAudit',
      method: 'GET',
      path: '/api/merchant/audit',
      tag: 'Merchant',
      access: 'merchant',
      mount: { use: 'merchant-api', chain: 'settings-read' },
      summary: 'Who changed what in the account',
      query,
      responses,
      handle: ({ ctx, query: asked }) => page(merchantOf(ctx).id, asked)
    }),
    defineOperation({
      id: 'adminListAudit',
      method: 'GET',
      path: '/api/admin/audit',
      tag: 'Admin',
      access: 'admin',
      mount: { use: 'operator-api', chain: 'admin' },
      summary: 'Who changed what, in all accounts or one',
      query: Type.Object({
        ...query.properties,
        merchantId: Type.Optional(Type.Integer({ minimum: 1, maximum: 0x7fff_ffff }))
      }),
      responses,
      handle: ({ query: { merchantId, ...asked } }) => page(merchantId ?? null, asked)
    })
  ])
}

function view({ id, at, merchantId, actorKind, actor, operation, target, change, status }: AuditEntry): object {
  const by = { kind: actorKind, name: actor }
  return { id, at: new Date(at).toISOString(), merchantId, by, operation, target, change, status }
}
