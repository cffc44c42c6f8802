import { Type, type Static, type TSchema, type TUnsafe } from 'typebox'
import type { FiatText } from './money-text.ts'
import { List, strict } from '../config/fields.ts'
import { Duration, formatUnit, Money } from '../config/units.ts'
import type { GatewayConfig, RouteConfig } from '../config/schema.ts'

/** Satoshis (decision 105). */
export const MAX_PRICE_SATS = 1_000_000_000

const FIELD_NAME = { type: 'string', minLength: 1, maxLength: 200 } as const

export type FieldSelector =
  | { readonly json: string }
  | { readonly header: string }
  | { readonly query: string }
  | { readonly path: string }

const SELECTORS: Readonly<Record<'json' | 'header' | 'query' | 'path', string>> = {
  json: 'A member of the JSON body; a dot leads into an object, as in `metadata.tier`.',
  header: 'A header.',
  query: 'A parameter of the query.',
  path: "A parameter of the route's path, without its colon."
}

const SELECTOR_FORMS = Object.entries(SELECTORS).map(([kind, description]) =>
  Type.Object({ [kind]: Type.Unsafe<string>({ ...FIELD_NAME, description }) }, strict)
)

/** `{ json: model }`, `{ header: x-tier }`, `{ query: size }`, … */
export function RequestField(options: { readonly description?: string } = {}): TUnsafe<FieldSelector> {
  return Type.Unsafe<FieldSelector>({
    anyOf: SELECTOR_FORMS,
    'x-allowed': 'a mapping with exactly one of the keys json, header, query and path, such as { json: model }',
    ...options
  })
}

export interface FieldTable<T> {
  readonly by: FieldSelector
  readonly of: Readonly<Record<string, T>>
  readonly else: T | 'refuse'
}

export const ELSE = 'What holds for every other value, and where the field is missing: an entry, or refuse (400).'

export function TableBy<const Entry extends TSchema>(
  entry: Entry,
  options: { readonly description?: string } = {}
): TUnsafe<FieldTable<Static<Entry>>> {
  // typebox cannot type a key such as `else` beside a record.
  return Type.Object(
    {
      by: RequestField({
        description:
          "The field whose value is looked up: `json`, a member of the JSON body, where a dot leads into an object, as in `metadata.tier`; `header`; `query`, a parameter of the query; or `path`, one of the route's path, without its colon."
      }),
      of: Type.Record(Type.String({ pattern: '^.{1,200}$' }), entry, {
        minProperties: 1,
        'x-allowed': 'a mapping with an entry for at least one value of the field, such as { small: 1 sat }',
        description: 'Entries by the value of the field, letter for letter.'
      }),
      else: Type.Union([Type.Literal('refuse'), entry], {
        default: 'refuse',
        description: ELSE
      })
    },
    { ...strict, ...options }
  ) as unknown as TUnsafe<FieldTable<Static<Entry>>>
}

/** An operator's price server, and the fields sent to it. */
export interface PriceServerConfig {
  readonly from: string
  readonly timeout: number
  readonly cache: number
  readonly headers: readonly string[]
  readonly fields: readonly FieldSelector[]
}

type PriceTable = FieldTable<number | FiatText>

/** Whole satoshis, fiat, by a field of the request, or from a price server. */
export type PriceConfig = number | FiatText | PriceTable | PriceServerConfig

const PriceServerSection = Type.Object(
  {
    from: Type.String({ 'x-format': 'http-url', description: 'Address of the price server, which gets a POST.' }),
    timeout: Duration({
      default: '500ms',
      minimum: '10ms',
      maximum: '10s',
      description: 'How long its answer is waited for; then the response is 503.'
    }),
    cache: Duration({
      default: '10s',
      maximum: '1h',
      description: 'How long an answer is taken for the same method, path, headers and fields; 0s asks each time.'
    }),
    headers: List(Type.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$" }), {
      default: [],
      description: 'Headers of the request that are sent to the price server.'
    }),
    fields: List(RequestField(), {
      default: [],
      description: 'Fields of the request that are sent to the price server, such as { json: model }.'
    })
  },
  { ...strict, description: 'A price server of your own is asked what each request costs.' }
)

export function isTable(price: PriceConfig): price is PriceTable {
  return typeof price === 'object' && 'by' in price
}

/** For people: `10 sats`, `USD 0.002`. */
export function amountWords(amount: number | FiatText): string {
  return typeof amount === 'number' ? formatUnit('price', amount) : amount
}

/** For people: `10 sats`, `5 to 40 sats, by the JSON member model`. */
export function priceWords(price: PriceConfig): string {
  if (typeof price !== 'object') return amountWords(price)
  if (!isTable(price)) return 'asked for each request'
  const amounts = amountsOf(price)
  const sats = amounts.filter(amount => typeof amount === 'number')
  const words =
    sats.length === amounts.length && new Set(sats).size > 1
      ? `${Math.min(...sats)} to ${amountWords(Math.max(...sats))}`
      : [...new Set(amounts.map(amountWords))].join(', ')
  return `${words}, by ${selectorWords(price.by)}`
}

export function amountsOf({ of, else: rest }: PriceTable): ReadonlyArray<number | FiatText> {
  return [...Object.values(of), ...(rest === 'refuse' ? [] : [rest])]
}

export function selectorWords(field: FieldSelector): string {
  if ('json' in field) return `the JSON member ${field.json}`
  if ('header' in field) return `the header ${field.header}`
  return 'query' in field ? `the query's ${field.query}` : `the path's ${field.path}`
}

export function isFree(price: PriceConfig): boolean {
  return isTable(price) ? amountsOf(price).every(amount => amount === 0) : price === 0
}

