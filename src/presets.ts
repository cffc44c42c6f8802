import type { Presets } from './config/presets.ts'

/** Chains that every file can name. One of the same name in the file takes the place of one of these. */
const CHAINS = `chains:
  # Whoever pays.
  paid:            [ correlation, access-log, metrics, cors, { throttle: { policy: global } }, body-limit, credential, challenge ]
  # Anybody.
  public:          [ correlation, access-log, metrics, cors, { throttle: { policy: global } }, body-limit ]
  # The gateway's own addresses, below. Probes and scrapers are not throttled.
  service-public:  [ correlation, access-log, metrics, cors, { throttle: { policy: read } } ]
  service-probe:   [ correlation, { auth: { as: admin, optional: true } } ]
  service-sandbox: [ correlation, access-log, metrics, body-limit, { auth: { as: admin, optional: true } }, { throttle: { policy: global } } ]
`

/** What probes, scrapers, agents and browsers ask of any gateway. */
const SERVICE = `routes:
  - { match: { path: /health, method: GET }, chain: service-public, upstream: { internal: api } }
  - { match: { path: /ready, method: GET }, chain: service-probe, upstream: { internal: api } }
  - { match: { path: /metrics, method: GET }, chain: service-probe, upstream: { internal: api } }
  - { match: { path: /openapi.json, method: GET }, chain: service-public, upstream: { internal: api } }
  - { match: { path: /api/openapi.json, method: GET }, chain: service-public, upstream: { internal: api } }
  - { match: { path: /llms.txt, method: GET }, chain: service-public, upstream: { internal: api } }
  - { match: { path: /.well-known/l402.json, method: GET }, chain: service-public, upstream: { internal: api } }
  - { match: { path: /favicon.ico, method: GET }, chain: service-public, upstream: { internal: api } }
  - { match: { path: /robots.txt, method: GET }, chain: service-public, upstream: { internal: api } }
`

/** Pays invoices of the sandbox, for `boltgate pay`: from this machine, or with the admin key. */
const SANDBOX = `routes:
  - { match: { path: [ /sandbox/pay, /sandbox/state ], method: POST }, chain: service-sandbox, upstream: { internal: api } }
`

/** What a file need not spell out, in the form of a file. */
export const presets: Presets = { chains: CHAINS, routes: { service: SERVICE, sandbox: SANDBOX } }
