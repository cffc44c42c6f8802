import { hash } from 'node:crypto'
import { callPlace, MAX_PRICE_SATS } from '../../engine/checks/price.ts'
import { type MeterConfig, keyMeterOf, type SessionsConfig } from '../../engine/checks/meter.ts'
import { isCaveatPath } from '../../engine/checks/route-checks.ts'
import type { RouteConfig } from '../../engine/config/schema.ts'
import { parseUnit } from '../../engine/config/units.ts'
import type { Context, RequestOffer } from '../../engine/message/context.ts'
import { withinPattern } from '../../engine/message/path.ts'
import { hasPaidKey } from '../../engine/message/payment-headers.ts'
import type { SchemeOrder } from './accept-payment.ts'
import { depositService, serviceCaveat } from '../../lightning/l402/caveats.ts'
import type { SessionTerms } from '../../lightning/payment-scheme/session-challenge.ts'
import type { Audiences } from '../prices/audience.ts'
import type { PriceServers } from '../prices/price-server.ts'
import type { Maybe } from '../../platform/state/state.ts'
import type { ChallengeSource } from '../holding/challenge.ts'
import type { OfferedPrices } from './offered-prices.ts'
import type { PriceGrace } from './price-grace.ts'
import { audiencePricer, ownTerms, requestPricer, type PriceTerms, type RequestPricer } from './request-price.ts'
import { defineError } from '../../platform/system/errors.ts'
import { DEFAULT_PRICE } from '../../engine/sections/payment.ts'

export const PROXY_UNAVAILABLE = defineError('BG_PROXY_UNAVAILABLE', {
  status: 503,
  title: 'Proxy unavailable',
  cause: 'The proxy cannot be looked up, or its merchant cannot sell at the moment. Nothing was charged.',
  fix: 'Retry after `Retry-After`; the merchant checks plan, subscription and provider key.'
})

/** What releases a single-use credential: upstream statuses, or a client that left before the head. */
type ReleaseClass = '4xx' | '5xx' | 'client-gone'

/** HeaderFate of a single-use credential if its gateway dies during the request (decision 183). */
type AfterCrash = 'by-method' | 'release' | 'spend'

/**
 * Response to a classic token that is expired or for something else: the contract's 400, 401 and 403, or 402 with a
 * fresh challenge, on which alone clients that keep tokens pay again (decision 177).
 */
export type Renewal = 'contract' | 402

declare module '../../engine/message/context.ts' {
  interface RequestOffer {
    readonly source: ChallengeSource
    readonly mostSats?: number
    readonly asked: string | null
    /** Services caveat: `<name>:0`, or `<name>:1` if metered (decisions 113 and 257). */
    readonly service: string
    /** Owner of the resource; null for the operator (decision 115). */
    readonly merchantId: string | null
    readonly proxyId: string | null
    /** Scope of a client's open invoices: a route, proxy, merchant's producer resources or store (decision 175). */
    readonly place: string
    /** Raw path without query, or the producer's resource; a path caveat must cover it (decision 114). */
    readonly path: string
    readonly tokenPath: string
    /** A trailing `/*` of `tokenPath` is a wildcard; false for a path from a request. */
    readonly wildcard: boolean
    readonly method: string
    /** Raw query without the question mark. */
    readonly query: string
    readonly tokenValiditySeconds: number
    readonly invoiceExpirySeconds: number
    /** On the invoice. */
    readonly description: string
    /** The highest price of a table, for a probe. */
    readonly isQuote?: boolean
    readonly payee: 'platform' | 'merchant'
    readonly sessions: SessionsConfig | null
    /** Paid keys are accepted. */
    readonly keys?: boolean
    /** Address of the browser that paid, where it is not the sold path. */
    readonly passPath?: string
    readonly deposit?: SessionTerms
    /** A Payment challenge is bound to the body (contract, Payment scheme: digest). */
    readonly bindsDigest: boolean
    /** `sha-256=:…:` of one call in a JSON-RPC body, bound instead of the whole body (decision 263). */
    readonly callDigest?: string
    /** The tool that such a call names, with canonical arguments; absent for other calls, and where x402 cannot bind it. */
    readonly tool?: { readonly name: string; readonly argumentsText: string }
    readonly renewal: Renewal
    /** The client's own Authorization stays: a Payment credential beside it has its own field. */
    readonly keepsAuthorization?: boolean
    /** First scheme of its 402 without Accept-Payment; null for `payment.order`. */
    readonly order: SchemeOrder | null
    /** Other accepted prices; null for none, as in the contract. */
    readonly grace: PriceGrace | null
    readonly releaseOn: readonly ReleaseClass[]
    readonly afterCrash: AfterCrash
    /** Message of the 503 instead of challenges while the proxy cannot sell; paid requests are served. */
    readonly closed: string | null
    /** No invoices: 401 instead of challenges. */
    readonly tokensOnly?: boolean
    /** Further members of its 503 bodies, such as `proxy_id`. */
    readonly errorMembers: Readonly<Record<string, unknown>>
  }
}

