import type { FiatText } from '../../engine/checks/money-text.ts'
import { isTable, type PriceConfig } from '../../engine/checks/price.ts'
import type { Context } from '../../engine/message/context.ts'
import type { PriceServers } from '../prices/price-server.ts'
import { FieldChoice } from '../prices/table.ts'
import type { Maybe } from '../../platform/state/state.ts'
import type { AskedPrice, PriceGrace } from './price-grace.ts'

/** What one request costs, and what else is taken for it. */
export interface PriceTerms extends AskedPrice {
  /** What a price server was asked, as a digest; null where none was. */
  readonly asked: string | null
  /** Stands on the invoice; null for what the route says. */
  readonly description: string | null
}

/** What the prices of one value of a route's table are remembered under; null for all other values. */
export function choicePlace(place: string, value: string | null): string {
  return `${place} ${value === null ? 'else' : JSON.stringify(value)}`
}

/** Tells what each request to a route costs. */
export interface RequestPricer {
  /** The same for every request; null where it hangs on the request. */
  readonly fixed: PriceTerms | null
  /** @throws LongError, Unavailable where the price cannot be told */
  find(ctx: Context): Maybe<PriceTerms>
}

/** What a route's prices are made with. */
export interface PricerParts {
  /** What was asked in these places before is taken for so long; null for no grace. */
  grace(places: readonly string[]): PriceGrace | null
  /** Milliseconds. */
  readonly priceGrace: number
  readonly place: string
  /** Null where no price server can be asked. */
  readonly servers: PriceServers | null
}

/** Lays the prices of a route out, once for all its requests. @throws TypeError for one that nobody can ask for */
export function requestPricer(price: PriceConfig, { grace, priceGrace, place, servers }: PricerParts): RequestPricer {
  if (typeof price !== 'object') return fixedPrice(termsOf(price, grace([place])))
  if (isTable(price)) {
    const terms = (amount: number | FiatText, value: string | null): PriceTerms =>
      termsOf(amount, grace([place, choicePlace(place, value)]))
    const choice = new FieldChoice<PriceTerms>({
      by: price.by,
      of: Object.fromEntries(Object.entries(price.of).map(([value, amount]) => [value, terms(amount, value)])),
      else: price.else === 'refuse' ? 'refuse' : terms(price.else, null)
    })
    return {
      fixed: null,
      find(ctx) {
        const chosen = choice.choose(ctx)
        return chosen instanceof Promise ? chosen.then(({ entry }) => entry) : chosen.entry
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
            askedTerms(amount, question, description, before, priceGrace)
          )
        : askedTerms(named.amount, named.question, named.description, before, priceGrace)
    }
  }
}

/** The terms of a price that a plugin set. */
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
 * What a price server named. When it named something else before, nobody knows; so what was paid for the same question
 * is taken for the grace from when it was asked of the payer, who had it from the server then.
 */
function askedTerms(
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

/** What only the row knows counts as now until it has been read. */
function atBest(issuedAt: number): number {
  return issuedAt === -Infinity ? Infinity : issuedAt
}

/** An amount as offers say it. */
export function amountOf(amount: number | FiatText): { amountSats: number | null; fiat: FiatText | null } {
  return typeof amount === 'number' ? { amountSats: amount, fiat: null } : { amountSats: null, fiat: amount }
}
