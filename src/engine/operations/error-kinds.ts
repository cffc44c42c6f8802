import { defineError, type ErrorCode } from '../../platform/system/errors.ts'

export interface ErrorKind {
  readonly code: ErrorCode
  readonly status: number
}

/** One with the `error` of its body. */
export interface TitledKind extends ErrorKind {
  readonly title: string
}

// Kinds of one domain are defined beside the code that throws them.

export const PLUGIN_RESPONSE = defineError('BG_PLUGIN_RESPONSE', {
  status: null,
  cause: 'A plugin of yours rejected the request with a status and text of its own.',
  fix: 'See the documentation of the plugin.'
})

export const REQUEST_MALFORMED = defineError('BG_REQUEST_MALFORMED', {
  status: 400,
  cause: 'The request is not valid HTTP/1.1, or its path, a header, a form or a credential cannot be parsed.',
  fix: 'Send the request as `message` describes.'
})

export const VALIDATION = defineError('BG_VALIDATION', {
  status: 400,
  cause: 'A field, parameter or header is missing or has a value that is not allowed.',
  fix: 'Correct the field named in `errors` or `message`.'
})

export const INVALID_STATE = defineError('BG_INVALID_STATE', {
  status: 400,
  cause: 'The account, payment, order or subscription is in a state that does not allow the request.',
  fix: 'Read its current state and follow `message` or `error`.'
})

export const ADDRESS_BLOCKED = defineError('BG_ADDRESS_BLOCKED', {
  status: 400,
  cause:
    'The URL of a webhook or proxy points to a scheme, host, port or address range that the gateway does not call.',
  fix: 'Use a public https URL.'
})

export const NOTIFICATION_UNREADABLE = defineError('BG_NOTIFICATION_UNREADABLE', {
  status: 400,
  cause: 'A notification from a payment or billing provider cannot be parsed.',
  fix: 'Compare the webhook settings and API version at the provider with its page in docs/how-to/lightning.'
})

export const IDEMPOTENCY_KEY_REUSED = defineError('BG_IDEMPOTENCY_KEY_REUSED', {
  status: 400,
  cause: 'The idempotency key was used with a different request.',
  fix: 'Use a new key for each new request.'
})

export const KEY_INVALID = defineError('BG_KEY_INVALID', {
  status: 401,
  cause:
    'The API key is missing, wrong, replaced, of another role, or its account is deactivated; or the client certificate is not valid.',
  fix: 'Send the current key in `X-API-Key`, or a certificate that the gateway accepts.'
})

export const UNAUTHORIZED = defineError('BG_UNAUTHORIZED', {
  status: 401,
  title: 'Unauthorized',
  cause: 'A payment credential or signature is missing or does not verify.',
  fix: 'Send a valid credential; `message` says what is wrong with this one.'
})

export const NOT_SIGNED_IN = defineError('BG_NOT_SIGNED_IN', {
  status: 401,
  cause: 'There is no session, or it has expired.',
  fix: 'Sign in again; programs send an API key in `X-API-Key`.'
})

export const FORBIDDEN = defineError('BG_FORBIDDEN', {
  status: 403,
  title: 'Forbidden',
  cause: 'The caller is not allowed to do this from here.',
  fix: "Call from the gateway's own machine or page, or with the admin key, as `message` says."
})

export const ACCOUNT_INACTIVE = defineError('BG_ACCOUNT_INACTIVE', {
  status: 403,
  title: 'Account inactive',
  cause: 'The account is deactivated.',
  fix: 'Contact the operator.'
})

export const SUBSCRIPTION_REQUIRED = defineError('BG_SUBSCRIPTION_REQUIRED', {
  status: 403,
  title: 'Subscription required',
  cause: 'The plan needs a subscription, and the account has none.',
  fix: 'Subscribe.'
})

export const SUBSCRIPTION_NOT_ACTIVE = defineError('BG_SUBSCRIPTION_NOT_ACTIVE', {
  status: 403,
  title: 'Subscription not active',
  cause: 'The subscription is past due, unpaid or canceled.',
  fix: 'Do what `action_required` says.'
})

export const SUBSCRIPTION_EXPIRED = defineError('BG_SUBSCRIPTION_EXPIRED', {
  status: 403,
  title: 'Subscription period expired',
  cause: 'The paid period has ended.',
  fix: 'Renew the subscription.'
})

export const FEATURE_NOT_AVAILABLE = defineError('BG_FEATURE_NOT_AVAILABLE', {
  status: 403,
  title: 'Feature not available',
  cause: 'The feature is not enabled for the account, or the plan allows no more webhook endpoints.',
  fix: 'Do what `action_required` says; the operator sets the feature flags of an account.'
})

export const NOT_FOUND = defineError('BG_NOT_FOUND', {
  status: 404,
  title: 'Not found',
  cause: 'No route serves this path.',
  fix: 'Run `boltgate routes` to list all paths. Routes match the raw bytes of a path.'
})