export function isOfOneAddress({ wildcard, meter }: Pick<Offer, 'wildcard' | 'meter'>): boolean {
  return !wildcard && meter === null
}

export type Offer = RequestOffer

export const UNROUTED = {
  meter: null,
  sessions: null,
  fiat: null,
  asked: null,
  bindsDigest: false,
  renewal: 'contract',
  order: null,
  grace: null,
  releaseOn: [],
  afterCrash: 'by-method',
  closed: null,
  errorMembers: {}
} as const satisfies Partial<Offer>

export interface RouteDefaults {
  readonly serviceName: string
  readonly publicHost: string
  /** Milliseconds, as `invoiceExpiry`. */
  readonly tokenValidity: number
  readonly invoiceExpiry: number
}

/** Scope of a route's challenges and remembered prices. */
export function routePlace(route: Pick<RouteConfig, 'name'>): string {
  return `route:${route.name}`
}

/** Default validity of a balance (decision 257). */
export const BALANCE_VALIDITY = 30 * 86_400_000

/** Path of the ping (contract, Pay-per-request gating). */
const PING_PATH = '/l402/test/ping'

const QUOTE = 'Quote (highest price): '

/**
 * Makes the offers of one operator's route; precomputes what does not depend on the request. The ping is such a route,
 * distinct in counts and rows only (decision 129).
 */
export class RouteOffers {
  readonly #prices: RequestPricer
  readonly #grace: (places: readonly string[]) => PriceGrace | null
  readonly #elsewhere: boolean
  readonly #meter: MeterConfig | null
  readonly takesKeys: boolean
  /** Of requests with a key, which on a route without a meter pay by it alone; null without keys. */
  readonly #keyMeter: MeterConfig | null
  readonly #pattern: string | null
  readonly #description: string
  /** What no request changes, of single payments and of balances. */
  readonly #single: Template
  readonly #balance: Template

