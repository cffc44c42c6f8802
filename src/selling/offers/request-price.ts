import type { FiatText } from '../../engine/checks/money-text.ts'
import { amountsOf, isTable, type PriceConfig } from '../../engine/checks/price.ts'
import type { Context } from '../../engine/message/context.ts'
import { hasPaymentCredential } from '../../engine/message/payment-headers.ts'
import { isMoreFiat } from '../../lightning/money/prices.ts'
import type { PriceServers } from '../prices/price-server.ts'
import { FieldChoice } from '../prices/table.ts'
import type { Maybe } from '../../platform/state/state.ts'
import type { OfferedPrice, PriceGrace } from './price-grace.ts'
import type { MeterConfig } from '../../engine/checks/meter.ts'
import type { Reply } from '../../engine/message/reply.ts'
import { Tariff } from '../usage/tariff.ts'

export interface PriceTerms extends OfferedPrice {
  readonly asked: string | null
  /** On the invoice; null for the route's own. */
  readonly description: string | null
  /** The highest price of a table, told to a probe that names no value. */
  readonly isQuote?: boolean
}

/** Place of a listed value in a price table; null for all other values. */
export function choicePlace(place: string, value: string | null): string {
  return `${place} ${value === null ? 'else' : JSON.stringify(value)}`
}

export interface RequestPricer {
  /** The same for every request; null if it depends on the request. */
  readonly fixed: PriceTerms | null
  /** @throws LongError, Unavailable without a price */
  find(ctx: Context): Maybe<PriceTerms>
}

/**
 * Precomputes a route's prices.
 * @throws TypeError for an invalid price
 */
export function requestPricer(
  price: PriceConfig,
  {
    grace,
    priceGrace,
    place,
    quotes,
    servers
  }: {
    /** Grace for former prices of these places; null for none. */
    grace(places: readonly string[]): PriceGrace | null
    readonly priceGrace: number
    readonly place: string
    /** Answers a probe with the highest price of a table that a body member selects from. */
    readonly quotes: boolean
    /** Null if price servers are unavailable. */
    readonly servers: PriceServers | null
  }
): RequestPricer {
  if (typeof price !== 'object') return fixedPrice(termsOf(price, grace([place])))
  if (isTable(price)) {
    const terms = (amount: number | FiatText, value: string | null): PriceTerms =>
      termsOf(amount, grace([place, choicePlace(place, value)]))
    const choice = new FieldChoice<PriceTerms>({
      by: price.by,
      of: Object.fromEntries(Object.entries(price.of).map(([value, amount]) => [value, terms(amount, value)])),
      else: price.else === 'refuse' ? 'refuse' : terms(price.else, null)
    })
    const highest = quotes && 'json' in price.by ? highestOf(amountsOf(price)) : null
    if (highest === null)
      return {
        fixed: null,
        find(ctx) {
          const chosen = choice.choose(ctx)
          return chosen instanceof Promise ? chosen.then(({ entry }) => entry) : chosen.entry
        }
      }
    const quote: PriceTerms = { ...ownTerms(highest), isQuote: true }
    return {
      fixed: null,
      async find(ctx) {
        try {
          return (await choice.choose(ctx)).entry
        } catch (error) {
          if (isProbe(ctx)) return quote
          throw error
        }
      }
    }
  }
  if (servers === null) throw new TypeError('no price server can be asked here')
  const server = servers.of(price)
  const before = grace([place])
  return {
    fixed: null,
    find(ctx) {
      const named = server.price(ctx)
      return named instanceof Promise
        ? named.then(({ amount, question, description }) =>
            quotedTerms(amount, question, description, before, priceGrace)
          )
        : quotedTerms(named.amount, named.question, named.description, before, priceGrace)
    }
  }
}

/** Prices by audience; the first that fits, else those of `rest`. */
export function audiencePricer(
  entries: ReadonlyArray<{ readonly terms: PriceTerms; includes(ctx: Context): Maybe<boolean> }>,
  rest: RequestPricer
): RequestPricer {
  const from = (ctx: Context, at: number): Maybe<PriceTerms> => {
    const entry = entries[at]
    if (entry === undefined) return rest.find(ctx)
    const judge = (isIncluded: boolean): Maybe<PriceTerms> => (isIncluded ? entry.terms : from(ctx, at + 1))
    const includes = entry.includes(ctx)
    return includes instanceof Promise ? includes.then(judge) : judge(includes)
  }
  return { fixed: null, find: ctx => from(ctx, 0) }
}

