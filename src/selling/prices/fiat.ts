import type { FiatText } from '../../engine/checks/money-text.ts'
import type { FiatCurrency } from '../../lightning/money/prices.ts'
import { knownDecimal } from '../../lightning/money/decimal.ts'

export function fiatOf(text: FiatText): { readonly currency: FiatCurrency; readonly amount: string } {
  // The type has a three-letter currency and a space in front.
  return { currency: text.slice(0, 3) as FiatCurrency, amount: text.slice(4) }
}

/** Compares amounts of the same currency. */
export function isMoreFiat(one: FiatText, other: FiatText): boolean {
  const [a, b] = [fiatOf(one), fiatOf(other)]
  if (a.currency !== b.currency) return false
  const [left, right] = [knownDecimal(a.amount), knownDecimal(b.amount)]
  return left.digits * 10n ** BigInt(right.places) > right.digits * 10n ** BigInt(left.places)
}

/** Millisatoshis in a bitcoin. */
export const BTC_MSAT = 100_000_000_000n
