import { ListTotal } from '../../engine/operations/keyset.ts'
import { Type } from 'typebox'
import { once } from '../../engine/message/idempotency.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf } from '../../accounts/merchants/principal.ts'
import { refundDetails, RefundDetails, RefundInput, RefundQuery, refundView, RefundView } from './schema.ts'
import type { Refunds } from './service.ts'

// Malformed ids are 404 like unknown ones (decision 10).
export const RefundId = Type.Object({ refundId: Type.String() })
const InvoiceId = Type.Object({ invoiceId: Type.String() })
const missing = "There is no such refund, or it is another merchant's."
const away = 'The payment provider did not say how the refund stands.'

export function refundOperations(refunds: Refunds): AnyOperation[] {
  const common = { tag: 'refunds', access: 'merchant' } as const
  return [
    defineOperation({
      ...common,
      id: 'createRefund',
      method: 'POST',
      path: '/api/refunds',
      mount: { use: 'merchant-api', chain: 'refunds-create' },
      summary: 'Refund a payment, in whole or in part',
      description:
        'Sends money back by the provider that took it in. Several refunds of one payment are possible, together at most what came in; ' +
        'the amount is reserved first, so two concurrent refunds cannot give more.',
      headers: {
        'Idempotency-Key':
          'At most 256 characters. The same key with the same body gives the same answer for 24 hours, and the same refund, as it then stands, for ever.',
        'X-Idempotency-Key': 'The same; Idempotency-Key goes first.'
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
    defineOperation({
      ...common,
      id: 'listRefunds',
      method: 'GET',
      path: '/api/refunds',
      mount: { use: 'merchant-api', chain: 'payments-read' },
      summary: "The merchant's refunds, newest first",
      description:
        'What is pending or processing is looked up at the provider automatically; the list shows what was found last.',
      query: RefundQuery,
      responses: { 200: { description: 'A bare array.', schema: Type.Array(RefundDetails) } },
      handle: async ({ ctx, query }) => ({
        status: 200,
        body: (await refunds.list(merchantOf(ctx), query)).map(refund => refundDetails(refund, ctx.now))
      })
    }),
    defineOperation({
      ...common,
      id: 'sumRefunds',
      method: 'GET',
      path: '/api/refunds/total',
      mount: { use: 'merchant-api', chain: 'payments-read' },
      summary: 'Count and sum of the refunds that match',
      description: 'Takes the filters of the list. Failed refunds count unless `status` leaves them out.',
      query: Type.Object({ status: RefundQuery.properties.status, text: RefundQuery.properties.text }),
      responses: { 200: { description: 'Over all that match.', schema: ListTotal } },
      handle: async ({ ctx, query }) => ({ status: 200, body: await refunds.sum(merchantOf(ctx), query) })
    }),
    defineOperation({
      ...common,
      id: 'listRefundsOfInvoice',
      method: 'GET',
      path: '/api/refunds/invoice/:invoiceId',
      mount: { use: 'merchant-api', chain: 'payments-read' },
      summary: 'All refunds of one payment, newest first',
      description: 'Shows how much of a payment went back already: failed refunds have freed their amount.',
      params: InvoiceId,
      responses: {
        200: { description: 'A bare array.', schema: Type.Array(RefundDetails) },
        404: "There is no such invoice, or it is another merchant's."
      },
      handle: async ({ ctx, params }) => ({
        status: 200,
        body: (await refunds.ofInvoice(merchantOf(ctx), params.invoiceId)).map(refund => refundDetails(refund, ctx.now))
      })
    }),
    defineOperation({
      ...common,
      id: 'getRefund',
      method: 'GET',
      path: '/api/refunds/:refundId',
      mount: { use: 'merchant-api', chain: 'payments-read' },
      summary: 'One refund',
      description:
        'The refund as it stands here. A message says what to do about one that the provider has not acknowledged.',
      params: RefundId,
      responses: { 200: { description: 'The refund.', schema: RefundDetails }, 404: missing },
      handle: async ({ ctx, params }) => ({
        status: 200,
        body: refundDetails(await refunds.get(merchantOf(ctx), params.refundId), ctx.now)
      })
    }),
    defineOperation({
      ...common,
      id: 'syncRefund',
      unaudited: true,
      method: 'POST',
      path: '/api/refunds/:refundId/sync',
      mount: { use: 'merchant-api', chain: 'payments-sync' },
      summary: 'Ask the provider how the refund stands',
      description:
        'Asks the provider now. It never sends anything: a refund whose answer was lost is found by its own id.',
      params: RefundId,
      responses: {
        200: { description: 'The refund as it is now.', schema: RefundDetails },
        404: missing,
        502: away,
        503: away
      },
      handle: async ({ ctx, params }) => ({
        status: 200,
        body: refundDetails(await refunds.sync(merchantOf(ctx), params.refundId), ctx.now)
      })
    })
  ]
}
