import t from 'tap'
import { ConfigError } from '../../../src/engine/config/diagnose.ts'
import type { Environment } from '../../../src/engine/config/interpolate.ts'
import { loadConfigText } from '../../../src/engine/config/load.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import { pluginFacts } from './plugin-facts.ts'

/** A sound file; each mistake below is one replacement in it. */
const sound = `mode: development
server:
  listen: 127.0.0.1:8080
  publicUrl: "\${PUBLIC_URL:-}"
  workers: 1
secrets: { master: "\${BOLTGATE_SECRET:-}" }
payment: { serviceName: boltgate, tokenValidity: 1h }
policies:
  burst: { limit: 5, window: 10s }
chains:
  paid:
    - correlation
    - throttle: { policy: burst }
    - body-limit: { limit: 1MiB }
    - challenge
    - forward
  merchant: [correlation, { auth: { as: merchant } }, { throttle: { policy: read } }, idempotency, internal]
  proxied: [throttle, proxy, challenge]
routes:
  - match: { method: POST, path: [/api/payments, /api/refunds] }
    chain: merchant
    upstream: { internal: api }
  - match: { path: "/l402/proxy/:proxyId/*" }
    chain: proxied
    upstream: { proxy: ":proxyId" }
  - match: { host: api.example.com, path: /v1/* }
    price: 10 sats
    chain: paid
    upstream: { url: "https://internal.example:8443" }
`

async function problemsOf(text: string, env: Environment = {}) {
  try {
    await loadConfigText('gateway.yaml', text, env, {
      plugins: pluginFacts,
      providers: providerKinds,
      internals: ['api']
    })
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n')
    throw error
  }
}

type Mistake = readonly [name: string, from: string, to: string, line: string, env?: Environment]

