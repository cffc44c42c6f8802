import { Type, type Static } from 'typebox'
import { List, strict } from '../config/fields.ts'
import {
  MAX_PRICE_SATS,
  selectorWords,
  ELSE,
  TableBy,
  type FieldTable,
  amountsOf,
  amountWords,
  isTable,
  type PriceConfig
} from './price.ts'
import type { FiatText } from './money-text.ts'
import { FineMoney, formatUnit, Money, Duration, formatDuration } from '../config/units.ts'
import type { CatalogConfig } from './catalog.ts'

export type UnitAmount = number | FiatText

/** Parts of what goes in or comes out with prices of their own. Their counts are inside `input` or `output`. */
export const INPUT_PARTS = ['cached', 'cacheWrite', 'cacheWrite1h', 'audio'] as const
export const OUTPUT_PARTS = ['reasoning', 'audioOutput'] as const
/** `search` is beside both: web searches of the provider, priced each. */
export type UnitPart = (typeof INPUT_PARTS)[number] | (typeof OUTPUT_PARTS)[number] | 'search'

export interface PartPrices extends Readonly<Partial<Record<UnitPart, UnitAmount>>> {
  readonly input: UnitAmount
  readonly output: UnitAmount
  /** Prices of requests with more input than `units`; from a catalog only. */
  readonly above?: { readonly units: number; readonly prices: PartPrices }
}

export type UnitPrices = UnitAmount | PartPrices

const price = (description: string) => FineMoney({ maximum: 1_000_000_000_000, description })
const partPrice = (description: string) => Type.Optional(price(description))

const unitPrices = Type.Union([
  FineMoney({ maximum: 1_000_000_000_000 }),
  Type.Object(
    {
      input: price('What goes in, such as the tokens of a prompt.'),
      output: price('What comes out.'),
      cached: partPrice('Input that the upstream read from its cache; `input` when left out.'),
      cacheWrite: partPrice('Input that the upstream wrote to its cache; `input` when left out.'),
      cacheWrite1h: partPrice('Input that it wrote for an hour; `cacheWrite` when left out.'),
      reasoning: partPrice('Output that is reasoning; `output` when left out.'),
      audio: partPrice('Audio that goes in, and that comes out unless `audioOutput` says otherwise.'),
      audioOutput: partPrice('Audio that comes out; `audio` when left out.'),
      search: partPrice(
        'A web search that the upstream reports (`web_search_requests`), whatever `per` says; nothing when left out.'
      )
    },
    strict
  )
])

const CatalogSection = Type.Object(
  {
    catalog: Type.String({
      minLength: 1,
      description:
        "A price list of models in LiteLLM's format, which `boltgate prices update FILE` downloads. Its prices are dollars for a token."
    }),
    markup: Type.String({
      default: '0%',
      pattern: '^[0-9]{1,4}(\\.[0-9]{1,4})?%$',
      'x-allowed': 'a percentage such as 5% or 12.5%',
      description: 'What is added to each price.'
    }),
    provider: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        description: 'Sells the models of this `litellm_provider`, by their names without it in front.'
      })
    ),
    models: Type.Optional(
      List(Type.String({ minLength: 1, maxLength: 200 }), {
        description: 'Sells these; all that have prices otherwise.'
      })
    ),
    else: Type.Union([Type.Literal('refuse'), unitPrices], {
      default: 'refuse',
      description: ELSE
    })
  },
  strict
)

export type UsageConfig =
  | 'openai'
  | 'anthropic'
  | 'gemini'
  | 'bytes'
  | 'seconds'
  | 'requests'
  | 'events'
  | { readonly json: string }
  | { readonly header: string }