const AUDIENCES = ['verified-bot', 'search-engine', 'browser'] as const

export interface AudienceEntry {
  readonly who: (typeof AUDIENCES)[number]
  readonly price: number | FiatText
  /** Hosts of the agents that count; any when left out. */
  readonly agents?: readonly string[]
}

export const AudienceSchema = List(
  Type.Object(
    {
      who: Type.Enum([...AUDIENCES], {
        description:
          '`verified-bot` signs its requests (Web Bot Auth), `search-engine` is a crawler whose address has a name of its engine, `browser` only looks like one.'
      }),
      price: Money({ maximum: MAX_PRICE_SATS, description: 'What it pays.' }),
      agents: Type.Optional(
        List(Type.String({ pattern: '^[a-z0-9.-]{1,253}(:[0-9]{1,5})?$', 'x-allowed': 'a host such as chatgpt.com' }), {
          description:
            'Hosts of the verified bots that this is for. Any when left out: a signature proves who asks, not that it is good.'
        })
      )
    },
    strict
  ),
  {
    description:
      'Prices by who asks; the first that fits. All others pay `price`, also where a lookup fails or a signature is used again.'
  }
)

/** `For verified bots 2 sats, search engines free`. */
export function audienceWords(entries: readonly AudienceEntry[]): string {
  return entries
    .map(
      ({ who, price, agents }, at) =>
        `${at === 0 ? 'For ' : ''}${who.replace('-', ' ')}s${agents === undefined ? '' : ` of ${agents.join(', ')}`} ${price === 0 ? 'free' : amountWords(price)}`
    )
    .join(', ')
}

export function RequestPrice(options: { readonly description?: string } = {}): TUnsafe<PriceConfig> {
  const money = Money({ maximum: MAX_PRICE_SATS })
  return Type.Unsafe<PriceConfig>({
    anyOf: [money, TableBy(money), PriceServerSection],
    ...options
  })
}

const pricesOf = (what: string) =>
  Type.Optional(
    Type.Record(Type.String({ minLength: 1 }), Money({ maximum: '1000000000 sats' }), {
      description: `${what} A name that ends in \`*\` matches by prefix; \`*\` alone sets the default price. Names without a price are free.`
    })
  )

/** Settings of the plugin `mcp`: prices of calls inside a route's JSON-RPC messages (decision 263). */
export const CallPricesSchema = Type.Object(
  {
    protocol: Type.Union([Type.Literal('mcp'), Type.Literal('json-rpc')], {
      default: 'mcp',
      description:
        '`mcp` for the Model Context Protocol over streamable HTTP, `json-rpc` for plain JSON-RPC 2.0 over POST.'
    }),
    tools: pricesOf('Prices of `tools/call` by the name of the tool.'),
    resources: pricesOf('Prices of `resources/read` by URI.'),
    prompts: pricesOf('Prices of `prompts/get` by the name of the prompt.'),
    methods: pricesOf('Prices of methods, with `protocol: json-rpc`.'),
    toolErrors: Type.Union([Type.Literal('sold'), Type.Literal('returned')], {
      default: 'sold',
      description:
        "What a tool's result with `isError: true` is: sold like any other, or a payment that is given back. A JSON-RPC error always gives it back."
    })
  },
  { additionalProperties: false, description: 'What calls cost.' }
)

/** Prices in satoshis, or in fiat. */
export type CallPrices = Static<typeof CallPricesSchema>

/** Priced methods of MCP: their setting, and the member of `params` that selects the price. */
export const MCP_OPERATIONS = [
  { method: 'tools/call', setting: 'tools', member: 'name' },
  { method: 'resources/read', setting: 'resources', member: 'uri' },
  { method: 'prompts/get', setting: 'prompts', member: 'name' }
] as const

/** Satoshis, or fiat converted with the challenge. */
export type CallAmount = number | FiatText

export interface CallPrice {
  /** For people: `tools/call get-sum`. */
  readonly operation: string
  readonly amount: CallAmount
}

function callPriceList(prices: CallPrices): CallPrice[] {
  const named = (method: string, of: Readonly<Record<string, CallAmount>> | undefined): CallPrice[] =>
    Object.entries(of ?? {})
      .filter(([, amount]) => amount !== 0)
      .map(([name, amount]) => ({ operation: method === '' ? name : `${method} ${name}`, amount }))
  if (prices.protocol === 'json-rpc') return named('', prices.methods)
  return MCP_OPERATIONS.flatMap(({ method, setting }) => named(method, prices[setting]))
}

/** Key of a call's former prices, beside its route: its line in the price list. */
export function callPlace(place: string, operation: string): string {
  return `${place} ${operation}`
}

export function routeCallPrices({ chains }: Pick<GatewayConfig, 'chains'>, route: RouteConfig): CallPrice[] | null {
  const entry = chains[route.chain]?.find(({ plugin, disabled }) => plugin === 'mcp' && !disabled)
  // The chain was read with the plugin's own schema, which is the one above.
  return entry === undefined ? null : callPriceList(entry.config as CallPrices)
}

/** A name's own price, else that of its longest prefix; null for none. `key` is the matching entry. */
export function priceOfName(
  prices: Readonly<Record<string, CallAmount>>,
  name: string
): { readonly key: string; readonly amount: CallAmount } | null {
  const own = Object.hasOwn(prices, name) ? prices[name] : undefined
  if (own !== undefined) return { key: name, amount: own }
  let found: { readonly key: string; readonly amount: CallAmount } | null = null
  for (const [key, amount] of Object.entries(prices)) {
    if (!key.endsWith('*') || !name.startsWith(key.slice(0, -1))) continue
    if (found === null || key.length > found.key.length) found = { key, amount }
  }
  return found
}