const mistakes: readonly Mistake[] = [
  [
    'an example of another route',
    '    price: 10 sats\n',
    '    price: 10 sats\n    examples: [ { request: GET /v2/weather } ]\n',
    'gateway.yaml:28:28: routes[2].examples[0].request: found "GET /v2/weather", which this route does not take; allowed: a method and a path of its match [BG_CONFIG_CONFLICT]'
  ],
  [
    'a price beside a meter',
    '    price: 10 sats\n',
    '    price: 10 sats\n    meter: { bundle: 100 sats, prices: 1 msat }\n',
    'gateway.yaml:27:5: routes[2].price: found price beside meter; allowed: one of them, since what one payment costs is the bundle of the meter [BG_CONFIG_CONFLICT]'
  ],
  [
    'tokens for a pattern with a named segment',
    'path: /v1/* }',
    'path: "/v1/:id" }\n    tokenPath: pattern',
    'gateway.yaml:27:16: routes[2].tokenPath: found pattern beside the path "/v1/:id"; allowed: one path without named segments, such as "/v1/*", since a token says one prefix; or exact [BG_CONFIG_CONFLICT]'
  ],
  [
    'tokens for several patterns',
    'path: /v1/* }',
    'path: [/v1/*, /v2/*] }\n    tokenPath: pattern',
    'gateway.yaml:27:16: routes[2].tokenPath: found pattern beside 2 paths; allowed: one path without named segments, such as "/v1/*", since a token says one prefix; or exact [BG_CONFIG_CONFLICT]'
  ],
  [
    'a meter that nothing in the chain reads',
    '    price: 10 sats\n',
    '    meter: { bundle: 100 sats, prices: 1 msat }\n',
    'gateway.yaml:27:5: routes[2].meter: found a meter, but the chain "paid" has nothing that takes what was used from a balance; allowed: a chain with the entry meter behind challenge [BG_CONFIG_CONFLICT]'
  ],
  [
    'a price of a unit without its own unit',
    '    price: 10 sats\n',
    '    meter: { bundle: 100 sats, prices: 2 }\n',
    'gateway.yaml:27:40: routes[2].meter.prices: found 2; allowed: a price such as "2 msat", "1 sat" or "$0.000002", from 0 msat to 1000000000000 msat [BG_CONFIG_VALUE]'
  ],
  [
    'a table of prices without an entry',
    '    price: 10 sats\n',
    '    price: { by: { json: model }, of: {} }\n',
    'gateway.yaml:27:39: routes[2].price.of: found an empty mapping; allowed: a mapping with an entry for at least one value of the field, such as { small: 1 sat } [BG_CONFIG_VALUE]'
  ],
  [
    'a table of prices of a meter without an entry',
    '    price: 10 sats\n',
    '    meter: { bundle: 100 sats, prices: { by: { json: model }, of: {} } }\n',
    'gateway.yaml:27:67: routes[2].meter.prices.of: found an empty mapping; allowed: a mapping with an entry for at least one value of the field, such as { small: 1 sat } [BG_CONFIG_VALUE]'
  ],
  [
    'a meter whose prices are empty',
    '    price: 10 sats\n',
    '    meter: { bundle: 100 sats, prices: {} }\n',
    'gateway.yaml:27:40: routes[2].meter.prices: found an empty mapping; allowed: a price such as 2 msat, { input: 2 msat, output: 8 msat }, a table by a field of the request, or { catalog: ./models.json, markup: 5% } [BG_CONFIG_VALUE]'
  ],
  [
    'a list that holds itself',
    '[/api/payments, /api/refunds]',
    '&paths [/api/payments, *paths]',
    'gateway.yaml:20:57: routes[0].match.path[1]: found the alias *paths inside its own anchor; allowed: an alias of a value above it [BG_CONFIG_SYNTAX]'
  ],
  [
    'a required setting that holds a variable which is not set',
    'path: /v1/*',
    'path: "${PATHS}"',
    'gateway.yaml:26:43: routes[2].match.path: the environment variable PATHS is not set; set it, or give a default: ${PATHS:-default} [BG_CONFIG_VARIABLE]'
  ],
  [
    'a tab in the indentation',
    '  workers: 1',
    '\tworkers: 1',
    'gateway.yaml:5:1: found a tab in the indentation; allowed: spaces only, such as two for each tab [BG_CONFIG_SYNTAX]'
  ],
  [
    'a key indented too little',
    '  workers: 1',
    ' workers: 1',
    'gateway.yaml:5:1: found an indentation that fits nothing above it; allowed: the keys of a mapping, or the dashes of a list, in one column [BG_CONFIG_SYNTAX]'
  ],
  [
    'a key indented too far',
    '  workers: 1',
    '    workers: 1',
    'gateway.yaml:5:1: found an indentation that fits nothing above it; allowed: the keys of a mapping, or the dashes of a list, in one column [BG_CONFIG_SYNTAX]'
  ],
  [
    'a line without its colon',
    'mode: development',
    'mode development',
    'gateway.yaml:1:1: found a line without the colon of "key: value"; allowed: a key, a colon and a space, then the value [BG_CONFIG_SYNTAX]'
  ],
  [
    'a bracket that is not closed',
    '[/api/payments, /api/refunds]',
    '[/api/payments, /api/refunds',
    'gateway.yaml:20:34: found a list or mapping in brackets that is not closed; allowed: every [ with its ] and every { with its }, indented below its key [BG_CONFIG_SYNTAX]'
  ],
  [
    'a quote that is not closed',
    'serviceName: boltgate',
    'serviceName: "boltgate',
    'gateway.yaml:7:25: found a text that begins with a quote and has no closing one; allowed: a quote at both ends [BG_CONFIG_SYNTAX]'
  ],
  [
    'a text with a colon and without quotes',
    'mode: development',
    'mode: a: b',
    'gateway.yaml:1:7: found a second "key: value" where a value should be (a wrong indentation, or a colon in an unquoted text); allowed: one value; quote a text with ": " in it [BG_CONFIG_SYNTAX]'
  ],
  [
    'a duplicate key',
    '  workers: 1',
    '  workers: 1\n  workers: 2',
    'gateway.yaml:6:3: server.workers: found the key "workers" a second time; allowed: each key once (the first is on line 5) [BG_CONFIG_DUPLICATE]'
  ],
  [
    'an unknown key',
    '  workers: 1',
    '  wrokers: 1',
    'gateway.yaml:5:3: server.wrokers: found the unknown key "wrokers"; allowed: listen, publicUrl, proxyUrl, tls, clientCa, http2, workers, trustedProxies, limits. Did you mean "workers"? [BG_CONFIG_UNKNOWN_KEY]'
  ],
  [
    'a misspelt plugin',
    '- throttle: { policy: burst }',
    '- thorttle: { policy: burst }',
    'gateway.yaml:13:7: chains.paid[1].thorttle: found the unknown plugin "thorttle"; allowed: auth, body-limit, challenge, correlation, forward, idempotency, internal, proxy, throttle, or a path such as ./my-plugin.ts. Did you mean "throttle"? [BG_CONFIG_REFERENCE]'
  ],
  [
    'a misspelt key beside a plugin',
    '- body-limit: { limit: 1MiB }',
    '- body-limit: { limit: 1MiB }\n      disable: true',
    'gateway.yaml:15:7: chains.paid[2].disable: found the unknown key "disable" beside the plugin; allowed: one plugin in an entry, with when, disabled and mode beside it. Did you mean "disabled"? [BG_CONFIG_UNKNOWN_KEY]'
  ],
  [
    'an unknown setting of a plugin',
    'body-limit: { limit: 1MiB }',
    'body-limit: { limits: 1MiB }',
    'gateway.yaml:14:21: chains.paid[2].body-limit.limits: found the unknown key "limits"; allowed: limit. Did you mean "limit"? [BG_CONFIG_UNKNOWN_KEY]'
  ],
  [
    "a grace for prices that are merchants' own",
    '    upstream: { proxy: ":proxyId" }',
    '    priceGrace: 1h\n    upstream: { proxy: ":proxyId" }',
    "gateway.yaml:25:5: routes[1].priceGrace: found a grace for prices on a route of merchants' proxies, whose prices are theirs; allowed: priceGrace of each proxy, over /api/proxy [BG_CONFIG_CONFLICT]"
  ],
  [
    'an unknown policy',
    'policy: burst',
    'policy: brust',
    'gateway.yaml:13:27: chains.paid[1].throttle.policy: found the unknown policy "brust"; allowed: admin, burst, checkout-create, console, global, l402-proxy, magic-link, passkey, payment-create, read, webhook, write. Did you mean "burst"? [BG_CONFIG_REFERENCE]'
  ],
  [
    'an unknown chain',
    'chain: merchant',
    'chain: merchants',
    'gateway.yaml:21:12: routes[0].chain: found the unknown chain "merchants"; allowed: merchant, paid, proxied. Did you mean "merchant"? [BG_CONFIG_REFERENCE]'
  ],
  [
    'an unknown internal upstream',
    'internal: api }',
    'internal: apo }',
    'gateway.yaml:22:27: routes[0].upstream.internal: found the unknown internal upstream "apo"; allowed: api. Did you mean "api"? [BG_CONFIG_REFERENCE]'
  ],
  [
    'a route without an upstream',
    '    upstream: { proxy: ":proxyId" }\n',
    '',
    'gateway.yaml:23:5: routes[1].upstream: found nothing; this key is required: a name under upstreams, or a mapping with exactly one of files, internal, proxy and url [BG_CONFIG_MISSING_KEY]'
  ],
  [
    'an upstream without a target',
    'upstream: { proxy: ":proxyId" }',
    'upstream: { timeout: 3s }',
    'gateway.yaml:25:15: routes[1].upstream: found an upstream without a target; allowed: exactly one of files, internal, proxy and url [BG_CONFIG_CONFLICT]'
  ],
  [
    'a route with two upstreams',
    '{ proxy: ":proxyId" }',
    '{ proxy: ":proxyId", internal: api }',
    'gateway.yaml:25:15: routes[1].upstream: found internal and proxy in one upstream; allowed: exactly one of files, internal, proxy and url [BG_CONFIG_CONFLICT]'
  ],
  [
    'a setting of an HTTP upstream beside an internal one',
    '{ internal: api }',
    '{ internal: api, timeout: 3s }',
    'gateway.yaml:22:32: routes[0].upstream.timeout: found timeout beside internal; allowed: timeout only beside url [BG_CONFIG_CONFLICT]'
  ],
  [
    'the id of a proxy from a parameter that the path lacks',
    'proxy: ":proxyId"',
    'proxy: ":id"',
    'gateway.yaml:25:24: routes[1].upstream.proxy: found ":id", which the path "/l402/proxy/:proxyId/*" does not have; allowed: a parameter of every path of the route [BG_CONFIG_CONFLICT]'
  ],
  [
    'a value of the wrong type',
    'workers: 1',
    'workers: two',
    'gateway.yaml:5:12: server.workers: found "two"; allowed: a whole number from 1 to 1024 [BG_CONFIG_VALUE]'
  ],
  [
    'a list where a mapping belongs',
    'payment: { serviceName: boltgate, tokenValidity: 1h }',
    'payment: [boltgate]',
    'gateway.yaml:7:10: payment: found a list; allowed: a mapping with the keys schemes, order, serviceName, l402Lsat, tokenValidity, invoiceExpiry, maxOutstanding, leaseTimeout [BG_CONFIG_VALUE]'
  ],
  [
    'a value that is not one of the choices',
    'mode: development',
    'mode: developement',
    'gateway.yaml:1:7: mode: found "developement"; allowed: development, production. Did you mean "development"? [BG_CONFIG_VALUE]'
  ],
  [
    'a duration without a unit',
    'tokenValidity: 1h',
    'tokenValidity: 3600',
    'gateway.yaml:7:50: payment.tokenValidity: found 3600; allowed: a duration such as "500ms", "30s", "10m", "1h" or "2d", of at least 1s. Did you mean "3600s"? [BG_CONFIG_VALUE]'
  ],
  [
    'a duration in an unknown unit',
    'window: 10s',
    'window: 10 seconds',
    'gateway.yaml:9:30: policies.burst.window: found "10 seconds"; allowed: a duration such as "500ms", "30s", "10m", "1h" or "2d", from 1s to 1d [BG_CONFIG_VALUE]'
  ],
  [
    'a size in an unknown unit',
    'limit: 1MiB',
    'limit: 1 meg',
    'gateway.yaml:14:28: chains.paid[2].body-limit.limit: found "1 meg"; allowed: a size such as "64KiB", "1MiB" or "10MB", or a whole number of bytes [BG_CONFIG_VALUE]'
  ],
  [
    'a variable that is not set',
    '127.0.0.1:8080',
    '"127.0.0.1:${PORT}"',
    'gateway.yaml:3:11: server.listen: the environment variable PORT is not set; set it, or give a default: ${PORT:-default} [BG_CONFIG_VARIABLE]'
  ],
  [
    'a variable that is empty',
    '127.0.0.1:8080',
    '"127.0.0.1:${PORT}"',
    'gateway.yaml:3:11: server.listen: the environment variable PORT is empty; set it, or give a default: ${PORT:-default} [BG_CONFIG_VARIABLE]',
    { PORT: '' }
  ],
  [
    'a variable without its closing brace',
    '127.0.0.1:8080',
    '"127.0.0.1:${PORT"',
    'gateway.yaml:3:11: server.listen: found "${" without its "}"; allowed: ${NAME}, ${NAME:-default}, or "$${" for a plain "${" [BG_CONFIG_VARIABLE]'
  ],
  [
    'a port out of range',
    '127.0.0.1:8080',
    '127.0.0.1:80800',
    'gateway.yaml:3:11: server.listen: found "127.0.0.1:80800"; allowed: an address and a port from 0 to 65535, such as 127.0.0.1:8080 or [::1]:8080; http:// before it, or unix: and a path [BG_CONFIG_VALUE]'
  ],
  [
    'a bad port out of the environment',
    '127.0.0.1:8080',
    '"127.0.0.1:${PORT}"',
    'gateway.yaml:3:11: server.listen: found what "127.0.0.1:${PORT}" gives; allowed: an address and a port from 0 to 65535, such as 127.0.0.1:8080 or [::1]:8080; http:// before it, or unix: and a path [BG_CONFIG_VALUE]',
    { PORT: 'http' }
  ],
  [
    'a path without its leading slash',
    'path: /v1/*',
    'path: v1/*',
    'gateway.yaml:26:43: routes[2].match.path: found "v1/*"; allowed: a path that begins with "/", with ":name" for a segment, each name once, and "/*" at its end alone, such as /v1/items/:id or /files/*. Did you mean "/v1/*"? [BG_CONFIG_VALUE]'
  ],
  [
    'a star in the middle of a path',
    'path: /v1/*',
    'path: /v1/*/x',
    'gateway.yaml:26:43: routes[2].match.path: found "/v1/*/x"; allowed: a path that begins with "/", with ":name" for a segment, each name once, and "/*" at its end alone, such as /v1/items/:id or /files/* [BG_CONFIG_VALUE]'
  ],
  [
    'a parameter that a path has twice',
    'path: /v1/*',
    'path: /v1/:m/:m',
    'gateway.yaml:26:43: routes[2].match.path: found "/v1/:m/:m"; allowed: a path that begins with "/", with ":name" for a segment, each name once, and "/*" at its end alone, such as /v1/items/:id or /files/* [BG_CONFIG_VALUE]'
  ],
  [
    'a method in small letters',
    'method: POST',
    'method: post',
    'gateway.yaml:20:22: routes[0].match.method: found "post"; allowed: a method in capitals: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS. Did you mean "POST"? [BG_CONFIG_VALUE]'
  ],
  [
    'an unknown method in a list',
    'method: POST',
    'method: [GET, PSOT]',
    'gateway.yaml:20:28: routes[0].match.method[1]: found "PSOT"; allowed: a method in capitals: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS. Did you mean "POST"? [BG_CONFIG_VALUE]'
  ],
  [
    'a negative price',
    'price: 10 sats',
    'price: -10',
    'gateway.yaml:27:12: routes[2].price: found -10; allowed: a price such as "10 sats", "1500 msat", "$0.002" or "0.01 EUR", or a whole number of satoshis, from 0 sats to 1000000000 sats [BG_CONFIG_VALUE]'
  ],
  [
    'a price in another currency',
    'price: 10 sats',
    'price: 1 CHF',
    'gateway.yaml:27:12: routes[2].price: found "1 CHF"; allowed: a price such as "10 sats", "1500 msat", "$0.002" or "0.01 EUR", or a whole number of satoshis, from 0 sats to 1000000000 sats [BG_CONFIG_VALUE]'
  ],
  [
    'a price by two fields',
    'price: 10 sats',
    'price: { by: { json: model, header: x-model }, of: { small: 5 } }',
    'gateway.yaml:27:33: routes[2].price.by.header: found the unknown key "header"; allowed: json [BG_CONFIG_UNKNOWN_KEY]'
  ],
  [
    'a price by a parameter that the path has not',
    'price: 10 sats',
    'price: { by: { path: model }, of: { small: 5 } }',
    'gateway.yaml:27:26: routes[2].price.by.path: found "model", which is no parameter of /v1/*; allowed: a path with one, such as /v1/:model [BG_CONFIG_VALUE]'
  ],
  [
    'a table with an invalid price',
    'price: 10 sats',
    'price: { by: { json: model }, of: { small: 5, large: $-1 } }',
    'gateway.yaml:27:58: routes[2].price.of.large: found "$-1"; allowed: a price such as "10 sats", "1500 msat", "$0.002" or "0.01 EUR", or a whole number of satoshis, from 0 sats to 1000000000 sats [BG_CONFIG_VALUE]'
  ],
  [
    'a price server without an address',
    'price: 10 sats',
    'price: { from: "127.0.0.1:9100/price" }',
    'gateway.yaml:27:20: routes[2].price.from: found "127.0.0.1:9100/price"; allowed: an http or https address, such as https://api.example.com/v1. Did you mean "http://127.0.0.1:9100/price"? [BG_CONFIG_VALUE]'
  ],
  [
    'two fields of one name for a price server',
    'price: 10 sats',
    'price: { from: "http://127.0.0.1:9100/price", fields: [ { json: a }, { query: a } ] }',
    'gateway.yaml:27:59: routes[2].price.fields: found two fields with the name "a", by which the price server could not tell them apart; allowed: each name once [BG_CONFIG_DUPLICATE]'
  ],
  [
    'free calls for no time',
    'price: 10 sats',
    'price: 10 sats\n    free: { calls: 20, per: 0s }',
    'gateway.yaml:28:29: routes[2].free.per: found "0s"; allowed: a duration such as "500ms", "30s", "10m", "1h" or "2d", from 1s to 30d [BG_CONFIG_VALUE]'
  ],
  [
    'an OpenAPI file that is not there',
    'price: 10 sats',
    'price: 10 sats\n    openapi: ./no-api.yaml',
    'gateway.yaml:28:14: routes[2].openapi: the file "./no-api.yaml" cannot be read (ENOENT) [BG_CONFIG_FILE]'
  ],
  [
    'prices by audience beside a price of nothing',
    'price: 10 sats',
    'price: 0 sats\n    audience: [{ who: verified-bot, price: 1 sat }]',
    'gateway.yaml:28:5: routes[2].audience: found prices by audience on a route that is free for all others, which each client could pretend to be; allowed: a price above 0 beside them [BG_CONFIG_VALUE]'
  ],
  [
    'agents of a search engine',
    'price: 10 sats',
    'price: 10 sats\n    audience: [{ who: search-engine, agents: [a.example], price: 1 sat }]',
    'gateway.yaml:28:38: routes[2].audience[0].agents: found agents; allowed: beside who: verified-bot [BG_CONFIG_VALUE]'
  ],
  [
    'a price on a chain that asks for no payment',
    '    chain: merchant',
    '    chain: merchant\n    price: 1 sat',
    'gateway.yaml:22:5: routes[0].price: found a price, but the chain "merchant" asks for no payment; allowed: a chain with an entry that does, such as challenge [BG_CHAIN_SALE]'
  ],
  [
    'a value where a route compares the name of a header',
    'match: { host: api.example.com, path: /v1/* }',
    'match: { header: "X Plan: gold", path: /v1/* }',
    'gateway.yaml:26:22: routes[2].match.header: found "X Plan: gold"; allowed: a header name, or one with its value such as x-plan=gold [BG_CONFIG_VALUE]'
  ],
  [
    'a query without the name of a parameter',
    'match: { host: api.example.com, path: /v1/* }',
    'match: { query: "=pdf", path: /v1/* }',
    'gateway.yaml:26:21: routes[2].match.query: found "=pdf"; allowed: the name of a query parameter, or one with its value such as format=pdf [BG_CONFIG_VALUE]'
  ],
  [
    'keys without what they could spend',
    '    price: 10 sats\n',
    '    price: 10 sats\n    keys: true\n',
    'gateway.yaml:28:5: routes[2].keys: found keys without a meter or sessions, so that there is no balance for a key to spend; allowed: keys beside meter or sessions [BG_CONFIG_CONFLICT]'
  ],
  [
    'a service whose tokens would open all routes without one',
    '    price: 10 sats\n',
    '    price: 10 sats\n    service: boltgate\n',
    'gateway.yaml:28:5: routes[2].service: found the name of payment.serviceName, so that its tokens would be good for every route without a service too; allowed: another name [BG_CONFIG_CONFLICT]'
  ],
  [
    "tokens of the operator for merchants' proxies",
    '    chain: proxied\n',
    '    chain: proxied\n    invoices: false\n',
    "gateway.yaml:25:5: routes[1].invoices: found a setting of the operator's tokens on a route of merchants' proxies, which sell their own; allowed: at routes of the operator [BG_CONFIG_CONFLICT]"
  ],
  [
    'a second route for the same values',
    'match: { host: api.example.com, path: /v1/* }\n',
    'match: { path: /v1/*, header: [a, X-Plan=Gold] }\n    chain: merchant\n    upstream: { internal: api }\n  - match: { path: /v1/*, header: [x-plan=Gold, A] }\n',
    'gateway.yaml:29:5: routes[3].match: found a second route for any method "/v1/* a x-plan=Gold"; allowed: one (the first is on line 26) [BG_CONFIG_DUPLICATE]'
  ],
  [
    'a second route for the same requests',
    '  - match: { host: api.example.com, path: /v1/* }\n    price: 10 sats',
    '  - match: { path: "/l402/proxy/:id/*" }\n    price: 10 sats',
    'gateway.yaml:26:5: routes[2].match: found a second route for any method "/l402/proxy/:id/*"; allowed: one (the first is on line 23) [BG_CONFIG_DUPLICATE]'
  ],
  [
    'a plugin after the one that answers',
    '    - challenge\n    - forward\n',
    '    - forward\n    - challenge\n    - forward\n',
    'gateway.yaml:15:7: chains.paid[3]: found "forward" before the end of the chain; allowed: forward as the last entry only, because it answers the request [BG_CHAIN_ORDER]'
  ],
  [
    'a chain that ends with forward for an internal upstream',
    'chain: merchant',
    'chain: paid',
    'gateway.yaml:22:15: routes[0].upstream: found an internal upstream, but the chain "paid" ends with forward; allowed: a chain that leaves its end to the route, or ends with internal [BG_CONFIG_CONFLICT]'
  ],
  [
    'a throttle after the challenge',
    '    - throttle: { policy: burst }\n    - body-limit: { limit: 1MiB }\n    - challenge\n',
    '    - body-limit: { limit: 1MiB }\n    - challenge\n    - throttle: { policy: burst }\n',
    'gateway.yaml:15:7: chains.paid[3]: found "throttle" after challenge; allowed: throttle before challenge [BG_CHAIN_ORDER]'
  ],
  [
    'idempotency without auth before it',
    '{ auth: { as: merchant } }, ',
    '',
    'gateway.yaml:17:59: chains.merchant[2]: found "idempotency", which needs the principal, without an earlier entry that provides it; allowed: idempotency after auth [BG_CHAIN_ORDER]'
  ],
  [
    'several workers with state in memory',
    'workers: 1',
    'workers: 2\ndatabase: { url: "postgres://127.0.0.1/boltgate" }',
    'gateway.yaml:5:12: server.workers: found 2 workers with state in memory; allowed: 1 worker, or state.url with the address of a Redis server [BG_CONFIG_CONFLICT]'
  ],
  [
    'several workers with the embedded database',
    'workers: 1',
    'workers: 2\nstate: { url: "redis://127.0.0.1" }',
    'gateway.yaml:5:12: server.workers: found 2 workers with the embedded database; allowed: 1 worker, or database.url with the address of a PostgreSQL server [BG_CONFIG_CONFLICT]'
  ],
  [
    'a pooler before the embedded database',
    'workers: 1',
    'workers: 1\ndatabase: { listenUrl: "postgres://127.0.0.1/boltgate" }',
    'gateway.yaml:6:24: database.listenUrl: found with the embedded database; allowed: with the address of a PostgreSQL server in url [BG_CONFIG_CONFLICT]'
  ],
  [
    'a numbered database of a cluster',
    'workers: 1',
    'workers: 1\nstate: { url: "redis://a:7001,redis://b/3" }',
    'gateway.yaml:6:15: state.url: found the number of a database of a cluster; allowed: addresses such as redis://host:6379 [BG_CONFIG_CONFLICT]'
  ],
  [
    'a secret that is too short',
    '"${BOLTGATE_SECRET:-}"',
    'hunter2',
    'gateway.yaml:6:20: secrets.master: found a secret of 7 characters; allowed: at least 32 characters, such as the output of `openssl rand -base64 48` [BG_CONFIG_VALUE]'
  ],
  [
    'a publicUrl with a path',
    '"${PUBLIC_URL:-}"',
    'https://example.com/api',
    'gateway.yaml:4:14: server.publicUrl: found "https://example.com/api"; allowed: an http or https address without a path, such as https://api.example.com [BG_CONFIG_VALUE]'
  ],
  [
    'a key without its value',
    'tokenValidity: 1h',
    'tokenValidity:',
    'gateway.yaml:7:50: payment.tokenValidity: found nothing; allowed: a duration such as "500ms", "30s", "10m", "1h" or "2d", of at least 1s [BG_CONFIG_VALUE]'
  ]
]