const usage = Type.Unsafe<UsageConfig>({
  anyOf: [
    { type: 'string', enum: ['openai', 'anthropic', 'gemini', 'bytes', 'seconds', 'requests', 'events'] },
    Type.Object(
      {
        json: Type.String({ minLength: 1, maxLength: 200, description: 'A member of a JSON response or its events.' })
      },
      strict
    ),
    Type.Object(
      {
        header: Type.String({
          pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$",
          description: 'A header of the response.'
        })
      },
      strict
    )
  ],
  'x-allowed':
    'openai, anthropic, gemini, bytes, seconds, requests, events, { json: usage.total } or { header: X-Usage }'
})

export const MeterSchema = Type.Object(
  {
    unit: Type.String({
      default: 'unit',
      pattern: '^[a-z][a-z0-9 -]{0,31}$',
      description: 'What is counted, for people: `token`.'
    }),
    bundle: Money({
      minimum: 1,
      maximum: MAX_PRICE_SATS,
      description:
        'What one payment buys, such as `2000 sats` or `$1`: a balance that requests are taken from until it is used up. Dollars become satoshis when the challenge is made, and stay as many.'
    }),
    prices: Type.Union([unitPrices, TableBy(unitPrices), CatalogSection], {
      'x-allowed':
        'a price such as 2 msat, { input: 2 msat, output: 8 msat }, a table by a field of the request, or { catalog: ./models.json, markup: 5% }',
      description:
        'What units cost: one price, `{ input, output }` with prices of parts such as `cached`, by a field of the request, as in `{ by: { json: model }, of: { small: { input: 2 msat, output: 8 msat } } }`, or by a price list of models, as in `{ catalog: ./models.json, markup: 5% }`.'
    }),
    per: Type.Integer({
      default: 1,
      minimum: 1,
      maximum: 1_000_000_000,
      description: 'How many units a price is for, such as 1000.'
    }),
    usage: Type.Unsafe<UsageConfig>({
      ...usage,
      default: 'requests',
      description:
        'How many units a request used: `openai`, `anthropic` and `gemini` read their responses, JSON or event stream; `{ json: usage.total }` a member of a JSON response or of its events, `{ header: X-Usage }` a header; `bytes`, `seconds`, `events` and `requests` are counted here.'
    }),
    estimate: Type.Object(
      {
        json: Type.Optional(
          List(Type.String({ minLength: 1, maxLength: 200 }), {
            description:
              'Members of the JSON body that limit the units that come out, such as `max_length`. The largest is reserved. Those of OpenAI, Anthropic and Gemini are known.'
          })
        ),
        else: Type.Integer({
          default: 4096,
          minimum: 0,
          maximum: 1_000_000_000,
          description: 'Units that come out where the request has no limit.'
        }),
        input: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: 1_000_000_000,
            description: 'Units that go in. Where it is left out, one for every three bytes of the body.'
          })
        )
      },
      {
        ...strict,
        default: {},
        description: 'What is reserved before a request is forwarded; what it used is taken when its response ends.'
      }
    )
  },
  {
    ...strict,
    description:
      'One payment buys a bundle, and each request takes from it what it used. The credential is sent with each request until the balance is used up.'
  }
)

export interface MeterConfig extends Omit<Static<typeof MeterSchema>, 'prices' | 'usage' | 'estimate'> {
  readonly prices: UnitPrices | FieldTable<UnitPrices>
  /** Where `prices` come from, with its absolute path. They are without the markup, and in dollars. */
  readonly catalog?: CatalogConfig
  /** `pieces`: responses, or events of a stream; see `keyMeterOf`. */
  readonly usage: UsageConfig | 'pieces'
  readonly estimate: { readonly json?: readonly string[]; readonly else: number; readonly input?: number }
  /** Models of the upstream's fallbacks; absent without any. */
  readonly fallbackModels?: readonly string[]
}

interface OutputLimits {
  /** The request's limit: without any, `estimate.else` is the minimum reservation. */
  readonly limits: readonly string[]
  /** Limits that only some servers follow, so they can only raise a reservation. */
  readonly others: readonly string[]
}

