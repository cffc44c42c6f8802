/** How many units a request used; with one price for all units `output` counts them. */
export interface Usage {
  readonly input: number
  readonly output: number
}

/**
 * Reads the usage of one response while its bytes pass. It keeps at most 16 KiB of them and holds none back.
 */
export interface UsageReader {
  chunk(bytes: Uint8Array): void
  /**
   * What the response said, as far as it came: null where it said nothing. `isWhole`: all of it came. Of what is counted
   * here a part counts too; of what a response says at its end only the end does.
   */
  read(isWhole: boolean): Usage | null
  /**
   * Units that came out, as far as the pieces tell by themselves: what holds where the response says nothing, which a
   * client may have asked for. 0 where they tell nothing. Running totals count, with the pieces that came after them.
   */
  readonly seen: number
}

/** What is kept of a response at most. */
export const TAIL = 16_384

/** A number of units as an upstream may say it; null for what is none. */
export function units(value: unknown): number | null {
  const number = typeof value === 'string' && /^[0-9]{1,15}(\.[0-9]{1,9})?$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isFinite(number) || number < 0) return null
  // Parts of a unit are rounded up, in the seller's favour.
  const whole = Math.ceil(number)
  return Number.isSafeInteger(whole) ? whole : null
}

/** A member of parsed JSON; undefined where the path leads nowhere. */
export function memberAt(value: unknown, path: readonly string[]): unknown {
  let inner = value
  for (const name of path) {
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, name)) return undefined
    // Just seen to be an own property.
    inner = (inner as Record<string, unknown>)[name]
  }
  return inner
}
