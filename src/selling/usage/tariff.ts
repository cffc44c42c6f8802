import {
  INPUT_PARTS,
  OUTPUT_PARTS,
  type UnitAmount,
  type UnitPart,
  type UnitPrices
} from '../../engine/checks/meter.ts'
import { type FiatCurrency, fiatOf, isMoreFiat, BTC_MSAT } from '../../lightning/money/prices.ts'
import { knownDecimal, plainText, type Decimal } from '../../lightning/money/decimal.ts'
import type { Usage } from './usage.ts'

export type Rates = ReadonlyMap<FiatCurrency, Decimal>

type Slot = 'input' | 'output' | UnitPart

interface FiatPrices {
  readonly currency: FiatCurrency
  /** 10^-`places` of the currency, by slot. */
  readonly digits: ReadonlyArray<readonly [Slot, bigint]>
  readonly places: number
}

/** Maximum cost; no balance holds more. */
const MOST_MSAT = 2 ** 52

/** Prices of one entry, laid out at startup. Sums are exact, and a request is rounded up once. */
export class Tariff {
  readonly currencies: readonly FiatCurrency[]
  /** Parts with a price of their own. */
  readonly parts: readonly UnitPart[]
  readonly hasInput: boolean
  readonly #per: number
  readonly #inputs: readonly UnitPart[]
  readonly #outputs: readonly UnitPart[]
  readonly #msat: ReadonlyArray<readonly [Slot, number]>
  readonly #fiat: readonly FiatPrices[]
  /** Parts that cost more than what they are part of; undefined for none. */
  readonly #dearIn: ReadonlyArray<UnitPart | undefined>
  readonly #dearOut: ReadonlyArray<UnitPart | undefined>
  readonly #above: { readonly units: number; readonly tariff: Tariff } | null

