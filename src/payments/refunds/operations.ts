import { ListTotal, pageQuery } from '../../engine/operations/keyset.ts'
import { Type, type Static } from 'typebox'
import { once } from '../../engine/message/idempotency.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { adminOperation, merchantOf, merchantOperation } from '../../accounts/merchants/principal.ts'
import {
  refundDetails,
  RefundDetails,
  RefundInput,
  RefundQuery,
  refundView,
  RefundView,
  LOOKED_UP_FOR
} from './schema.ts'
import type { Refunds } from './service.ts'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import { VALIDATION } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { LINE, TEXT } from '../../engine/formats/text-patterns.ts'
import { REFUND_VIEWS, type RefundSettlements, type SettledRefund, type RefundSettlement } from './settlement.ts'

// Malformed ids are 404 like unknown ones (decision 10).
export const RefundId = Type.Object({ refundId: Type.String() })
const InvoiceId = Type.Object({ invoiceId: Type.String() })
const missing = "There is no such refund, or it is another merchant's."
const unavailable = 'The payment provider did not report the state of the refund.'

export function refundOperations(refunds: Refunds): AnyOperation[] {
  const common = { tag: 'refunds', access: 'merchant' } as const
  const reads = { ...common, method: 'GET', mount: { use: 'merchant-api', chain: 'payments-read' } } as const
  return [
    defineOperation({
      ...common,
      id: 'createRefund',
      method: 'POST',
      path: '/api/refunds',
      mount: { use: 'merchant-api', chain: 'refunds-create' },
      summary: 'Refund a payment, in whole or in part',
      description:
        'Sends money back through the provider that received it. One payment can have several refunds, up to the amount received in total; ' +
        'the amount is reserved first, so concurrent refunds cannot exceed it.',
      headers: {
        'Idempotency-Key':
          'At most 256 characters. For 24 hours the same key with the same body returns the first response, and later the current state of the same refund.',
        'X-Idempotency-Key': 'Alias of Idempotency-Key, which takes precedence.'
      },
      body: RefundInput,
      responses: {
        201: {
          description: "Created. It is pending when the provider's answer was lost: poll, and do not ask again.",
          schema: RefundView
        },
        400: 'Everything that makes a refund fail; an unknown invoice too. Nothing was sent.',
        503: 'The payment provider cannot be asked at the moment. Nothing was sent.'
      },
      handle: async ({ ctx, body }) => {
        const merchant = merchantOf(ctx)
        const { made, headers } = await once(
          ctx.idempotency,
          key => refunds.byKey(merchant, key),
          () => refunds.create(merchant, body, ctx.idempotency),
          ctx.now
        )
        return {
          status: 201,
          body: refundView(made, ctx.now),
          headers: ['Location', `/api/refunds/${made.refundId}`, ...headers]
        }
      }
    }),
    merchantOperation({
      ...reads,
      id: 'listRefunds',
      path: '/api/refunds',
      summary: "The merchant's refunds, newest first",
      description:
        'What is pending or processing is looked up at the provider automatically; the list shows what was found last.',
      query: RefundQuery,
      responses: { 200: { description: 'A bare array.', schema: Type.Array(RefundDetails) } },
      handle: async ({ merchant, ctx, query }) =>
        (await refunds.list(merchant, query)).map(refund => refundDetails(refund, ctx.now))
    }),
    merchantOperation({
      ...reads,
      id: 'sumRefunds',
      path: '/api/refunds/total',
      summary: 'Count and sum of the refunds that match',
      description: 'Takes the filters of the list. Failed refunds count unless `status` leaves them out.',
      query: Type.Object({ status: RefundQuery.properties.status, text: RefundQuery.properties.text }),
      responses: { 200: { description: 'Over all that match.', schema: ListTotal } },
      handle: ({ merchant, query }) => refunds.sum(merchant, query)
    }),
    merchantOperation({
      ...reads,
      id: 'listRefundsOfInvoice',
      path: '/api/refunds/invoice/:invoiceId',
      summary: 'List the refunds of one payment, newest first',
      description: 'Shows how much of a payment was refunded. Failed refunds do not count.',
      params: InvoiceId,
      responses: {
        200: { description: 'A bare array.', schema: Type.Array(RefundDetails) },
        404: "There is no such invoice, or it is another merchant's."
      },
      handle: async ({ merchant, ctx, params }) =>
        (await refunds.ofInvoice(merchant, params.invoiceId)).map(refund => refundDetails(refund, ctx.now))
    }),
    merchantOperation({
      ...reads,
      id: 'getRefund',
      path: '/api/refunds/:refundId',
      summary: 'One refund',
      description: 'The stored state. `message` says what to do about a refund that the provider has not acknowledged.',
      params: RefundId,
      responses: { 200: { description: 'The refund.', schema: RefundDetails }, 404: missing },
      handle: async ({ merchant, ctx, params }) => refundDetails(await refunds.get(merchant, params.refundId), ctx.now)
    }),
    merchantOperation({
      ...common,
      id: 'syncRefund',
      unaudited: true,
      method: 'POST',
      path: '/api/refunds/:refundId/sync',
      mount: { use: 'merchant-api', chain: 'payments-sync' },
      summary: 'Look up the refund at the provider',
      description:
        'Asks the provider now. It never sends anything: a refund whose answer was lost is found by its own id.',
      params: RefundId,
      responses: {
        200: { description: 'The current refund.', schema: RefundDetails },
        404: missing,
        502: unavailable,
        503: unavailable
      },
      handle: async ({ merchant, ctx, params }) => refundDetails(await refunds.sync(merchant, params.refundId), ctx.now)
    })
  ]
}

const adminMissing = 'There is no such refund.'
const visible = 'Must have a visible character.'