const CHAT_LIMITS = ['max_completion_tokens', 'max_tokens']
const RESPONSES_LIMITS = ['max_output_tokens']
/** Those of llama.cpp, TGI and Ollama. */
const SERVERS_LIMITS = ['n_predict', 'max_new_tokens', 'num_predict']
/** Those of OpenRouter, of LiteLLM and Anthropic, and of Qwen. */
const THINKING_LIMITS = ['reasoning.max_tokens', 'thinking.budget_tokens', 'thinking_budget']

/** Members of Gemini's `generationConfig`, in both spellings that JSON of protocol buffers has. */
export function geminiMembers(camel: string): string[] {
  const snake = (name: string): string => name.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
  return ['generationConfig', 'generation_config'].flatMap(config =>
    [...new Set([camel, snake(camel)])].map(name => `${config}.${name}`)
  )
}

/**
 * The limits in the file and of the request's API. `hasInput`: a body with `input` is for OpenAI's Responses, which
 * ignore the limits of chats.
 */
export function outputLimits(
  { usage, estimate }: Pick<MeterConfig, 'usage' | 'estimate'>,
  hasInput = false
): OutputLimits {
  const named = estimate.json ?? []
  if (usage === 'anthropic')
    return {
      limits: [...new Set([...named, 'max_tokens'])],
      others: ['max_tokens_to_sample', 'thinking.budget_tokens']
    }
  if (usage === 'gemini')
    return {
      limits: [...new Set([...named, ...geminiMembers('maxOutputTokens')])],
      others: geminiMembers('thinkingConfig.thinkingBudget')
    }
  if (usage !== 'openai') return { limits: named, others: [] }
  const [limits, others] = hasInput ? [RESPONSES_LIMITS, CHAT_LIMITS] : [CHAT_LIMITS, RESPONSES_LIMITS]
  const own = named.filter(name => !others.includes(name))
  return { limits: [...new Set([...own, ...limits])], others: [...others, ...SERVERS_LIMITS, ...THINKING_LIMITS] }
}

/**
 * The minimum reservation in millisatoshis, by the highest price. Fiat counts as 0, and so does what a request states
 * itself.
 */
export function leastReservedMsat({ prices, per, usage, estimate }: MeterConfig): number {
  const isSaid = outputLimits({ usage, estimate }).limits.length > 0
  const output = usage === 'requests' ? 1 : isSaid ? 0 : estimate.else
  const input = usage === 'requests' ? 0 : (estimate.input ?? 0)
  const whole = (amount: UnitAmount): number => (typeof amount === 'number' ? amount : 0)
  const each = isByField(prices)
    ? [...Object.values(prices.of), ...(prices.else === 'refuse' ? [] : [prices.else])]
    : [prices]
  const costs = each.map(price =>
    typeof price === 'object' ? input * whole(price.input) + output * whole(price.output) : output * whole(price)
  )
  return Math.ceil(Math.max(...costs) / per)
}

/** Longer tables would swell the head of a 402. */
const MOST_SAID = 12

/** For people: `a balance, from which each 1000 tokens take 2 msat in and 8 msat out`. */
export function meterWords({ prices, catalog, unit, per }: MeterConfig): string {
  const each = per === 1 ? `each ${unit} takes` : `each ${per} ${unit}s take`
  if (!isByField(prices)) return `a balance, from which ${each} ${unitWords(prices)}`
  const { by, of, else: rest } = prices
  // A catalog's prices have no markup.
  if (catalog !== undefined || Object.keys(of).length > MOST_SAID)
    return `a balance, from which ${each} its price by ${selectorWords(by)}`
  const entries = Object.entries(of).map(([value, amount]) => `${value} ${unitWords(amount)}`)
  if (rest !== 'refuse') entries.push(`others ${unitWords(rest)}`)
  return `a balance, from which ${each}, by ${selectorWords(by)}: ${entries.join('; ')}`
}

