import { amount, integer, moment, optional, text, type RecordOf } from '../../platform/database/rows.ts'
import { Type, type Static } from 'typebox'
import { isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import type { RenewalStep } from './period.ts'
import { type SoldPlan, buyer, PlanView } from '../plans.ts'

/** `incomplete`: not paid yet; `replaced`: the account has a newer one. */
export type BitcoinState = 'incomplete' | 'active' | 'past_due' | 'canceled' | 'replaced'

export const subscriptionColumns = {
  id: text(),
  email: text(),
  customerName: optional(text()),
  plan: text<SoldPlan>('plan_tier'),
  /** Null until known: buyers without a key are matched by address once they paid. */
  merchantId: optional(integer()),
  state: text<BitcoinState>(),
  /** Null before the first payment. */
  currentPeriodEnd: optional(moment()),
  /** Day of the month on which periods end; null before the first payment. */
  anchorDay: optional(integer()),
  /** The last mail sent about the current period's end. */
  reminded: optional(text<RenewalStep>()),
  createdAt: moment()
}
export type BitcoinSubscription = RecordOf<typeof subscriptionColumns>

export const invoiceColumns = {
  /** 15 random digits (decision 10). */
  invoiceId: text(),
  subscriptionId: text(),
  paymentHash: text(),
  /** Random; sufficient to open the pay page. */
  payToken: text(),
  /** Whole US dollars. */
  priceUsd: integer(),
  amountSats: amount(),
  description: text(),
  invoice: text(),
  kind: text<KindName>('provider_kind'),
  createdAt: moment(),
  expiresAt: moment(),
  paidAt: optional(moment())
}
export type BitcoinInvoice = RecordOf<typeof invoiceColumns>

const BitcoinPlanView = Type.Object(
  {
    ...PlanView.properties,
    priceSats: Type.Integer({ description: 'The same at the price of this moment, rounded up; 0 for the free plan.' }),
    quoteExpiresAt: isoTime('When that price expires. An invoice keeps its own amount until it expires.')
  },
  { title: 'BitcoinPlan' }
)

export const BitcoinPricingView = Type.Object({ plans: Type.Array(BitcoinPlanView) })
export type BitcoinPricingView = Static<typeof BitcoinPricingView>

/** Body of `POST /api/bitcoin/create-subscription` (decision 167). */
export const BitcoinSubscriptionInput = Type.Object(buyer, { title: 'BitcoinSubscriptionInput' })
export type BitcoinSubscriptionInput = Static<typeof BitcoinSubscriptionInput>

/** Response of `POST /api/bitcoin/create-subscription` (decision 167). */
export const BitcoinSubscriptionView = Type.Object(
  {
    subscriptionId: Type.String(),
    invoiceId: Type.String({ description: '15 digits.' }),
    lightningInvoice: Type.String({ description: 'BOLT 11, for one period.' }),
    paymentHash: Type.String({ description: '64 lower-case hex characters.' }),
    amountSats: Type.Integer(),
    payUrl: Type.String({
      description: 'A page to pay it on. Anyone with the address sees the invoice: treat it as a secret.'
    }),
    expiresAt: isoTime('Until when it can be paid.')
  },
  { title: 'BitcoinSubscription' }
)
export type BitcoinSubscriptionView = Static<typeof BitcoinSubscriptionView>

export const PlanInvoicesView = Type.Object({
  invoices: Type.Array(
    Type.Object(
      {
        invoiceId: Type.String({ description: '15 digits.' }),
        description: Type.String({ description: 'What was bought, for people.' }),
        status: Type.Enum(['unpaid', 'paid', 'expired']),
        priceUsd: Type.Integer({ description: 'Whole US dollars.' }),
        amountSats: Type.Integer(),
        createdAt: isoTime(),
        expiresAt: isoTime('Until when it can be paid.'),
        paidAt: isoTimeOrNull('Null while unpaid.'),
        payUrl: Type.String({
          description: 'Its page, which shows that it was paid once it is. Treat the address as a secret.'
        })
      },
      { title: 'PlanInvoice' }
    ),
    { description: 'Newest first, at most a hundred.' }
  )
})
export type PlanInvoicesView = Static<typeof PlanInvoicesView>