const Query = Type.Object({
  view: Type.Optional(
    Type.Enum([...REFUND_VIEWS], {
      description:
        'lost unless said: those that the provider has not acknowledged within ten minutes. open: all that are pending or processing. settled: those settled by hand.'
    })
  ),
  ...pageQuery
})

const SettlementInput = Type.Object(
  {
    outcome: Type.Enum(['sent', 'not-sent'], {
      description:
        "What the provider's own records show. not-sent frees the amount: say it only where they surely show it."
    }),
    providerRefundId: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        pattern: LINE,
        description: "The provider's id of what was sent; required for sent, refused for not-sent."
      })
    ),
    transactionHash: Type.Optional(
      Type.String({
        pattern: '^[0-9a-f]{64}$',
        'x-rule': 'Must be 64 lower-case hex characters.',
        description: 'Over the chain, where it is known.'
      })
    ),
    feeSatoshis: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 2_100_000_000_000_000, description: 'Network fee, where it is known.' })
    ),
    settledBy: Type.String({
      minLength: 1,
      maxLength: 200,
      pattern: `^(?=.*\\S)${LINE}`,
      'x-rule': visible,
      description: 'The person who decided. Stored.'
    }),
    reason: Type.String({
      minLength: 1,
      maxLength: 1000,
      pattern: `^(?=[^]*\\S)${TEXT}`,
      'x-rule': visible,
      description: 'The evidence. Stored.'
    })
  },
  { title: 'RefundSettlement' }
)
type SettlementInput = Static<typeof SettlementInput>

const Settled = Type.Object({
  outcome: Type.String(),
  settledBy: Type.String(),
  reason: Type.String(),
  correlationId: Type.String(),
  settledAt: isoTime()
})
const AdminRefund = Type.Object(
  {
    ...RefundDetails.properties,
    merchantId: Type.Integer(),
    provider: Type.String({ description: 'The kind that the money came in through, and goes out by.' }),
    lookedUpUntil: isoTime('Until then the provider is polled automatically.'),
    settlement: Type.Unsafe<null | Static<typeof Settled>>({
      anyOf: [Settled, Type.Null()],
      description: 'How it was settled by hand; null while it was not.'
    })
  },
  { title: 'AdminRefund' }
)
export type AdminRefund = Static<typeof AdminRefund>

/** `/api/admin/refunds`: refunds whose outcome only the provider's records show. */
export function refundAdminOperations(settlements: RefundSettlements): AnyOperation[] {
  return [
    defineOperation({
      ...adminOperation,
      id: 'adminListRefunds',
      method: 'GET',
      path: '/api/admin/refunds',
      summary: 'Refunds of all merchants that are in flight, have an unknown outcome, or were settled by hand',
      description:
        "Unless view says otherwise, the refunds that may or may not have been sent: compare each with the provider's own records and settle it.",
      query: Query,
      responses: {
        200: {
          description: 'A bare array, oldest first; those settled by hand newest first.',
          schema: Type.Array(AdminRefund)
        }
      },
      handle: async ({ ctx, query }) => ({
        status: 200,
        body: (await settlements.list(query.view ?? 'lost', query)).map(found => view(found, ctx.now))
      })
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminGetRefund',
      method: 'GET',
      path: '/api/admin/refunds/:refundId',
      summary: 'One refund of any merchant',
      description:
        'Beside what its merchant sees: whose it is, by which provider it goes out, and how it was settled by hand.',
      params: RefundId,
      responses: { 200: { description: 'The refund.', schema: AdminRefund }, 404: adminMissing },
      handle: async ({ ctx, params }) => ({ status: 200, body: view(await settlements.get(params.refundId), ctx.now) })
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminSettleRefund',
      method: 'POST',
      path: '/api/admin/refunds/:refundId/settle',
      summary: 'Settle a refund with an unknown outcome by hand, without sending money',
      description:
        'Ends the doubt about one refund: sent confirms it, not-sent fails it and frees its amount to be refunded again. ' +
        'It is kept who said so and why, and it cannot be taken back.',
      params: RefundId,
      body: SettlementInput,
      responses: {
        200: { description: 'The refund: confirmed, or failed with its amount free again.', schema: AdminRefund },
        400: 'sent without providerRefundId, or not-sent with one.',
        404: adminMissing,
        409: 'It is settled already; or it cannot be not-sent, since the provider took it or it may still be on its way. Nothing was changed.'
      },
      handle: async ({ ctx, params, body }) => ({
        status: 200,
        body: view(await settlements.settle(params.refundId, settlementOf(body, ctx.correlationId, ctx.now)), ctx.now)
      })
    })
  ]
}

function settlementOf(input: SettlementInput, correlationId: string, settledAt: number): RefundSettlement {
  const { providerRefundId = null, transactionHash = null, feeSatoshis: feeSats = null, ...said } = input
  if (said.outcome === 'sent' && providerRefundId === null)
    throw new ShortError(VALIDATION, 'providerRefundId is required where the refund was sent.')
  if (said.outcome === 'not-sent' && (providerRefundId !== null || transactionHash !== null || feeSats !== null))
    throw new ShortError(
      VALIDATION,
      'providerRefundId, transactionHash and feeSatoshis are for refunds that were sent.'
    )
  return { ...said, providerRefundId, transactionHash, feeSats, correlationId, settledAt }
}

function view({ refund, settlement }: SettledRefund, now: number): Static<typeof AdminRefund> {
  return {
    ...refundDetails(refund, now),
    merchantId: refund.merchantId,
    provider: refund.kind,
    lookedUpUntil: iso(refund.createdAt + LOOKED_UP_FOR),
    settlement: settlement && { ...settlement, settledAt: iso(settlement.settledAt) }
  }
}
