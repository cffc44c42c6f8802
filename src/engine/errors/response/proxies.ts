import type { ResponseEntry } from '../entry.ts'

/** Proxies of merchants. */
export const proxyErrors = {
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
  }
} as const satisfies Record<string, ResponseEntry>
