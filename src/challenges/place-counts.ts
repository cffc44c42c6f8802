import { LRUCache } from 'lru-cache'

/** What the last count of a place found. */
interface Known {
  /** The cap that it was counted for. */
  readonly cap: number
  /** Milliseconds since the epoch. */
  readonly at: number
  /** Open invoices, with what this process has begun since; never fewer than there are of its own. */
  open: number
  /** How many this process may still begin without counting. */
  allowance: number
}

// Milliseconds for which a count may stand for the next: others may be minting in the same place.
const FRESH = 1_000
// The same where nobody else has the database. Then what is known to be open is only ever too much, by what was paid or has expired.
const FRESH_ALONE = 60_000
// A process may take this part of what is left without counting again: eight processes together stay below the cap.
const SHARE = 1 / 8
// With less than this left every mint counts.
const NEAR = 128
const MAX_PLACES = 10_000

/**
 * How many invoices are open in each place, as far as it is needed to know that the cap is far. Counting reads every open row of
 * the place (about 1 µs each, several on the embedded database), so where hundreds of places are left the last count serves for a
 * second, for a minute where this process is alone, or until it has used its share of them. Near the cap nothing is remembered.
 */
export class PlaceCounts {
  readonly #known = new LRUCache<string, Known>({ max: MAX_PLACES })
  readonly #fresh: number

  /** `alone`: no other process has the database. */
  constructor (alone: boolean) {
    this.#fresh = alone ? FRESH_ALONE : FRESH
  }

  /** Whether the cap is known to be far, so that the place need not be counted. `now` in milliseconds since the epoch. */
  isFar (place: string, cap: number, now: number): boolean {
    const known = this.#known.get(place)
    return known !== undefined && known.cap === cap && known.allowance > 0 && now >= known.at && now - known.at < this.#fresh
  }

  /** Whether another one fits, for one who was told that the cap is far and has waited since. */
  hasRoom (place: string, cap: number): boolean {
    const known = this.#known.get(place)
    return known !== undefined && known.cap === cap && known.open < cap
  }

  /** The place was counted: `open` invoices, those that are being made among them. */
  counted (place: string, cap: number, open: number, now: number): void {
    const left = cap - open
    if (left < NEAR) this.#known.delete(place)
    else this.#known.set(place, { cap, at: now, open, allowance: Math.floor(left * SHARE) })
  }

  /** This process begins to make another one. */
  began (place: string): void {
    const known = this.#known.get(place)
    if (known === undefined) return
    known.open++
    known.allowance--
  }
}
