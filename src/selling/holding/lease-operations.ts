import { Type } from 'typebox'
import { isoTime } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import type { AmbiguousLease } from '../challenges/store.ts'
import type { Challenges } from '../challenges/service.ts'

const NullableText = Type.Unsafe<string | null>({ type: ['string', 'null'] })

/** Query of the list; out of range is clamped (decision 12). */
const Query = Type.Object({
  skip: Type.Optional(Type.Integer({ description: 'From 0, which it is unless said.' })),
  take: Type.Optional(Type.Integer({ description: 'From 1 to 100; 50 unless said.' }))
})

const Ambiguous = Type.Object(
  {
    paymentHash: Type.String(),
    source: Type.String({ description: 'What was sold: route, proxy or ping.' }),
    merchantId: NullableText,
    proxyId: NullableText,
    method: Type.String(),
    path: Type.String({ description: 'What the credential was for, without its query.' }),
    amountSats: Type.Integer(),
    gateway: Type.String({ description: 'The process that died; other leases of it have the same.' }),
    lapsedAt: isoTime('Until when its lease was held.')
  },
  { title: 'AmbiguousLease' }
)

/** `GET /api/admin/leases/ambiguous`: payments whose gateway died while their request was under way (decision 183). */
export function leaseOperations(challenges: Pick<Challenges, 'ambiguous'>): AnyOperation[] {
  return [
    defineOperation({
      id: 'adminListAmbiguousLeases',
      method: 'GET',
      path: '/api/admin/leases/ambiguous',
      mount: { use: 'operator-api', chain: 'admin' },
      summary:
        'Single-use credentials that count as spent though nobody can say whether their request was answered: its gateway died',
      description:
        "Somebody has paid, and may have been answered or not. Compare with the upstream's own records, and refund who got nothing.",
      tag: 'Admin',
      access: 'admin',
      query: Query,
      responses: {
        200: {
          description:
            "A bare array, newest first. What the upstream's own records say decides whether the payer is to be refunded.",
          schema: Type.Array(Ambiguous)
        }
      },
      handle: async ({ query }) => {
        const skip = Math.max(0, query.skip ?? 0)
        const take = Math.min(100, Math.max(1, query.take ?? 50))
        return { status: 200, body: (await challenges.ambiguous({ skip, take })).map(view) }
      }
    })
  ]
}

function view({ lapsedAt, ...lease }: AmbiguousLease) {
  return { ...lease, lapsedAt: new Date(lapsedAt).toISOString() }
}
