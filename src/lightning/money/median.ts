import type { Decimal } from './decimal.ts'

const LEAST_ANSWERS = 2

/** Percent from the median. */
const TOLERANCE = 2n

export interface Agreement<T> {
  /** Median of the accepted answers; null for too few. */
  readonly price: Decimal | null
  readonly kept: readonly T[]
  /** More than 2 % from the overall median. */
  readonly outliers: readonly T[]
}

/** Rejects answers over 2 % from the median and takes the exact median of the rest. */
export function agree<T extends { readonly price: Decimal }>(answers: readonly T[]): Agreement<T> {
  const middle = median(answers.map(answer => answer.price))
  if (middle === null) return { price: null, kept: answers, outliers: [] }
  const kept = answers.filter(({ price }) => isNear(price, middle))
  const outliers = answers.filter(({ price }) => !isNear(price, middle))
  return { price: median(kept.map(answer => answer.price)), kept, outliers }
}

/** Exact median of two or more prices; null for fewer. */
export function median(prices: readonly Decimal[]): Decimal | null {
  if (prices.length < LEAST_ANSWERS) return null
  const places = Math.max(...prices.map(price => price.places))
  const sorted = prices.map(price => atPlaces(price, places)).toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0))
  const half = sorted.length / 2
  // Equal for an odd count.
  const low = sorted[Math.ceil(half) - 1] ?? 0n
  const high = sorted[Math.floor(half)] ?? 0n
  // Half of a sum is five times it with one more place.
  return { digits: (low + high) * 5n, places: places + 1 }
}

function isNear(price: Decimal, middle: Decimal): boolean {
  const places = Math.max(price.places, middle.places)
  const wanted = atPlaces(middle, places)
  const distance = atPlaces(price, places) - wanted
  return (distance < 0n ? -distance : distance) * 100n <= wanted * TOLERANCE
}

function atPlaces(value: Decimal, places: number): bigint {
  return value.digits * 10n ** BigInt(places - value.places)
}
