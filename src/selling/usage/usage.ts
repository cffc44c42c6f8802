import type { UnitPart } from '../../engine/checks/meter.ts'

/** Units of a request; `output` counts those with a single price. Parts are inside `input` or `output`, but searches beside them. */
export interface Usage extends Readonly<Partial<Record<UnitPart, number>>> {
  readonly input: number
  readonly output: number
  /** `output` is the total; input was not reported separately. */
  readonly isTotal?: true
}

export interface UsageReader {
  chunk(bytes: Uint8Array): void
  /**
   * Usage so far; null if none was reported. `isWhole`: the response is complete. Counted units also count in part,
   * reports only at the end.
   */
  read(isWhole: boolean): Usage | null
  /**
   * Output seen in the pieces, charged without a report, which a client may have turned off. 0 if unknown. Running
   * totals count, with later pieces.
   */
  readonly seen: number
}

export function units(value: unknown): number | null {
  const number = typeof value === 'string' && /^[0-9]{1,15}(\.[0-9]{1,9})?$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isFinite(number) || number < 0) return null
  // Rounded up, in the seller's favor.
  const whole = Math.ceil(number)
  return Number.isSafeInteger(whole) ? whole : null
}
