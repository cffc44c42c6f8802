import type { ResponseEntry } from '../entry.ts'

/** Stores, their orders, and forms of pages. */
export const storeErrors = {
  BG_STORE_NOT_FOUND: {
    status: 404,
    error: 'Store not found',
    cause: 'There is no such store, or it is not active.',
    cure: 'Compare the slug; a merchant opens one with `POST /api/merchant/storefront`.'
  },
  BG_STORE_EXISTS: {
    status: 409,
    error: 'Store exists',
    cause: 'A merchant has one store.',
    cure: 'Change it with `PUT /api/merchant/storefront`.'
  },
  BG_SLUG_TAKEN: {
    status: 409,
    error: 'Slug taken',
    cause: 'Another store has this slug.',
    cure: 'Choose another one.'
  },
  BG_STORE_CREDENTIALS_REQUIRED: {
    status: 400,
    error: 'Store credentials required',
    cause: 'The store came without credentials of its platform.',
    cure: 'Send `clientId` and `clientSecret`, or `adminApiToken`.'
  },
  BG_STORE_CREDENTIALS_REFUSED: {
    status: 400,
    error: 'Store credentials refused',
    cause: 'The platform does not accept the credentials.',
    cure: 'Compare them, and the scopes of the app.'
  },
  BG_STORE_UNKNOWN_AT_PLATFORM: {
    status: 400,
    error: 'Store not found at the platform',
    cause: 'The platform knows no shop of this domain.',
    cure: 'Compare `storefrontDomain`.'
  },
  BG_STORE_TOKEN_MISSING: {
    status: 400,
    error: 'No access token configured',
    cause: 'The store has no credentials for its platform.',
    cure: 'Save them with `PUT /api/merchant/storefront`.'
  },
  BG_STORE_CURRENCY_UNSUPPORTED: {
    status: 400,
    error: 'Unsupported currency',
    cause: 'The shop does not sell in USD.',
    cure: 'Only shops that do can be opened.'
  },
  BG_STORE_INFO_UNAVAILABLE: {
    status: 502,
    error: 'No shop info from the platform',
    cause: 'The platform gave no shop info.',
    cure: '`upstreamStatus` has its status; try again later.'
  },
  BG_STORE_UNAVAILABLE: {
    status: 503,
    error: 'Store unavailable',
    cause: 'The store cannot take payments at the moment. Nothing was charged.',
    cure: '`retryable` says whether waiting helps.'
  },
  BG_CATALOG_UNAVAILABLE: {
    status: 503,
    error: 'Catalog unavailable',
    cause: 'The platform cannot be asked for its goods.',
    cure: 'Try again after `Retry-After`.'
  },
  BG_TAX_UNAVAILABLE: {
    status: 503,
    error: 'Tax calculation failed',
    cause: 'The platform could not work out the tax. Nothing was charged.',
    cure: 'Try again after `Retry-After`.'
  },
  BG_CART_INVALID: {
    status: 400,
    error: 'Invalid cart',
    cause: 'An item is unknown or not available, or there are too many.',
    cure: '`message` says which.'
  },
  BG_BUYER_LOCATION_INVALID: {
    status: 400,
    error: 'Invalid buyer location',
    cause: '`X-Buyer-Location` is missing or not `{country}-{state}-{zip}`.',
    cure: 'Send such as `US-CA-94105`.'
  },
  BG_COUNTRY_NOT_SERVED: {
    status: 400,
    error: 'Not shipped to this country',
    cause: 'The store ships within its own country only.',
    cure: 'Give an address there.'
  },
  BG_PROTOCOL_DISABLED: {
    status: 400,
    error: 'Protocol disabled',
    cause: 'The credential is of a scheme that is switched off here.',
    cure: 'Pay with the other scheme.'
  },
  BG_ORDER_NOT_FOUND: {
    status: 404,
    error: 'Order not found',
    cause: 'No order is opened by this token or credential.',
    cure: 'Compare the id and the token.'
  },
  BG_PAYMENT_PROOF_MISSING: {
    status: 400,
    error: 'Missing payment proof',
    cause: 'An order that is not paid is claimed without its credential.',
    cure: 'Pay, and send the credential.'
  },
  BG_CREDENTIAL_NOT_VERIFIED: {
    status: 400,
    error: 'L402 verification failed',
    cause: 'The credential of a claim does not verify.',
    cure: '`message` says why.'
  },
  BG_CLAIM_WINDOW_EXPIRED: {
    status: 400,
    error: 'Claim window expired',
    cause: 'The order was not claimed in time.',
    cure: 'Ask the shop.'
  },
  BG_ALREADY_CLAIMED: {
    status: 400,
    error: 'Order already claimed',
    cause: 'The order was claimed, or is being claimed at this moment.',
    cure: 'Read its status.'
  },
  BG_ORDER_REFUNDED: {
    status: 400,
    error: 'Order refunded',
    cause: 'What was paid has been given back.',
    cure: 'Order again.'
  },
  BG_ORDER_PLACED: {
    status: 400,
    error: 'Order placed',
    cause: 'The shop has this order, so it is not given back here.',
    cure: 'Ask the shop.'
  },
  BG_REFUND_REQUEST_INVALID: {
    status: 400,
    error: 'Invalid refund address',
    cause: 'The address for the money cannot be used.',
    cure: 'Send one as `message` asks.'
  },
  BG_ORDER_NOTHING_TO_RETRY: {
    status: 400,
    error: 'Nothing to retry',
    cause: 'The shop has the order, or the buyer has not said where it goes.',
    cure: 'Nothing, or wait for the buyer.'
  },
  BG_STORE_ORDER_FAILED: {
    status: 502,
    error: 'Store order failed',
    cause: 'The shop could not make the order. The claim is not used up.',
    cure: 'Send the claim again; the administrator can retry it too.'
  },
  BG_FORM_UNREADABLE: {
    status: 400,
    cause: 'A form of a page cannot be read.',
    cure: 'Reload the page.'
  }
} as const satisfies Record<string, ResponseEntry>
