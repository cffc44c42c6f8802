import { TEXT } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import { isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import { keysetQuery } from '../../engine/operations/keyset.ts'
import { AccountView, FeaturesView } from '../../accounts/merchants/account.ts'
import type { PlanTier } from '../../accounts/merchants/plans.ts'
import type { Merchant, SubscriptionFacts } from '../../accounts/merchants/schema.ts'
import { webhookSecretLength } from '../../accounts/merchants/webhook-address.ts'
import type { TransactionSql } from '../../platform/database/database.ts'

/** Longest name of an account, in characters. */
const MAX_NAME = 200
/** Longest address that SMTP can carry, in characters (RFC 5321, 4.5.3.1.3). */
const MAX_EMAIL = 254
/** Longest provider key, in characters; that of an LND node carries a certificate (decision 71). */
const MAX_KEY = 8192
/** Longest reason of a rejection, in characters. */
const MAX_REASON = 500

// A name has one visible character at least, and the database holds no NUL. Each part takes what the one before cannot,
// so that a long text is refused as quickly as it is read.
const NAME = '^[^\\S\\u0000-\\u001f]*[^\\s\\u0000-\\u001f\\u007f][^\\u0000-\\u001f\\u007f]*$'
// A plain address: nothing that a mail header could be broken with.
const EMAIL = '^[^\\s@<>()\\[\\]\\\\,;:"\\u0000-\\u001f\\u007f]+@[^\\s@<>()\\[\\]\\\\,;:"\\u0000-\\u001f\\u007f]+$'

const nullableText = Type.Unsafe<string | null>({ type: ['string', 'null'] })
const nullableInteger = Type.Unsafe<number | null>({ type: ['integer', 'null'] })

const name = Type.String({
  minLength: 1,
  maxLength: MAX_NAME,
  pattern: NAME,
  'x-rule': 'Must have a visible character, and no control characters.'
})
const email = Type.String({
  minLength: 3,
  maxLength: MAX_EMAIL,
  pattern: EMAIL,
  'x-email': true,
  'x-rule': 'Must be an email address, such as name@example.com.',
  description: 'Unique; compared and stored in lower case.'
})
const providerKey = (slot: string) =>
  Type.String({
    maxLength: MAX_KEY,
    description: `Key of the ${slot} provider; stored encrypted and never returned. Blank is refused.`
  })
const keys = {
  alternateApiKey: Type.Optional(providerKey('alternate')),
  primaryApiKey: Type.Optional(providerKey('primary'))
}
// Its form is looked at by the one rule for webhook addresses, whose refusals have one shape (decisions 1 and 153).
const callbackUrl = Type.String({
  description: 'Where webhooks go; the same thing and the same rules as webhookUrl of the merchant.'
})
/** Shown once, in the response to what made it (decision 67). */
const madeSecret = Type.Optional(
  Type.String({
    description:
      'The secret that signs webhooks, where this request made one because a callback URL was set and no secret was stored. Shown this once.'
  })
)

/** Body of `POST /api/admin/merchants` (contract, Admin). */
export const MerchantInput = Type.Object(
  { name, email, ...keys, callbackUrl: Type.Optional(callbackUrl) },
  { title: 'MerchantInput' }
)
export type MerchantInput = Static<typeof MerchantInput>

/** Body of `PUT /api/admin/merchants/{merchantId}`: any of them (contract, Admin; decisions 78, 152 and 154). */
export const MerchantChange = Type.Object(
  {
    name: Type.Optional(name),
    email: Type.Optional(email),
    ...keys,
    callbackUrl: Type.Optional(Type.String({ description: 'As on creation; an empty text clears it.' })),
    webhookSecret: Type.Optional(
      Type.String({
        description: `Signs webhooks: ${webhookSecretLength.min} to ${webhookSecretLength.max} characters, stored encrypted and never returned. An empty text clears it, and another is made while a callback URL is set.`
      })
    ),
    planTier: Type.Optional(
      Type.String({
        description:
          'free, individual or l402; retired spellings are taken and rewritten. Naming a plan sets the flags that come with it.'
      })
    ),
    isActive: Type.Optional(Type.Boolean()),
    subscriptionStatus: Type.Optional(
      Type.Enum(['active', 'trialing', 'past_due', 'canceled', 'unpaid', 'incomplete', 'incomplete_expired'], {
        description: 'Stands until billing says otherwise.'
      })
    ),
    currentPeriodEnd: Type.Optional(
      Type.Unsafe<string | null>({
        type: ['string', 'null'],
        'x-openapi': { format: 'date-time' },
        description:
          'ISO 8601; until when the plan is paid. Null: no end is on file. Stands until billing says otherwise.'
      })
    ),
    features: Type.Optional(
      Type.Object(
        {
          refundsEnabled: Type.Optional(Type.Boolean()),
          multiCurrencyEnabled: Type.Optional(Type.Boolean()),
          l402Enabled: Type.Optional(Type.Boolean())
        },
        { description: 'Flags of the account. They are set after those that come with a planTier of the same request.' }
      )
    )
  },
  { title: 'MerchantChange' }
)
export type MerchantChange = Static<typeof MerchantChange>

/** Rows of a page of accounts, where nobody says how many, and at most. */
export const MERCHANT_PAGE = Object.freeze({ usual: 100, most: 1000 })

/**
 * Query of `GET /api/admin/merchants`; out of range is clamped (decision 12). Without either the list is whole
 * (contract, Admin).
 */
export const MerchantQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      description: `Rows of a page, from 1 to ${MERCHANT_PAGE.most}; ${MERCHANT_PAGE.usual} where only after is said.`
    })
  ),
  after: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 2_147_483_647,
      description: 'merchantId of the last row of the page before; Link has the address of the next page.'
    })
  ),
  search: Type.Optional(
    Type.String({
      maxLength: 200,
      description: 'Stands in name or address, in upper or lower case; or is the merchantId.'
    })
  ),
  isActive: Type.Optional(Type.Boolean()),
  planTier: Type.Optional(Type.Enum(['free', 'individual', 'l402'])),
  format: keysetQuery.format
})
export type MerchantQuery = Static<typeof MerchantQuery>

