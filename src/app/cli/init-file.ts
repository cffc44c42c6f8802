import { formatUnit } from '../../engine/config/units.ts'
import { doubledPath } from '../../engine/checks/upstream-checks.ts'
import { providerKinds } from '../../lightning/kinds/kinds.ts'

export const PRODUCTS = {
  api: 'an HTTP API, by the request',
  llm: 'a language model with an OpenAI-compatible API, by the token',
  mcp: 'the tools of an MCP server, by the call',
  files: 'files from a folder, by the download',
  shop: 'goods of a shop, with cart and orders'
} as const

export type Product = keyof typeof PRODUCTS

export interface InitChoices {
  readonly sell: Product
  readonly upstream: string
  readonly path: string
  readonly price: string
  readonly provider: string
  readonly production: boolean
  /** OpenAPI file of the API, seen from the file that is written. */
  readonly openapi?: string
  /** What an example asks for: the name of a file or of a model, or a request of an API. */
  readonly sample?: string
}

export const KEY_VARIABLE = 'LIGHTNING_KEY'
export const UPSTREAM_KEY_VARIABLE = 'OPENAI_API_KEY'

export const FOR_MONEY = providerKinds.filter(({ isSandbox }) => !isSandbox).map(({ name }) => name)

/** Whether a price is only a number of satoshis. */
function isBare(price: string): boolean {
  return /^(0|[1-9][0-9]{0,14})$/.test(price)
}

export function shownPrice(price: string): string {
  return isBare(price) ? formatUnit('price', Number(price)) : price
}

function quoted(text: string): string {
  return JSON.stringify(text.replaceAll('${', '$${'))
}

/** The address without the part that the path repeats: `https://api.openai.com/v1` before `/v1/*`. */
export function plainUpstream({ upstream, path }: Pick<InitChoices, 'upstream' | 'path'>): string {
  return URL.canParse(upstream) ? (doubledPath(upstream, path)?.without ?? upstream) : upstream
}

/** A request for `sample`, which agents copy; a comment with what to fill in where it is unknown. */
function exampleLines({ sell, path, sample }: InitChoices): string {
  if (!/^\/(?:[\w./-]*\/)?\*$/.test(path)) return ''
  const below = path.slice(0, -1)
  const isUnknown = sample === undefined || sample === ''
  const name = isUnknown ? '…' : quoted(sample)
  const example =
    sell === 'llm'
      ? `{ request: POST ${below}chat/completions, body: { model: ${name}, messages: [ { role: user, content: Hello } ] } }`
      : `{ request: ${quoted(isUnknown ? `GET ${below}…` : sell === 'api' ? sample.replace(/^(?=\/)/, 'GET ') : `GET ${below}${encodeURIComponent(sample)}`)} }`
  return isUnknown
    ? `    # For agents, a request that works: examples: [ ${example} ]\n`
    : `    examples:           # requests that work, for agents\n      - ${example}\n`
}

/** Content of the file. */
export function gatewayYaml(choices: InitChoices): string {
  return `# \`npx boltgate docs\` explains every setting. \`boltgate check\` finds mistakes, with line and column; \`boltgate routes\` shows
# what is served, and through which plugins.
${[modeLines(choices), lightningLines(choices), ownLines(choices), productLines(choices)].filter(text => text !== '').join('\n')}`
}

function modeLines({ production }: InitChoices): string {
  return production
    ? `mode: production
server:
  listen: "\${HOST:-127.0.0.1}:\${PORT:-8080}"   # behind a proxy with TLS
  publicUrl: "\${PUBLIC_URL}"
secrets: { master: "\${BOLTGATE_SECRET}" }      # keep it: tokens and stored keys depend on it
database: { url: "\${DATABASE_URL}" }
state: { url: "\${REDIS_URL:-memory:}" }         # Redis from two workers or machines on
`
    : ''
}

function lightningLines({ provider }: InitChoices): string {
  return provider === 'sandbox'
    ? `# The sandbox makes invoices without money. For real ones: { kind: ${FOR_MONEY[0]}, key: "\${${KEY_VARIABLE}}" }, or ${FOR_MONEY.slice(1).join(', ')}.
lightning:
  primary: { kind: sandbox }
`
    : `lightning:
  primary: { kind: ${provider}, key: "\${${KEY_VARIABLE}}" }
`
}

/** A catch-all route would shadow the gateway's own addresses unless the file declares them. */
function ownLines({ production, sell }: InitChoices): string {
  const parts = ['service', ...(production ? [] : ['sandbox'])]
  const more = sell === 'shop' ? ['merchant-api', 'operator-api', 'storefront', 'pages'] : ['operator-api', 'pages']
  return `# The gateway's own addresses: /health, /metrics, /openapi.json and their like, and the console at /operator.
use: [ ${[...parts, ...more].join(', ')} ]
`
}

function productLines(choices: InitChoices): string {
  const { sell, path, price, production, openapi } = choices
  // A bare number is satoshis only as a number, not as a text.
  const cost = isBare(price) ? price : quoted(price)
  const upstream = quoted(plainUpstream(choices))
  const matched = quoted(path)
  switch (sell) {
    case 'api':
      return `routes:
  - match: { path: ${matched} }
    price: ${cost}
    chain: paid         # includes the policy \`global\`: 100 requests a minute for each client, paid ones too (see policies)
    renewal: 402        # clients that keep tokens buy again on a 402 only
    upstream: { url: ${upstream} }
${openapi === undefined ? exampleLines(choices) : `    openapi: ${quoted(openapi)}     # published with the price\n`}`
    case 'files':
      return `routes:
  - match: { path: ${matched} }
    price: ${cost}      # per file; a token is valid for its path
    chain: paid
    renewal: 402
    upstream: { files: ${upstream} }
${exampleLines(choices)}`
    case 'llm':
      return `routes:
  - match: { method: POST, path: ${matched} }
    description: Tokens of a language model
    meter:
      bundle: ${cost}     # one payment buys this balance
      unit: token
      usage: openai
      per: 1000           # prices are per 1,000 tokens
      prices: { input: 2 sats, output: 8 sats }
      estimate: { else: 1000 }
    keys: true            # clients that know a base URL and an API key can pay; sold at /l402/keys
    chain: paid
    renewal: 402
    upstream:
      url: ${upstream}
      headers: { authorization: "Bearer \${${UPSTREAM_KEY_VARIABLE}}" }
${exampleLines(choices)}`
    case 'mcp':
      return `chains:
  tools:
    - correlation
    - access-log
    - metrics
    - throttle: { policy: global }
    - body-limit
    - mcp:
        tools: { "*": ${cost} }     # or by name: { get-sum: 5 sats, "*": 1 sat }
routes:
  - match: { path: ${matched} }
    description: Tools
    chain: tools
    upstream: { url: ${upstream} }
`
    case 'shop':
      return production
        ? `# Merchants connect their stores at /console.
storefront: { kind: shopify }
`
        : `# A shop with a catalog of its own, at /storefront/demo; \`shopify\` for real stores.
storefront: { kind: sandbox }
`
  }
}