export const RESOURCE_NOT_FOUND = defineError('BG_RESOURCE_NOT_FOUND', {
  status: 404,
  cause: 'The resource named in `error` does not exist, is not active, or belongs to another account.',
  fix: 'Check the id in the path, and the API key.'
})

export const METHOD_NOT_ALLOWED = defineError('BG_METHOD_NOT_ALLOWED', {
  status: 405,
  title: 'Method not allowed',
  cause: 'The path does not accept this method.',
  fix: 'Use a method listed in `Allow`.'
})

export const REQUEST_TIMEOUT = defineError('BG_REQUEST_TIMEOUT', {
  status: 408,
  title: 'Request Timeout',
  cause: 'The request body arrived too slowly.',
  fix: 'Send it faster, or in smaller requests.'
})

export const CONFLICT = defineError('BG_CONFLICT', {
  status: 409,
  cause: 'The current state of the resource does not allow the change.',
  fix: 'Read the resource again and follow `message` or `error`.'
})

export const ALREADY_EXISTS = defineError('BG_ALREADY_EXISTS', {
  status: 409,
  cause: 'The name, address, key or credential is already in use.',
  fix: 'Choose another one, or change the existing resource.'
})

export const LIMIT_REACHED = defineError('BG_LIMIT_REACHED', {
  status: 409,
  cause: 'The account has reached the maximum number of members, API keys or passkeys.',
  fix: 'Remove one that is no longer used.'
})

export const PAYLOAD_TOO_LARGE = defineError('BG_PAYLOAD_TOO_LARGE', {
  status: 413,
  title: 'Payload too large',
  cause: 'The body exceeds its size limit.',
  fix: 'Send a smaller body; on your own routes `bodyLimit` sets the limit.'
})

export const URI_TOO_LONG = defineError('BG_URI_TOO_LONG', {
  status: 414,
  title: 'URI too long',
  cause: 'The path is longer than a payment can be bound to.',
  fix: 'Shorten it to 1,024 characters.'
})

export const UNSUPPORTED_MEDIA_TYPE = defineError('BG_UNSUPPORTED_MEDIA_TYPE', {
  status: 415,
  title: 'Unsupported media type',
  cause: 'The body has a content type or encoding that the operation does not accept.',
  fix: 'Send `Content-Type: application/json` without `Content-Encoding`.'
})

export const RATE_LIMITED = defineError('BG_RATE_LIMITED', {
  status: 429,
  title: 'Too many requests',
  cause: 'A rate limit or the limit of concurrent requests of a balance is exceeded.',
  fix: 'Retry after `Retry-After`; the operator sets `policies`.'
})

export const AUTH_THROTTLED = defineError('BG_AUTH_THROTTLED', {
  status: 429,
  title: 'Too many failed authentication attempts',
  cause: 'One address sent more than 20 requests with a missing or invalid key within a minute.',
  fix: 'Correct the key, then retry after `Retry-After`.'
})

export const CLIENT_CLOSED = defineError('BG_CLIENT_GONE', {
  status: 499,
  cause: 'The client closed the connection before the exchange was complete. Logged, never sent.',
  fix: 'None needed.'
})

export const INTERNAL = defineError('BG_INTERNAL', {
  status: 500,
  cause: 'An unexpected fault in the gateway or a plugin.',
  fix: 'Search the log for the correlation id, which has the stack, and report it.'
})

export const SETTING_MISSING = defineError('BG_SETTING_MISSING', {
  status: 500,
  title: 'Server configuration error',
  cause: 'The operation needs a setting that is not configured, such as an admin key.',
  fix: 'Set the setting named in the log.'
})

export const UPSTREAM_FAILED = defineError('BG_UPSTREAM_FAILED', {
  status: 502,
  title: 'Bad gateway',
  cause: 'The upstream could not be reached, closed the connection, or sent an invalid response. No payment was spent.',
  fix: 'Retry; the operator checks the upstream. `details` says what failed.'
})

export const SERVICE_UNAVAILABLE = defineError('BG_SERVICE_UNAVAILABLE', {
  status: 503,
  cause: 'The database or Redis is unavailable, or the gateway is overloaded. Nothing was changed or charged.',
  fix: 'Retry after `Retry-After`; the operator checks `/ready` and the log.'
})

export const REQUEST_IN_PROGRESS = defineError('BG_REQUEST_IN_PROGRESS', {
  status: 503,
  title: 'Request in progress',
  cause: 'The first request with this idempotency key is still running.',
  fix: 'Retry the same request after `Retry-After`.'
})

export const UPSTREAM_TIMEOUT = defineError('BG_UPSTREAM_TIMEOUT', {
  status: 504,
  title: 'Gateway timeout',
  cause: 'The upstream did not respond in time. No payment was spent.',
  fix: 'Retry; `timeout` of the upstream sets the limit.'
})
