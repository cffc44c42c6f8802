import { inUnits, jsonNumber, readDecimal, type RawJson } from '../lightning/money/decimal.ts'

/** Exact dollars for JSON: 1999 is `19.99`. Under an open schema (see jsonNumber). */
export function usd(cents: number): RawJson {
  const sign = cents < 0 ? '-' : ''
  const digits = String(Math.abs(cents)).padStart(3, '0')
  return jsonNumber(`${sign}${digits.slice(0, -2)}.${digits.slice(-2)}`)
}

/** Cents of a JSON number of US dollars; null for a fraction of a cent. */
export function centsOf(dollars: number): number | null {
  const value = readDecimal(dollars)
  // The decimal has no trailing zeros, so more than two decimals are a fraction of a cent.
  if (value === null || value.places > 2) return null
  const cents = Number(inUnits(value, 2))
  return Number.isSafeInteger(cents) ? cents : null
}
