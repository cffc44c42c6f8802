/** Memory that many may take together; whoever finds it used up does without. */
export class Allowance {
  used = 0
  /** In bytes. */
  readonly most: number

  constructor(most: number) {
    this.most = most
  }

  /** Takes so many bytes; false, and none are taken, where that would be too many. */
  take(bytes: number): boolean {
    if (this.used + bytes > this.most) return false
    this.used += bytes
    return true
  }

  give(bytes: number): void {
    this.used -= bytes
  }
}

/**
 * What keeping one piece takes beside its bytes; without it a body in pieces of one byte would take hundreds of times
 * its size.
 */
const PER_PIECE = 512

/** What keeping a piece of so many bytes is counted as. */
export function sizeKept(bytes: number): number {
  return bytes + PER_PIECE
}

/** What the connections of a listener may keep in memory. */
export interface Keeping {
  /** Most bytes for one slow client, in one direction. */
  readonly each: number
  /** What all slow clients may take together. */
  readonly slow: Allowance
  /** What bodies of senders that nobody knows may take together while an operation reads them. */
  readonly strangers: Allowance
}

/**
 * Keeps another piece for a slow client that has `kept` so much already, where there is room: returns what it counts
 * as, else 0.
 */
export function keepFor({ each, slow }: Keeping, kept: number, bytes: number): number {
  const size = sizeKept(bytes)
  return kept + size <= each && slow.take(size) ? size : 0
}