/** A merchant as a row of the list. `planTier` is the resolved one. */
export const MerchantSummary = Type.Object(
  {
    merchantId: Type.Integer(),
    name: Type.String(),
    email: Type.String(),
    planTier: Type.String(),
    subscriptionStatus: nullableText,
    isActive: Type.Boolean(),
    createdAt: isoTime()
  },
  { title: 'Merchant' }
)
export type MerchantSummary = Static<typeof MerchantSummary>

/**
 * What an administrator sees of a merchant: what the merchant sees itself, and more (contract, Merchant account;
 * decision 156).
 */
export const MerchantDetail = Type.Object(
  {
    ...AccountView.properties,
    features: Type.Object({ ...FeaturesView.properties, slaUptimePercentage: Type.Number() }),
    hasAlternateKey: Type.Boolean(),
    hasPrimaryKey: Type.Boolean(),
    hasWebhookUrl: Type.Boolean(),
    currentPeriodEnd: isoTimeOrNull('Until when the plan is paid; null where no end is on file.'),
    billingCustomerId: nullableText,
    billingSubscriptionId: nullableText
  },
  { title: 'MerchantDetail' }
)
export type MerchantDetail = Static<typeof MerchantDetail>

/** Answer to a change: the row as it is now. */
export const ChangedMerchant = Type.Object(
  { ...MerchantSummary.properties, webhookSecret: madeSecret },
  { title: 'ChangedMerchant' }
)
export type ChangedMerchant = Static<typeof ChangedMerchant>

