/** How many units a request used; with one price for all units `output` counts them. */
export interface Usage {
  readonly input: number
  readonly output: number
  /** `output` is all units, in and out: which were which was not reported. */
  readonly isTotal?: true
}

/** Reads the usage of one response while its bytes pass, in bounded memory. */
export interface UsageReader {
  chunk(bytes: Uint8Array): void
  /**
   * The usage as far as it came; null where nothing was reported. `isWhole`: the response is complete. A part of what is
   * counted here counts too; of what a response reports at its end only the end does.
   */
  read(isWhole: boolean): Usage | null
  /**
   * Units that came out, as far as the pieces tell: they are charged where the response reports nothing, which a client
   * may have chosen. 0 where they tell nothing. Running totals count, with the pieces that came after them.
   */
  readonly seen: number
}

/** A number of units as an upstream may say it; null for what is none. */
export function units(value: unknown): number | null {
  const number = typeof value === 'string' && /^[0-9]{1,15}(\.[0-9]{1,9})?$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isFinite(number) || number < 0) return null
  // Parts of a unit are rounded up, in the seller's favour.
  const whole = Math.ceil(number)
  return Number.isSafeInteger(whole) ? whole : null
}
