import type { ResponseEntry } from '../entry.ts'

/** Providers of invoices, and the keys to them. */
export const providerErrors = {
  BG_PROVIDER_KEY_REQUIRED: {
    status: 400,
    error: 'Payment provider key required',
    cause: 'The account has no key for the provider that would make the invoice.',
    cure: 'Save one with `PUT /api/merchant/primary-key` or `alternate-key`.'
  },
  BG_PROVIDER_REFUSED: {
    status: 502,
    error: 'Payment provider error',
    cause: 'The provider refused the key, a scope of it, or the request.',
    cure: '`message` says which; validate the key, then save another one.'
  },
  BG_PROVIDER_UNAVAILABLE: {
    status: 503,
    error: 'Payment provider unavailable',
    cause: 'The provider cannot be asked, or has been asked too often. Nothing was charged.',
    cure: 'Try again after `Retry-After`.'
  },
  BG_PROVIDER_NOTIFICATION_UNREADABLE: {
    status: 400,
    cause: 'A notification of a payment provider cannot be read.',
    cure: "The text says what is missing; compare the provider's settings of webhooks."
  },
  BG_PRICE_FEED_UNAVAILABLE: {
    status: 503,
    error: 'Price feed unavailable',
    cause: 'What this currency is worth in bitcoin is not known at the moment.',
    cure: 'Try again after `Retry-After`, or send an amount in BTC.'
  },
  BG_PRICE_OVER_LIMIT: {
    status: 503,
    error: 'Price over its limit',
    cause: "A price in fiat comes to more satoshis than the proxy's `priceSats` or `defaultPriceSats` allows.",
    cure: 'The merchant raises that limit, or lowers the price; nothing was charged.'
  },
  BG_SANDBOX_DISABLED: {
    status: 403,
    error: 'Sandbox disabled',
    cause: "This gateway's provider is not the sandbox, so it pays no invoices.",
    cure: 'Pay with a wallet.'
  },
  BG_SANDBOX_INVOICE_INVALID: {
    status: 400,
    error: 'Invalid invoice',
    cause: 'What was given is no Lightning invoice.',
    cure: 'Copy the whole invoice.'
  },
  BG_SANDBOX_INVOICE_EXPIRED: {
    status: 400,
    error: 'Invoice expired',
    cause: 'The invoice can no longer be paid.',
    cure: 'Ask for a new one.'
  },
  BG_SANDBOX_AMOUNT_INVALID: {
    status: 400,
    error: 'Invalid amount',
    cause: '`receivedSats` is not a part of the invoice.',
    cure: 'Give at least 1 and less than the whole, for underpaid alone.'
  },
  BG_SANDBOX_STATE_OVER: {
    status: 409,
    error: 'Not possible any more',
    cause: 'The invoice is paid, has expired, or has as much of its amount already.',
    cure: 'Take a new invoice.'
  }
} as const satisfies Record<string, ResponseEntry>
