import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import { Type, type Static, type TSchema } from 'typebox'
import { type CsvColumns, CSV, memberColumns } from '../../engine/formats/csv.ts'
import {
  keysetQuery,
  ListTotal,
  nextPage,
  periodOf,
  sumQuery,
  type KeysetPage,
  listed,
  listingHeaders,
  type Listing,
  pageRange,
  pageQuery
} from '../../engine/operations/keyset.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf, merchantOperation, adminOperation, settingsRead } from '../../accounts/merchants/principal.ts'
import { PAYMENT_STATUSES, PaymentView, type Payment } from './schema.ts'
import type { Payments } from './service.ts'
import { nullableText, nullableInteger } from '../../engine/formats/text-patterns.ts'
import type { Database } from '../../platform/database/database.ts'
import { MOST_SUMMED, withOwnPlan } from '../../platform/database/own-plan.ts'
import { amount, containing, integer, moment, optional, records, text } from '../../platform/database/rows.ts'

const PaymentQuery = Type.Object({
  status: Type.Optional(Type.Enum([...PAYMENT_STATUSES])),
  text: Type.Optional(
    Type.String({
      maxLength: 200,
      description:
        "Searches the order ID, the description and the customer's name and address, case-insensitive; or equals the invoice ID."
    })
  ),
  ...keysetQuery,
  ...sumQuery
})
const AdminPaymentQuery = Type.Object({
  ...PaymentQuery.properties,
  merchantId: Type.Optional(Type.Integer({ minimum: 1, maximum: 0x7fff_ffff }))
})
type PaymentQuery = Static<typeof PaymentQuery>

const ListedPayment = Type.Object(
  {
    ...PaymentView.properties,
    amountSats: nullableInteger('What the invoice asks for; null for a demo payment.'),
    receivedSats: nullableInteger('What the provider says came; null while it has said nothing.'),
    provider: Type.String({ description: 'Kind of the provider that made the invoice; demo for a demo payment.' })
  },
  { title: 'ListedPayment' }
)
const pageOf = <Item extends TSchema>(item: Item, title: string) =>
  Type.Object({ payments: Type.Array(item), next: nextPage, total: Type.Optional(ListTotal) }, { title })
const PaymentPage = pageOf(ListedPayment, 'PaymentPage')
export type PaymentPage = Static<typeof PaymentPage>
const AdminPayment = Type.Object({ merchantId: Type.Integer(), ...ListedPayment.properties }, { title: 'AdminPayment' })

const columns: CsvColumns<Payment> = {
  ...memberColumns<Payment>(
    'invoiceId',
    'orderId',
    'status',
    'amount',
    'currency',
    'amountSats',
    'receivedSats',
    'description',
    'customerName',
    'customerEmail',
    'paymentHash'
  ),
  createdAt: ({ createdAt }) => iso(createdAt),
  expiresAt: ({ expiresAt }) => iso(expiresAt),
  paidAt: ({ paidAt }) => iso(paidAt)
}

export function paymentListOperations(payments: Payments): AnyOperation[] {
  const listing = (merchantId: number | null, query: PaymentQuery): Omit<Listing<Payment>, 'columns' | 'view'> => {
    const filter = { merchantId, status: query.status ?? null, period: periodOf(query), text: query.text ?? null }
    return {
      name: 'payments',
      read: (page: KeysetPage) => payments.list(filter, page),
      sum: () => payments.sum(filter),
      keyOf: ({ createdAt, invoiceId }) => ({ at: createdAt, id: invoiceId })
    }
  }
  const view = (payment: Payment) => ({
    ...payments.view(payment),
    amountSats: payment.amountSats,
    receivedSats: payment.receivedSats,
    provider: payment.kind
  })
  const page = (schema: TSchema) => ({ 200: { description: 'One page, newest first.', schema, also: CSV } })
  return [
    defineOperation({
      ...settingsRead,
      id: 'listPayments',
      path: '/api/payments',
      summary: 'Payments, newest first, as a page or as CSV',
      description:
        'Your own alone, also while no subscription is active. A status is as it reads now: what was not paid in time is ' +
        'expired. With `Accept: text/csv` all matches, streamed; amounts as they were sent.',
      tag: 'Payments',
      headers: listingHeaders,
      query: PaymentQuery,
      responses: page(PaymentPage),
      handle: ({ ctx, query }) => listed(ctx, query, { ...listing(merchantOf(ctx).id, query), columns, view })
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminListPayments',
      method: 'GET',
      path: '/api/admin/payments',
      summary: 'Payments of all merchants, newest first, as a page or as CSV',
      description: 'The same over all merchants, or of the one that merchantId names.',
      headers: listingHeaders,
      query: AdminPaymentQuery,
      responses: page(pageOf(AdminPayment, 'AdminPaymentPage')),
      handle: ({ ctx, query }) =>
        listed(ctx, query, {
          ...listing(query.merchantId ?? null, query),
          columns: { merchantId: ({ merchantId }: Payment) => merchantId, ...columns },
          view: payment => ({ merchantId: payment.merchantId, ...view(payment) })
        })
    })
  ]
}

const Customer = Type.Object(
  {
    name: nullableText('Of the latest payment.'),
    email: nullableText(),
    payments: Type.Integer(),
    sats: Type.Integer({ description: 'Satoshis that came in.' }),
    lastAt: isoTime('Of the latest payment.')
  },
  { title: 'Customer' }
)
export type CustomerView = Static<typeof Customer>

const customerRows = records({
  name: optional(text()),
  email: optional(text()),
  payments: integer(),
  sats: amount(),
  lastAt: moment()
})

/** Customers as their payments name them: by email address, else by name. */
export function customerOperations(database: Database): AnyOperation[] {
  return [
    merchantOperation({
      ...settingsRead,
      id: 'listCustomers',
      path: '/api/merchant/customers',
      summary: 'Customers with their payments, the latest first',
      description: `By the email address given with a payment, else by the name. Counts the newest ${MOST_SUMMED} payments.`,
      tag: 'Payments',
      query: Type.Object({
        text: Type.Optional(Type.String({ maxLength: 200, description: 'Part of the name or the address.' })),
        ...pageQuery
      }),
      responses: { 200: { description: 'A bare array.', schema: Type.Array(Customer) } },
      async handle({ merchant, query }) {
        const { skip, take } = pageRange(query, MOST_SUMMED)
        const like = query.text === undefined || query.text === '' ? null : containing(query.text)
        const rows = await withOwnPlan(database, sql =>
          customerRows.all(sql`
            select (array_agg(customer_name order by created_at desc))[1] as name, max(customer_email) as email,
              count(*)::int as payments, max(created_at) as last_at,
              coalesce(sum(case when status = 'paid' then coalesce(received_sats, amount_sats) else received_sats end), 0)::bigint as sats
            from (
              select * from payments
              where merchant_id = ${merchant.id} and coalesce(customer_email, customer_name) is not null
                ${like === null ? sql`` : sql`and (customer_name ilike ${like} or customer_email ilike ${like})`}
              order by created_at desc limit ${MOST_SUMMED}) as named
            group by coalesce(lower(customer_email), customer_name), customer_email is null
            order by last_at desc, 2, 1 limit ${take} offset ${skip}`)
        )
        return rows.map(row => ({ ...row, lastAt: iso(row.lastAt) }))
      }
    })
  ]
}
