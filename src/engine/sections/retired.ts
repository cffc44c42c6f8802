import type { Path } from '../config/diagnose.ts'

const SHARE = 'one client address gets a quarter of `connections`; delete the line'
const UNDERSCORES = 'request headers whose names have an underscore are never passed on; delete the line'

/**
 * Removed settings and what replaced them. Paths leave out list indexes; `*` is a name that the operator chose.
 */
export const RETIRED: Readonly<Record<string, string>> = {
  'routes.rechallenge': 'no client pays on a 401 or 403, whatever lines it has; write `renewal: 402` instead',
  'server.limits.keepAlive':
    'an idle client connection is kept for 75 seconds, one of a trusted proxy for 650; delete the line',
  'server.limits.connectionsPerAddress':
    'one client address may open 1,024 connections; name proxies and load generators, which may open more, in server.trustedProxies',
  'server.limits.headerDeadline': 'a request head may take 10 seconds; delete the line',
  'server.limits.idleReadDeadline': 'a request body may pause for a minute; delete the line',
  'server.limits.idleWriteDeadline': 'a client may leave a response unread for a minute; delete the line',
  'server.limits.headerSize': 'a request head may have 80 KiB, which fits every payment credential; delete the line',
  'server.limits.headerCount': 'a request may have 200 header lines; delete the line',
  'server.limits.uploadFloor': 'uploads under 64 bytes a second are ended; delete the line',
  'server.limits.downloadFloor': 'clients that read under 64 bytes a second are disconnected; delete the line',
  'server.limits.floorWindow': 'the slowest upload and reading are measured over 20 seconds; delete the line',
  'server.limits.buffer': 'boltgate keeps up to 256 KiB for a slow client; delete the line',
  'server.limits.buffers': 'boltgate keeps up to 64 MiB for all slow clients of a worker together; delete the line',
  'state.cluster': 'several addresses in `url` are those of a cluster; delete the line',
  metrics: 'boltgate always measures its process too; delete the section',
  'database.pooler': '`listenUrl` says the same; delete the line',
  'upstreams.*.connectTimeout': 'a connection to an upstream must open within 5 seconds; delete the line',
  'routes.upstream.connectTimeout': 'a connection to an upstream must open within 5 seconds; delete the line',
  'upstreams.*.keepAlive': 'boltgate keeps an idle upstream connection for 4 seconds; delete the line',
  'routes.upstream.keepAlive': 'boltgate keeps an idle upstream connection for 4 seconds; delete the line',
  'prices.timeout': 'a price source must answer within 5 seconds; delete the line',
  'prices.refresh': 'boltgate asks for prices every minute; delete the line',
  'prices.maxAge': 'boltgate sells at no price older than 5 minutes; delete the line',
  'storefront.apiVersion': 'boltgate speaks the version that this release was tested with; delete the line',
  'storefront.timeout': 'a call to the platform may take 10 seconds; delete the line',
  'storefront.catalogTtl': 'boltgate reads a catalog every 5 minutes; delete the line',
  'storefront.invoiceExpiry': 'the invoice of a checkout can be paid for 10 minutes; delete the line',
  'billing.timeout': 'a call to the billing provider may take 20 seconds; delete the line',
  payments:
    'an invoice of a payment can be paid for an hour, of the alternate provider for a day, and a demo payment confirms itself after 5 seconds; delete the section',
  'payment.problemBase': 'payment problems have the types of the Payment scheme; delete the line',
  'prices.coingeckoKey': 'boltgate asks CoinGecko once a minute, which needs no key; delete the line',
  'billing.trialDays': 'the first subscription of an account has the trial of the contract, 30 days; delete the line',
  'payment.macaroonLocation': 'macaroons have the location "l402", which no client checks; delete the line',
  'chains.*.cors.maxAge': 'a browser may keep the response to a preflight for an hour; delete the line',
  'chains.*.idempotency.keep': 'a response is given again for a day, as the contract says; delete the line',
  'chains.*.idempotency.wait': 'a repetition waits 30 seconds for the first request; delete the line',
  'chains.*.idempotency.lock': 'a key is free 10 seconds after the worker of its request died; delete the line',
  'chains.*.idempotency.largest': 'responses of up to 1 MiB are given again; delete the line',
  'chains.*.throttle.onError': 'while Redis is down each worker counts its rate limits alone; delete the line',
  'chains.*.mcp.messageLimit': 'messages of up to 4 MiB are read for their receipt; delete the line',
  'upstreams.*.connectionsPerClient': SHARE,
  'routes.upstream.connectionsPerClient': SHARE,
  'upstreams.*.underscoreHeaders': UNDERSCORES,
  'routes.upstream.underscoreHeaders': UNDERSCORES,
  'policies.*.sliding': 'limits of the file have fixed windows; delete the line',
  'prices.sources': 'boltgate asks all its sources, and needs two answers; delete the line',
  'pages.name': 'write `discovery.name`, which names the seller on pages too',
  'payment.realm': 'the realm of payment challenges is the host name of server.publicUrl; delete the line',
  'payment.defaultPrice': 'a route with a challenge and no price costs 10 sats; write `price` on it',
  'plans.*.webhookEndpoints':
    'an account may have 5 webhook endpoints, on the plan free 1; set the `limits` of an account that needs more',
  'payment.maxOutstanding.place': 'one client address may hold four times `address` in one place; delete the line',
  'payment.maxOutstanding.proxy':
    'invoices of all clients together have no cap; those of one client address do; delete the line'
}

const PATTERNS = Object.entries(RETIRED).map(([path, sentence]) => [path.split('.'), sentence] as const)

export function replacementOf(path: Path): string | undefined {
  const steps = path.filter(step => typeof step === 'string')
  return PATTERNS.find(
    ([pattern]) => pattern.length === steps.length && pattern.every((step, at) => step === '*' || step === steps[at])
  )?.[1]
}