  constructor(
    route: RouteConfig,
    defaults: RouteDefaults,
    prices: OfferedPrices | null = null,
    servers: PriceServers | null = null,
    audiences: Audiences | null = null
  ) {
    const service = route.service ?? defaults.serviceName
    this.#elsewhere = route.upstream.kind === 'proxy'
    this.#meter = route.meter ?? null
    this.takesKeys = route.keys
    this.#keyMeter = keyMeterOf(route)
    this.#pattern = route.service !== undefined ? '/*' : route.tokenPath === 'pattern' ? patternOf(route) : null
    this.#description = route.description ?? addressOf(route, defaults.publicHost)
    this.#single = {
      ...UNROUTED,
      source: route.match.path.includes(PING_PATH) ? 'ping' : 'route',
      sessions: route.sessions ?? null,
      keys: route.keys,
      keepsAuthorization: route.keepAuthorization,
      service: serviceCaveat(service, false),
      merchantId: null,
      proxyId: null,
      place: routePlace(route),
      wildcard: this.#pattern !== null,
      tokenValiditySeconds: wholeSeconds(route.tokenValidity ?? defaults.tokenValidity),
      invoiceExpirySeconds: wholeSeconds(defaults.invoiceExpiry),
      payee: 'platform',
      renewal: route.renewal,
      order: route.order ?? null,
      releaseOn: route.releaseOn,
      afterCrash: route.afterCrash,
      tokensOnly: route.invoices === false
    }
    this.#balance = {
      ...this.#single,
      service: serviceCaveat(service, true),
      tokenValiditySeconds: wholeSeconds(route.tokenValidity ?? BALANCE_VALIDITY)
    }
    this.#grace = places => prices?.grace(places, route.priceGrace) ?? null
    const price = requestPricer(route.price ?? DEFAULT_PRICE, {
      grace: this.#grace,
      priceGrace: route.priceGrace,
      place: this.#single.place,
      // A free call would pass the probe on; a balance would be bought at a price that its use does not have.
      quotes: route.free === undefined && route.meter === undefined && route.sessions === undefined,
      servers
    })
    this.#prices = route.audience === undefined ? price : this.#byAudience(route, price, audiences, defaults.publicHost)
  }

  #byAudience(
    { audience = [], match }: RouteConfig,
    rest: RequestPricer,
    audiences: Audiences | null,
    publicHost: string
  ): RequestPricer {
    if (audiences === null) throw new TypeError('no audience can be told apart here')
    // The router compared a configured host with the request's; any other request is for the public address.
    const authority = (ctx: Context): string =>
      match.host === undefined ? publicHost : ctx.host.toLowerCase().replace(/:(?:80|443)$/, '')
    return audiencePricer(
      audience.map(entry => ({
        terms: { ...ownTerms(entry.price), grace: this.#grace([this.#single.place]) },
        includes: ctx => audiences.includes(ctx, entry, authority(ctx))
      })),
      rest
    )
  }

  /**
   * Sets what a request must pay on the context, unless set; null if it is free. Proxy prices come from the plugin
   * `proxy`, which leaves no offer on a free path. Returns a promise only if the price needs the body or a price
   * server. @throws Error on a proxy's route that the plugin `proxy` has not seen, rather than serving it free
   * @throws LongError, Unavailable without a price; see `FieldChoice.choose` and `PriceServer.price`
   */
  due(ctx: Context): Maybe<Offer | null> {
    if (ctx.offer !== null) return ctx.offer.amountSats === 0 ? null : ctx.offer
    if (this.#elsewhere) {
      if (ctx.upstreamTarget === null) throw new Error('the plugin proxy must come before credential and challenge')
      return null
    }
    const meter = this.#keyMeter
    if (meter !== null && this.#meter === null && hasPaidKey(ctx.headers))
      return this.#due(ctx, ownTerms(meter.bundle), meter)
    const terms = this.#prices.fixed ?? this.#prices.find(ctx)
    return terms instanceof Promise ? terms.then(later => this.#due(ctx, later)) : this.#due(ctx, terms)
  }

  /**
   * An offer at a plugin's own price, in satoshis, or fiat such as `USD 0.002` or `$0.002`. Set as `ctx.offer` before
   * `credential`, it replaces the route's price (docs/how-to/plugins.md).
   * @throws TypeError for an invalid price
   */
  at(ctx: Context, price: number | string): Offer {
    return this.#at(ctx, price, null)
  }

  /** A balance for requests with a key, at the route's own price by default; null if the route takes none. */
  ofKey(ctx: Context, amountSats?: number): Offer | null {
    const meter = this.#keyMeter
    return meter === null ? null : this.#offer(ctx, ownTerms(amountSats ?? meter.bundle), meter)
  }

  /**
   * The offer of a call in a message, at the price of one line of a price list. The route's `priceGrace` accepts its
   * former prices.
   * @throws TypeError for an invalid price
   */
  ofCall(ctx: Context, price: number | string, operation: string): Offer {
    return this.#at(ctx, price, this.#grace([callPlace(this.#single.place, operation)]))
  }

  #at(ctx: Context, price: number | string, grace: PriceGrace | null): Offer {
    const amount = typeof price === 'number' ? price : (parseUnit('money', price) ?? Number.NaN)
    if (typeof amount === 'number' && (!Number.isSafeInteger(amount) || amount < 0 || amount > MAX_PRICE_SATS))
      throw new TypeError(`${JSON.stringify(price)} is no price of a request`)
    return this.#offer(ctx, { ...ownTerms(amount), grace })
  }

  #due(ctx: Context, terms: PriceTerms, meter = this.#meter): Offer | null {
    const offer = this.#offer(ctx, terms, meter)
    ctx.offer = offer
    return offer.amountSats === 0 ? null : offer
  }

  #offer(ctx: Context, terms: PriceTerms, meter = this.#meter): Offer {
    const { amountSats, fiat, asked, grace, isQuote = false } = terms
    const pattern = this.#pattern
    return {
      ...(meter === null ? this.#single : this.#balance),
      amountSats,
      fiat,
      asked,
      grace,
      meter,
      isQuote,
      path: pattern === null ? ctx.path : withinPattern(ctx.path, pattern),
      tokenPath: pattern ?? ctx.path,
      method: ctx.method,
      query: ctx.query,
      description: isQuote ? `${QUOTE}${this.#description}` : (terms.description ?? this.#description),
      // What pays for a quote buys a request with another body.
      bindsDigest: meter === null && !isQuote
    }
  }
}

type Template = Omit<Offer, 'amountSats' | 'path' | 'tokenPath' | 'method' | 'query' | 'description'>

/**
 * The offer of a session's deposit for these unit costs. All of the operator's routes take the same session, so it
 * depends on no request.
 */
export function depositOffer(offer: Offer, terms: SessionTerms, amountSats: number): Offer {
  return {
    ...offer,
    sessions: null,
    deposit: terms,
    amountSats,
    fiat: null,
    asked: null,
    meter: null,
    service: depositService(offer.service.replace(/:[01]$/, '')),
    place: `${offer.place} deposit`,
    path: '/',
    tokenPath: '/',
    wildcard: false,
    method: 'ANY',
    query: '',
    tokenValiditySeconds: wholeSeconds(BALANCE_VALIDITY),
    description: `Deposit: ${offer.description}`,
    bindsDigest: false,
    grace: null
  }
}

/** The top-up of a key's balance, named by `path`. Its token would pay for nothing: the balance has the money. */
export function topUpOffer(offer: Offer, balanceId: string): Offer {
  return {
    ...offer,
    source: 'top-up',
    meter: null,
    keys: false,
    service: depositService(offer.service.replace(/:[01]$/, '')),
    path: balanceId,
    tokenPath: balanceId,
    wildcard: false,
    description: `Top-up: ${offer.description}`
  }
}

/**
 * Display address for an invoice: `api.example.com/v1` for `/v1/*`. From the configuration alone, never from a request.
 */
function addressOf({ match }: RouteConfig, publicHost: string): string {
  return `${match.host ?? publicHost}${match.path[0]?.replace(/\/\*$/, '') ?? ''}` || '/'
}

/**
 * Path caveat of a route that sells its whole pattern. Null if a caveat cannot express it, so that tokens cover the
 * request's own path; `checkTokenPath` refuses such a configuration.
 */
function patternOf(route: RouteConfig): string | null {
  const [only, ...more] = route.match.path
  if (only === undefined || more.length > 0) return null
  return isCaveatPath(only) ? only : null
}

function wholeSeconds(milliseconds: number): number {
  return Math.max(1, Math.floor(milliseconds / 1000))
}

const MAX_DIGEST_BODY = 1_048_576

/** The head allows a body that a Payment challenge would be bound to (decision 121). */
export function hasBoundBody(ctx: Context, offer: Offer): boolean {
  if (!offer.bindsDigest || ctx.body.length === 0 || ctx.body.limit > MAX_DIGEST_BODY) return false
  return ctx.method === 'POST' || ctx.method === 'PUT' || ctx.method === 'PATCH'
}

/** Digest of the query for comparison. Queries may contain upstream keys, which must not be stored. */
export function boundQuery(query: string): string {
  return query === '' ? '' : `sha256-${hash('sha256', query, 'base64url')}`
}
