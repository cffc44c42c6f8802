import { Type, type Static } from 'typebox'
import { isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import type { RenewalStep } from './period.ts'
import { type SoldPlan, buyer, PlanView } from '../plans.ts'

/** `incomplete`: not paid yet; `replaced`: the account has a newer one. */
export type BitcoinState = 'incomplete' | 'active' | 'past_due' | 'canceled' | 'replaced'

export interface BitcoinSubscription {
  readonly id: string
  readonly email: string
  readonly customerName: string | null
  readonly plan: SoldPlan
  /** Null until known: buyers without a key are matched by address once they paid. */
  readonly merchantId: number | null
  readonly state: BitcoinState
  /** Null before the first payment. */
  readonly currentPeriodEnd: number | null
  /** Day of the month on which periods end; null before the first payment. */
  readonly anchorDay: number | null
  /** The last mail sent about the current period's end. */
  readonly reminded: RenewalStep | null
  readonly createdAt: number
}

export interface BitcoinInvoice {
  /** 15 random digits (decision 10). */
  readonly invoiceId: string
  readonly subscriptionId: string
  readonly paymentHash: string
  /** Random; sufficient to open the pay page. */
  readonly payToken: string
  /** Whole US dollars. */
  readonly priceUsd: number
  readonly amountSats: number
  readonly description: string
  readonly invoice: string
  readonly kind: KindName
  readonly createdAt: number
  readonly expiresAt: number
  readonly paidAt: number | null
}

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