t.test('the file that the mistakes are made in is sound', async t => {
  t.same(await problemsOf(sound), [])
})

for (const [name, from, to, line, env] of mistakes) {
  t.test(`${name} gives one clear line`, async t => {
    t.equal(sound.split(from).length, 2, 'the place of the mistake is unique')
    t.same(
      await problemsOf(
        sound.replace(from, () => to),
        env
      ),
      [line]
    )
  })
}

const production = `mode: production
server: { publicUrl: https://api.example.com }
secrets: { master: 0123456789abcdef0123456789abcdef }
database: { url: "postgres://u:p@127.0.0.1/boltgate" }
lightning:
  primary: { kind: strike, key: k }
  alternate: { kind: opennode }
`

t.test('a production file with all that production needs is sound', async t => {
  t.same(await problemsOf(production), [])
  t.same(
    await problemsOf(production.replace('kind: opennode', 'kind: opennode, url: "http://127.0.0.1:8080"')),
    [],
    'plain HTTP to the machine itself is no risk'
  )
  t.same(await problemsOf(production.replace('  alternate: { kind: opennode }\n', '')), [], 'one provider is enough')
})

t.test('several providers of a slot: each mistake at its own place, and names that distinguish them', async t => {
  const listed = (primary: string) => `lightning:
  primary:
${primary}
`
  t.same(
    await problemsOf(listed('    - { kind: phoenixd }\n    - { kind: lnd }\n    - { kind: lnd, name: backup }')),
    []
  )
  t.same(
    await problemsOf(
      listed(
        '    - { kind: phoenixd }\n    - { kind: lnd, key: no }\n    - { kind: lnd }\n    - { kind: cln, name: strike }'
      )
    ),
    [
      'gateway.yaml:4:25: lightning.primary[1].key: The lnd key must have the form lndconnect://host:port?cert=<base64url>&macaroon=<base64url>. [BG_CONFIG_PROVIDER_KEY]',
      'gateway.yaml:5:7: lightning.primary[2]: found a second provider called "lnd" in primary; allowed: a name of its own, as in { kind: lnd, name: lnd-2 } [BG_CONFIG_CONFLICT]',
      'gateway.yaml:6:26: lightning.primary[3].name: found "strike", which is a kind; allowed: a name of its own [BG_CONFIG_CONFLICT]'
    ]
  )
  t.match(await problemsOf(listed('    []')), [/lightning\.primary: found an empty list/])
  t.match(
    await problemsOf(production.replace('{ kind: strike, key: k }', '[ { kind: strike, key: k }, { kind: sandbox } ]')),
    [/lightning\.primary\[1\]\.kind: found the sandbox in production/]
  )
})