/** Answer to a creation. The key is shown this once. */
export const CreatedMerchant = Type.Object(
  {
    merchantId: Type.Integer(),
    name: Type.String(),
    email: Type.String(),
    apiKey: Type.String({ description: 'Shown this once.' }),
    createdAt: isoTime(),
    webhookSecret: madeSecret
  },
  { title: 'CreatedMerchant' }
)
export type CreatedMerchant = Static<typeof CreatedMerchant>

/** Answer to a regeneration. The key is shown this once. */
export const RegeneratedKey = Type.Object(
  { merchantId: Type.Integer(), apiKey: Type.String({ description: 'Shown this once.' }), regeneratedAt: isoTime() },
  { title: 'RegeneratedKey' }
)
export type RegeneratedKey = Static<typeof RegeneratedKey>

/** Query of `GET /api/admin/pending-subscriptions`. */
export const PendingQuery = Type.Object({
  includeProcessed: Type.Optional(
    Type.Boolean({ default: false, description: 'Whether approved and rejected ones are listed too.' })
  )
})

/** Body of an approval; it may be left out. */
export const Approval = Type.Object({
  merchantName: Type.Optional(name),
  ...keys,
  callbackUrl: Type.Optional(callbackUrl)
})
export type Approval = Static<typeof Approval>

/** Body of a rejection; it may be left out. */
export const Rejection = Type.Object({
  reason: Type.Optional(
    Type.String({ maxLength: MAX_REASON, pattern: TEXT, 'x-rule': 'Must not hold control characters.' })
  )
})

/** Answer to an approval that found an account with the address. */
export const LinkedMerchant = Type.Object(
  {
    merchantId: Type.Integer(),
    name: Type.String(),
    email: Type.String(),
    linked: Type.Literal(true),
    message: Type.String(),
    webhookSecret: madeSecret
  },
  { title: 'LinkedMerchant' }
)
export type LinkedMerchant = Static<typeof LinkedMerchant>

/** A pending subscription (contract, Pending subscription). `planTier` is the resolved one. */
export const PendingSubscriptionView = Type.Object(
  {
    id: Type.Integer(),
    email: Type.String(),
    customerName: nullableText,
    billingCustomerId: nullableText,
    billingSubscriptionId: nullableText,
    planTier: Type.String(),
    subscriptionStatus: nullableText,
    createdAt: isoTime(),
    isApproved: Type.Boolean(),
    isRejected: Type.Boolean(),
    reviewedAt: isoTimeOrNull(),
    rejectionReason: nullableText,
    linkedMerchantId: nullableInteger
  },
  { title: 'PendingSubscription' }
)
export type PendingSubscriptionView = Static<typeof PendingSubscriptionView>

/** What a completed checkout without an account leaves behind (decision 171). */
export interface NewPendingSubscription extends SubscriptionFacts {
  /** Stored in lower case. */
  readonly email: string
  readonly customerName: string | null
  readonly planTier: PlanTier
}

/** A pending subscription as it is kept. Times in milliseconds since the epoch. */
export interface PendingSubscription extends NewPendingSubscription {
  readonly id: number
  readonly state: 'pending' | 'approved' | 'rejected'
  readonly createdAt: number
  /** When it was approved or rejected; null while it waits. */
  readonly reviewedAt: number | null
  readonly rejectionReason: string | null
  /** The account that came of it, made or found; null unless approved. */
  readonly linkedMerchantId: number | null
}

/** An approval that is about to stand. */
export interface ApprovedSubscription {
  readonly merchant: Merchant
  readonly subscription: PendingSubscription
  /** Whether the account was there already. */
  readonly linked: boolean
}

/**
 * Called for each approval inside the transaction that writes it, exactly once: the one place for the merchant's mail
 * (decision 155), whose row must stand or fall with the approval. Use only the handle passed in; what it throws undoes
 * the approval.
 */
export type OnApproved = (sql: TransactionSql, approved: ApprovedSubscription) => Promise<void>
