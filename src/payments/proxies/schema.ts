import { COMMON_METHODS } from '../../engine/config/formats.ts'
import { LINE, TEXT, nullableInteger, nullableText } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import { EndpointMeter, EndpointMeterView } from './meter.ts'
import { DefaultPriceInput, PriceInput, PriceView, type ProxyPriceText } from './price.ts'
import { isoTime } from '../../engine/formats/iso-time.ts'

/** Highest price of a request in satoshis (decision 105). */
const MAX_PRICE_SATS = 1_000_000_000
/** Longest upstream timeout in seconds (contract, Limits: Proxy). */
export const MAX_TIMEOUT_SECONDS = 30
const MAX_LIST = 100

// No control characters; the database rejects NUL.
const PATTERN = '^/[^\\s?#\\\\\\u0000-\\u001f\\u007f]*$'
const HEADER = "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$"

const PLAIN = 'Must not hold control characters.'

const method = Type.Enum(COMMON_METHODS)
const pathPattern = Type.String({
  minLength: 1,
  maxLength: 500,
  pattern: PATTERN,
  'x-rule': 'Must begin with / and hold no space, ?, #, backslash or control character.',
  description: 'Path within the proxy; a trailing /* covers everything below.'
})
const priceSats = Type.Integer({
  minimum: 0,
  maximum: MAX_PRICE_SATS,
  description: 'Satoshis for one request; 0 is free.'
})
const tokenPath = Type.Enum(['exact', 'pattern'], {
  description: "Whether a paid token is good for the request's own path or for the whole pattern."
})

const tokenValiditySeconds = (description: string) => Type.Integer({ minimum: 60, maximum: 31_536_000, description })

const renewal = Type.Enum(['default', 'contract', 402], {
  description:
    'What answers an L402 token that expired or is for another path or price: 401 and 403 (contract), or 402 with a fresh invoice, on which clients that keep tokens buy again. default is what the operator has chosen.'
})

const priceGrace = Type.Integer({
  minimum: 0,
  maximum: 2_592_000,
  description:
    'Seconds after a change of a price for which what was paid at the price before it is served. With any, what paid more than the present price is always served; with 0 a payment must be of the very price.'
})

const ProxyExample = Type.Object(
  {
    request: Type.String({
      maxLength: 1_000,
      // Dot segments would lead to another API.
      pattern: '^[A-Z]{1,16} (?![^?]*/(?:\\.|%2[Ee]){1,2}(?:[/?]|$))/[\\x21-\\x7e]*$',
      'x-rule': 'Must be a method and a path with its query, such as GET /weather?city=Berlin, without . or .. in it.',
      description: "Method, path below the proxy's address, and query."
    }),
    body: Type.Optional(Type.String({ maxLength: 2_000, description: 'Body to send, as text.' }))
  },
  { title: 'ProxyExample' }
)
export type ProxyExample = Static<typeof ProxyExample>

const EndpointInput = Type.Object(
  {
    method: Type.Optional(method),
    pathPattern,
    priceSats,
    price: Type.Optional(PriceInput),
    description: Type.Optional(Type.String({ maxLength: 500, pattern: TEXT, 'x-rule': PLAIN })),
    tokenPath: Type.Optional(tokenPath),
    tokenValiditySeconds: Type.Optional(
      tokenValiditySeconds("Seconds for which a token that was paid here is good; the proxy's when left out.")
    ),
    meter: Type.Optional(EndpointMeter)
  },
  { title: 'ProxyEndpointInput' }
)

const settings = {
  defaultPrice: Type.Optional(DefaultPriceInput),
  description: Type.Optional(Type.String({ maxLength: 500, pattern: TEXT, 'x-rule': PLAIN })),
  endpoints: Type.Optional(
    Type.Array(EndpointInput, {
      maxItems: MAX_LIST,
      description:
        'Prices by method and path; a pattern with a method goes before one without, then the longest goes first.'
    })
  ),
  tokenValiditySeconds: Type.Optional(
    tokenValiditySeconds('Seconds for which a paid token is good, where its endpoint does not say.')
  ),
  timeout: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_TIMEOUT_SECONDS,
      description: 'Seconds until the upstream must have answered.'
    })
  ),
  renewal: Type.Optional(renewal),
  priceGrace: Type.Optional(priceGrace),
  allowedMethods: Type.Optional(Type.Array(method, { maxItems: 10, description: 'All methods when empty.' })),
  allowedPaths: Type.Optional(Type.Array(pathPattern, { maxItems: MAX_LIST, description: 'All paths when empty.' })),
  blockedPaths: Type.Optional(Type.Array(pathPattern, { maxItems: MAX_LIST })),
  authHeader: Type.Optional(
    Type.String({
      pattern: HEADER,
      'x-rule': 'Must be the name of a header, of at most 100 characters.',
      description: 'Header that is set on every request to the target. Set it together with authValue.'
    })
  ),
  authValue: Type.Optional(
    Type.String({
      maxLength: 4096,
      pattern: '^[\\x20-\\x7e]*$',
      'x-rule': 'Must be printable ASCII.',
      description: 'Value of that header; stored encrypted and never returned. Empty removes it.'
    })
  ),
  isActive: Type.Optional(Type.Boolean()),
  isListed: Type.Optional(
    Type.Boolean({ description: "Whether the gateway's llms.txt, front page and l402.json name it; default false." })
  ),
  examples: Type.Optional(
    Type.Array(ProxyExample, {
      maxItems: 10,
      description: 'Requests that agents can copy, published with the API where it is listed.'
    })
  )
}
const name = Type.String({ minLength: 1, maxLength: 100, pattern: LINE, 'x-rule': PLAIN })
const targetBaseUrl = Type.String({
  minLength: 1,
  maxLength: 2048,
  'x-openapi': { format: 'uri', pattern: '^https://' },
  description: "https URL of the API, with a host name and without query. Its path is prepended to the request's path."
})