const refused: readonly (readonly [name: string, from: string, to: string, line: string])[] = [
  [
    'the sandbox',
    'kind: strike',
    'kind: sandbox',
    'gateway.yaml:6:20: lightning.primary.kind: found the sandbox in production; allowed: strike, opennode, lnd, phoenixd, cln, lnbits, lnurl, btcpay, nwc, blink [BG_CONFIG_PRODUCTION]'
  ],
  [
    'a provider that is called over plain HTTP',
    'kind: opennode',
    'kind: opennode, url: "http://10.0.0.9:8080"',
    'gateway.yaml:7:37: lightning.alternate.url: found a plain http address in production; allowed: an https address, or http to this machine [BG_CONFIG_PRODUCTION]'
  ],
  [
    'prices that come over plain HTTP',
    'lightning:',
    'prices: { urls: { kraken: "http://prices.example" } }\nlightning:',
    'gateway.yaml:5:27: prices.urls.kraken: found a plain http address in production; allowed: an https address, or http to this machine [BG_CONFIG_PRODUCTION]'
  ],
  [
    'a billing provider that takes no money',
    'lightning:',
    'billing: { kind: sandbox }\nlightning:',
    'gateway.yaml:5:18: billing.kind: found the sandbox in production; allowed: stripe, none [BG_CONFIG_PRODUCTION]'
  ],
  [
    'a billing key with which test cards buy plans',
    'lightning:',
    'billing: { kind: stripe, key: sk_test_1, webhookSecret: whsec_1, prices: { individual: price_1 } }\nlightning:',
    'gateway.yaml:5:31: billing.key: found a key of test mode in production, with which test cards buy plans; allowed: a live key, such as sk_live_… [BG_CONFIG_PRODUCTION]'
  ],
  [
    'a shop of nothing',
    'lightning:',
    'storefront: { kind: sandbox }\nlightning:',
    'gateway.yaml:5:21: storefront.kind: found the sandbox in production; allowed: shopify [BG_CONFIG_PRODUCTION]'
  ],
  [
    'a missing master secret',
    'master: 0123456789abcdef0123456789abcdef',
    'master: "${BOLTGATE_SECRET:-}"',
    'gateway.yaml:3:20: secrets.master: found nothing in production; allowed: at least 32 characters, such as the output of `openssl rand -base64 48`. Set BOLTGATE_SECRET, or write secrets: { master: "${MY_SECRET}" } [BG_CONFIG_PRODUCTION]'
  ],
  [
    'the embedded database',
    'postgres://u:p@127.0.0.1/boltgate',
    'pglite:',
    'gateway.yaml:4:18: database.url: found the embedded database in production; allowed: an address such as postgres://user:password@host:5432/name. Set DATABASE_URL, or write database: { url: "${MY_DATABASE}" } [BG_CONFIG_PRODUCTION]'
  ],
  [
    'a missing publicUrl',
    '{ publicUrl: https://api.example.com }',
    '{}',
    'gateway.yaml:2:1: server.publicUrl: found nothing in production; allowed: the https address that clients use, such as https://api.example.com. Set PUBLIC_URL, or write server: { publicUrl: https://api.example.com } [BG_CONFIG_PRODUCTION]'
  ],
  [
    'a plain-HTTP publicUrl',
    'https://api.example.com',
    'http://api.example.com',
    'gateway.yaml:2:22: server.publicUrl: found a plain http address in production; allowed: an https address, such as https://api.example.com [BG_CONFIG_PRODUCTION]'
  ]
]

