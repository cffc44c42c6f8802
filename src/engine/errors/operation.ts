import type { ErrorEntry } from './entry.ts'

/** What goes wrong between the gateway and others while it runs: written to the log as `code` of `err`. */
export const operationErrors = {
  BG_STATE_AWAY: {
    cause:
      'Redis cannot be reached, or gave no usable reply. Limits are not counted exactly meanwhile, or requests are refused where `onError: deny` says so.',
    cure: 'Look at Redis and at `state.url`; the gateway goes on by itself.'
  },
  BG_MAIL_FAILED: {
    cause: 'A mail could not be sent.',
    cure: 'Look at `mail` and at the mail server; it is tried again where that may help.'
  },
  BG_WEBHOOK_FAILED: {
    cause: 'The last attempt to deliver a webhook failed.',
    cure: 'The merchant mends the URL and sends it again with `POST /api/merchant/webhooks/deliveries/{id}/resend`.'
  },
  BG_PAYOUT_UNCERTAIN: {
    cause: 'A provider was asked to pay out and its response was lost.',
    cure: 'Nothing: it is looked up and never sent again. After days an administrator may settle it (decision 209).'
  },
  BG_STORE_PLATFORM: {
    cause: 'The platform of a store could not be asked, or refused.',
    cure: "The message says what was asked and what came back; credentials are the merchant's to renew."
  },
  BG_BILLING_PROVIDER: {
    cause: 'The billing provider could not be asked, or refused.',
    cure: 'Look at `billing.key`, and at the status page of the provider.'
  },
  BG_PRICE_SOURCE: {
    cause: 'A source of prices gave none that can be used; others are asked.',
    cure: 'Nothing, unless all fail: then payments in fiat are 503, and `prices.urls` or the network is to be looked at.'
  }
} as const satisfies Record<string, ErrorEntry>