/** Body of `POST /api/proxy` (contract, Proxy configuration; decision 89). */
export const ProxyInput = Type.Object(
  { name, targetBaseUrl, defaultPriceSats: priceSats, ...settings },
  { title: 'ProxyInput' }
)
export type ProxyInput = Static<typeof ProxyInput>

export const ProxyChange = Type.Object(
  {
    name: Type.Optional(name),
    targetBaseUrl: Type.Optional(targetBaseUrl),
    defaultPriceSats: Type.Optional(priceSats),
    openapi: Type.Optional(
      Type.Unsafe<object | null>({
        type: ['object', 'null'],
        description:
          'OpenAPI 3 document of the API. While it is listed, /api/openapi/{proxyId}.json publishes its operations with your prices. Null removes it.'
      })
    ),
    ...settings
  },
  { title: 'ProxyChange' }
)
export type ProxyChange = Static<typeof ProxyChange>

export interface ProxyEndpoint {
  readonly method: string | null
  readonly pathPattern: string
  /** An upper bound where `price` is set. */
  readonly priceSats: number
  readonly price?: ProxyPriceText
  readonly description: string | null
  readonly tokenPath: 'exact' | 'pattern'
  /** Token validity in seconds; null: the proxy's. */
  readonly tokenValiditySeconds: number | null
  readonly meter?: EndpointMeter
}

export interface PreviousPrices {
  readonly until: number
  readonly defaultPriceSats: number
  readonly defaultPrice?: ProxyPriceText | null
  readonly endpoints: ReadonlyArray<Pick<ProxyEndpoint, 'method' | 'pathPattern' | 'priceSats' | 'price' | 'tokenPath'>>
}

export const NO_PROVIDER_KEY = 'No provider key.'

/** Response for the merchant (decision 89). */
export const ProxyView = Type.Object(
  {
    proxyId: Type.String(),
    proxyUrl: Type.String({
      format: 'uri',
      description: 'Where buyers ask, as a whole address: no base is put in front of it.'
    }),
    name: Type.String(),
    description: nullableText(),
    targetBaseUrl: Type.String(),
    defaultPriceSats: Type.Integer(),
    defaultPrice: Type.Optional(PriceView),
    endpoints: Type.Array(
      Type.Object({
        method: nullableText(),
        pathPattern: Type.String(),
        priceSats: Type.Integer(),
        price: Type.Optional(PriceView),
        description: nullableText(),
        tokenPath: Type.String(),
        tokenValiditySeconds: nullableInteger("Null where the proxy's own is meant."),
        meter: Type.Optional(EndpointMeterView)
      })
    ),
    tokenValiditySeconds: Type.Integer(),
    timeout: Type.Integer(),
    renewal,
    priceGrace,
    allowedMethods: Type.Array(Type.String()),
    allowedPaths: Type.Array(Type.String()),
    blockedPaths: Type.Array(Type.String()),
    authHeader: nullableText(),
    hasAuthValue: Type.Boolean(),
    isActive: Type.Boolean(),
    isListed: Type.Boolean(),
    examples: Type.Array(ProxyExample),
    problem: nullableText(
      'Why it cannot be sold: no provider key, or the target could not be reached when it was last tested. Null otherwise.'
    ),
    createdAt: isoTime(),
    updatedAt: isoTime()
  },
  { title: 'Proxy' }
)
export type ProxyView = Static<typeof ProxyView>

/** Response of `POST /api/proxy/{proxyId}/test` (decision 90). */
export const ProbeView = Type.Object(
  {
    success: Type.Boolean(),
    statusCode: nullableInteger(),
    latencyMs: Type.Integer(),
    message: Type.String()
  },
  { title: 'ProxyTest' }
)
export type ProbeView = Static<typeof ProbeView>