/** The `model` of the body, which a fallback replaces, selects the price. */
export function pricesByModel(prices: MeterConfig['prices']): prices is FieldTable<UnitPrices> {
  return isByField(prices) && 'json' in prices.by && prices.by.json === 'model'
}

export function isByField(prices: MeterConfig['prices']): prices is FieldTable<UnitPrices> {
  return typeof prices === 'object' && 'by' in prices
}

function unitWords(prices: UnitPrices): string {
  if (typeof prices !== 'object') return unitText(prices)
  const cached = prices.cached === undefined ? '' : ` (${unitText(prices.cached)} cached)`
  return `${unitText(prices.input)} in${cached} and ${unitText(prices.output)} out`
}

function unitText(amount: UnitAmount): string {
  return typeof amount === 'number' ? formatUnit('fine-money', amount) : amount
}

export const SessionsSchema = Type.Object(
  {
    deposit: Type.Optional(
      Money({
        minimum: 1,
        maximum: MAX_PRICE_SATS,
        description:
          'What a client pays at first, and again for each top-up; never less than a unit. Twenty units where it is left out, and with a meter its bundle.'
      })
    ),
    idle: Duration({
      default: '5m',
      minimum: '10s',
      maximum: '30d',
      description: 'How long a session may rest before it is closed and what is left of it is paid back.'
    }),
    unit: Type.String({
      default: 'request',
      pattern: '^[a-z][a-z0-9 -]{0,31}$',
      description: 'What the price of the route is for, as clients show it to people: `request`, `chunk`.'
    })
  },
  {
    additionalProperties: false,
    description:
      'Sells prepaid sessions of the Payment scheme too: one deposit for many requests, and what is left is paid back to an invoice of the client. The price is that of one unit: a response, or one event of an event stream; with a meter it is as that says.'
  }
)

/** A deposit in satoshis or fiat, times in milliseconds. */
export type SessionsConfig = Readonly<Static<typeof SessionsSchema>>

export function sessionWords({ deposit, idle }: SessionsConfig, isMetered: boolean): string {
  const first = deposit === undefined ? (isMetered ? 'as much' : '20 units') : amountWords(deposit)
  return `Also from a prepaid session (Payment scheme, lightning/session): ${first} as a deposit, and what is left is paid back when it is closed, at the latest after ${formatDuration(idle)} at rest`
}

/** As `depositSats` of the Payment scheme. */
const DEPOSIT_UNITS = 20

interface KeyTerms {
  readonly keys: boolean
  readonly meter?: MeterConfig
  readonly price?: PriceConfig
  readonly sessions?: SessionsConfig
}

/**
 * How a route takes what a key pays: by its meter, or with sessions alone the price of a unit for each. Null without
 * keys, and where the file does not say what a unit or a key costs.
 */
export function keyMeterOf({ keys, meter, price, sessions }: KeyTerms): MeterConfig | null {
  if (!keys || meter !== undefined) return keys ? (meter ?? null) : null
  if (sessions === undefined || price === undefined) return null
  if (typeof price === 'object' && !isTable(price)) return null
  const amounts = typeof price === 'object' ? amountsOf(price) : [price]
  const sats = amounts.filter(amount => typeof amount === 'number')
  const { deposit, unit } = sessions
  if (deposit === undefined && sats.length < amounts.length) return null
  const inMsat = (amount: number | FiatText): number | FiatText => (typeof amount === 'number' ? amount * 1000 : amount)
  return {
    unit,
    bundle: deposit ?? Math.min(DEPOSIT_UNITS * Math.max(...sats), MAX_PRICE_SATS),
    prices:
      typeof price === 'object'
        ? {
            by: price.by,
            of: Object.fromEntries(Object.entries(price.of).map(([value, amount]) => [value, inMsat(amount)])),
            else: price.else === 'refuse' ? price.else : inMsat(price.else)
          }
        : inMsat(price),
    per: 1,
    usage: 'pieces',
    estimate: { else: 1 }
  }
}