for (const [name, from, to, line] of refused) {
  t.test(`production refuses ${name}`, async t => {
    t.same(await problemsOf(production.replace(from, () => to)), [line])
  })
}

t.test('production with priced routes needs the provider key that they are paid to', async t => {
  const routes = `chains: { paid: [challenge, forward] }
routes: [{ match: { path: /a }, price: 1, chain: paid, upstream: { url: "https://a.example" } }]
`
  t.same(await problemsOf(production + routes), [])
  t.same(await problemsOf(production.replace(', key: k', '') + routes), [
    'gateway.yaml:6:3: lightning.primary.key: found nothing, but the route on line 9 has a price; allowed: the provider key that its payments go to [BG_CONFIG_PROVIDER_KEY]'
  ])
})

t.test('a misspelt plugin makes no second line at the routes that need it', async t => {
  t.same((await problemsOf(sound.replace('- challenge', '- chalenge'))).length, 1)
})

t.test('all mistakes are reported together, in the order of the file', async t => {
  const lines = await problemsOf(
    sound
      .replace('mode: development', 'mode: producton')
      .replace('policy: burst', 'policy: brust')
      .replace('chain: merchant', 'chain: merchants')
      .replace('price: 10 sats', 'price: free')
  )
  t.same(
    lines.map(line => line.split(': ')[0]),
    ['gateway.yaml:1:7', 'gateway.yaml:13:27', 'gateway.yaml:21:12', 'gateway.yaml:27:12']
  )
})