/** Null for amounts that cannot be compared. */
function highestOf(amounts: ReadonlyArray<number | FiatText>): number | FiatText | null {
  const isMore = (one: number | FiatText, other: number | FiatText): boolean =>
    typeof one === 'number'
      ? typeof other === 'number' && one > other
      : typeof other !== 'number' && isMoreFiat(one, other)
  const highest = amounts.find(one => amounts.every(other => other === one || isMore(one, other)))
  return highest ?? null
}

/** Directories send `{}` to see a 402. Any other body is a mistake that its client must learn of. */
function isProbe({ body, headers }: Context): boolean {
  const { collected } = body
  if (collected === null || collected.byteLength > 16 || hasPaymentCredential(headers)) return false
  return Buffer.from(collected).toString('latin1').trim() === '{}'
}

export function ownTerms(amount: number | FiatText): PriceTerms {
  return termsOf(amount, null)
}

function fixedPrice(terms: PriceTerms): RequestPricer {
  return { fixed: terms, find: () => terms }
}

function termsOf(amount: number | FiatText, grace: PriceGrace | null): PriceTerms {
  return Object.freeze({ ...amountOf(amount), grace, asked: null, description: null })
}

/**
 * Terms of a price server's price. When it changed is unknown, so earlier payments for the same question are accepted
 * for the grace after their issuance.
 */
function quotedTerms(
  amount: number | FiatText,
  question: string,
  description: string | null,
  before: PriceGrace | null,
  priceGrace: number
): PriceTerms {
  const grace: PriceGrace | null =
    before === null
      ? null
      : {
          duration: priceGrace,
          until: (paid, issuedAt) => (paid.asked === question ? atBest(issuedAt) : before.until(paid, issuedAt))
        }
  return { ...amountOf(amount), grace, asked: question, description }
}

/** Until the row is read, its issuance counts as now. */
function atBest(issuedAt: number): number {
  return issuedAt === -Infinity ? Infinity : issuedAt
}

export function amountOf(amount: number | FiatText): { amountSats: number | null; fiat: FiatText | null } {
  return typeof amount === 'number' ? { amountSats: amount, fiat: null } : { amountSats: null, fiat: amount }
}

/** When a model was made is not known; clients of both APIs require a date. */
const UNKNOWN = { created: 0, created_at: '1970-01-01T00:00:00Z' }

/** The models of a metered route that refuses all others. */
export class SoldModels {
  readonly #choice: FieldChoice<unknown>
  readonly #list: string

  private constructor({ usage, per, catalog }: MeterConfig, table: ConstructorParameters<typeof FieldChoice>[0]) {
    this.#choice = new FieldChoice(table, usage)
    const markup = catalog?.markup.slice(0, -1)
    // Its entries come from the same meter.
    const entries = Object.entries(table.of as Readonly<Record<string, ConstructorParameters<typeof Tariff>[0]>>)
    const models = entries.map(([id, prices]) => ({
      id,
      pricing: { per, ...new Tariff(prices, per, markup).words }
    }))
    this.#list = JSON.stringify(
      usage === 'gemini'
        ? { models: models.map(({ id, pricing }) => ({ name: `models/${id}`, displayName: id, pricing })) }
        : {
            object: 'list',
            data: models.map(({ id, pricing }) => ({
              id,
              object: 'model',
              type: 'model',
              display_name: id,
              owned_by: 'boltgate',
              ...UNKNOWN,
              pricing
            })),
            has_more: false,
            first_id: models[0]?.id ?? null,
            last_id: models.at(-1)?.id ?? null
          }
    )
  }

  /** Null if the route sells any model, or has one price for all. */
  static of(meter: MeterConfig | undefined): SoldModels | null {
    if (meter === undefined) return null
    const { prices } = meter
    return typeof prices === 'object' && 'by' in prices && prices.else === 'refuse'
      ? new SoldModels(meter, prices)
      : null
  }

  /** The list with prices, which is free, for `GET …/models`; null for other requests. */
  list({ method, path }: Context): Reply | null {
    if (method !== 'GET' || !path.endsWith('/models')) return null
    return { status: 200, headers: ['Content-Type', 'application/json; charset=utf-8'], body: this.#list }
  }

  /**
   * Refuses an unpaid request for another model, before its client pays.
   * @throws LongError, see `FieldChoice.choose`
   */
  requireKnown(ctx: Context): Maybe<void> {
    return this.#choice.requireKnown(ctx)
  }
}
