import type { ResponseEntry } from './entry.ts'

/**
 * What clients are answered with. The code of a response stands in the log; the body has what the contract says, where
 * `status` and `error` are what clients decide by (contract, Errors).
 */
export const responseErrors = {
  // Requests in general
  BG_REQUEST_MALFORMED: {
    status: 400,
    error: 'Bad Request',
    cause:
      'The bytes of the request are no HTTP/1.1, its body breaks its own framing, or a credential or notification in it cannot be read.',
    cure: 'Send what `message` asks for.'
  },
  BG_REQUEST_NOT_FORWARDED: {
    status: 400,
    error: 'Bad request',
    cause: 'The path or a header of the request cannot be sent on to the upstream.',
    cure: 'Write the path as RFC 3986 has it.'
  },
  BG_VALIDATION: {
    status: 400,
    error: 'One or more validation errors occurred.',
    cause: 'A field is missing or has not the form that its schema says.',
    cure: '`errors` names each field and what is wrong with it.'
  },
  BG_REQUEST_TIMEOUT: {
    status: 408,
    error: 'Request Timeout',
    cause: 'The body came too slowly.',
    cure: 'Send it faster, or in smaller pieces.'
  },
  BG_NOT_FOUND: {
    status: 404,
    error: 'Not found',
    cause: 'Nothing is served at this path.',
    cure: '`boltgate routes` prints every path; mind that a route matches the bytes of the path.'
  },
  BG_METHOD_NOT_ALLOWED: {
    status: 405,
    error: 'Method not allowed',
    cause: 'The path does not take this method.',
    cure: '`Allow` names those that it takes.'
  },
  BG_PAYLOAD_TOO_LARGE: {
    status: 413,
    error: 'Payload too large',
    cause: 'The body is larger than its limit.',
    cure: 'Send less; on a route of your own `bodyLimit` sets the limit.'
  },
  BG_URI_TOO_LONG: {
    status: 414,
    error: 'URI too long',
    cause: 'The path is longer than what can be paid for.',
    cure: 'Shorten it to 1,024 characters.'
  },
  BG_UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    error: 'Unsupported media type',
    cause: 'The body is not of the type that the operation takes, or is compressed.',
    cure: 'Send `Content-Type: application/json` and no `Content-Encoding`.'
  },
  BG_PRICE_UNKNOWN: {
    status: 400,
    error: 'Price unknown',
    cause:
      'The field that the price hangs on is missing, has a value without a price, stands twice, or cannot be read.',
    cure: '`message` names the field; send it once, in plain letters, with one of the values that it names.'
  },
  BG_BALANCE_TOO_SMALL: {
    status: 400,
    error: 'Beyond a balance',
    cause:
      'A metered request may use more than one payment buys here, so that no balance could bear it. Nothing was charged.',
    cure: 'Ask for less, such as by a smaller `max_tokens`; the operator can sell a larger `bundle`.'
  },
  BG_PRICE_UNAVAILABLE: {
    status: 503,
    error: 'Price unavailable',
    cause: 'The price server of the route is away, was too slow, or named no price. Nothing was charged.',
    cure: 'Try again after `Retry-After`; the log has what the price server did.'
  },
  BG_METERING_UNAVAILABLE: {
    status: 503,
    error: 'Metering unavailable',
    cause:
      "A merchant's endpoint sells a balance, and the chain of its route has no `meter`, which takes from balances.",
    cure: 'The operator adds `meter` behind `challenge` to the chain that the message names; `boltgate check` warns of it.'
  },
  BG_CLIENT_GONE: {
    status: 499,
    cause: 'The client closed the connection before its request was whole. It is only logged.',
    cure: 'Nothing.'
  },
  BG_INTERNAL: {
    status: 500,
    error: 'An unexpected error occurred',
    cause: 'A fault in the gateway or in a plugin.',
    cure: 'Look for `correlationId` in the log, which has the stack, and report it.'
  },
  BG_RESPONSE_UNUSABLE: {
    status: 500,
    error: 'Internal server error',
    cause: 'A plugin or operation gave a response that cannot be written as HTTP.',
    cure: 'Look for the correlation id in the log.'
  },
  BG_SETTING_MISSING: {
    status: 500,
    error: 'Server configuration error',
    cause: 'The operation needs a setting that the operator has not made, such as an admin key.',
    cure: 'The log names the setting.'
  },
  BG_SERVICE_UNAVAILABLE: {
    status: 503,
    error: 'Service unavailable',
    cause: 'The database or the state is away, or the gateway has too much to do. Nothing was half done.',
    cure: 'Try again after `Retry-After`; the operator looks at `/ready` and at the log.'
  },
  BG_UPSTREAM_FAILED: {
    status: 502,
    error: 'Bad gateway',
    cause: 'The upstream could not be reached, broke off, or sent what is no HTTP. A payment was not used up.',
    cure: 'Try again; the operator looks at the upstream, `details` says what failed.'
  },
  BG_UPSTREAM_TIMEOUT: {
    status: 504,
    error: 'Gateway timeout',
    cause: 'The upstream gave no response in time. A payment was not used up.',
    cure: 'Try again; `timeout` of the upstream sets the time.'
  },
  BG_PLUGIN_RESPONSE: {
    status: null,
    cause: "A plugin of the operator's own refused the request, with a status and text of its own.",
    cure: 'See what that plugin says of it.'
  },
  // Keys and limits
  BG_KEY_REQUIRED: {
    status: 401,
    error: 'API key required',
    cause: 'The request has no API key.',
    cure: 'Send it in `X-API-Key`.'
  },
  BG_KEY_INVALID: {
    status: 401,
    error: 'Invalid API key',
    cause: 'The key is wrong, was replaced, belongs to another role, or its account is deactivated.',
    cure: 'Take the present key; do not try others.'
  },
  BG_UNAUTHORIZED: {
    status: 401,
    error: 'Unauthorized',
    cause: 'A credential or signature does not verify.',
    cure: '`message` says what is wrong with it.'
  },
  BG_NOT_SIGNED_IN: {
    status: 401,
    error: 'Not signed in',
    cause: 'There is no session, or it has ended.',
    cure: 'Ask for a new link.'
  },
  BG_SESSION_REQUIRED: {
    status: 401,
    error: 'Authentication required',
    cause: 'A page asked, and nobody is signed in, or the session has ended.',
    cure: 'Sign in again; a program sends its API key in `X-API-Key`.'
  },
  BG_MEMBER_EXISTS: {
    status: 409,
    error: 'This address is a member already',
    cause: 'Somebody with the address has joined the account.',
    cure: 'Change the role with `PUT /api/merchant/members/{memberId}`.'
  },
  BG_MEMBERS_FULL: {
    status: 409,
    error: 'An account has at most 100 members',
    cause: 'The account has as many members and invitations as there may be.',
    cure: 'Remove those who need it no more.'
  },
  BG_LAST_OWNER: {
    status: 409,
    error: 'An account needs an owner: make somebody else one first',
    cause: 'The last owner would be removed or get another role; an invitation that nobody has taken does not count.',
    cure: 'Make another member an owner first.'
  },
  BG_MEMBER_UNKNOWN: {
    status: 404,
    error: 'Member not found',
    cause: 'The account has no such member.',
    cure: 'List them with `GET /api/merchant/members`.'
  },
  BG_SESSION_UNKNOWN: {
    status: 404,
    error: 'No such session',
    cause: 'Whoever is signed in has no such session.',
    cure: 'List them with `GET /api/auth/sessions`.'
  },
  BG_PASSKEY_REFUSED: {
    status: 400,
    error: 'Passkey refused',
    cause:
      'What the browser sent is no new passkey for this gateway: its five minutes were over, it was begun elsewhere, or made for another address.',
    cure: 'Begin again on the page of passkeys, at the address of `publicUrl`.'
  },
  BG_PASSKEY_KNOWN: {
    status: 409,
    error: 'This passkey was added already',
    cause: 'Somebody has added the same credential.',
    cure: 'Sign in with it, or add another.'
  },
  BG_PASSKEYS_LIMIT: {
    status: 409,
    error: 'A person has at most 20 passkeys',
    cause: 'There are as many as there may be.',
    cure: 'Remove one that is no longer used.'
  },
  BG_PASSKEY_UNKNOWN: {
    status: 404,
    error: 'No such passkey',
    cause: 'Whoever is signed in has no such passkey.',
    cure: 'List them with `GET /api/auth/passkeys`.'
  },
  BG_PASSKEYS_IMPOSSIBLE: {
    status: 409,
    error: 'No passkeys here',
    cause: 'Browsers make passkeys only for a host name over https, or for localhost.',
    cure: 'Set `server.publicUrl` to the address that people use, with https.'
  },
  BG_ACCOUNT_UNKNOWN: {
    status: 404,
    error: 'Account not found',
    cause: 'Whoever is signed in is no member of that account.',
    cure: '`GET /api/auth/session` lists the accounts.'
  },
  BG_FIRST_KEY_TAKEN: {
    status: 409,
    error: 'The first key was fetched already',
    cause:
      'The account has no first key that waits: it was fetched or replaced, or the account was not made for a subscription.',
    cure: 'Replace the key with `POST /api/merchant/regenerate-key`.'
  },
  BG_ROLE_REQUIRED: {
    status: 403,
    error: 'Role required',
    cause: 'Whoever is signed in, or a key that only reads, may not do this in the account.',
    cure: 'An owner of the account changes the role; `required_role` says which one it takes.'
  },
  BG_API_KEY_NOT_FOUND: {
    status: 404,
    error: 'API key not found',
    cause: 'The account has no API key with this id, or it has ended.',
    cure: 'See `GET /api/merchant/keys`.'
  },
  BG_API_KEY_FIRST: {
    status: 409,
    error: 'The first key cannot be removed; replace it',
    cause: 'Every account has one API key at least.',
    cure: 'Replace it: `POST /api/merchant/regenerate-key`, or `POST /api/merchant/keys/{keyId}/rotate`.'
  },
  BG_API_KEYS_FULL: {
    status: 409,
    cause: 'The account has as many further API keys as there may be; one that goes on after its rotation counts.',
    cure: 'Remove one that nobody uses any more: `DELETE /api/merchant/keys/{keyId}`.'
  },
  BG_FORBIDDEN: {
    status: 403,
    error: 'Forbidden',
    cause: 'The caller may not do this from where it is.',
    cure: "Call from the gateway's own machine, or with the admin key, as `message` says."
  },
  BG_AUTH_THROTTLED: {
    status: 429,
    error: 'Too many failed authentication attempts',
    cause: 'More than 20 requests with a missing or wrong key came from one address within a minute.',
    cure: 'Correct the key, then wait as long as `Retry-After` says.'
  },
  BG_RATE_LIMITED: {
    status: 429,
    error: 'Too many requests',
    cause: "A policy's limit is used up.",
    cure: "Wait as long as `Retry-After` says; policies are the operator's."
  },
  BG_IDEMPOTENCY_KEY_REUSED: {
    status: 400,
    error: 'Idempotency key was already used with a different request.',
    cause: 'The key stands for another body.',
    cure: 'Take a new key for each new request.'
  },
  BG_IDEMPOTENCY_KEY_TOO_LONG: {
    status: 400,
    cause: 'An idempotency key is longer than 256 characters.',
    cure: 'Shorten it; a UUID is enough.'
  },
  BG_IDEMPOTENCY_KEY_INVALID: {
    status: 400,
    error: 'Invalid idempotency key',
    cause: 'The idempotency key of a challenge is blank or longer than 200 characters.',
    cure: 'Send a shorter one, or none.'
  },
  BG_REQUEST_IN_PROGRESS: {
    status: 503,
    error: 'Request in progress',
    cause: 'The first request with this idempotency key still runs.',
    cure: 'Send the same again after `Retry-After`.'
  },
  // Subscription and plan
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
    cause: 'The account has not this feature.',
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
  BG_PLAN_WEBHOOK_LIMIT: {
    status: 402,
    error: 'Plan webhook limit reached',
    cause:
      'The account has as many webhook endpoints as its plan allows; the webhook URL counts, also where none is set.',
    cure: 'Remove one with `DELETE /api/merchant/webhooks/endpoints/{endpointId}`, or take a larger plan.'
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
  },
  // Providers
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
  },
  // Payments and refunds
  BG_PAYMENT_NOT_FOUND: {
    status: 404,
    error: 'Payment not found',
    cause: "There is no such payment, or it is another merchant's.",
    cure: 'Compare the id and the key.'
  },
  BG_ORDER_ID_TAKEN: {
    status: 400,
    error: 'A payment with this orderId already exists',
    cause: 'An order id is taken for good.',
    cure: 'Read that payment with `GET /api/payments/order/{orderId}`, or take a new id.'
  },
  BG_MERCHANT_UNUSABLE: {
    status: 400,
    error: 'Merchant not found or inactive',
    cause: 'The account was deactivated while the request ran.',
    cure: 'Ask the operator.'
  },
  BG_AMOUNT_INVALID: {
    status: 400,
    cause: 'The amount has too many places for its currency, or is too large.',
    cure: 'Send what the text allows.'
  },
  BG_REFUND_NOT_FOUND: {
    status: 404,
    error: 'Refund not found',
    cause: "There is no such refund, or it is another merchant's.",
    cure: 'Compare the id and the key.'
  },
  BG_REFUND_INVOICE_NOT_FOUND: {
    status: 400,
    error: 'Invoice not found',
    cause: 'A refund names a payment that this merchant does not have.',
    cure: 'Send the `invoiceId` of one of yours.'
  },
  BG_INVOICE_NOT_FOUND: {
    status: 404,
    error: 'Invoice not found',
    cause: 'There is no such payment, or the sandbox made no such invoice.',
    cure: 'Give one of yours, made by this gateway.'
  },
  BG_PAYMENT_NOT_REFUNDABLE: {
    status: 400,
    cause: 'The payment is in a state in which nothing can be given back.',
    cure: 'The text says why.'
  },
  BG_REFUND_AMOUNT_EXCEEDED: {
    status: 400,
    cause: 'More would be given back than came in.',
    cure: 'The text says how much is left.'
  },
  BG_REFUND_AMOUNT_REQUIRED: {
    status: 400,
    cause: '`amountSatoshis` is required for `ln` and on the primary provider.',
    cure: 'Send it.'
  },
  BG_REFUND_ADDRESS_INVALID: {
    status: 400,
    cause: '`refundAddress` does not fit `refundType`, the network or the amount.',
    cure: 'Send an address or a fresh invoice as the text asks.'
  },
  BG_REFUND_ADDRESS_IN_USE: {
    status: 400,
    error: 'Another refund already pays the Lightning invoice in refundAddress; ask the payer for a new one.',
    cause: 'One invoice can be paid once.',
    cure: 'Ask the payer for a new invoice.'
  },
  BG_REFUND_PROVIDER_CHANGED: {
    status: 400,
    cause: 'The payment was made at another kind of provider than is set now.',
    cure: 'Set that provider again to give it back.'
  },
  BG_REFUND_TYPE_UNSUPPORTED: {
    status: 400,
    cause: 'The provider cannot send refunds of this type.',
    cure: 'Take the other type.'
  },
  BG_REFUND_REFUSED: {
    status: 400,
    cause: 'The provider refused to send the refund; nothing was sent.',
    cure: "The text has the provider's reason."
  },
  BG_REFUND_SETTLEMENT_INVALID: {
    status: 400,
    cause: 'The members of a settlement by hand do not fit each other.',
    cure: 'The text says which.'
  },
  BG_REFUND_NOT_SETTLED: {
    status: 409,
    error: 'Refund not settled',
    cause: 'The refund cannot be settled by hand now.',
    cure: '`message` says why, and from when it can.'
  },
  BG_SESSION_CLOSED: {
    status: 409,
    error: 'Session closed',
    cause: 'A prepaid session is closed already.',
    cure: 'Nothing; `refund` of the session says what became of what was left.'
  },
  BG_SESSION_REFUND_NOT_SENT: {
    status: 409,
    error: 'Refund not sent',
    cause: 'The refund of a prepaid session is not one that is known to have failed, or its invoice is taken.',
    cure: '`message` says which. What is looked up may still have been paid.'
  },
  BG_SESSION_DEPOSIT_UNKNOWN: {
    status: 503,
    error: 'Deposit unknown',
    cause:
      "A session's deposit was shown after its challenge had ended, and its provider cannot say whether it was paid. Nothing was used up.",
    cure: 'Send the same again after `Retry-After`; the provider may be away, or the payment under way.'
  },
  // Pay per request
  BG_CHALLENGES_UNAVAILABLE: {
    status: 503,
    error: 'Payment challenges unavailable',
    cause: "No challenge can be made: signing fails, or the scheme has no name for the provider's network.",
    cure: 'Try again after `Retry-After`.'
  },
  BG_CHALLENGE_NOT_RECORDED: {
    status: 503,
    error: 'Challenge not recorded',
    cause: 'The challenge could not be written, so none was issued.',
    cure: 'Try again after `Retry-After`.'
  },
  BG_VERIFICATION_UNAVAILABLE: {
    status: 503,
    error: 'Payment verification unavailable',
    cause: 'The payment could not be looked up; nothing was used up.',
    cure: 'Send the same request again.'
  },
  BG_PAYMENT_NOT_CONFIRMED: {
    status: 503,
    error: 'Payment not confirmed',
    cause: 'The use of the payment could not be written in time; it was not used up.',
    cure: 'Send the same request again.'
  },
  BG_BALANCE_UNAVAILABLE: {
    status: 503,
    error: 'Balance unavailable',
    cause: 'The balance that pays for the request could not be asked; nothing was taken from it.',
    cure: 'Send the same request again.'
  },
  BG_REVOCATION_UNAVAILABLE: {
    status: 503,
    error: 'Revocation unavailable',
    cause: 'A revocation could not be written.',
    cure: 'Send it again; nothing is known to be revoked.'
  },
  BG_PROBLEM_REQUEST_INVALID: {
    status: 400,
    error: 'Invalid request',
    cause: "The body of a producer's request is not valid.",
    cure: '`detail` and `errors` say what.'
  },
  BG_PROBLEM_PRICE_INVALID: {
    status: 400,
    error: 'Invalid price',
    cause: '`priceSats` is no whole number from 1 to 1,000,000,000.',
    cure: 'Send one.'
  },
  BG_CHALLENGE_NOT_FOUND: {
    status: 404,
    error: 'Challenge not found',
    cause: 'This account has no challenge with this payment hash.',
    cure: 'Compare the hash and the key.'
  },
  BG_ENDPOINT_NOT_FOUND: {
    status: 404,
    error: 'Endpoint not found',
    cause: 'This account has made no challenge for this resource.',
    cure: 'Compare `resource` with `GET /api/l402/endpoints`.'
  },
  BG_IDEMPOTENCY_CONFLICT: {
    status: 409,
    error: 'Idempotency conflict',
    cause: 'The key is bound to a live challenge for another resource or price.',
    cure: 'Take a new key.'
  },
  BG_ENDPOINT_RETIRED: {
    status: 409,
    error: 'Endpoint retired',
    cause: 'The merchant has retired this resource.',
    cure: 'Take another name.'
  },
  // Proxies
  BG_PROXY_NOT_FOUND: {
    status: 404,
    error: 'Proxy not found',
    cause: 'There is no such proxy, or it is not active.',
    cure: 'Compare the id.'
  },
  BG_PROXY_PATH_NOT_ALLOWED: {
    status: 403,
    error: 'Path not allowed',
    cause: 'The proxy does not sell this path. Nothing was charged.',
    cure: 'Its merchant sets `allowedPaths` and `blockedPaths`.'
  },
  BG_PROXY_UNAVAILABLE: {
    status: 503,
    error: 'Proxy unavailable',
    cause: "The proxy's merchant may not sell at the moment. Nothing was charged; what was paid is still served.",
    cure: 'Try again later.'
  },
  BG_PROXY_TARGET_REFUSED: {
    status: 400,
    cause: '`targetBaseUrl` is no address that may be called: not https, a private range, or a blocked port.',
    cure: 'The text says which.'
  },
  BG_PROXY_ENDPOINT_TWICE: {
    status: 400,
    cause: 'Two prices for one method and path.',
    cure: 'Remove one.'
  },
  BG_PROXY_METER_WITHOUT_PRICE: {
    status: 400,
    cause: 'An endpoint with `meter` has the price 0, so nobody could have a balance to use it.',
    cure: 'Give `priceSats`, what a balance costs, or leave `meter` out.'
  },
  BG_PROXY_METER_UNAVAILABLE: {
    status: 400,
    cause: 'An endpoint has a `meter`, and no route of this gateway that serves proxies has `meter` in its chain.',
    cure: 'Leave `meter` out, or ask the operator to add `meter` behind `challenge` to the chain of those routes.'
  },
  BG_PROXY_AUTH_HEADER_MISSING: {
    status: 400,
    error: 'authValue needs authHeader, the name of the header that carries it.',
    cause: '`authValue` came without `authHeader`.',
    cure: 'Send both.'
  },
  // Accounts
  BG_MERCHANT_NOT_FOUND: {
    status: 404,
    error: 'Merchant not found',
    cause: 'There is no such merchant.',
    cure: 'Compare the id.'
  },
  BG_EMAIL_TAKEN: {
    status: 409,
    error: 'A merchant with this email already exists',
    cause: 'Another account has this address.',
    cure: 'Take another one, or change that account.'
  },
  BG_WEBHOOK_URL_INVALID: {
    status: 400,
    cause: 'The webhook URL is no http(s) address.',
    cure: 'Send a whole address.'
  },
  BG_WEBHOOK_URL_BLOCKED: {
    status: 400,
    cause: 'The webhook URL leads to a host, port or range that is not called.',
    cure: 'Use a public https address.'
  },
  BG_WEBHOOK_MEMBERS_MISSING: {
    status: 400,
    error: 'webhookUrl or webhookSecret is required',
    cause: 'Neither was sent, so there is nothing to change.',
    cure: 'Send one of them.'
  },
  BG_WEBHOOK_URL_MISSING: {
    status: 400,
    error: 'No webhook URL is set',
    cause: 'There is nowhere to send it.',
    cure: 'Set one with `PUT /api/merchant/webhook-url`.'
  },
  BG_WEBHOOK_ENDPOINT_NOT_FOUND: {
    status: 404,
    error: 'Webhook endpoint not found',
    cause: "There is no such webhook endpoint, or it is another merchant's.",
    cure: 'See `GET /api/merchant/webhooks/endpoints`. The first one is changed with `PUT /api/merchant/webhook-url`.'
  },
  BG_WEBHOOK_ENDPOINT_OFF: {
    status: 400,
    error: 'The webhook endpoint is paused or was removed',
    cause: 'There is nowhere to send it.',
    cure: 'Resume the endpoint with `PUT /api/merchant/webhooks/endpoints/{endpointId}`.'
  },
  BG_DELIVERY_NOT_FOUND: {
    status: 404,
    error: 'Delivery not found',
    cause: "There is no such delivery, or it is another merchant's.",
    cure: 'Compare the id.'
  },
  BG_PENDING_NOT_FOUND: {
    status: 404,
    error: 'Pending subscription not found',
    cause: 'There is no such pending subscription.',
    cure: 'Compare the id.'
  },
  BG_PENDING_PROCESSED: {
    status: 400,
    cause: 'The pending subscription was approved or rejected before.',
    cure: 'Nothing.'
  },
  BG_JOB_NOT_FOUND: {
    status: 404,
    error: 'Failed job not found',
    cause: 'The job is no longer among the failed ones.',
    cure: 'Reload the dashboard.'
  },
  // Stores
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
