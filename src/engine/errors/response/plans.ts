import type { ResponseEntry } from '../entry.ts'

/** Subscriptions, plans, and what they are paid by. */
export const planErrors = {
  BG_ACCOUNT_INACTIVE: {
    status: 403,
    error: 'Account inactive',
    cause: 'The account was deactivated.',
    cure: 'Ask the operator.'
  },
  BG_SUBSCRIPTION_REQUIRED: {
    status: 403,
    error: 'Subscription required',
    cause: 'The plan needs a subscription, and none is on file.',
    cure: 'Subscribe.'
  },
  BG_SUBSCRIPTION_NOT_ACTIVE: {
    status: 403,
    error: 'Subscription not active',
    cause: 'The subscription is past due, unpaid or canceled.',
    cure: 'Do what `action_required` says.'
  },
  BG_SUBSCRIPTION_EXPIRED: {
    status: 403,
    error: 'Subscription period expired',
    cause: 'The paid period has ended.',
    cure: 'Renew it.'
  },
  BG_FEATURE_NOT_AVAILABLE: {
    status: 403,
    error: 'Feature not available',
    cause: 'The account does not have this feature, or its plan allows no more webhook endpoints.',
    cure: 'Do what `action_required` says; an operator sets the flags of an account.'
  },
  BG_PLAN_PRICE_LIMIT: {
    status: 402,
    error: 'Plan price limit reached',
    cause: 'The plan allows no challenge of this price. It cannot be paid away.',
    cure: 'Ask less, or take a larger plan.'
  },
  BG_PLAN_MONTHLY_LIMIT: {
    status: 402,
    error: 'Plan monthly limit reached',
    cause: "The month's challenges of the plan are used up.",
    cure: 'Wait for the next month of UTC, or take a larger plan.'
  },
  BG_PLAN_ENDPOINT_LIMIT: {
    status: 402,
    error: 'Plan endpoint limit reached',
    cause: "The plan's endpoints are used up.",
    cure: 'Retire one with `POST /api/l402/endpoints/retire`, or take a larger plan.'
  },
  BG_BALANCE_USED_UP: {
    status: 402,
    error: 'Balance used up',
    cause: 'A metered response used up the balance while it was sent, and was ended there.',
    cure: 'Pay for a further bundle and send the request again.'
  },
  BG_PLAN_NOT_SOLD: {
    status: 400,
    cause: 'The plan is unknown, retired, free or sold by contact only.',
    cure: 'Take one of those in the text.'
  },
  BG_PLAN_BY_CONTACT: {
    status: 400,
    cause: 'The account is on a plan that is changed by contact only.',
    cure: 'Ask the operator.'
  },
  BG_PLAN_TIER_INVALID: {
    status: 400,
    cause: '`planTier` is none that is known.',
    cure: 'Send free, individual or l402.'
  },
  BG_PLAN_NOT_FOR_SALE: {
    status: 503,
    error: 'Plan not for sale',
    cause: "The billing provider's price is not the one that is listed, or cannot be read.",
    cure: 'The operator corrects it as the log says.'
  },
  BG_ALREADY_SUBSCRIBED: {
    status: 400,
    error: 'This account has a subscription already. Change its card or cancel it over /api/billing/customer-portal.',
    cause: 'A second subscription would be charged beside the first.',
    cure: 'Use the customer portal.'
  },
  BG_NO_CARD_SUBSCRIPTION: {
    status: 400,
    error:
      'This account has no subscription by card, so there is nothing to manage. Buy a plan over /api/billing/create-checkout-session first.',
    cause: 'There is no customer at the billing provider.',
    cure: 'Buy a plan by card first.'
  },
  BG_PAID_BY_CARD: {
    status: 400,
    error: 'The account pays for its plan by card. Cancel that subscription first, or both would be charged.',
    cause: 'A plan in bitcoin would be charged beside the one by card.',
    cure: 'Cancel the one by card.'
  },
  BG_BILLING_NOTIFICATION_UNREADABLE: {
    status: 400,
    cause: 'A notification of the billing provider cannot be read.',
    cure: 'Compare the API version of the webhook endpoint with the one in docs/operating.md.'
  },
  BG_BILLING_FAILED: {
    status: 502,
    error: 'Billing provider error',
    cause: 'The billing provider refused.',
    cure: 'The operator looks at `billing.key` and at the log.'
  },
  BG_BILLING_UNAVAILABLE: {
    status: 503,
    error: 'Billing provider unavailable',
    cause: 'The billing provider cannot be asked.',
    cure: 'Try again after `Retry-After`.'
  },
  BG_SESSION_NOT_FOUND: {
    status: 404,
    error: 'Session not found',
    cause: 'The sandbox has no such checkout session.',
    cure: 'Begin a new one.'
  }
} as const satisfies Record<string, ResponseEntry>
