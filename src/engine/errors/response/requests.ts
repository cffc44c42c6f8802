import type { ResponseEntry } from '../entry.ts'

/** Requests in general: their form, their size, their time. */
export const requestErrors = {
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
  }
} as const satisfies Record<string, ResponseEntry>