  /** `markup`: percent on prices in fiat, as a catalog has them. */
  constructor(prices: UnitPrices, per: number, markup = '0') {
    const given = typeof prices === 'object' ? prices : { input: 0, output: prices }
    const { input, output, above, ...rest } = given
    const parts: Partial<Record<UnitPart, UnitAmount>> = { ...rest }
    if (parts.cacheWrite !== undefined) parts.cacheWrite1h ??= parts.cacheWrite
    if (parts.audio !== undefined) parts.audioOutput ??= parts.audio
    const priced = (names: readonly UnitPart[]): UnitPart[] => names.filter(name => parts[name] !== undefined)
    this.#per = per
    this.#inputs = priced(INPUT_PARTS)
    this.#outputs = priced(OUTPUT_PARTS)
    const amounts = Object.entries({ input, output, ...parts }) as Array<[Slot, UnitAmount]> // Its own keys.
    this.#msat = amounts.filter((each): each is [Slot, number] => typeof each[1] === 'number')
    this.#fiat = fiatPrices(amounts, knownDecimal(markup))
    // Audio has far fewer units than a third of its bytes.
    this.#dearIn = [undefined, ...this.#inputs.filter(name => name !== 'audio' && isMore(parts[name], input))]
    this.#dearOut = [undefined, ...this.#outputs.filter(name => isMore(parts[name], output))]
    this.#above = above === undefined ? null : { units: above.units, tariff: new Tariff(above.prices, per, markup) }
    const fees: readonly UnitPart[] = parts.search === undefined ? [] : ['search']
    this.parts = [...this.#inputs, ...this.#outputs, ...fees, ...(this.#above?.tariff.parts ?? [])]
    this.currencies = [...this.#fiat.map(({ currency }) => currency), ...(this.#above?.tariff.currencies ?? [])]
    this.hasInput = amounts.some(([slot, amount]) => slot !== 'output' && slot !== 'search' && amount !== 0)
  }

  /** Prices as texts with their currency, by input, output and part. */
  get words(): Readonly<Record<string, string>> {
    const fiat = this.#fiat.flatMap(({ currency, digits, places }) =>
      digits.map(([slot, amount]) => [slot, `${currency} ${plainText({ digits: amount, places })}`] as const)
    )
    return Object.fromEntries([...this.#msat.map(([slot, amount]) => [slot, `${amount} msat`] as const), ...fiat])
  }

  /** Millisatoshis. */
  cost(usage: Usage, rates: Rates): number {
    if (this.#above !== null && usage.input > this.#above.units) return this.#above.tariff.cost(usage, rates)
    const counts = this.parts.length === 0 ? usage : this.#split(usage)
    if (this.#fiat.length === 0) {
      let sum = 0
      for (const [slot, amount] of this.#msat) sum += (counts[slot] ?? 0) * amount
      if (Number.isSafeInteger(sum)) {
        const rest = sum % this.#per
        return (sum - rest) / this.#per + (rest > 0 ? 1 : 0)
      }
    }
    return this.#exact(counts, rates)
  }

  /** The most that these units may cost, whatever parts they have. */
  most(usage: Usage, rates: Rates): number {
    if (this.#dearIn.length === 1 && this.#dearOut.length === 1) return this.cost(usage, rates)
    let most = 0
    for (const goesIn of this.#dearIn)
      for (const comesOut of this.#dearOut)
        most = Math.max(
          most,
          this.cost(
            {
              ...usage,
              ...(goesIn === undefined ? {} : { [goesIn]: usage.input }),
              ...(comesOut === undefined ? {} : { [comesOut]: usage.output })
            },
            rates
          )
        )
    return most
  }

  /** Counts without overlap: a part beyond the rest of its whole is cut. */
  #split(usage: Usage): Partial<Record<Slot, number>> {
    const counts: Partial<Record<Slot, number>> = {}
    const take = (parts: readonly UnitPart[], whole: number): number => {
      let rest = whole
      for (const part of parts) rest -= counts[part] = Math.min(usage[part] ?? 0, rest)
      return rest
    }
    counts.input = take(this.#inputs, usage.input)
    counts.output = take(this.#outputs, usage.output)
    if (usage.search !== undefined) counts.search = usage.search * this.#per
    return counts
  }

  #exact(counts: Partial<Record<Slot, number>>, rates: Rates): number {
    const times = (prices: ReadonlyArray<readonly [Slot, number | bigint]>): bigint =>
      prices.reduce((sum, [slot, amount]) => sum + BigInt(counts[slot] ?? 0) * BigInt(amount), 0n)
    let [above, below] = [times(this.#msat), 1n]
    for (const { currency, digits, places } of this.#fiat) {
      const rate = rates.get(currency)
      if (rate === undefined) throw new TypeError(`no rate of ${currency} was asked for`)
      const divisor = rate.digits * 10n ** BigInt(places)
      above = above * divisor + times(digits) * BTC_MSAT * 10n ** BigInt(rate.places) * below
      below *= divisor
    }
    below *= BigInt(this.#per)
    const cost = (above + below - 1n) / below
    return cost > BigInt(MOST_MSAT) ? MOST_MSAT : Number(cost)
  }
}

function fiatPrices(amounts: ReadonlyArray<readonly [Slot, UnitAmount]>, markup: Decimal): FiatPrices[] {
  const factor = 100n * 10n ** BigInt(markup.places) + markup.digits
  const byCurrency = new Map<FiatCurrency, Array<readonly [Slot, Decimal]>>()
  for (const [slot, text] of amounts) {
    if (typeof text === 'number') continue
    const { currency, amount } = fiatOf(text)
    const same = byCurrency.get(currency) ?? []
    byCurrency.set(currency, [...same, [slot, knownDecimal(amount)]])
  }
  return [...byCurrency].map(([currency, prices]) => {
    const places = Math.max(...prices.map(([, price]) => price.places))
    const digits = prices.map(
      ([slot, price]) => [slot, price.digits * factor * 10n ** BigInt(places - price.places)] as const
    )
    return { currency, digits, places: places + markup.places + 2 }
  })
}

/** True also where two currencies cannot be compared. */
function isMore(one: UnitAmount | undefined, other: UnitAmount): boolean {
  if (one === undefined) return false
  if (typeof one === 'number' && typeof other === 'number') return one > other
  if (typeof one === 'string' && typeof other === 'string' && fiatOf(one).currency === fiatOf(other).currency)
    return isMoreFiat(one, other)
  return true
}
