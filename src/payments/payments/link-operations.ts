import { Type, type Static } from 'typebox'
import { merchantOf } from '../../accounts/merchants/principal.ts'
import { isoTime } from '../../engine/formats/iso-time.ts'
import { nullableText } from '../../engine/formats/text-patterns.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import type { PaymentLink, PaymentLinks } from './links.ts'
import { PaymentInput } from './schema.ts'

const { amount, currency, description } = PaymentInput.properties

const PaymentLinkView = Type.Object(
  {
    linkId: Type.String(),
    url: Type.String({
      format: 'uri',
      description: 'Page on which anyone can pay; each payer gets an invoice of their own.'
    }),
    amount: nullableText('Decimal in `currency`; null where the payer chooses it.'),
    currency,
    description: nullableText('As it was given.'),
    createdAt: isoTime()
  },
  { title: 'PaymentLink' }
)
export type PaymentLinkView = Static<typeof PaymentLinkView>

/** Links that a merchant sends or prints. `publicUrl` has no trailing slash. */
export function linkOperations(links: PaymentLinks, publicUrl: () => string): AnyOperation[] {
  const view = ({ linkId, amount, currency, description, createdAt }: PaymentLink): PaymentLinkView => ({
    linkId,
    url: `${publicUrl()}/pay/to/${linkId}`,
    amount,
    currency,
    description,
    createdAt: new Date(createdAt).toISOString()
  })
  const common = { tag: 'Payments', access: 'merchant' } as const
  return [
    defineOperation({
      ...common,
      id: 'createPaymentLink',
      method: 'POST',
      path: '/api/merchant/payment-links',
      mount: { use: 'merchant-api', chain: 'settings-write' },
      summary: 'Make a link on which anyone can pay',
      description:
        'Each payer gets a payment of their own, with `metadata.paymentLink`. An account has at most 100 links.',
      body: Type.Object({
        amount: Type.Optional(amount),
        currency,
        description
      }),
      responses: { 201: { description: 'The link.', schema: PaymentLinkView } },
      handle: async ({ ctx, body }) => ({ status: 201, body: view(await links.create(merchantOf(ctx), body)) })
    }),
    defineOperation({
      ...common,
      id: 'listPaymentLinks',
      method: 'GET',
      path: '/api/merchant/payment-links',
      mount: { use: 'merchant-api', chain: 'settings-read' },
      summary: 'All payment links, newest first',
      description: 'Removed ones are not among them.',
      responses: { 200: { description: 'A bare array.', schema: Type.Array(PaymentLinkView) } },
      handle: async ({ ctx }) => ({ status: 200, body: (await links.list(merchantOf(ctx))).map(view) })
    }),
    defineOperation({
      ...common,
      id: 'deletePaymentLink',
      method: 'DELETE',
      path: '/api/merchant/payment-links/:linkId',
      mount: { use: 'merchant-api', chain: 'settings-write' },
      summary: 'Remove a payment link',
      description: 'Its page answers 404 from then on. Payments made with it stay.',
      params: Type.Object({ linkId: Type.String() }),
      responses: { 204: { description: 'Removed.' }, 404: "There is no such link, or it is another merchant's." },
      handle: async ({ ctx, params }) => {
        await links.remove(merchantOf(ctx), params.linkId)
        return { status: 204, body: null }
      }
    })
  ]
}
