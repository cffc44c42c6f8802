import { TEXT, nullableText, nullableInteger } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import { isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import { keysetQuery } from '../../engine/operations/keyset.ts'
import { AccountHead, AccountView, FeaturesView } from '../../accounts/merchants/account.ts'
import { AccountLimits, type PlanTier } from '../../accounts/merchants/plans.ts'
import type { Merchant, SubscriptionFacts } from '../../accounts/merchants/schema.ts'
import { webhookSecretLength } from '../../accounts/merchants/webhook-address.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import type { ConfigurationChange, KnownPlugins } from '../../engine/config/effective.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'

const MAX_NAME = 200
/** Longest address in SMTP, in characters (RFC 5321, 4.5.3.1.3). */
const MAX_EMAIL = 254
/** Longest provider key in characters; an LND node's includes a certificate (decision 71). */
const MAX_KEY = 8192
const MAX_REASON = 500

// At least one visible character; the database rejects NUL. The parts are disjoint, so that matching takes linear time.
const NAME = '^[^\\S\\u0000-\\u001f]*[^\\s\\u0000-\\u001f\\u007f][^\\u0000-\\u001f\\u007f]*$'
// A plain address: safe in a mail header.
const EMAIL = '^[^\\s@<>()\\[\\]\\\\,;:"\\u0000-\\u001f\\u007f]+@[^\\s@<>()\\[\\]\\\\,;:"\\u0000-\\u001f\\u007f]+$'

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
// Validated by the common rule for webhook addresses, whose errors have one shape (decisions 1 and 153).
const callbackUrl = Type.String({
  description: 'Where webhooks go; the same thing and the same rules as webhookUrl of the merchant.'
})
/** Shown only once (decision 67). */
const madeSecret = Type.Optional(
  Type.String({
    description:
      'The secret that signs webhooks, where this request made one because a callback URL was set and no secret was stored. Shown only once.'
  })
)

/** Body of `POST /api/admin/merchants` (contract, Admin). */
export const MerchantInput = Type.Object(
  { name, email, ...keys, callbackUrl: Type.Optional(callbackUrl) },
  { title: 'MerchantInput' }
)
export type MerchantInput = Static<typeof MerchantInput>

/** Body of `PUT /api/admin/merchants/{merchantId}`, partial (contract, Admin; decisions 78, 152 and 154). */
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
        description: 'Kept until billing reports another value.'
      })
    ),
    currentPeriodEnd: Type.Optional(
      nullableText({
        'x-openapi': { format: 'date-time' },
        description: 'End of the paid period, in ISO 8601; null without one. Kept until billing reports another value.'
      })
    ),
    limits: Type.Optional(
      Type.Partial(AccountLimits, { description: "Replaces the limits of the account that differ from its plan's." })
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

/** Default and maximum page size. */
export const MERCHANT_PAGE = Object.freeze({ usual: 100, most: 1000 })

/**
 * Query of `GET /api/admin/merchants`; out of range is clamped (decision 12). Without paging the list is complete
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
      description: 'Searches name and email address, case-insensitive; or equals the merchantId.'
    })
  ),
  isActive: Type.Optional(Type.Boolean()),
  planTier: Type.Optional(Type.Enum(['free', 'individual', 'l402'])),
  format: keysetQuery.format
})
export type MerchantQuery = Static<typeof MerchantQuery>

/** Row of the list. `planTier` is resolved. */
export const MerchantSummary = Type.Object(AccountHead.properties, { title: 'Merchant' })
export type MerchantSummary = Static<typeof MerchantSummary>

/** The merchant's own view and admin data (contract, Merchant account; decision 156). */
export const MerchantDetail = Type.Object(
  {
    ...AccountView.properties,
    features: Type.Object({ ...FeaturesView.properties, slaUptimePercentage: Type.Number() }),
    hasAlternateKey: Type.Boolean(),
    hasPrimaryKey: Type.Boolean(),
    hasWebhookUrl: Type.Boolean(),
    currentPeriodEnd: isoTimeOrNull('Until when the plan is paid; null where no end is on file.'),
    billingCustomerId: nullableText(),
    billingSubscriptionId: nullableText()
  },
  { title: 'MerchantDetail' }
)
export type MerchantDetail = Static<typeof MerchantDetail>

export const ChangedMerchant = Type.Object(
  { ...MerchantSummary.properties, webhookSecret: madeSecret },
  { title: 'ChangedMerchant' }
)
export type ChangedMerchant = Static<typeof ChangedMerchant>

/** The key is shown only once. */
export const CreatedMerchant = Type.Object(
  {
    merchantId: Type.Integer(),
    name: Type.String(),
    email: Type.String(),
    apiKey: Type.String({ description: 'Shown only once.' }),
    createdAt: isoTime(),
    webhookSecret: madeSecret
  },
  { title: 'CreatedMerchant' }
)
export type CreatedMerchant = Static<typeof CreatedMerchant>

export const RegeneratedKey = Type.Object(
  { merchantId: Type.Integer(), apiKey: Type.String({ description: 'Shown only once.' }), regeneratedAt: isoTime() },
  { title: 'RegeneratedKey' }
)
export type RegeneratedKey = Static<typeof RegeneratedKey>

export const PendingQuery = Type.Object({
  includeProcessed: Type.Optional(
    Type.Boolean({ default: false, description: 'Whether approved and rejected ones are listed too.' })
  )
})

export const Approval = Type.Object({
  merchantName: Type.Optional(name),
  ...keys,
  callbackUrl: Type.Optional(callbackUrl)
})
export type Approval = Static<typeof Approval>

export const Rejection = Type.Object({
  reason: Type.Optional(
    Type.String({ maxLength: MAX_REASON, pattern: TEXT, 'x-rule': 'Must not hold control characters.' })
  )
})

/** Response to an approval that linked an existing account. */
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

/** Pending subscription (contract, Pending subscription). `planTier` is resolved. */
export const PendingSubscriptionView = Type.Object(
  {
    id: Type.Integer(),
    email: Type.String(),
    customerName: nullableText(),
    billingCustomerId: nullableText(),
    billingSubscriptionId: nullableText(),
    planTier: Type.String(),
    subscriptionStatus: nullableText(),
    createdAt: isoTime(),
    isApproved: Type.Boolean(),
    isRejected: Type.Boolean(),
    reviewedAt: isoTimeOrNull(),
    rejectionReason: nullableText(),
    linkedMerchantId: nullableInteger()
  },
  { title: 'PendingSubscription' }
)
export type PendingSubscriptionView = Static<typeof PendingSubscriptionView>

/** Created by a completed checkout without an account (decision 171). */
export interface NewPendingSubscription extends SubscriptionFacts {
  /** Stored in lower case. */
  readonly email: string
  readonly customerName: string | null
  readonly planTier: PlanTier
}

export interface PendingSubscription extends NewPendingSubscription {
  readonly id: number
  readonly state: 'pending' | 'approved' | 'rejected'
  readonly createdAt: number
  readonly reviewedAt: number | null
  readonly rejectionReason: string | null
  /** Created or linked account; null unless approved. */
  readonly linkedMerchantId: number | null
}

export interface ApprovedSubscription {
  readonly merchant: Merchant
  readonly subscription: PendingSubscription
  /** Whether the account existed before. */
  readonly linked: boolean
}

/**
 * Called exactly once per approval, in its transaction: the merchant's mail must commit with it (decision 155). Use
 * only the given handle; throwing rolls the approval back.
 */
export type OnApproved = (sql: TransactionSql, approved: ApprovedSubscription) => Promise<void>

/** Outcome of a reload. */
export interface ReloadNote {
  readonly at: number
  readonly changes: readonly ConfigurationChange[]
  /** Why the file was rejected; null when it is in use. */
  readonly problem: string | null
}

export interface RunningConfiguration {
  readonly config: GatewayConfig
  /** Configuration at startup, for values that a reload does not change. */
  readonly started: GatewayConfig
  readonly plugins: KnownPlugins
  readonly reload: ReloadNote | null
}