const settings: readonly (readonly [name: string, text: string, line: string])[] = [
  [
    'a variable as a shell writes it',
    'lightning: { primary: { kind: strike, key: $STRIKE_KEY } }',
    'gateway.yaml:1:44: lightning.primary.key: found "$STRIKE_KEY", which is not replaced; allowed: "${STRIKE_KEY}" [BG_CONFIG_VARIABLE]'
  ],
  [
    'a variable behind Bearer as a shell writes it',
    'upstreams: { llm: { url: "https://a.example", headers: { authorization: Bearer $OPENAI_API_KEY } } }',
    'gateway.yaml:1:73: upstreams.llm.headers.authorization: found "$OPENAI_API_KEY", which is not replaced; allowed: "${OPENAI_API_KEY}" [BG_CONFIG_VARIABLE]'
  ],
  [
    'a variable without quotes in braces',
    'lightning: { primary: { kind: strike, key: ${STRIKE_KEY} } }',
    'gateway.yaml:1:45: found ${STRIKE_KEY} without quotes inside braces or brackets; allowed: "${STRIKE_KEY}" [BG_CONFIG_SYNTAX]'
  ],
  [
    'a number in quotes',
    'server: { workers: "2" }',
    'gateway.yaml:1:20: server.workers: found "2"; allowed: a whole number from 1 to 1024. Did you mean 2, without quotes? [BG_CONFIG_VALUE]'
  ],
  [
    'a time without its unit',
    'payment: { tokenValidity: 30 }',
    'gateway.yaml:1:27: payment.tokenValidity: found 30; allowed: a duration such as "500ms", "30s", "10m", "1h" or "2d", of at least 1s. Did you mean "30s"? [BG_CONFIG_VALUE]'
  ],
  [
    'yes, which YAML 1.2 reads as a text',
    'pages: { signUp: yes }',
    'gateway.yaml:1:18: pages.signUp: found "yes"; allowed: true or false. Did you mean true? [BG_CONFIG_VALUE]'
  ],
  [
    'an address without its scheme',
    'upstreams: { a: { url: "localhost:9000" } }',
    'gateway.yaml:1:24: upstreams.a.url: found "localhost:9000"; allowed: an http or https address without user, query or fragment, such as https://internal.example:8443. Did you mean "http://localhost:9000"? [BG_CONFIG_VALUE]'
  ],
  [
    'a public address without its scheme',
    'server: { publicUrl: api.example.com }',
    'gateway.yaml:1:22: server.publicUrl: found "api.example.com"; allowed: an http or https address without a path, such as https://api.example.com. Did you mean "https://api.example.com"? [BG_CONFIG_VALUE]'
  ],
  [
    'an upstream that is the gateway',
    'server: { listen: "0.0.0.0:8080" }\nchains: { c: [ forward ] }\nroutes: [ { match: { path: /a }, chain: c, upstream: { url: "http://localhost:8080/b" } } ]',
    'gateway.yaml:3:61: routes[0].upstream.url: found "http://localhost:8080/b", where the gateway itself listens (0.0.0.0:8080); allowed: the address of the server behind it, or another server.listen [BG_CONFIG_CONFLICT]'
  ],
  [
    'stripe without its key',
    'billing: { kind: stripe, webhookSecret: whsec_1, prices: { individual: price_1 } }',
    'gateway.yaml:1:1: billing.key: found nothing beside kind stripe; allowed: the secret key of the account, such as sk_live_… [BG_CONFIG_CONFLICT]'
  ],
  [
    'stripe without what signs its notifications',
    'billing: { kind: stripe, key: sk_1, prices: { individual: price_1 } }',
    'gateway.yaml:1:1: billing.webhookSecret: found nothing beside kind stripe; allowed: the signing secret of the webhook endpoint, such as whsec_… [BG_CONFIG_CONFLICT]'
  ],
  [
    'stripe without a price',
    'billing: { kind: stripe, key: sk_1, webhookSecret: whsec_1 }',
    'gateway.yaml:1:1: billing.prices.individual: found nothing beside kind stripe; allowed: the id of a monthly price, such as price_… [BG_CONFIG_CONFLICT]'
  ],
  [
    'a mail server without a sender',
    'mail: { smtp: "smtp://mail.example" }',
    'gateway.yaml:1:1: mail.from: found nothing beside a mail server; allowed: the sender of mail, such as Example <no-reply@example.com> [BG_CONFIG_CONFLICT]'
  ],
  [
    'a sender with a line break',
    'mail: { from: "A\\r\\nBcc: x <a@example.com>" }',
    'gateway.yaml:1:15: mail.from: found "A\\r\\nBcc: x <a@example.com>"; allowed: an address, or a name and an address, such as Example <no-reply@example.com> [BG_CONFIG_VALUE]'
  ],
  [
    'a mail server of another kind',
    'mail: { smtp: "https://u:secret@mail.example" }',
    'gateway.yaml:1:15: mail.smtp: found a secret of 29 characters; allowed: an address such as smtps://user:password@mail.example.com or smtp://mail.example.com:587 [BG_CONFIG_VALUE]'
  ],
  [
    'a user without a password',
    'mail: { smtp: "smtp://user@mail.example", from: a@example.com }',
    'gateway.yaml:1:15: mail.smtp: found a secret of 24 characters; allowed: an address such as smtps://user:password@mail.example.com or smtp://mail.example.com:587 [BG_CONFIG_VALUE]'
  ],
  [
    'a password that cannot be read',
    'mail: { smtp: "smtp://user:50%@mail.example", from: a@example.com }',
    'gateway.yaml:1:15: mail.smtp: found a secret of 28 characters; allowed: an address such as smtps://user:password@mail.example.com or smtp://mail.example.com:587 [BG_CONFIG_VALUE]'
  ]
]

for (const [name, text, line] of settings) {
  t.test(`${name} gives one clear line`, async t => {
    t.same(await problemsOf(text), [line])
  })
}

t.test('senders and mail servers as people write them are sound', async t => {
  for (const from of ['a@example.com', 'Example <no-reply@example.com>', 'Zoë & Co. <a+b@mail.example.com>']) {
    for (const smtp of [
      'smtp://localhost',
      'smtp://mail.example:587',
      'smtps://user:p%40ss@mail.example/',
      'smtp://user%40example.com:x@[::1]:25'
    ]) {
      t.same(await problemsOf(`mail: { smtp: "${smtp}", from: "${from}" }`), [])
    }
  }
})
