import { Type, type Static } from 'typebox'
import type { FiatText } from './money-text.ts'
import type { GatewayConfig, RouteConfig } from '../config/schema.ts'
import { Money } from '../config/units.ts'

const pricesOf = (what: string) =>
  Type.Optional(
    Type.Record(Type.String({ minLength: 1 }), Money({ maximum: '1000000000 sats' }), {
      description: `${what} A name that ends in \`*\` is the beginning of others, \`*\` alone all that have no price of their own. What has none is free.`
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
