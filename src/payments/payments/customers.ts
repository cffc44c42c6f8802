import { Type, type Static } from 'typebox'
import { merchantOf } from '../../accounts/merchants/principal.ts'
import { isoTime } from '../../engine/formats/iso-time.ts'
import { nullableText } from '../../engine/formats/text-patterns.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import type { Database } from '../../platform/database/database.ts'
import { MOST_SUMMED, withOwnPlan } from '../../platform/database/own-plan.ts'
import { amount, containing, integer, moment, optional, records, text } from '../../platform/database/rows.ts'

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
    defineOperation({
      id: 'listCustomers',
      method: 'GET',
      path: '/api/merchant/customers',
      mount: { use: 'merchant-api', chain: 'settings-read' },
      summary: 'Customers with their payments, the latest first',
      description: `By the email address given with a payment, else by the name. Counts the newest ${MOST_SUMMED} payments.`,
      tag: 'Payments',
      access: 'merchant',
      query: Type.Object({
        text: Type.Optional(Type.String({ maxLength: 200, description: 'Part of the name or the address.' })),
        skip: Type.Optional(Type.Integer({ description: 'From 0, the default.' })),
        take: Type.Optional(Type.Integer({ description: 'From 1 to 100, by default 50.' }))
      }),
      responses: { 200: { description: 'A bare array.', schema: Type.Array(Customer) } },
      async handle({ ctx, query }) {
        const skip = Math.min(Math.max(query.skip ?? 0, 0), MOST_SUMMED)
        const take = Math.min(Math.max(query.take ?? 50, 1), 100)
        const like = query.text === undefined || query.text === '' ? null : containing(query.text)
        const rows = await withOwnPlan(database, sql =>
          customerRows.all(sql`
            select (array_agg(customer_name order by created_at desc))[1] as name, max(customer_email) as email,
              count(*)::int as payments, max(created_at) as last_at,
              coalesce(sum(case when status = 'paid' then coalesce(received_sats, amount_sats) else received_sats end), 0)::bigint as sats
            from (
              select * from payments
              where merchant_id = ${merchantOf(ctx).id} and coalesce(customer_email, customer_name) is not null
                ${like === null ? sql`` : sql`and (customer_name ilike ${like} or customer_email ilike ${like})`}
              order by created_at desc limit ${MOST_SUMMED}) as named
            group by coalesce(lower(customer_email), customer_name), customer_email is null
            order by last_at desc, 2, 1 limit ${take} offset ${skip}`)
        )
        return { status: 200, body: rows.map(row => ({ ...row, lastAt: new Date(row.lastAt).toISOString() })) }
      }
    })
  ]
}
