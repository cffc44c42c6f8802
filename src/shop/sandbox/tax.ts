import type { BuyerLocation } from '../schema.ts'

/** Invented tax rates in hundredths of a percent, by `country-state`, else by country. */
const RATES: Readonly<Record<string, number>> = Object.freeze({
  'US-CA': 725,
  'US-CO': 290,
  'US-FL': 600,
  'US-IL': 625,
  'US-MA': 625,
  'US-NJ': 663,
  'US-NY': 888,
  'US-PA': 600,
  'US-TX': 825,
  'US-WA': 650,
  'US-DE': 0,
  'US-MT': 0,
  'US-NH': 0,
  'US-OR': 0,
  US: 500,
  'CA-ON': 1300,
  'CA-QC': 1498,
  CA: 500
})

/** Hundredths of a percent; 0 abroad. */
export function sandboxRate({ country, state }: Pick<BuyerLocation, 'country' | 'state'>): number {
  return RATES[`${country}-${state}`] ?? RATES[country] ?? 0
}

/** Cents, half a cent rounded up, in whole numbers. */
export function taxOf(amountCents: number, rate: number): number {
  const tenThousandths = amountCents * rate + 5_000
  return (tenThousandths - (tenThousandths % 10_000)) / 10_000
}
